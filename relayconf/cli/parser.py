"""The argument parser: every command and option, with the help that a stranger needs."""

from __future__ import annotations

import argparse

from relayconf.cli import explain, generate, show


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; each command sets ``run`` to its function."""
    parser = argparse.ArgumentParser(
        prog="relayconf",
        description="Configuration and feature flags for services deployed with Compose: "
        "what a value is, where it comes from, and what is wrong with it.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (show, explain, generate):
        command.add_parser(commands)
    return parser


class _Version(argparse.Action):
    """Print the version; looked up only when asked for, since that is slow."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        del namespace, values, option_string
        from importlib.metadata import version  # noqa: PLC0415 - slow to import

        print(f"relayconf {version('relayconf')}")  # noqa: T201 - the answer
        parser.exit()
