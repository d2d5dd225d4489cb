"""Silent ones: processes that go by a state directory, and cannot write there what they apply.

A directory that can be opened can be locked, also where it is mounted read-only. Each such process
holds a shared lock on one byte of the state directory itself, the one whose number is its process
id; the kernel drops it with the process. Nobody else locks the directory, and asking takes no lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator

from relayconf.state.directory import StateDirectory

#: ``struct flock`` of Linux on 64 bits: type, whence, start, length, pid.
_FLOCK = "hhqqi4x"

#: Process ids end here on Linux (2^22).
_HIGHEST = 1 << 22


def hold(path: str) -> int:
    """Say that this process goes by a state directory; return the descriptor that says so.

    Returns:
        -1 where that cannot be said, as on other systems than Linux.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK, os.getpid(), 1))
    except (OSError, AttributeError):
        os.close(fd)
        return -1
    return fd


def silent_ones(state: StateDirectory) -> list[int]:
    """Return the process ids of those who go by a directory in silence, each in its own space."""
    try:
        return sorted(_held(state.fd, 0, _HIGHEST))
    except (OSError, AttributeError):
        return []


def _held(fd: int, start: int, end: int) -> Iterator[int]:
    """Yield the locked bytes of a range; the kernel names any one of them, not the first."""
    ranges = [(start, end)]
    while ranges:
        low, high = ranges.pop()
        if low >= high:
            continue
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK, low, high - low))
        kind, _whence, at, length, _pid = struct.unpack(_FLOCK, answer)
        if kind != fcntl.F_UNLCK:
            yield at
            ranges += [(low, at), (at + max(1, length), high)]


def _lock(kind: int, start: int, length: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0)
