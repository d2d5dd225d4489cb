"""How the program inside a sandbox waits for names in a directory: a part of it. Ground floor.

A signal tells, since that costs nothing to end: the kernel takes some ten milliseconds to close a
descriptor of inotify, and the answer of a program waits for the program's end. Loading what inotify
needs takes as long again. It serves where there are no such signals.
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import Any

#: IN_MOVED_TO, IN_DELETE_SELF, IN_MOVE_SELF, IN_ONLYDIR of inotify(7); and for names of any kind
#: IN_MOVED_FROM, IN_CREATE, IN_DELETE. Then the flags of inotify_init1.
EVENTS = 0x80 | 0x400 | 0x800 | 0x01000000
NAMES = EVENTS | 0x40 | 0x100 | 0x200
INIT_FLAGS = 0x800 | 0x80000


def watch(folder: int, names: bool) -> int:  # noqa: FBT001 - 3.6 has keywords, the caller one flag
    """Return a descriptor that is readable once something was renamed; -1 where there is none.

    ``names`` asks for names that are made and removed as well.
    """
    try:
        return by_signal(folder, names)
    except (ImportError, OSError, AttributeError, ValueError):
        pass
    try:
        return by_inotify(folder, NAMES if names else EVENTS)
    except (ImportError, OSError, AttributeError):
        return -1


def by_signal(folder: int, names: bool) -> int:  # noqa: FBT001 - as above
    """Have SIGIO tell, whose handler's bytes are read."""
    # What is usually around it takes long to load, and is not needed.
    import _signal  # type: ignore[import-not-found]  # noqa: PLC0415

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _signal.set_wakeup_fd(writing)
    _signal.signal(_signal.SIGIO, unheard)
    wanted = fcntl.DN_RENAME | fcntl.DN_MULTISHOT
    if names:
        wanted |= fcntl.DN_CREATE | fcntl.DN_DELETE
    tell(folder, ".", wanted)
    try:  # noqa: SIM105 - contextlib takes long to load
        # That the directory goes is told above it; where everybody writes, too much is told there.
        tell(folder, "..", fcntl.DN_RENAME | fcntl.DN_DELETE | fcntl.DN_MULTISHOT, stat.S_IWOTH)
    except OSError:
        pass
    return reading


def tell(folder: int, name: str, wanted: int, unless: int = 0) -> None:
    """Have a directory's events told, unless its mode has these bits."""
    # A descriptor of its own: to close another one of the same opening ends it.
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    if not os.fstat(fd).st_mode & unless:
        fcntl.fcntl(fd, fcntl.F_NOTIFY, wanted)


def unheard(_number: int, _frame: Any) -> None:
    """Do nothing: that it came is read elsewhere."""


def by_inotify(folder: int, mask: int) -> int:
    """Watch by inotify."""
    import ctypes  # noqa: PLC0415 - dear

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.inotify_init1(INIT_FLAGS))
    os.fchdir(folder)
    return fd if fd >= 0 and libc.inotify_add_watch(fd, b".", mask) >= 0 else -1
