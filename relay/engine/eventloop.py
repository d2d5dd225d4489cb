"""The event loop of a process that is all a runner's: one descriptor is served before the rest.

asyncio makes a handle of each readable descriptor, queues it, and runs it in a context of its own a
little later. With cold caches, as a runner has them between two calls, that is a twentieth of a
call. Here the callback of one descriptor, the hub's, is called as soon as the selector reports it.
It runs within the loop like any other, once a turn; only its exceptions and its place are looked
after here.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable

#: What ``select`` returns.
Ready = list[tuple[selectors.SelectorKey, int]]


class _Selector(selectors.DefaultSelector):
    """Keeps what is ready at one descriptor to itself, and calls back."""

    def __init__(self) -> None:
        super().__init__()
        self.first = -1
        self.callback: Callable[[], None] = _nothing

    def select(self, timeout: float | None = None) -> Ready:
        """Wait as every selector does, then serve the one descriptor."""
        ready = super().select(timeout)
        for at, (key, _) in enumerate(ready):
            if key.fd == self.first:
                del ready[at]
                self.callback()
                # It may have ended what else is ready, and the number be another's by now. What is
                # changed and ready nevertheless, comes again in the next turn.
                now = self.get_map()
                return [each for each in ready if now.get(each[0].fd) is each[0]]
        return ready


class ServingLoop(asyncio.SelectorEventLoop):
    """An event loop with ``serve_first``; in everything else it is asyncio's own."""

    def __init__(self) -> None:
        self._serving = _Selector()
        super().__init__(self._serving)

    def serve_first(self, fd: int, callback: Callable[[], None]) -> None:
        """Do what ``add_reader`` does, but before the loop does anything else in that turn.

        One descriptor at a time, until ``stop_serving``. An exception of the callback goes to the
        loop's exception handler.
        """

        def call() -> None:
            try:
                callback()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as of every callback of a loop
                context = {"message": f"Exception in {callback!r}", "exception": error}
                self.call_exception_handler(context)

        self.add_reader(fd, callback)
        self._serving.first, self._serving.callback = fd, call

    def stop_serving(self, fd: int) -> None:
        """End what ``serve_first`` began."""
        self._serving.first, self._serving.callback = -1, _nothing
        self.remove_reader(fd)


def _nothing() -> None:
    """Serve nobody."""
