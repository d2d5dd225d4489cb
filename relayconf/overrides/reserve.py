"""A reserve of disk space: a file that is given up so that a kill still fits on a full disk."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from relayconf.state.directory import StateDirectory

NAME = "reserve"

#: Room for the document and its copy, each a few hundred entries long, and a line of the audit.
SIZE = 128 * 1024

#: What an exhausted file system or quota says.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def release(directory: StateDirectory) -> bool:
    """Give the reserve up; tell whether there was one."""
    try:
        folder = directory.folder("locks", make=False)
    except OSError:
        return False
    if folder is None:
        return False
    try:
        return folder.remove(NAME)
    finally:
        folder.close()


def replenish(directory: StateDirectory) -> None:
    """Lay in a reserve where there is none, of at most half of what is free.

    The rest is for the processes that are to acknowledge a kill which a full disk has just taken.
    """
    with suppress(OSError):
        folder = directory.folder("locks", make=True)
        if folder is None:
            return
        try:
            _fill(folder)
        finally:
            folder.close()


def _fill(folder: StateDirectory) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(NAME, flags, 0o600, dir_fd=folder.fd)
    try:
        have = os.fstat(fd).st_size
        disk = os.fstatvfs(fd)
        size = min(SIZE, have + disk.f_bavail * disk.f_frsize // 2)
        if have >= size:
            return
        if have == 0:
            folder.own(fd)
        # Written, not only allocated: a file system that compresses or deduplicates zeros would
        # give nothing back.
        os.lseek(fd, have, os.SEEK_SET)
        while have < size:
            have += os.write(fd, os.urandom(min(4096, size - have)))
    finally:
        os.close(fd)
