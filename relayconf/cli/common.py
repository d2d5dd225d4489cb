"""What the commands share: where to read, which target, and relayconf's own settings."""

from __future__ import annotations

import argparse
import json
import os

from relayconf import report, targets
from relayconf.cli import streams
from relayconf.errors import TargetError
from relayconf.layers import Layer, collect
from relayconf.process import Process, read_process
from relayconf.resolve import Resolution, resolve
from relayconf.setting import Contract


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command takes."""
    group = parser.add_argument_group("where to read")
    group.add_argument(
        "--target",
        metavar="TARGET",
        help="an installed name (relay), module:Class, or the path of a contract; without one, the "
        "only target installed beside relayconf's own",
    )
    add_sources(parser, group)
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def add_sources(parser: argparse.ArgumentParser, group: argparse._ActionsContainer) -> None:
    """Add the options that say where values come from, the files and names to a group."""
    group.add_argument(
        "--env-file",
        action="append",
        default=[],
        metavar="FILE",
        help="an env file; may be repeated, later ones win (RELAYCONF_ENV_FILE)",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a value above the environment; may be repeated",
    )
    group.add_argument(
        "--deployment", metavar="NAME", help="which deployment this is (RELAYCONF_DEPLOYMENT)"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse (exit 78) where a value would not be used as written (RELAYCONF_STRICT)",
    )


def read(arguments: argparse.Namespace) -> Process:
    """Combine the command's options with relayconf's own settings from the environment."""
    return read_process(
        os.environ,
        env_files=arguments.env_file,
        options=arguments.set,
        deployment=arguments.deployment,
        strict=arguments.strict,
    )


def resolved(contract: Contract, process: Process, *above: Layer) -> Resolution:
    """Resolve a contract from the command's sources; strict mode refuses here.

    Args:
        contract: what is declared.
        process: the command's sources.
        above: layers above all of them.
    """
    resolution = resolve(contract, [*collect(contract, process.sources), *above])
    if process.strict:
        report.refuse(resolution.problems)
    return resolution


def only_target() -> str:
    """Return the target to use where none is named: the only one that is not relayconf's own."""
    others = [name for name in targets.registered() if name != "relayconf"]
    if len(others) != 1:
        raise TargetError(f"name a target; installed are: {', '.join(targets.registered())}")
    return others[0]


def print_json(answer: object) -> None:
    """Print one JSON document as the whole answer."""
    streams.say(json.dumps(answer, indent=2, ensure_ascii=not streams.has_unicode()))


def print_text(text: str) -> None:
    """Print text as the answer."""
    streams.say(text)
