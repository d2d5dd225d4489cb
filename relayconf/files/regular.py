"""Reading one whole regular file, within a bound, without ever blocking on what is none.

Ground floor.
"""

from __future__ import annotations

import os
import stat

from relayconf.errors import SourceError
from relayconf.values import excerpt

#: Paths are at most 4096 bytes on Linux (PATH_MAX), so that none is ever only counted.
_PATH_MAX = 4096


def read_regular(path: str, *, limit: int) -> bytes:
    """Return the content of a file of at most ``limit`` bytes.

    Raises:
        SourceError: it is missing, unreadable, larger, or no regular file (a directory, a FIFO).
    """
    try:
        # A FIFO without a writer would block a plain open for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            data = _read(descriptor, limit + 1) if stat.S_ISREG(mode) else b""
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"cannot read the file: {reason}", origin=shown_path(path)) from None
    if not stat.S_ISREG(mode):
        what = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
        raise SourceError(f"cannot read the file: it {what}", origin=shown_path(path))
    if len(data) > limit:
        raise SourceError(f"the file is larger than {limit} bytes", origin=shown_path(path))
    return data


def _read(descriptor: int, size: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(size)


def shown_path(path: str) -> str:
    """Return a path as origins and messages show it: printable, on one line."""
    return excerpt(path, _PATH_MAX)
