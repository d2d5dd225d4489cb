"""Activity sources: something that wakes a waiter when a directory may have changed.

A source only wakes. What woke it, and whether anything is there, is for the waiter to look at;
the poll underneath belongs to the waiter too. Two are here: ``DirectoryWatch`` (inotify, any
number of directories through one instance) and ``TimerOnly`` (no events at all). A watch that
cannot be had degrades to its timer, with one line in the log, and never to an error. Ground floor.
"""

from __future__ import annotations

import os
import select
from abc import ABC, abstractmethod
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Dict, List, Optional, Set, Tuple

from relay import inotify

if TYPE_CHECKING:
    from logging import Logger

ACTIVITY = "activity"
TIMEOUT = "timeout"
CLOSED = "closed"

#: A hint: which watched directory, and which name appeared there. An empty name means that the
#: directory itself changed (removed, moved, unmounted): look whether it is still the one you hold.
Hint = Tuple[int, str]

#: The hint that events were lost: look everywhere.
LOOK_EVERYWHERE: Hint = (-1, "")

#: Hints kept for a waiter that does not take them; beyond it they collapse to LOOK_EVERYWHERE.
_MAX_HINTS = 4_096

#: Asked for besides the events by which a name appears.
_MASK = inotify.IN_DELETE_SELF | inotify.IN_MOVE_SELF | inotify.IN_ONLYDIR | inotify.IN_EXCL_UNLINK
_UNUSUAL = inotify.GONE | inotify.IN_Q_OVERFLOW


class ActivitySource(ABC):
    """What a waiter may rely on, and what not.

    Guaranteed:

    * Sticky: activity between a look and the next ``wait`` is not lost; that wait returns at once.
      So the order is: arm, look, wait.
    * Coalesced: any amount of activity is one wake.
    * ``close`` wakes the waiter, from any thread, and nothing is armed after it.
    * A failing source degrades to its timer and is logged once; ``wait`` does not raise for it.
    * A wait that times out leaves nothing behind, however many there were.

    Not guaranteed:

    * That there is anything to find after ``activity``: a wake may be spurious.
    * That every change wakes: an exhausted or deaf watch is only a timer. Poll underneath.
    * More than one waiter at a time, or use in a forked child (see ``abandon``).
    """

    @abstractmethod
    def wait(self, timeout: float) -> str:
        """Wait for activity, at most ``timeout`` seconds.

        Returns:
            ``"activity"``, ``"timeout"`` or ``"closed"``.
        """

    @abstractmethod
    def close(self) -> None:
        """Wake the waiter with ``"closed"`` and release everything. Repeating it does nothing."""


class TimerOnly(ActivitySource):
    """A source without events: each wait lasts its timeout, or until ``close``."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._closed = False
        self._waiting = False
        self._pending = False
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)

    def wait(self, timeout: float) -> str:
        """See ``ActivitySource.wait``."""
        try:
            with self._lock:
                self._waiting = True
                closed = self._closed
            return CLOSED if closed else self._wait(max(timeout, 0.0))
        finally:
            with self._lock:
                self._waiting = False
                if self._closed:
                    self._release()

    def _wait(self, timeout: float) -> str:
        deadline = monotonic() + timeout
        left = timeout
        while True:
            if self._pending:
                self._pending = False
                return ACTIVITY
            ready = self._poll.poll(left * 1000)
            if self._closed:
                return CLOSED
            if not ready:
                return TIMEOUT
            if ready[0][0] == self._wake or len(ready) > 1:
                self._drain()
            self.collect()
            if not self._pending:
                # What has been read concerns nobody: the wait goes on.
                left = max(deadline - monotonic(), 0.0)

    def _drain(self) -> None:
        """Empty the pipe that ends a poll from another thread."""
        try:
            os.read(self._wake, 4096)
        except BlockingIOError:
            return

    def collect(self) -> None:
        """Take in what has happened, without waiting. A timer has nothing to take in."""

    def close(self) -> None:
        """See ``ActivitySource.close``."""
        with self._lock:
            self._closed = True
            if not self._waiting:
                self._release()
            elif self._waker >= 0:
                # RACE: the waiter may be leaving by itself; then nobody reads this byte.
                os.write(self._waker, b"\0")

    def abandon(self) -> None:
        """Drop a forked child's copies of the descriptors; the parent's source goes on."""
        self._lock = Lock()
        self._closed = True
        self._release()

    def _release(self) -> None:
        for fd in (self._wake, self._waker):
            if fd >= 0:
                os.close(fd)
        self._wake = self._waker = -1


class DirectoryWatch(TimerOnly):
    """Waits for names that appear by rename in any number of directories.

    One inotify instance serves them all, since a user has 128. It is opened with the first
    directory and kept until ``close``, which waits for the kernel to let go (up to 20 ms).

    Args:
        endings: what a name must end with to be activity, in bytes; the others pass unseen.
            Default: any name.

    ``keys`` are the keys of the directories that are watched now, each with what its users have
    asked for; one whose directory is gone is no longer among them.
    """

    def __init__(self, endings: Tuple[bytes, ...] = (b"",)) -> None:
        super().__init__()
        self._endings = endings
        self._fd = -1
        self.keys: Dict[int, List[int]] = {}
        self._hints: List[Hint] = []
        self._warned: Set[Optional[int]] = set()
        self._dropped = False

    def add(
        self,
        path: str,
        appearing: int = inotify.IN_MOVED_TO,
        *,
        instead: Optional[Tuple[int, int]] = None,
    ) -> Optional[int]:
        """Watch the directory at ``path``; the same directory may be added more than once.

        Args:
            path: the directory.
            appearing: the event by which a name is taken to appear. What others have asked for in
                the same directory is reported as well.
            instead: what the caller discards next, as a key and an event: if nobody else has asked
                for that event, it is no longer reported.

        Returns:
            A key that ``take`` and ``discard`` know it by, or ``None`` where it cannot be
            watched (no inotify, a limit, no such directory, closed): then only the timer works,
            and it may be tried again.
        """
        with self._lock:
            if self._closed:
                return None
            try:
                if self._fd < 0:
                    self._open()
                # A directory has one watch in an instance; this takes nothing from its other users.
                key = inotify.add_watch(self._fd, path, appearing | _MASK | inotify.IN_MASK_ADD)
                asked = self.keys.setdefault(key, [])
                asked.append(appearing)
                if instead is not None and instead[0] == key:
                    self._narrow(path, asked, instead[1])
            except OSError as error:
                self._warn_once(error.errno, f"{path!r}: polling, not watching: {error.strerror}")
                return None
            return key

    def _narrow(self, path: str, asked: List[int], instead: int) -> None:
        """Have no more reported than is asked for, once one ``instead`` is discarded."""
        left = asked.copy()
        if instead in left:
            left.remove(instead)
        wanted = _MASK
        for appearing in left:
            wanted |= appearing
        if not wanted & instead:
            # RACE: where the path is gone by now, more than that is reported.
            with suppress(OSError):
                inotify.add_watch(self._fd, path, wanted)

    def discard(self, key: int, appearing: int = inotify.IN_MOVED_TO) -> None:
        """Undo one ``add``; with the last, the directory is no longer watched."""
        with self._lock:
            asked = self.keys.get(key, [])
            if appearing in asked:
                asked.remove(appearing)
            if not asked and self.keys.pop(key, None) is not None and self._fd >= 0:
                try:
                    inotify.rm_watch(self._fd, key)
                except OSError:
                    # RACE: the directory went away first and took its watch along.
                    return

    def fileno(self) -> int:
        """Return the descriptor that an event loop may wait on, or -1 where nothing is watched."""
        return self._fd

    def collect(self) -> None:
        """Read the events that are waiting, without waiting for any."""
        if self._fd < 0:
            return
        try:
            events = inotify.read_events(self._fd)
        except OSError as error:
            self._fail(error)
            return
        for key, mask, name in events:
            if mask & _UNUSUAL:
                self._unusual(key, mask)
            elif name.endswith(self._endings) and key in self.keys:
                self._hint((key, name.decode("utf-8", "surrogateescape")))

    def _unusual(self, key: int, mask: int) -> None:
        """Take in that events were lost, or that a watched directory went away."""
        if mask & inotify.IN_Q_OVERFLOW:
            self._say_dropped()
            self._hint(LOOK_EVERYWHERE)
        elif key in self.keys:
            self._hint((key, ""))
            if mask & inotify.IN_IGNORED:
                self._forget(key)

    def take(self) -> List[Hint]:
        """Return the hints since the last call, and forget them. Each may be stale."""
        hints, self._hints = self._hints, []
        return hints

    def _hint(self, hint: Hint) -> None:
        self._pending = True
        if len(self._hints) >= _MAX_HINTS:
            self._hints = [LOOK_EVERYWHERE]
        self._hints.append(hint)

    def _open(self) -> None:
        fd = inotify.init()
        self._fd = fd
        self._poll.register(fd, select.POLLIN)
        if self._waiting:
            # The waiter polls without this descriptor; woken, it takes it in.
            os.write(self._waker, b"\0")

    def _forget(self, key: int) -> None:
        with self._lock:
            gone = self.keys.pop(key, None)
        if gone is not None:
            _warn("a watched directory is gone; polling until it is back")

    def _fail(self, error: OSError) -> None:
        """Give up the instance; directories may be added anew, through a new one."""
        self._warn_once(error.errno, f"the watch failed, polling instead: {error.strerror}")
        with self._lock:
            self._close_instance()
        self._hint(LOOK_EVERYWHERE)

    def _close_instance(self) -> None:
        fd, self._fd = self._fd, -1
        self.keys.clear()
        if fd >= 0:
            self._poll.unregister(fd)
            os.close(fd)

    def _release(self) -> None:
        self._close_instance()
        super()._release()

    def _say_dropped(self) -> None:
        # Nothing is degraded by it: who is waiting looks everywhere.
        if not self._dropped:
            self._dropped = True
            _log().info("the kernel dropped events of a watch; looking everywhere when it does")

    def _warn_once(self, number: Optional[int], text: str) -> None:
        if number not in self._warned:
            self._warned.add(number)
            _warn(text)


def _warn(text: str) -> None:
    _log().warning(text)


def _log() -> Logger:
    from logging import getLogger  # noqa: PLC0415 - only where there is something to say

    return getLogger("relay")
