"""The session directory as a writer holds it: by descriptor, and checked against its path.

A directory may be deleted, replaced or made again while a process lives. ``Directory.current``
opens it anew when its path names another one; whoever still works in the old one keeps its own
``Held``, whose descriptor lives exactly as long as somebody refers to it. Ground floor.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Callable, Dict, Optional, Tuple

from relay.errors import BadResponse, NoDirectory, call_error
from relay.protocol import discard, file_mode

if TYPE_CHECKING:
    from relay.client.wakes import Lease

#: A directory's device and inode.
Identity = Tuple[int, int]

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Held:
    """One directory, open, until the last reference to it goes.

    ``leases`` are the watches on it, by the waiting place that took them; they end with it.

    Raises:
        NoDirectory: there is none at ``path``, or it may not be entered.
    """

    def __init__(self, path: str) -> None:
        try:
            self.fd = os.open(path, _OPEN_DIRECTORY)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise NoDirectory(
                f"the session directory {path!r} cannot be opened: {reason}"
            ) from None
        found = os.fstat(self.fd)
        self.path = path
        self.identity: Identity = (found.st_dev, found.st_ino)
        self.mode = file_mode(self.fd)
        self.leases: Dict[object, Lease] = {}

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if hasattr(self, "fd"):
            close(self.fd)

    def is_at_its_path(self) -> bool:
        """Tell whether the path still names this directory."""
        return identity(self.path) == self.identity

    def read(self, name: str, limit: int) -> Optional[bytes]:
        """Return the bytes of the response ``name`` and remove it; ``None`` where it is not there.

        Args:
            name: the response's file name.
            limit: the most bytes it may have.

        Raises:
            BadResponse: something else than a regular file has the name, or it cannot be read.
            CallError: ``too_large``. The file is removed then too.
        """
        try:
            fd = os.open(name, _OPEN_FILE, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadResponse(f"the response {name} cannot be read: {error.strerror}") from None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise BadResponse(f"the response {name} is not a regular file of its own")
            discard(self.fd, name)
            if found.st_size > limit:
                text = (
                    f"the response has {found.st_size} bytes; RELAY_MAX_RESPONSE_BYTES is {limit}"
                )
                raise call_error("too_large", text)
            data = os.read(fd, found.st_size)
            return data if len(data) == found.st_size else data + _rest(fd)
        finally:
            os.close(fd)


class Directory:
    """The directory that a path names, ``held`` as of the last look. Safe across threads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.held = Held(path)

    def current(self) -> Held:
        """Return the directory at the path.

        Raises:
            NoDirectory: there is none now.
        """
        held = self.held
        if identity(self.path) != held.identity:
            # RACE: two threads may both open the new one; the loser's closes with its call.
            held = self.held = Held(self.path)
        return held


def identity(path: str) -> Optional[Identity]:
    """Return the device and inode of what ``path`` names, or ``None``."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _rest(fd: int) -> bytes:
    """Return what one read has left of a file."""
    parts = [os.read(fd, 1 << 20)]
    while parts[-1]:
        parts.append(os.read(fd, 1 << 20))
    return b"".join(parts)
