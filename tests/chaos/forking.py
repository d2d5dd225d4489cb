"""Runners by fork: each ``start`` that is read makes one, which says ``ready PID``.

Run as ``python forking.py FOLDER``. A runner serves ``FOLDER/session`` until it is killed. Its
tools ``quick`` and ``slow`` append the number that they are given to ``FOLDER/marks``; the slow one
then waits. Forking keeps the imports, which take longer than everything else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from relay.engine.runner import Runner
from relay.settings import RelaySettings


async def serve(folder: Path) -> None:
    """Serve until killed."""

    async def quick(number: int) -> str:
        fd = os.open(folder / "marks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"{number}\n".encode())
        os.close(fd)
        return str(number)

    async def slow(number: int) -> str:
        await quick(number)
        # Long enough for a runner to look whether it was cancelled.
        await asyncio.sleep(0.3)
        return str(number)

    tools = {"quick": quick, "slow": slow}
    runner = Runner(
        folder / "session", tools=tools, settings=RelaySettings(), state=folder / "state"
    )
    async with runner:
        print(f"ready {os.getpid()}", flush=True)
        await runner.wait()


def main() -> None:
    """Fork a runner for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asyncio.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
