"""The runner's activity source: one inotify instance for all of its directories.

It obeys the contract of an activity source as a whole: ``wait`` returns ``"activity"``,
``"timeout"`` or ``"closed"``; activity between two waits is sticky and coalesced; a wake that is
pending still yields to the event loop, so that saturation never starves a timer; ``close`` wakes
the waiter and prevents re-arming; thousands of timeouts leave nothing behind. What it cannot watch
is the caller's to poll, and an error of the instance ends all its watches with one log line.

Non-guarantees: no order across directories, no name for every event, no event for every change.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Literal, Protocol

from relay import inotify
from relay.engine.eventloop import ServingLoop
from relay.engine.telemetry import log
from relay.protocol import REQUEST_SUFFIX, request_id

Wake = Literal["activity", "timeout", "closed"]

_MASK = (
    inotify.IN_MOVED_TO
    | inotify.IN_DELETE_SELF
    | inotify.IN_MOVE_SELF
    | inotify.IN_ONLYDIR
    | inotify.IN_EXCL_UNLINK
)

#: Reads in a row. The queue is one for all directories: what one of them floods it with must not
#: stand before the others' events for longer than it takes to read it.
_READS = 32

#: A read that yields fewer events has emptied the queue: it would hold that many of the longest.
_FEW = 60

#: Events after which a listener is asked whether it still wants them.
MANY = 4096

_SUFFIX = REQUEST_SUFFIX.encode()

#: For a directory of another kind: whatever may change what a file says, or which one a name means.
#: A session's directory is never taken over by such a watch.
_ANY_CHANGE = (
    inotify.IN_MOVED_TO
    | inotify.IN_MOVED_FROM
    | inotify.IN_CREATE
    | inotify.IN_CLOSE_WRITE
    | inotify.IN_DELETE
    | inotify.IN_DELETE_SELF
    | inotify.IN_MOVE_SELF
    | inotify.IN_ONLYDIR
    | inotify.IN_MASK_CREATE
)

#: Called with the name of what changed, or ``None`` where the watch was lost, and the key of the
#: watch.
OnChange = Callable[["bytes | None", int], None]


class Listener(Protocol):
    """Whoever wants to hear of one directory. Called in the event loop; must not block."""

    def on_request(self, request: str) -> None:
        """A request of this id was published: a hint, which may be stale or repeated."""

    def on_many(self, events: int) -> None:
        """So many events came since their count was last set to 0."""

    def on_doubt(self) -> None:
        """Events were lost; only a scan can tell."""

    def on_gone(self) -> None:
        """The directory was moved, removed or unmounted. The watch may be over."""

    def on_unwatched(self) -> None:
        """The watch is over and will not come back by itself."""


class Watch:
    """One directory's watch.

    ``events`` counts what it reported; its listener sets it to 0 from time to time. ``saw`` are the
    names of other files that appeared, while it is probed.
    """

    __slots__ = ("events", "listener", "saw", "wd")

    def __init__(self, wd: int, listener: Listener) -> None:
        self.wd = wd
        self.listener = listener
        self.events = 0
        self.saw: set[bytes] | None = None


class Hub:
    """The wakes of one runner's loop. Belongs to the event loop that it is made in."""

    def __init__(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._begin_reading: Callable[[int, Callable[[], None]], None] = loop.add_reader
        self._end_reading: Callable[[int], object] = loop.remove_reader
        if isinstance(loop, ServingLoop):
            self._begin_reading, self._end_reading = loop.serve_first, loop.stop_serving
        self._fd = -1
        self._watches: dict[int, Watch] = {}
        self._noticed: dict[int, OnChange] = {}
        self._pending = False
        self._closed = False
        self._waiter: asyncio.Future[Wake] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._act: Callable[[], bool] | None = None

    def serve(self, act: Callable[[], bool] | None) -> None:
        """Have activity acted on where it is noticed, before any waiter is woken.

        ``act`` returns whether something is left, which then wakes the waiter. It saves two turns
        of the event loop for each event; it must be bounded, since it holds the loop up.
        """
        self._act = act

    def absorb(self) -> bool:
        """Hand out the events that are there already; True where somebody has to act.

        A claim and an answer are events too, of the runner's own making. Taken here, they do not
        wake it again.
        """
        act = False
        for _ in range(_READS):
            if self._fd < 0:
                break
            events = self._read()
            act = self._hand_out(events) or act
            if len(events) < _FEW:
                break
        return act

    def watch(self, dirfd: int, listener: Listener) -> Watch:
        """Watch the directory held by ``dirfd``; the listener hears of it until ``unwatch``.

        Raises:
            OSError: it cannot be watched (ENOSPC, EMFILE, ENOSYS, ...), or the hub is closed.
        """
        wd = inotify.add_watch(self.open(), f"/proc/self/fd/{dirfd}", _MASK)
        self._noticed.pop(wd, None)
        watch = Watch(wd, listener)
        self._watches[wd] = watch
        return watch

    def unwatch(self, watch: Watch) -> None:
        """End a watch. What it had reported before may still be acted on."""
        # A directory that was moved has one number for both of its sessions, the old and the new.
        if self._watches.get(watch.wd) is watch:
            del self._watches[watch.wd]
            self._remove(watch.wd)

    def notice(self, path: str, changed: OnChange) -> int:
        """Call ``changed`` for each change in a directory that is no session's, until ``ignore``.

        Returns:
            The key of the watch. It may end by itself, and then ``changed`` is told.

        Raises:
            OSError: it cannot be watched, or is watched as a session's already.
        """
        wd = inotify.add_watch(self.open(), path, _ANY_CHANGE)
        self._noticed[wd] = changed
        return wd

    def ignore(self, key: int) -> None:
        """End what ``notice`` began."""
        if self._noticed.pop(key, None) is not None:
            self._remove(key)

    def open(self) -> int:
        """Return the instance. Once it is there, ``watch`` may be called in another thread.

        Raises:
            OSError: there is none to be had, or the hub is closed.
        """
        if self._closed:
            raise OSError("the hub is closed")
        if self._fd < 0:
            self._fd = inotify.init()
            self._begin_reading(self._fd, self._readable)
        return self._fd

    def _remove(self, wd: int) -> None:
        if self._fd < 0:
            return
        try:
            inotify.rm_watch(self._fd, wd)
        except OSError:
            # RACE: the kernel ended it first, with the directory.
            return

    def sees(self, watch: Watch, name: str, appear: Callable[[], None]) -> bool:
        """Whether the watch reports a file of that name that ``appear`` renames into place.

        Some file systems accept a watch and then never report anything. Events of a local change
        are there when the change returns, so nothing is waited for.
        """
        watch.saw = set()
        try:
            appear()
            while name.encode() not in watch.saw and self._fd >= 0:
                events = self._read()
                if not events:
                    return False
                if self._hand_out(events):
                    self.wake()
            return True
        finally:
            watch.saw = None

    async def wait(self, timeout: float) -> Wake:  # noqa: ASYNC109 - the contract's own word
        """Wait for activity, for at most ``timeout`` seconds. For one waiter at a time."""
        if self._closed:
            return "closed"
        wake: Wake = "timeout"
        if self._pending or timeout <= 0:
            await asyncio.sleep(0)
        else:
            waiter = self._waiter = self._loop.create_future()
            self._set_timer(self._loop.time() + timeout)
            try:
                wake = await waiter
            finally:
                self._waiter = None
        if self._pending and wake == "timeout":
            wake = "activity"
        self._pending = False
        return wake

    def _set_timer(self, deadline: float) -> None:
        # One timer for all waits: a wait that ends early leaves it, and the next one moves it on.
        self._deadline = deadline
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        # Compared with some room, since the loop fires a timer within its clock's resolution.
        if self._loop.time() + 0.001 >= self._deadline:
            self._waiter.set_result("timeout")
        else:
            self._timer = self._loop.call_at(self._deadline, self._expire)

    def wake(self) -> None:
        """Report activity that no file event stands for. Only from the hub's own loop."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result("activity")
        else:
            self._pending = True

    def close(self) -> None:
        """End every watch, wake the waiter, and refuse new watches."""
        if self._closed:
            return
        self._closed = True
        self._drop()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result("closed")

    def _drop(self) -> None:
        self._watches.clear()
        self._noticed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            self._end_reading(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _readable(self) -> None:
        if self.absorb() and (self._act is None or self._act()):
            self.wake()

    def _read(self) -> list[inotify.Event]:
        try:
            return inotify.read_events(self._fd)
        except OSError as error:
            self._fail(error)
            return []

    def _hand_out(self, events: list[inotify.Event]) -> bool:
        """Tell the listeners; True where one of them has to act."""
        act = False
        for wd, mask, name in events:
            if mask & inotify.IN_Q_OVERFLOW:
                for watch in tuple(self._watches.values()):
                    watch.listener.on_doubt()
                for key, changed in tuple(self._noticed.items()):
                    changed(b"", key)
                act = True
                continue
            found = self._watches.get(wd)
            if found is None:
                self._tell(wd, mask, name)
                continue
            if mask & inotify.IN_MOVED_TO:
                found.events += 1
                if found.events % MANY == 0:
                    found.listener.on_many(found.events)
                if name.endswith(_SUFFIX):
                    request = request_id(name.decode("ascii", "replace"))
                    if request is not None:
                        found.listener.on_request(request)
                        act = True
                elif found.saw is not None:
                    found.saw.add(name)
            elif mask & inotify.GONE:
                if mask & inotify.IN_IGNORED:
                    del self._watches[wd]
                found.listener.on_gone()
                act = True
        return act

    def _tell(self, wd: int, mask: int, name: bytes) -> None:
        """Tell of a change in a directory that is no session's. Nothing of the loop's is to do."""
        changed = self._noticed.get(wd)
        if changed is None:
            return
        if mask & inotify.GONE:
            self.ignore(wd)
            changed(None, wd)
        else:
            changed(name, wd)

    def _fail(self, error: OSError) -> None:
        log.warning("file events cannot be read (%s); polling instead", error.strerror)
        watches = tuple(self._watches.values())
        noticed = tuple(self._noticed.items())
        self._drop()
        for key, changed in noticed:
            changed(None, key)
        for watch in watches:
            watch.listener.on_unwatched()
        self.wake()
