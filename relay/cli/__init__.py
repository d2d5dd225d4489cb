"""The command line of relay. What a sandbox runs takes a short way; everything else has argparse.

``relay call``, ``relay tools`` and ``relay mcp`` are the ground floor, and run where nothing can be
installed.
The start of ``relay call`` is counted for each tool call (at most 3.5 times that of an empty
Python): options are read by hand, and the process ends without tearing its interpreter down.
"""

from __future__ import annotations

import os
import sys
from typing import List, Optional

#: The commands of the ground floor, which are what a bundle has.
QUICK = ("call", "tools", "mcp")


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command line and return its exit status.

    Args:
        argv: the arguments. Default: the process's own; a quick command then ends the process here.
    """
    arguments = sys.argv[1:] if argv is None else argv
    command = arguments[:1]
    try:
        if command == ["call"]:
            from relay.cli.call import run  # noqa: PLC0415 - one command a process
        elif command == ["tools"] and "--check" not in arguments:
            from relay.cli.tools import run  # noqa: PLC0415 - one command a process
        elif command == ["mcp"]:
            from relay.cli.mcp import run  # noqa: PLC0415 - one command a process
        else:
            from relay.cli.main import main as whole  # noqa: PLC0415 - argparse, and the engine

            return whole(arguments)
        status = run(arguments[1:])
    except KeyboardInterrupt:
        status = 130
    if argv is None:
        _leave(status)
    return status


def _leave(status: int) -> None:
    """End the process now. Whatever was written is out; nothing else wants to be torn down."""
    try:
        sys.stderr.flush()
    finally:
        os._exit(status)
