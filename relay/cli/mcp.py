"""``relay mcp``: a session's tools as an MCP server on stdin and stdout.

An agent's MCP client starts it in the sandbox. It needs no network and nothing that is installed,
and ends with its client. Ground floor.
"""

from __future__ import annotations

import os
import sys
from typing import List, NamedTuple, Optional

from relay.cli.call import Stopped, catch_signals, restore_signals, seconds
from relay.cli.terminal import (
    USAGE_ERROR,
    UsageError,
    complain,
    explain,
    misused,
    read_line,
    stdout_is_closed,
)
from relay.client.writer import directory_of
from relay.errors import NoDirectory
from relay.mcp.server import Server

USAGE = """\
usage: relay mcp [--dir DIR] [--timeout T]

Offer the tools of a session as an MCP server on stdin and stdout, for an agent in a sandbox.

  --dir DIR       the session directory (default: RELAY_DIR)
  --timeout T     how long a call may take, such as 5s, 1m30s or 2500 (milliseconds)
                  (default: RELAY_TIMEOUT_MS)
  -h, --help      print this and exit

It ends when stdin does. In a client's configuration:

  {"mcpServers": {"relay": {"command": "python3", "args": ["relay.pyz", "mcp", "--dir", "DIR"]}}}

exit status:
  0    stdin has ended, or nobody reads stdout
  2    wrong usage, or no session directory
  130  stopped by a signal
"""

STOPPED = 130


class Asked(NamedTuple):
    """What the command line asks for. ``timeout`` is in seconds."""

    dir: Optional[str]
    timeout: Optional[float]


def run(argv: List[str]) -> int:
    """Carry out ``relay mcp`` with these arguments and return its exit status."""
    before = catch_signals()
    try:
        return _run(argv)
    finally:
        restore_signals(before)


def _run(argv: List[str]) -> int:
    if stdout_is_closed() or sys.stdin is None:
        return complain("mcp", "stdin or stdout is closed; MCP goes through both", USAGE_ERROR)
    try:
        asked = parse(argv)
        if asked is None:
            return explain("mcp", USAGE)
        Server(directory_of(os.environ, asked.dir), timeout=asked.timeout).run()
    except UsageError as error:
        return misused("mcp", error)
    except NoDirectory as error:
        return complain("mcp", str(error), USAGE_ERROR)
    except Stopped as stop:
        return complain("mcp", f"stopped by {stop}", STOPPED)
    return 0


def parse(argv: List[str]) -> Optional[Asked]:
    """Return what the arguments ask for; ``None`` where that is help.

    Raises:
        UsageError: they ask for nothing that there is.
    """
    words, options = read_line(argv, flags=("-h", "--help"), valued=("--dir", "--timeout"))
    if "-h" in options or "--help" in options:
        return None
    if words:
        raise UsageError(f"no argument is expected, and there is {words[0]!a}")
    timeout = options.get("--timeout")
    return Asked(options.get("--dir"), None if timeout is None else seconds(timeout))
