"""Linux inotify, bare: four calls through ctypes and the parsing of what the kernel writes.

It knows nothing of relays. Every failure is an ``OSError`` whose text says what ran out and which
limit to look at; where there is no inotify, ``init`` raises ``OSError(ENOSYS)``, so that callers
degrade instead of failing. ctypes is imported at the first call. Ground floor.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from typing import Any, List, Optional, Tuple

# <sys/inotify.h>
IN_ATTRIB = 0x00000004
IN_CREATE = 0x00000100
IN_DELETE = 0x00000200
IN_CLOSE_WRITE = 0x00000008
IN_MOVED_FROM = 0x00000040
IN_MOVED_TO = 0x00000080
IN_DELETE_SELF = 0x00000400
IN_MOVE_SELF = 0x00000800
IN_UNMOUNT = 0x00002000
IN_Q_OVERFLOW = 0x00004000
IN_IGNORED = 0x00008000
IN_ONLYDIR = 0x01000000
IN_DONT_FOLLOW = 0x02000000
IN_EXCL_UNLINK = 0x04000000
IN_MASK_CREATE = 0x10000000
IN_MASK_ADD = 0x20000000
IN_ISDIR = 0x40000000

#: The watched directory itself went away, or is no longer watched.
GONE = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED

#: One event: the watch it came from (-1 for an overflow), its mask, and a name where it has one.
Event = Tuple[int, int, bytes]

_HEADER = struct.Struct("iIII")

#: One read: about 200 events with the names of relay files. The kernel never splits an event.
_READ_BYTES = 16_384

_MEANING = {
    errno.EMFILE: "no inotify instance is left (fs.inotify.max_user_instances, or open files)",
    errno.ENFILE: "the system's limit of open files is reached",
    errno.ENOSPC: "no inotify watch is left (fs.inotify.max_user_watches)",
    errno.ENOSYS: "this system has no inotify",
    errno.ENOMEM: "the kernel has no memory for an inotify instance",
}

_libc: Any = None


def available() -> bool:
    """Tell whether this system has inotify at all; a limit may still be reached."""
    return _load() is not None


def init() -> int:
    """Open an inotify instance: a descriptor that does not block and is closed on exec.

    Raises:
        OSError: ENOSYS where there is no inotify; EMFILE, ENFILE, ENOMEM at a limit.
    """
    libc = _load()
    if libc is None:
        raise _error(errno.ENOSYS, None)
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        raise _last_error(None)
    return fd


def add_watch(fd: int, path: str, mask: int) -> int:
    """Watch ``path`` and return the watch's number.

    The same inode watched twice through one instance is one watch with one number.

    Raises:
        OSError: ENOENT, ENOTDIR, EACCES for the path; ENOSPC, ENOMEM at a limit.
    """
    wd: int = _load().inotify_add_watch(fd, os.fsencode(path), mask)
    if wd < 0:
        raise _last_error(path)
    return wd


def rm_watch(fd: int, wd: int) -> None:
    """Stop watching. The kernel still delivers what is queued, then ``IN_IGNORED``.

    Raises:
        OSError: EINVAL where the watch is gone already.
    """
    if _load().inotify_rm_watch(fd, wd) < 0:
        raise _last_error(None)


def read_events(fd: int) -> List[Event]:
    """Return the events that are waiting, at most one read's worth; none is an empty list.

    Raises:
        OSError: the descriptor cannot be read.
    """
    try:
        data = os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return []
    events: List[Event] = []
    at, end = 0, len(data)
    while at < end:
        wd, mask, _cookie, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        # The kernel pads a name with zero bytes to its own alignment.
        events.append((wd, mask, data[at : at + length].rstrip(b"\0")))
        at += length
    return events


def _load() -> Any:
    """Return libc with its inotify, or ``None`` where there is none."""
    global _libc  # noqa: PLW0603 - one handle a process, made when it is first needed
    if _libc is None and sys.platform.startswith("linux"):
        try:
            from ctypes import CDLL, c_char_p, c_int, c_uint32  # noqa: PLC0415 - 3 ms of start

            libc = CDLL(None, use_errno=True)
            libc.inotify_init1.argtypes = [c_int]
            libc.inotify_add_watch.argtypes = [c_int, c_char_p, c_uint32]
            libc.inotify_rm_watch.argtypes = [c_int, c_int]
        except (ImportError, OSError, AttributeError):
            return None
        _libc = libc
    return _libc


def _last_error(path: Optional[str]) -> OSError:
    from ctypes import get_errno  # noqa: PLC0415 - loaded already: a call has just failed

    return _error(get_errno(), path)


def _error(number: int, path: Optional[str]) -> OSError:
    text = _MEANING.get(number) or os.strerror(number)
    return OSError(number, text) if path is None else OSError(number, text, path)
