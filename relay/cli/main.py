"""The argument parser of ``relay``: every command but the quick path of ``relay call``.

Exit codes: 0; 1 the runner failed; 2 usage, or something that it needs cannot be used; 78 strict
mode refuses. Those of ``call`` are its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from relay.cli import bench, bundle, check, demo, doctor, serve
from relay.errors import RelayError
from relayconf.cli.streams import prepare
from relayconf.cli.version import Version
from relayconf.errors import RelayconfError, StrictError

EX_USAGE = 2
EX_INTERRUPTED = 130
EX_CONFIG = 78  # sysexits.h


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; each command sets ``run`` to its function."""
    parser = argparse.ArgumentParser(
        prog="relay",
        description="A file-based tool relay: a sandboxed writer asks through a directory, and a "
        "runner outside runs the tool.",
        epilog="Settings are RELAY_* variables: relayconf show relay",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=Version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    serve.add_parser(commands)
    # For the list of commands alone: these take the short way of relay.cli.
    commands.add_parser("call", help="ask a runner to run a tool, and print what it says")
    check.add_parser(commands)
    commands.add_parser("mcp", help="offer a session's tools as an MCP server on stdin and stdout")
    bundle.add_parser(commands)
    doctor.add_parser(commands)
    bench.add_parser(commands)
    demo.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no exception leaves but SystemExit."""
    # A runner whose stderr is closed does its work all the same.
    prepare()
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except StrictError as error:
        return _complain(error, EX_CONFIG)
    except (RelayError, RelayconfError) as error:
        return _complain(error, EX_USAGE)
    except KeyboardInterrupt:
        return EX_INTERRUPTED


def _complain(error: Exception, code: int) -> int:
    sys.stderr.write("".join(f"relay: {line}\n" for line in str(error).split("\n")))
    return code
