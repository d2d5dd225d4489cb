"""The lock of the store: one writer at a time, and nobody who can hold up a kill.

A command waits for as long as others get on, and for one second where nobody does: then it goes on
without the lock, in turn with the others that do. Whoever could run, and only gets no turn on the
processor, is slow and not stuck: that is waited for longer. A process that runs only ever tries.
"""

from __future__ import annotations

import fcntl
import os
import random
import threading
import time
from contextlib import suppress

from relayconf.state.directory import StateDirectory

NAME = "overrides.lock"

#: Where those take turns that are held up by whoever has the first one.
QUEUE = "overrides.queue.lock"

#: How long a command waits while nothing moves, and in all, in seconds. A crowd on a slow machine
#: takes its time, and is no fault.
PATIENCE = 1.0
LONGEST = 120.0

#: How long it waits for a holder that could run.
_STARVED = 15.0

_SHORTEST_PAUSE = 0.002
_LONGEST_PAUSE = 0.04


class Lock:
    """The lock of one state directory, or of one thing in it."""

    def __init__(self, directory: StateDirectory, name: str = NAME) -> None:
        self._fd = _open(directory, name)
        self.held = False

    def acquire(self) -> bool:
        """Wait for the lock, and tell whether that was of use."""
        if self._fd < 0:
            return False
        begun = moved = time.monotonic()
        seen, pause = self._beaten(), _SHORTEST_PAUSE
        while not self.try_acquire():
            time.sleep(pause * (0.5 + random.random()))  # noqa: S311 - to get out of step
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            now, beaten = time.monotonic(), self._beaten()
            if beaten != seen:
                seen, moved = beaten, now
            if now - begun > LONGEST or now - moved > _STARVED:
                return False
            if now - moved > PATIENCE and not self._holder_can_run():
                return False
        return True

    def try_acquire(self) -> bool:
        """Take the lock where it is free."""
        if self._fd < 0:
            return False
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        self.held = True
        with suppress(OSError):
            os.pwrite(self._fd, b"%20d %20d\n" % (threading.get_native_id(), _space()), 0)
        self.beat()
        return True

    def beat(self) -> None:
        """Let those who wait see that its holder gets on."""
        if self.held:
            with suppress(OSError):
                os.utime(self._fd)

    def _beaten(self) -> int:
        try:
            return os.fstat(self._fd).st_mtime_ns
        except OSError:
            return 0

    def _holder_can_run(self) -> bool:
        try:
            thread, space = map(int, os.pread(self._fd, 64, 0).split())
            with open(f"/proc/{thread}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return False
        return space == _space() and state == b"R"

    def release(self) -> None:
        """Let the next one write."""
        fd, self._fd, self.held = self._fd, -1, False
        if fd >= 0:
            os.close(fd)


def _space() -> int:
    """Return which processes this one's ids are of."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _open(directory: StateDirectory, name: str) -> int:
    """Open the lock's file; -1 where that cannot be done, which holds up nobody."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        folder = directory.folder("locks", make=True)
        if folder is None:
            return -1
        try:
            fd = os.open(name, flags, 0o600, dir_fd=folder.fd)
            if os.fstat(fd).st_uid == os.geteuid():
                folder.own(fd)
        finally:
            folder.close()
    except OSError:
        return -1
    return fd
