"""Where a session is: its directory opened, joined and watched, lost and found again.

A path may lead to another directory at any time: deleted and made again, moved, replaced. What is
served is the directory that is held; ``look`` compares it with the path, lets go of one that is
gone and joins the one that came instead, like a start but without a sweep. Each change of the
state is one line in the log.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from relay.engine.directory import DirectoryError, SessionDirectory, make_directory
from relay.engine.hub import Listener, Watch
from relay.engine.locks import StartLock
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.engine.unwatched import Unwatched
from relay.errors import RelayError
from relay.protocol import RELAY_JSON
from relay.settings import Mode
from relayconf.errors import StateError

#: How long a start waits for another's start lock before it joins without sweeping, in seconds.
START_WAIT = 5.0
_START_RETRY = 0.02

#: How long a directory that was flooded with events must be quiet, in seconds (design section 8).
QUIET = 1.0

#: How often relay.json is compared with what was published, in seconds, while no name has changed.
_COMPARED_EVERY = 5.0

#: Pauses before a relay.json that a writer changed is published again, in seconds: the first, and
#: the longest. Each time doubles it, until it is left alone for as long as the longest.
_MEND_FIRST = 0.25
_MEND_LONGEST = 64.0

#: How often a watch that could not be armed is tried again, in seconds.
REARM_AFTER = 30.0


class WatchError(RelayError):
    """RELAY_MODE is ``watch``, and the directory cannot be watched."""

    code = "watch"


#: Says of a directory in a root why it is no session, or ``None``.
Judge = Callable[[os.stat_result], "str | None"]


class Place:
    """The directory of one session.

    ``directory`` is ``None`` while there is none at the path. Named by itself, it is made where it
    is missing, and waited for when it goes. In a root, ``judge`` says whether it may be served at
    all; when it goes, or may no longer be, the place is ``over``.
    """

    def __init__(
        self, path: str, shared: Shared, listener: Listener, *, judge: Judge | None = None
    ) -> None:
        if judge is None:
            make_directory(path)
            # Symbolic links on the way are the operator's; one that appears later is not followed.
            path = os.path.realpath(path)
        self.path = path
        self.name = os.path.basename(path)
        self.over = False
        self.directory: SessionDirectory | None = None
        #: When a name in the directory had last changed, as it was last looked at.
        self.changed_ns = 0
        self._judge = judge
        self._judged = (-1, -1, -1)
        self._unwatched = Unwatched(path, shared.unwatched)
        self.watch: Watch | None = None
        self.peers: set[str] = set()
        self._shared = shared
        self._listener = listener
        self._join_by: float | None = None
        self._rearm_at = 0.0
        self._fled = False
        self._announced = b""
        self._published: tuple[int, int, int] | None = None
        self._compare_at = self._mended_at = 0.0
        self._mend_pause = _MEND_FIRST
        #: Why the writers could not be told what they are to be told; empty where they were.
        self.unannounced = ""

    async def open(self) -> StartLock | None:
        """Join at the start. Returns the start lock, or ``None`` where others held it too long.

        Raises:
            DirectoryError: it cannot be opened or written.
            WatchError: the mode demands a watch, and there is none to be had.
        """
        try:
            directory = self.directory = SessionDirectory(self.path, follow=False, signals=True)
        except OSError as error:
            raise DirectoryError(f"{self.path} cannot be opened: {error.strerror}") from None
        # RACE: what was put here since it was judged is judged again, as it is now held.
        refusal = self._judge(os.fstat(directory.fd)) if self._judge is not None else None
        if refusal is not None:
            raise DirectoryError(refusal)
        if not directory.can_be_written():
            raise DirectoryError(f"{self.path} cannot be written: give it to this user, or a group")
        lock = await self._start_lock(directory)
        try:
            self._enter(directory)
            self._refuse_without_watch()
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        return lock

    def _refuse_without_watch(self) -> None:
        if self._shared.limits.mode is Mode.WATCH and self._wants() and self.watch is None:
            raise WatchError(
                f"{self.path} cannot be watched, and RELAY_MODE is watch; set it to auto to poll "
                "instead"
            )

    async def _start_lock(self, directory: SessionDirectory) -> StartLock | None:
        deadline = self._shared.clock() + START_WAIT
        while True:
            lock = self._shared.locks.try_start(directory.identity)
            if lock is not None:
                return lock
            if self._shared.clock() >= deadline:
                log.warning("another runner is starting on %s; joining it", escaped(self.path))
                return None
            await asyncio.sleep(_START_RETRY)

    def _enter(self, directory: SessionDirectory) -> None:
        """Serve a directory: mark it, watch it, tell its writers."""
        self.directory = directory
        try:
            self._shared.locks.mark(directory.identity)
        except OSError as error:
            raise StateError(f"the state directory cannot be written: {error.strerror}") from None
        self.peers = self._shared.locks.peers_on(directory.identity)
        self.arm()

    def leave(self) -> None:
        """Stop serving it. What is in flight may still be answered in it."""
        self.disarm()
        self._unwatched.clear()
        if self.directory is not None:
            self._shared.locks.unmark(self.directory.identity)
            self.directory.retire()
            self.directory = None

    def look(self) -> bool:
        """Compare path and directory; True where one to be scanned was joined just now."""
        directory = self.directory
        if directory is not None:
            found = None if self._is_covered() else directory.at(self.path)
            if found is not None and self._may_stay(directory, found):
                changed, self.changed_ns = self.changed_ns, found.st_ctime_ns
                if self.watch is None:
                    self._rearm()
                if self.unannounced:
                    self.announce()
                elif changed != self.changed_ns or self._shared.clock() >= self._compare_at:
                    self._mend(directory)
                return False
            self.over = self._judge is not None
            if not self.over:
                log.warning("the session directory %s is gone; waiting for it", escaped(self.path))
            self.leave()
        return not self.over and self._find()

    def _is_covered(self) -> bool:
        """Whether a file system that may not answer was mounted over it, in a root.

        The path is then another kind of session's to look at.
        """
        return self._judge is not None and self._shared.mounts.elsewhere(self.path) is not None

    def _may_stay(self, directory: SessionDirectory, found: os.stat_result) -> bool:
        """Whether it is served on, as whose and what it is now."""
        is_now = (found.st_mode, found.st_uid, found.st_gid)
        if is_now == self._judged:
            return True
        if self._judge is not None and self._judge(found) is not None:
            return False
        self._judged = is_now
        if directory.takes_group(found):
            # It was made first, and shared afterwards: what was published is published again.
            self._announced = b""
            self.announce()
        return True

    def judge_again(self) -> None:
        """Judge at the next look, although nothing about the directory itself has changed."""
        self._judged = (-1, -1, -1)

    def _find(self) -> bool:
        """Join what is at the path now, once its start lock is free or was awaited long enough."""
        try:
            directory = SessionDirectory(self.path, follow=False, signals=True)
        except OSError:
            self._join_by = None
            return False
        now = self._shared.clock()
        self._join_by = now + START_WAIT if self._join_by is None else self._join_by
        try:
            lock = self._shared.locks.try_start(directory.identity)
            if lock is None and now < self._join_by:
                directory.retire()
                return False
            try:
                self._enter(directory)
            finally:
                if lock is not None:
                    lock.release()
        except StateError as error:
            log.warning("%s", error)
            self.directory = None
            directory.retire()
            return False
        self._join_by = None
        self.changed_ns = directory.changed_ns()
        log.warning("the session directory %s is served again", escaped(self.path))
        return True

    def _wants(self) -> bool:
        return self._shared.limits.watches

    def arm(self) -> None:
        """Watch the directory where that is wanted and possible, and announce."""
        self._announced = b""
        if self.directory is None:
            return
        if self._wants():
            self._arm(self.directory)
        if self.watch is None:
            self.announce()

    def _arm(self, directory: SessionDirectory) -> None:
        self._rearm_at = self._shared.clock() + REARM_AFTER
        hub = self._shared.hub
        try:
            watch = hub.watch(directory.fd, self._listener)
        except OSError as error:
            self._unwatched.note(error.errno or 0, f"no file events ({error.strerror})")
            return
        self.watch = watch
        seen = hub.sees(watch, RELAY_JSON, self.announce)
        # RACE: a directory that was moved in this very moment has lost its watch by that alone.
        if not seen and self._announced and self.watch is watch:
            self._unwatched.note(0, "this file system gives no events")
            self.disarm()
            return
        self._unwatched.clear()

    def _rearm(self) -> None:
        if self._fled:
            if self._shared.wall() - self.changed_ns / 1e9 < QUIET:
                return
            self.lose_watch()
        if self.watch is None and self._wants() and self._shared.clock() >= self._rearm_at:
            self.arm()

    def lose_watch(self) -> None:
        """End a watch that went blind; the next look arms another where the directory is there."""
        self.disarm()
        self._fled = False
        self._rearm_at = 0.0

    def flee(self) -> None:
        """Go without the watch until nothing has happened in the directory for a while."""
        if self.watch is not None:
            log.warning("%s: events outrun requests; polling until quiet", escaped(self.path))
            self.disarm()
            self._fled = True

    def disarm(self) -> None:
        """End the watch."""
        if self.watch is not None:
            self._shared.hub.unwatch(self.watch)
            self.watch = None

    def change(self) -> None:
        """Go by new settings: watch or not, and tell the writers."""
        if self._wants():
            if self.watch is None:
                self.arm()
        else:
            self.disarm()
        self.announce()

    def meet(self, peers: set[str]) -> None:
        """Take note of the other living runners on this directory."""
        if peers != self.peers:
            self.peers = peers
            self._announced = b""
            self.announce()

    def announce(self) -> None:
        """Publish relay.json where it changed and no newer runner does it."""
        directory = self.directory
        if directory is None or self._announced == self._told(directory):
            return
        if not self._shared.locks.newest_of(self.peers):
            self.unannounced = ""
            return
        try:
            # A second time where the first shows that nothing can be signalled here.
            while self._announced != (data := self._told(directory)):
                directory.signals = directory.publish(RELAY_JSON, data)
                self._announced = data
        except OSError as error:
            reason = error.strerror or str(error)
            if reason != self.unannounced:
                log.warning("%s: relay.json cannot be written: %s", escaped(self.path), reason)
            self.unannounced = reason
            return
        self.unannounced = ""
        # RACE: what a writer puts there in this instant is taken for what was published; it
        # misleads its own session, as it always can.
        self._published = _identity(directory, RELAY_JSON)

    def _told(self, directory: SessionDirectory) -> bytes:
        announcement = self._shared.announcement
        return announcement.signalling if directory.signals else announcement.plain

    def _mend(self, directory: SessionDirectory) -> None:
        """Publish relay.json again where a writer has removed or changed it, but not endlessly."""
        now = self._shared.clock()
        self._compare_at = now + _COMPARED_EVERY
        if not self._announced or _identity(directory, RELAY_JSON) == self._published:
            return
        if now - self._mended_at > _MEND_LONGEST:
            self._mend_pause = _MEND_FIRST
        if now < self._mended_at + self._mend_pause or not self._shared.locks.are_known():
            # Too soon; or a newer runner may have published it, which the next look will tell.
            self._compare_at = now
            return
        self._mended_at = now
        self._mend_pause = min(self._mend_pause * 2, _MEND_LONGEST)
        self._announced = b""
        self.announce()


def _identity(directory: SessionDirectory, name: str) -> tuple[int, int, int] | None:
    """Return what tells one state of a file from any other; no writer can set a ctime."""
    found = directory.examine(name)
    return None if found is None else (found.st_ino, found.st_ctime_ns, found.st_size)
