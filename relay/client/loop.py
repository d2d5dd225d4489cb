"""Waiting for responses in an event loop: no thread, one inotify instance for each loop.

The calls of a loop share its ``LoopWakes``; a loop that was closed leaves its instance to the next
one, because a program that runs ``asyncio.run`` a thousand times must not use a thousand.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Dict

from relay.client.exchange import Exchange
from relay.client.wakes import NEW, TIMER, Waiter, Wakes

if TYPE_CHECKING:
    import asyncio


async def drive(exchange: Exchange) -> str:
    """Carry out a call in the running loop; a cancelled one withdraws its request."""
    from asyncio import get_running_loop  # noqa: PLC0415 - whoever awaits has loaded it

    wakes = loop_wakes(get_running_loop())
    waiter, steps = exchange.waiter, exchange.steps()
    try:
        next(steps)
        wakes.attend(waiter)
        seconds = next(steps)
        while True:
            seconds = steps.send(await wakes.wait(waiter, seconds))
    except StopIteration as done:
        text: str = done.value
        return text
    finally:
        wakes.leave(waiter)
        steps.close()


class LoopWakes(Wakes):
    """The waiting place of one event loop. Used in its thread only."""

    def __init__(self) -> None:
        super().__init__()
        self._reading = -1

    def attend(self, waiter: Waiter) -> str:
        """See ``Wakes.attend``."""
        found = super().attend(waiter)
        if found == NEW:
            self._follow_descriptor()
        return found

    async def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Do what ``ThreadWakes.wait`` does, without holding up the loop."""
        found = self.attend(waiter)
        if found == NEW:
            return True
        if found == TIMER:
            from asyncio import sleep  # noqa: PLC0415 - whoever awaits has loaded it

            await sleep(seconds)
            return False
        if waiter.woken:
            waiter.woken = False
            return True
        future: asyncio.Future[str] = self._loop.create_future()
        waiter.future = future
        timer = self._loop.call_later(seconds, _end_wait, future, "timeout")
        try:
            return await future == "woken"
        finally:
            timer.cancel()
            waiter.future = None

    def adopt(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve a loop. Where there was another, it is closed, and so are the calls in it."""
        self._loop = loop
        self._waiters.clear()
        self._reading = -1
        self._follow_descriptor()

    def _follow_descriptor(self) -> None:
        """Read the watch's descriptor in the loop, also after the watch had to open another."""
        fd = self._watch.fileno()
        if fd == self._reading:
            return
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
        if fd >= 0:
            self._loop.add_reader(fd, self._readable)
        self._reading = fd

    def _readable(self) -> None:
        self._watch.collect()
        self._sort(self._watch.take())
        self._follow_descriptor()

    def _wake(self, waiter: Waiter) -> None:
        if waiter.future is None:
            waiter.woken = True
        else:
            _end_wait(waiter.future, "woken")


def _end_wait(future: asyncio.Future[str], why: str) -> None:
    if not future.done():
        future.set_result(why)


_loops: Dict[asyncio.AbstractEventLoop, LoopWakes] = {}
_making = Lock()


def loop_wakes(loop: asyncio.AbstractEventLoop) -> LoopWakes:
    """Return the waiting place of a loop."""
    wakes = _loops.get(loop)
    if wakes is None:
        with _making:
            closed = next((each for each in _loops if each.is_closed()), None)
            wakes = LoopWakes() if closed is None else _loops.pop(closed)
            wakes.adopt(loop)
            _loops[loop] = wakes
    return wakes


def _after_fork() -> None:
    global _making  # noqa: PLW0603 - a thread that is not here may have held the parent's
    _making = Lock()
    for wakes in _loops.values():
        wakes.abandon()
    _loops.clear()


os.register_at_fork(after_in_child=_after_fork)
