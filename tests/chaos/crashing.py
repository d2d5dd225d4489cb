"""A runner that kills itself at the k-th file operation of a call, as often as it is asked to.

Run as ``python crashing.py FOLDER``, it reads one number a line. For each it forks a runner of
``FOLDER/session`` with one tool, ``mark``, which appends a byte to ``FOLDER/ran``. The runner says
``ready``, and from the moment it claims a request counts its calls into ``os``: before the k-th it
sends itself SIGKILL. One that gets past its last operation ends in peace. The answer is ``killed``
or ``survived``. Forking keeps the imports, which take longer than everything else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relay.engine.runner import Runner
from relay.settings import RelaySettings

#: Everything in ``os`` that can change or look at a file on the way of a call.
OPERATIONS = (
    "rename",
    "stat",
    "open",
    "fstat",
    "read",
    "close",
    "write",
    "unlink",
    "rmdir",
    "scandir",
)

exists = os.path.lexists
listdir = os.listdir
sleep = asyncio.sleep


class Fuse:
    """Counts operations from the first claim on, and kills this process before the k-th."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count: int | None = None
        for name in OPERATIONS:
            setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self.count is None and str(args[0]).endswith(".req.json"):
                self.count = 0
            if self.count is not None:
                if self.count == self.at:
                    os.kill(os.getpid(), signal.SIGKILL)
                self.count += 1
            return operation(*args, **kwargs)

        return counted


async def serve(folder: Path, at: int) -> None:
    """Serve until one call is over."""

    async def mark() -> str:
        """Leave a trace."""
        fd = os.open(folder / "ran", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, b".")
        os.close(fd)
        return "marked"

    session = folder / "session"
    runner = Runner(session, tools={"mark": mark}, settings=RelaySettings(), state=folder / "state")
    async with runner:
        fuse = Fuse(at)
        print("ready", flush=True)
        while fuse.count is None or [n for n in listdir(session) if ".req." in n or ".claim." in n]:
            await sleep(0.002)
        # Whatever follows is no part of the call.
        fuse.at = -1


def main() -> None:
    """Fork a runner for each number that is read."""
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(serve(folder, int(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("survived" if status == 0 else "killed", flush=True)


if __name__ == "__main__":
    main()
