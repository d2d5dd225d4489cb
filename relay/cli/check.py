"""``relay tools --check``: judge a tools file, and start nothing.

It finds what a start would: every fault of the file and of the policy that it names, with its line.
The modules that it names are imported; no server is connected and no service is asked.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Collection

from relay.cli import logs
from relay.cli.serve import settings_of
from relay.engine.announce import refuse_too_much
from relay.engine.given import NothingToServe
from relay.tools.file import load_tools
from relayconf.cli.common import add_sources


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command, of which the ground floor has the other half."""
    parser = commands.add_parser(
        "tools",
        help="the tools that a session's runner offers; with --check: judge a tools file",
        description="Judge the runner's tools file and the policy that it names. Every fault is "
        "printed with file and line, and the exit status is 2.",
        allow_abbrev=False,
    )
    parser.add_argument("--check", action="store_true", required=True, help="judge a tools file")
    parser.add_argument("--tools", metavar="FILE", help="the tools file (RELAY_TOOLS_FILE)")
    add_sources(parser, parser)
    parser.set_defaults(run=run, dir=None, root=None)


def run(arguments: argparse.Namespace) -> int:
    """Judge the file, and return the exit code.

    Raises:
        RelayError, RelayconfError: the settings cannot be read, or the file has faults.
    """
    logs.log_to(sys.stderr.fileno(), level=logging.WARNING)
    file = settings_of(arguments).current.tools_file
    if file is None:
        raise NothingToServe("no tools file is named: give --tools FILE, or set RELAY_TOOLS_FILE")
    tools = load_tools(str(file))
    refuse_too_much(tools)
    beside = ""
    if tools.servers:
        beside = f", and {_counted(tools.servers, 'MCP server')} ({', '.join(tools.servers)})"
    sys.stdout.write(f"{file}: {_counted(tools, 'tool')}{beside}; nothing is wrong with it\n")
    return 0


def _counted(things: Collection[object], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
