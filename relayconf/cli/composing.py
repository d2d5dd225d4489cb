"""The options that say which Compose project is meant, as Docker Compose itself spells them."""

from __future__ import annotations

import argparse
from typing import Any

from relayconf.compose import VERSIONS


def add_files(options: argparse._ActionsContainer, *, env_file: str = "") -> None:
    """Add ``-f``, ``--env-file`` and ``--profile``.

    Args:
        options: a parser, or a group of one.
        env_file: what else ``--env-file`` means to the command, as a sentence.
    """
    several: dict[str, Any] = {"action": "append", "default": []}
    options.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        **several,
        help="a compose file; may be repeated, later ones go over earlier ones (COMPOSE_FILE, "
        "else the default names)",
    )
    options.add_argument(
        "--env-file",
        metavar="FILE",
        **several,
        help="an env file for ${NAME}; may be repeated (COMPOSE_ENV_FILES, else .env)" + env_file,
    )
    options.add_argument(
        "--profile",
        metavar="PROFILE",
        **several,
        help="an active profile; may be repeated (COMPOSE_PROFILES)",
    )


def add_version(options: argparse._ActionsContainer) -> None:
    """Add ``--compose-version``."""
    options.add_argument(
        "--compose-version",
        choices=VERSIONS,
        default=VERSIONS[0],
        help="whose differences count (default: %(default)s)",
    )
