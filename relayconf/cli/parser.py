"""The argument parser: every command and option, with the help that a stranger needs."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from relayconf.cli.version import Version
from relayconf.setting import MASK

#: Every command, in the order of the help; each is the module of that name beside this one.
COMMANDS = (
    "show",
    "explain",
    "diff",
    "flags",
    "kill",
    "set",
    "restore",
    "status",
    "history",
    "forget",
    "check",
    "compose",
    "generate",
    "init",
    "run",
    "completion",
)

_ASSIGNED = re.compile(r"'([^'=]*)=[^']*'")


def build_parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser; each command sets ``run`` to its function.

    Args:
        argv: what will be parsed. Where it begins with a command, no other command is loaded.
    """
    parser = _Parser(
        prog="relayconf",
        description="Configuration and feature flags for services deployed with Compose: "
        "what a value is, where it comes from, and what is wrong with it.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=Version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in argv[:1] if argv and argv[0] in COMMANDS else COMMANDS:
        import_module(f"relayconf.cli.{command}").add_parser(commands)
    return parser


class _Formatter(argparse.HelpFormatter):
    """The usual help; argparse makes one for each argument, and loads archive formats to do so."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options["width"] = options.get("width") or _columns() - 2
        super().__init__(*arguments, **options)


class _Parser(argparse.ArgumentParser):
    """A parser whose messages repeat no value: ``NAME=VALUE`` in a wrong place may be a secret."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **options})

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            words = (re.sub(r"=.*", f"={MASK}", word, flags=re.DOTALL) for word in unknown)
            self.error(f"unrecognized arguments: {' '.join(words)}")
        return found

    def error(self, message: str) -> Any:
        super().error(_ASSIGNED.sub(rf"'\1={MASK}'", message))


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or os.get_terminal_size().columns
    except (OSError, ValueError):
        return 80
