"""The command line of the bundle: what a sandbox needs, in one file. Ground floor.

It is the same as ``relay`` where everything is installed, without the commands for which more is
needed; asked for one of these, it says so.
"""

from __future__ import annotations

import sys
from typing import List, Optional

from relay import cli
from relay.cli import terminal
from relay.cli.terminal import USAGE_ERROR, answer, complain

USAGE = """\
usage: relay.pyz COMMAND ...

The sandbox's side of a tool relay: it asks through a directory, and a runner outside runs the tool.

  call     ask a runner to run a tool, and print what it says
  tools    list the tools that a session's runner offers
  mcp      offer these tools as an MCP server on stdin and stdout

`relay.pyz COMMAND --help` says more. In Python: put the file on sys.path, and `import relay`.
"""


def main(argv: Optional[List[str]] = None) -> int:
    """Run a command of the bundle and return its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    command = arguments[0] if arguments else ""
    terminal.program = "relay.pyz"
    if command == "tools" and "--check" in arguments:
        return complain(
            "tools", "--check is for the runner's side, and not in this file", USAGE_ERROR
        )
    if command in cli.QUICK:
        return cli.main(argv)
    if command in ("-h", "--help"):
        return answer("", USAGE)
    known = ", ".join(cli.QUICK)
    if command:
        return complain("", f"{command!a} is no command of this file: {known}", USAGE_ERROR)
    return complain("", f"no command is named: {known}", USAGE_ERROR)
