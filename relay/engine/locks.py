"""Who is alive: the runners that share a state directory, and the directories that each serves.

``runners/ID`` is one file for each runner process, locked for as long as it lives; the kernel
drops the lock with the process, so liveness is exact. ``DEV-INO.ID`` is an empty mark for each
directory that a runner serves; ``DEV-INO.start`` is locked while one starts on it. All names are
flat, so that two stats tell whether anybody came or went. A mark whose runner is not alive asks
for a burial, by whoever serves that directory; burials may be repeated and lose nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from errno import ENOENT
from itertools import islice
from typing import NamedTuple

from relay.engine.directory import COARSE_NS
from relay.engine.telemetry import escaped, log
from relayconf.errors import StateError
from relayconf.state.directory import FIX, StateDirectory, make

#: A directory's device and inode.
Identity = tuple[int, int]

_NAME = re.compile(r"([0-9a-f]+)-([0-9a-f]+)\.([A-Za-z0-9_-]{1,32})", re.ASCII)
_RUNNER = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


#: A file that was never given its name is removed after so long.
_STALE_NS = 60_000_000_000

#: How often what the dead left is looked for, in seconds, and how many files go in one look.
_TIDY_EVERY = 60.0
_TIDIED_AT_ONCE = 500

#: Devices have smaller numbers; a larger one stands for a directory behind a host. What is known of
#: its dead is kept for longer than any request's deadline, since its claims may still be there.
_FIRST_REMOTE = 1 << 32
_REMOTE_KEPT_NS = 25 * 3600 * 1_000_000_000


class Peers(NamedTuple):
    """The runners with a mark on each directory, this one left out, and the dead among all."""

    served: dict[Identity, set[str]]
    dead: set[str]


class StartLock:
    """One directory's start lock while it is held."""

    __slots__ = ("_fd", "_folder", "_name")

    def __init__(self, folder: int, name: str, fd: int) -> None:
        self._folder = folder
        self._name = name
        self._fd = fd

    def release(self) -> None:
        """Let the next one start."""
        # RACE: one that has opened the file and waits gets a lock on a name that is gone; it
        # notices, and opens anew.
        with suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
        os.close(self._fd)


class Locks:
    """This runner's own lock, and its view of the others'.

    Args:
        state: the state directory.
        group: the group that shares it (RELAYCONF_STATE_GROUP).
        random: the source of the runner's id.

    Raises:
        StateError: the state directory cannot be used.
    """

    def __init__(
        self,
        state: str,
        *,
        group: str | None = None,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.runner = random(6).hex()
        self.born_ns = 0
        self._state = state
        self._group = group
        self._marks: set[Identity] = set()
        self._folder = self._runners = self._own = -1
        self._known: dict[str, int] = {}
        self._runners_seen = _Seen()
        self._marks_seen = _Seen()
        self._served: dict[Identity, set[str]] = {}
        self._marked: set[str] = set()
        self._near: set[str] = set()
        self._starts: set[Identity] = set()
        self._tidy_at = 0.0
        self._open()
        _held.add(self)

    def _open(self) -> None:
        try:
            self._files = self._folder_of_locks()
            self._folder = self._files.fd
            self._runners = _folder(self._files, "runners").fd
            self._own = self._register()
        except OSError as error:
            self._close_descriptors()
            raise StateError(
                f"the state directory {self._state} cannot hold a lock: {error.strerror}; {FIX}"
            ) from None

    def _folder_of_locks(self) -> StateDirectory:
        state = make(self._state, group=self._group)
        try:
            return _folder(state, "locks")
        finally:
            state.close()

    def _new(self, name: str, folder: int) -> int:
        """Open a file, made where it is missing, for everybody who shares the state."""
        try:
            fd = os.open(name, _OPEN | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        except FileExistsError:
            return os.open(name, _OPEN | os.O_CREAT, 0o600, dir_fd=folder)
        self._files.own(fd)
        return fd

    def _register(self) -> int:
        # Locked before it has its name: at no instant does a living runner look dead.
        temp = f"{self.runner}.new"
        fd = self._new(temp, self._runners)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file's own time would be the same for two that start within a tick of the kernel.
            self.born_ns = self.born_ns or time.time_ns()
            os.utime(fd, ns=(self.born_ns, self.born_ns))
            os.rename(temp, self.runner, src_dir_fd=self._runners, dst_dir_fd=self._runners)
        except OSError:
            os.close(fd)
            with suppress(OSError):
                os.unlink(temp, dir_fd=self._runners)
            raise
        return fd

    def close(self) -> None:
        """Sign off: no marks, no lock. The caller has nothing in flight any more."""
        for identity in tuple(self._marks):
            self.unmark(identity)
        if self._own >= 0:
            with suppress(OSError):
                os.unlink(self.runner, dir_fd=self._runners)
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        """Forget every descriptor; in a forked child this leaves the parent's locks alone."""
        for fd in (self._own, self._runners, self._folder):
            if fd >= 0:
                os.close(fd)
        self._folder = self._runners = self._own = -1

    def try_start(self, identity: Identity) -> StartLock | None:
        """Return the start lock of a directory, or ``None`` while somebody else has it.

        Raises:
            StateError: no lock can be made at all.
        """
        name = f"{_spelled(identity)}.start"
        for _ in range(100):
            try:
                fd = self._new(name, self._folder)
            except OSError as error:
                raise StateError(
                    f"the state directory {self._state} cannot hold a lock: {error.strerror}"
                ) from None
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                return None
            if os.fstat(fd).st_nlink:
                return StartLock(self._folder, name, fd)
            os.close(fd)
        return None

    def mark(self, identity: Identity) -> None:
        """Say that this runner serves a directory.

        Raises:
            OSError: it cannot be written.
        """
        self._marks.add(identity)
        name = f"{_spelled(identity)}.{self.runner}"
        os.close(self._new(name, self._folder))

    def unmark(self, identity: Identity, runner: str | None = None) -> None:
        """Say that this runner, or a dead one whose burial is done, serves it no longer."""
        if runner is None:
            self._marks.discard(identity)
        with suppress(OSError):
            os.unlink(f"{_spelled(identity)}.{runner or self.runner}", dir_fd=self._folder)

    def is_alive(self, runner: str) -> bool:
        """Whether a runner of this id lives. One that cannot be judged counts as alive."""
        if runner == self.runner:
            return True
        for _ in range(3):
            verdict = self._judge(runner)
            if verdict is not None:
                return verdict
        return True

    def _judge(self, runner: str) -> bool | None:
        """Whether a runner is alive; ``None`` where its file was replaced meanwhile."""
        try:
            fd = os.open(runner, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._runners)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            # Shared, so that two that look at once do not take each other for the runner.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink == 0:
                # RACE: another has removed a dead one's file, or a living one has signed on again.
                return None
        except OSError:
            return True
        finally:
            os.close(fd)
        with suppress(OSError):
            os.unlink(runner, dir_fd=self._runners)
        return False

    def peers_on(self, identity: Identity) -> set[str]:
        """Return the other living runners that serve a directory. Hold its start lock."""
        prefix = _spelled(identity)
        return {
            runner
            for runner in self._others()
            if self._exists(f"{prefix}.{runner}") and self.is_alive(runner)
        }

    def newest_of(self, runners: set[str]) -> bool:
        """Whether this runner started after all of ``runners``."""
        mine = (self.born_ns, self.runner)
        return all(mine > (self._known.get(runner, 0), runner) for runner in runners)

    def look(self) -> Peers:
        """Return who else has a mark on each directory, and which of this runner's peers are dead.

        Cheap where nothing happened: a few stats, and one lock tried for each runner that shares a
        directory with this one, or has none. Fifty runners that share nothing but the state leave
        each other alone. Where the state directory was removed or replaced, this runner signs on
        again.

        Raises:
            StateError: it was, and cannot be made again.
        """
        if self._is_lost():
            self._sign_on_again()
        if not self._marks_seen.same(self._folder):
            self._marks_seen.begin(self._folder)
            served: dict[Identity, set[str]] = {}
            self._starts.clear()
            for name in os.listdir(self._folder):
                found = _NAME.fullmatch(name)
                if found is None or found[3] == self.runner:
                    continue
                identity = int(found[1], 16), int(found[2], 16)
                if found[3] == "start":
                    self._starts.add(identity)
                else:
                    served.setdefault(identity, set()).add(found[3])
            self._served = served
            self._marked = set().union(*served.values())
            # A mark of this runner's own changes the folder, so that this is never older than it.
            self._near = set().union(*(served.get(identity, ()) for identity in self._marks))
        others = self._near.union(set(self._others()) - self._marked)
        if time.monotonic() >= self._tidy_at and not self._tidy():
            self._tidy_at = time.monotonic() + _TIDY_EVERY
        return Peers(self._served, {other for other in others if not self.is_alive(other)})

    def _tidy(self) -> bool:
        """Remove what the dead left for directories that nobody serves; True where more is left.

        There is nobody there to answer for them. Whoever serves such a directory again looks for
        claims of the dead when it starts, and needs no mark for that.
        """
        for identity in islice(tuple(self._starts), _TIDIED_AT_ONCE):
            # Its holder was killed in the middle of a start, or else it is held and stays.
            lock = self.try_start(identity)
            if lock is not None:
                lock.release()
        there = set(self._others())
        dead = {runner for runner in self._marked if not self.is_alive(runner)}
        left = 0
        for identity, runners in self._served.items():
            if identity in self._marks or not runners <= dead:
                continue
            for runner in runners:
                if left >= _TIDIED_AT_ONCE:
                    return True
                left += self._forget(identity, runner, just_found=runner in there)
        return False

    def _forget(self, identity: Identity, runner: str, *, just_found: bool) -> bool:
        """Remove a dead runner's mark; one of a directory behind a host only when it is old."""
        name = f"{_spelled(identity)}.{runner}"
        with suppress(OSError):
            if identity[0] >= _FIRST_REMOTE:
                if just_found:
                    # From now on it is known to be dead.
                    os.utime(name, dir_fd=self._folder, follow_symlinks=False)
                made = os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mtime_ns
                if time.time_ns() - made < _REMOTE_KEPT_NS:
                    return False
            os.unlink(name, dir_fd=self._folder)
        return True

    def are_known(self) -> bool:
        """Whether surely nobody has come or gone since the last look."""
        return self._marks_seen.same(self._folder) and self._runners_seen.same(self._runners)

    def _others(self) -> list[str]:
        """Return the ids of the other runners that signed on; some may be dead."""
        if not self._runners_seen.same(self._runners):
            self._runners_seen.begin(self._runners)
            known = {}
            for name in os.listdir(self._runners):
                if name == self.runner:
                    continue
                with suppress(OSError):
                    signed_on = os.stat(name, dir_fd=self._runners).st_mtime_ns
                    if _RUNNER.fullmatch(name):
                        known[name] = signed_on
                    elif time.time_ns() - signed_on > _STALE_NS:
                        os.unlink(name, dir_fd=self._runners)
            self._known = known
        return list(self._known)

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _is_lost(self) -> bool:
        """Whether the others cannot find this runner's lock any more."""
        try:
            there, held = os.stat(os.path.join(self._state, "locks")), os.fstat(self._folder)
            return there.st_ino != held.st_ino or os.fstat(self._own).st_nlink == 0
        except OSError:
            return True

    def _sign_on_again(self) -> None:
        log.warning("the state directory %s was removed; signing on again", escaped(self._state))
        # The old lock is held until the new one is: whoever can see either sees a living runner.
        old = (self._own, self._runners, self._folder)
        self._folder = self._runners = self._own = -1
        self._runners_seen = _Seen()
        self._marks_seen = _Seen()
        try:
            self._open()
            for identity in self._marks:
                self.mark(identity)
        except OSError as error:
            raise StateError(
                f"the state directory {self._state} cannot hold a lock: {error.strerror}"
            ) from None
        finally:
            for fd in old:
                if fd >= 0:
                    os.close(fd)


def _folder(within: StateDirectory, name: str) -> StateDirectory:
    made = within.folder(name, make=True)
    if made is None:  # pragma: no cover - it was made just now
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), name)
    return made


class _Seen:
    """When a folder was last listed, by its own mtime, where that can be told."""

    def __init__(self) -> None:
        self._mtime: int | None = None

    def same(self, folder: int) -> bool:
        """Whether the folder surely holds the names that it held at ``begin``."""
        return self._mtime is not None and os.fstat(folder).st_mtime_ns == self._mtime

    def begin(self, folder: int) -> None:
        """Note the folder's mtime; call it before the listing."""
        mtime = os.fstat(folder).st_mtime_ns
        self._mtime = mtime if time.time_ns() - mtime > COARSE_NS else None


def _spelled(identity: Identity) -> str:
    return f"{identity[0]:x}-{identity[1]:x}"


_held: weakref.WeakSet[Locks] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # A copy of the descriptor would keep the parent's lock beyond the parent's death.
    for locks in tuple(_held):
        locks._close_descriptors()  # noqa: SLF001 - this module's own class


os.register_at_fork(after_in_child=_let_go_in_child)
