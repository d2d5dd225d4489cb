"""Judging arguments outside of the event loop, in processes that can be ended.

Most arguments are judged in the loop, in microseconds. What may take long - a pattern with more
than one way to match, large arguments - is asked of a process, for at most ``BOUND`` seconds. One
session has one question under way, so that a hostile one keeps one process busy and leaves the
others free.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from contextlib import suppress
from typing import Any

from relay.engine.threads import Threads
from relay.tools.judging import HEADER, frame
from relay.tools.registry import Failure
from relay.tools.validate import Validator

#: How long arguments may take to be judged, in seconds.
BOUND = 1.0

#: How long a process may take to be there, in seconds; a busy machine is slow to start Python.
_START = 10.0

#: Processes at one time.
_MOST = 4

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from relay.tools.judging import main; main()"
)


class Judges:
    """The processes of one runner. ``fault`` is called in its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._threads = Threads(loop, most=_MOST)
        self._idle: list[_Judge] = []
        self._all: set[_Judge] = set()
        self._turns: weakref.WeakKeyDictionary[object, asyncio.Lock] = weakref.WeakKeyDictionary()

    async def fault(
        self, validator: Validator, args: dict[str, Any], session: object
    ) -> str | None:
        """Return what is wrong with ``args``, as ``Validator.fault`` does.

        Raises:
            Failure: it takes too long to tell, or cannot be told.
        """
        turn = self._turns.setdefault(session, asyncio.Lock())
        async with turn:
            told: str | None = await self._threads.run(lambda: self._ask(validator, args))
            return told

    def close(self) -> None:
        """End the processes."""
        self._threads.close()
        for judge in tuple(self._all):
            self._end(judge)

    def _ask(self, validator: Validator, args: dict[str, Any]) -> str | None:
        try:
            judge = self._idle.pop()
        except IndexError:
            judge = _Judge()
            self._all.add(judge)
        try:
            answer = judge.ask(validator, args)
        except (OSError, ValueError) as error:
            self._end(judge)
            raise Failure("tool_error", f"the arguments cannot be judged: {error}") from None
        if answer is None:
            self._end(judge)
            raise Failure(
                "invalid_args", f"the arguments take more than {BOUND:g} s to check by the schema"
            )
        self._idle.append(judge)
        if "failed" in answer:
            raise Failure("tool_error", "the tool's schema cannot be applied")
        told: str | None = answer["fault"]
        return told

    def _end(self, judge: _Judge) -> None:
        self._all.discard(judge)
        with suppress(ValueError):
            self._idle.remove(judge)
        judge.end()


class _Judge:
    """One process. Used by one thread at a time."""

    def __init__(self) -> None:
        path = json.dumps([os.path.abspath(entry) for entry in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            start_new_session=True,
        )
        self._known: weakref.WeakKeyDictionary[Validator, int] = weakref.WeakKeyDictionary()
        self._asked = 0

    def ask(self, validator: Validator, args: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer, or ``None`` where none came in time.

        Raises:
            OSError, ValueError: the process is gone, or speaks nonsense.
        """
        question: dict[str, Any] = {"args": args, "bound": BOUND}
        # A process that has never answered is given the time to start.
        deadline = time.monotonic() + BOUND + (0 if self._asked else _START)
        if validator in self._known:
            question["schema"] = self._known[validator]
        else:
            question["schema"] = self._known[validator] = self._asked
            question["is"] = validator.schema
        self._asked += 1
        if not self._write(frame(question), deadline):
            return None
        header = self._read(HEADER, deadline)
        body = header and self._read(int.from_bytes(header, "big"), deadline)
        return json.loads(body) if body else None

    def _write(self, data: bytes, deadline: float) -> bool:
        stdin = self._process.stdin
        if stdin is None:  # pragma: no cover - it is asked for as a pipe
            return False
        os.set_blocking(stdin.fileno(), False)
        view = memoryview(data)
        while view:
            if not _wait(stdin.fileno(), select.POLLOUT, deadline):
                return False
            view = view[os.write(stdin.fileno(), view) :]
        return True

    def _read(self, size: int, deadline: float) -> bytes | None:
        stdout = self._process.stdout
        data = b""
        while stdout is not None and len(data) < size:
            if not _wait(stdout.fileno(), select.POLLIN, deadline):
                return None
            piece = os.read(stdout.fileno(), size - len(data))
            if not piece:
                if self._process.wait() == -signal.SIGALRM:
                    # It had to wait for its own start, and has seen for itself that time is over.
                    return None
                raise OSError("the process that judges has ended")
            data += piece
        return data

    def end(self) -> None:
        """Kill it. Doing so twice does nothing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _wait(fd: int, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
