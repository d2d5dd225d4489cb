"""The watch of a session on a file system that may not answer.

What this machine changes there gives events, as a rule; what others change gives none. So a watch
makes calls quick where the writer is on this machine, and the polls underneath see the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from relay.engine.boundedplace import BoundedPlace
from relay.engine.directory import SessionDirectory
from relay.engine.place import REARM_AFTER
from relay.engine.session import EVENTS_PER_CLAIM
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.engine.unwatched import Unwatched
from relay.engine.worker import Stuck, Worker


class BoundedWatch:
    """Listens for one session, and wakes it.

    Args:
        place: where; it holds the watch.
        shared: the runner's parts.
        worker: arms the watch, which asks the file system.
        wake: wakes the session.
    """

    def __init__(
        self, place: BoundedPlace, shared: Shared, worker: Worker, wake: Callable[[], None]
    ) -> None:
        self._place = place
        self._shared = shared
        self._worker = worker
        self._wake = wake
        self._unwatched = Unwatched(place.path, shared.unwatched)
        self._arm_at = 0.0
        self._hints = 0

    async def arm(self, opened: SessionDirectory) -> None:
        """Watch a directory, where that is wanted, possible, and not so already.

        Raises:
            Stuck: the file system does not answer.
        """
        clock, hub = self._shared.clock, self._shared.hub
        unwanted = not self._shared.limits.watches or self._place.watch is not None
        if unwanted or clock() < self._arm_at:
            return
        self._arm_at = clock() + REARM_AFTER

        def watch() -> None:
            self._place.watch = hub.watch(opened.fd, self)

        try:
            hub.open()
            await self._worker.do(watch)
        except Stuck:
            raise
        except OSError as error:
            self._unwatched.note(error.errno or 0, f"no file events ({error.strerror})")
        else:
            self._unwatched.clear()

    def end(self) -> None:
        """Watch no more."""
        self._disarm()
        self._unwatched.clear()
        self._arm_at = 0.0

    def change(self) -> None:
        """Go by new settings."""
        self._arm_at = 0.0
        if not self._shared.limits.watches:
            self.end()

    def forget_events(self) -> None:
        """Count the events anew."""
        self._hints = 0
        if self._place.watch is not None:
            self._place.watch.events = 0

    def _disarm(self) -> None:
        if self._place.watch is not None:
            self._shared.hub.unwatch(self._place.watch)
            self._place.watch = None

    def on_request(self, request: str) -> None:
        """Take a hint from the hub: there is something to look for."""
        del request
        self._hints += 1
        self._wake()

    def on_many(self, events: int) -> None:
        """Go without events for a while where they outrun the requests many times over."""
        if events > EVENTS_PER_CLAIM * self._hints:
            log.warning("%s: events outrun requests; polling", escaped(self._place.path))
            self._disarm()
            self._arm_at = self._shared.clock() + REARM_AFTER

    def on_doubt(self) -> None:
        """Events were lost."""
        self._wake()

    def on_gone(self) -> None:
        """The directory went away, or the kernel ended its watch."""
        self._disarm()
        self._arm_at = 0.0
        self._wake()

    def on_unwatched(self) -> None:
        """The hub gave up."""
        self._place.watch = None
        self._wake()
