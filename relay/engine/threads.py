"""Threads for what blocks: a few, started when needed, and none that can hold up the exit.

A call that is given up leaves its thread behind: the pool starts another in its place, and the
one left behind ends when its call does. Python's own executor waits for its threads at exit, so
that one hung tool would keep the runner from stopping; these are daemons.

To give a call to a thread and to hear from it through the event loop costs more than most calls
take. So the loop waits for a moment, unless the last call of the same kind was slow.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

#: More threads than this gain nothing: what blocks here mostly waits, and the rest queue.
MOST_THREADS = 64

#: The moment, in seconds: a hundredth of what a timer may be late (design section 12). A thread
#: that has a processor is woken, and has called a function that does little, within a fifth of it.
MOMENT = 0.0005

#: A call is quick, in seconds, where it takes less than to hear of its end through the event loop
#: (docs/decisions/0142). To wait for a longer one would cost the others that call meanwhile more
#: than it saves: they are served one after the other.
QUICK = 0.00015


class _Job:
    """A call. Until it has a future, the loop itself waits for it at ``done``."""

    __slots__ = ("done", "error", "function", "future", "kind", "result", "state")

    def __init__(self, function: Callable[[], Any], kind: str | None) -> None:
        self.function = function
        self.kind = kind
        self.state = "queued"
        self.future: asyncio.Future[Any] | None = None
        self.done: threading.Lock | None = None
        self.result: Any = None
        self.error: BaseException | None = None


class _Worker:
    """A thread, and the gate at which it waits for its next job."""

    __slots__ = ("gate", "job")

    def __init__(self) -> None:
        self.job: _Job | None = None
        self.gate = threading.Lock()
        self.gate.acquire()


class Threads:
    """A pool for one event loop. Not to be used from other threads.

    ``left_behind`` is the number of threads whose call was given up and has not ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, most: int = MOST_THREADS) -> None:
        self._loop = loop
        self._most = most
        self._queue: deque[_Job] = deque()
        self._lock = threading.Lock()
        #: The one that was busy last comes first: its caches are warm.
        self._idle: list[_Worker] = []
        self._size = 0
        self._closed = False
        self._slow: set[str] = set()
        self.left_behind = 0

    def run(self, function: Callable[[], Any], kind: str | None = None) -> asyncio.Future[Any]:
        """Call ``function`` in a thread. Cancelling the future gives the call up.

        Args:
            function: what blocks.
            kind: what is known to be slow, or not, by whether the last call of that kind was
                ``QUICK``. Unless it was not, the loop waits for ``MOMENT``, and the future may be
                done.

        Raises:
            RuntimeError: it takes another thread, and the system has none.
        """
        job = _Job(function, kind)
        with self._lock:
            worker = self._idle.pop() if self._idle else None
            if worker is None:
                future = self._promise(job)
                self._queue.append(job)
                start = self._size < self._most
                self._size += start
            else:
                job.state = "running"
        if worker is None:
            if start:
                self._start_thread(job)
            return future
        if kind is not None and kind not in self._slow:
            return self._wait_for(job, worker)
        future = self._promise(job)
        worker.job = job
        worker.gate.release()
        return future

    def _start_thread(self, job: _Job) -> None:
        try:
            threading.Thread(target=self._work, name="relay-tool", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._size -= 1
                if self._size > 0:
                    # Those that there are will come to it.
                    return
                self._queue.remove(job)
            raise

    def _promise(self, job: _Job) -> asyncio.Future[Any]:
        """Have the end of a job told through a future from now on."""
        future = job.future = self._loop.create_future()
        future.add_done_callback(lambda _: self._given_up(job))
        return future

    def _wait_for(self, job: _Job, worker: _Worker) -> asyncio.Future[Any]:
        """Hand over a job, and wait for a moment."""
        done = job.done = threading.Lock()
        done.acquire()
        worker.job = job
        worker.gate.release()
        if not done.acquire(timeout=MOMENT):
            with self._lock:
                # RACE: where it has ended meanwhile, its end is here, and told in no other way.
                if job.state != "done":
                    self._note(job, quick=False)
                    return self._promise(job)
        future = self._loop.create_future()
        _settle(future, job)
        return future

    def close(self) -> None:
        """Let the threads end once they are idle; nobody waits for them."""
        with self._lock:
            self._closed = True
            self._queue.clear()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.gate.release()

    def _given_up(self, job: _Job) -> None:
        if job.future is None or not job.future.cancelled():
            return
        with self._lock:
            if job.state == "queued":
                with suppress(ValueError):
                    self._queue.remove(job)
                return
            if job.state != "running":
                return
            job.state = "left behind"
            self.left_behind += 1
            self._size -= 1
            waits = self._queue[0] if self._queue and self._size < self._most else None
            self._size += waits is not None
        if waits is not None:
            self._start_thread(waits)

    def _work(self) -> None:
        worker = _Worker()
        with self._lock:
            job = self._next(worker)
        while True:
            if job is None:
                worker.gate.acquire()
                job, worker.job = worker.job, None
                if job is None:
                    return
            began = monotonic()
            # RACE: what is given up before its thread has it is not called.
            if job.state == "running":
                try:
                    job.result = job.function()
                except BaseException as error:  # noqa: BLE001 - the caller's, whatever it is
                    job.error = error
            quick = monotonic() - began < QUICK
            with self._lock:
                self._note(job, quick=quick)
                if job.state == "left behind":
                    self.left_behind -= 1
                    return
                job.state = "done"
                future, done = job.future, job.done
                following = self._next(worker)
            if future is not None:
                if not self._tell(future, job):
                    return
            elif done is not None:
                done.release()
            # A thread without work holds on to nothing.
            del future, done
            job = following

    def _next(self, worker: _Worker) -> _Job | None:
        """Return the next job, or line up for one. The lock is held."""
        while self._queue:
            job = self._queue.popleft()
            if job.future is None or not job.future.cancelled():
                job.state = "running"
                return job
        if self._closed:
            worker.gate.release()
        else:
            self._idle.append(worker)
        return None

    def _note(self, job: _Job, *, quick: bool) -> None:
        """Take in how quick a call is. The lock is held."""
        if job.kind is None:
            return
        if quick:
            self._slow.discard(job.kind)
        else:
            self._slow.add(job.kind)

    def _tell(self, future: asyncio.Future[Any], job: _Job) -> bool:
        """Have the loop settle the future of a job; tell whether there is still a loop."""
        try:
            self._loop.call_soon_threadsafe(_settle, future, job)
        except RuntimeError:
            # RACE: the loop was closed first; nobody waits for the result any more.
            return False
        return True


def _settle(future: asyncio.Future[Any], job: _Job) -> None:
    error = job.error
    if future.done():
        return
    if error is None:
        future.set_result(job.result)
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        future.set_exception(error)
    else:
        # A future cannot carry these, or would end the loop: SystemExit is no business of a tool's.
        future.set_exception(RuntimeError(f"{type(error).__name__} was raised"))
