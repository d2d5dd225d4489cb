"""Threads for what blocks: a few, started when needed, and none that can hold up the exit.

A call that is given up leaves its thread behind: the pool starts another in its place, and the
one left behind ends when its call does. Python's own executor waits for its threads at exit, so
that one hung tool would keep the runner from stopping; these are daemons.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

#: More threads than this gain nothing: what blocks here mostly waits, and the rest queue.
MOST_THREADS = 64


class _Job:
    __slots__ = ("function", "future", "state")

    def __init__(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.state = "queued"


class Threads:
    """A pool for one event loop. Not to be used from other threads.

    ``left_behind`` is the number of threads whose call was given up and has not ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, most: int = MOST_THREADS) -> None:
        self._loop = loop
        self._most = most
        self._queue: deque[_Job] = deque()
        self._change = threading.Condition()
        self._idle = 0
        self._size = 0
        self._closed = False
        self.left_behind = 0

    def run(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call ``function`` in a thread. Cancelling the future gives the call up."""
        future = self._loop.create_future()
        job = _Job(function, future)
        future.add_done_callback(lambda _: self._given_up(job))
        with self._change:
            self._queue.append(job)
            if self._idle >= len(self._queue):
                self._change.notify()
            elif self._size < self._most:
                self._start_thread()
        return future

    def close(self) -> None:
        """Let the threads end once they are idle; nobody waits for them."""
        with self._change:
            self._closed = True
            self._queue.clear()
            self._change.notify_all()

    def _start_thread(self) -> None:
        self._size += 1
        threading.Thread(target=self._work, name="relay-tool", daemon=True).start()

    def _given_up(self, job: _Job) -> None:
        if not job.future.cancelled():
            return
        with self._change:
            if job.state == "queued":
                with suppress(ValueError):
                    self._queue.remove(job)
            elif job.state == "running":
                job.state = "left behind"
                self.left_behind += 1
                self._size -= 1
                if len(self._queue) > self._idle and self._size < self._most:
                    self._start_thread()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = job.function()
            except BaseException as raised:  # noqa: BLE001 - it is the caller's, whatever it is
                error = raised
            with self._change:
                if job.state == "left behind":
                    self.left_behind -= 1
                    return
                job.state = "done"
            try:
                self._loop.call_soon_threadsafe(_settle, job.future, result, error)
            except RuntimeError:
                # RACE: the loop was closed first; nobody waits for the result any more.
                return
            del job, result, error

    def _next(self) -> _Job | None:
        with self._change:
            self._idle += 1
            while True:
                # RACE: what is given up before a thread takes it is never called.
                while self._queue:
                    job = self._queue.popleft()
                    if not job.future.cancelled():
                        job.state = "running"
                        self._idle -= 1
                        return job
                if self._closed:
                    self._size -= 1
                    self._idle -= 1
                    return None
                self._change.wait()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        future.set_exception(error)
    else:
        # A future cannot carry these, or would end the loop: SystemExit is no business of a tool's.
        future.set_exception(RuntimeError(f"{type(error).__name__} was raised"))
