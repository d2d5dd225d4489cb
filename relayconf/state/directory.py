"""One state directory, held by its descriptor: judged once, then read and written through it.

What stands in it is trusted as far as its owner and its group are; it is never a directory that
everybody can write. Files get its owner and its group before they get their names, so that a kill
under sudo stays readable to the process that it is for. Ground floor.
"""

from __future__ import annotations

import os
import stat
from typing import Optional, Tuple

from relayconf.errors import StateError

FIX = "set RELAYCONF_STATE_DIR to a directory that this user can write and nobody else can"

#: A bound on any file that is read here: real ones are a few KiB. The audit is not read through it.
MAX_BYTES = 4 * 1024 * 1024

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNASKED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class StateDirectory:
    """A directory of state, or a folder in one.

    Attributes:
        path: where it was found; nothing is opened by it.
        fd: the descriptor that holds it.
        identity: device and inode, which no other directory has while this one is held.
        shared: whether its group may write it (``RELAYCONF_STATE_GROUP``).
    """

    __slots__ = ("_owner", "fd", "identity", "path", "shared")

    def __init__(self, path: str, fd: int) -> None:
        found = os.fstat(fd)
        self.path = path
        self.fd = fd
        self.identity = (found.st_dev, found.st_ino)
        self.shared = bool(found.st_mode & stat.S_ISGID and found.st_mode & stat.S_IWGRP)
        self._owner = (found.st_uid, found.st_gid)

    def close(self) -> None:
        """Let go of it. Doing so twice does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    @property
    def file_mode(self) -> int:
        """The mode of a file in it."""
        return 0o660 if self.shared else 0o600

    def is_there(self) -> bool:
        """Whether its path still leads to it."""
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.identity

    def read(self, name: str, *, limit: int = MAX_BYTES) -> Optional[bytes]:
        """Return the bytes of a file, or ``None`` where there is none.

        A symbolic link is followed: whoever can place one here can write the file itself.

        Raises:
            OSError: it cannot be read, is no regular file, or is larger than ``limit`` bytes.
        """
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f"{name} is no regular file")
            if found.st_size > limit:
                raise OSError(f"{name} is larger than {limit} bytes")
            return read_all(fd, limit)
        finally:
            os.close(fd)

    def publish(self, name: str, data: bytes) -> None:
        """Give a file new content, at once and whole; not made to outlive a loss of power.

        Raises:
            OSError: it cannot be written; what was there before still is.
        """
        self.rename(self.prepare(name, data, durable=False), name)

    def prepare(self, name: str, data: bytes, *, durable: bool) -> str:
        """Write a file under a temporary name, and return that name.

        Raises:
            OSError: it cannot be written; nothing is left of it.
        """
        temp = f".{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
        fd = os.open(temp, _NEW, 0o600, dir_fd=self.fd)
        try:
            try:
                self.own(fd)
                write_all(fd, data)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
        except BaseException:
            self.remove(temp)
            raise
        return temp

    def rename(self, old: str, new: str) -> None:
        """Rename a file; one that has the new name is replaced.

        Raises:
            OSError: it cannot be renamed.
        """
        try:
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            self.remove(old)
            raise

    def remove(self, name: str) -> bool:
        """Remove a file; tell whether it was there and is gone."""
        try:
            os.unlink(name, dir_fd=self.fd)
        except OSError:
            return False
        return True

    def sync(self) -> None:
        """Make renames outlive a loss of power.

        Raises:
            OSError: the file system cannot.
        """
        os.fsync(self.fd)

    def own(self, fd: int) -> None:
        """Give a file of this process's making the directory's owner, group and mode."""
        found = os.fstat(fd)
        uid, gid = self._owner
        # Only root may give a file away; what the group may read and write serves everybody else.
        uid = uid if os.geteuid() == 0 else found.st_uid
        gid = gid if os.geteuid() == 0 or self.shared else found.st_gid
        if (uid, gid) != (found.st_uid, found.st_gid):
            _give(fd, uid, gid)
        os.fchmod(fd, self.file_mode)

    def folder(self, name: str, *, make: bool) -> Optional[StateDirectory]:
        """Open a folder in it, made where it is missing and ``make`` is true.

        Returns:
            ``None`` where there is none.

        Raises:
            OSError: it cannot be made or opened.
        """
        made = make and _made(name, dir_fd=self.fd)
        try:
            fd = os.open(name, _OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        if made:
            self._own_folder(fd)
        return StateDirectory(os.path.join(self.path, name), fd)

    def _own_folder(self, fd: int) -> None:
        uid, gid = self._owner
        if os.geteuid() == 0 or self.shared:
            _give(fd, uid if os.geteuid() == 0 else -1, gid)
        os.fchmod(fd, 0o2770 if self.shared else 0o700)


def find(
    path: str, *, group: Optional[str] = None, for_owner: bool = False
) -> Optional[StateDirectory]:
    """Open a state directory for reading; ``None`` where there is none.

    Args:
        path: the directory.
        group: the name or number of the group that shares it.
        for_owner: root acts for whoever owns it, as a command under sudo does, instead of obeying.

    Raises:
        StateError: it cannot be opened, or cannot be trusted.
    """
    try:
        fd = os.open(path, _OPEN_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.lexists(path):
            raise StateError(f"the state directory {path} is not a directory: {FIX}") from None
        return None
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from None
    return _judged(path, fd, _group(group), for_owner=for_owner)


def make(path: str, *, group: Optional[str] = None, for_owner: bool = False) -> StateDirectory:
    """Open a state directory, made where it is missing: 0700, or 2770 for a group.

    Raises:
        StateError: it cannot be made or opened, or cannot be trusted.
    """
    gid = _group(group)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        made = _made(path)
        fd = os.open(path, _OPEN_DIRECTORY)
    except NotADirectoryError:
        raise StateError(f"the state directory {path} is not a directory: {FIX}") from None
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from None
    if gid is not None:
        _share(fd, gid, made=made)
    elif made and for_owner and os.geteuid() == 0:
        _give_to_owner_above(path, fd)
    return _judged(path, fd, gid, for_owner=for_owner)


def read_all(fd: int, limit: int) -> bytes:
    """Read a file from where it stands, at most ``limit`` bytes."""
    pieces = []
    left = limit
    while left > 0:
        piece = os.read(fd, min(left, 1 << 20))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def write_all(fd: int, data: bytes) -> None:
    """Write everything.

    Raises:
        OSError: it does not fit, or cannot be written.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _give(fd: int, uid: int, gid: int) -> None:
    try:
        os.fchown(fd, uid, gid)
    except PermissionError:
        # In a user namespace root may not give files to everybody; its own will do there.
        return


def _made(path: str, *, dir_fd: Optional[int] = None) -> bool:
    try:
        os.mkdir(path, 0o700, dir_fd=dir_fd)
    except FileExistsError:
        return False
    return True


def _share(fd: int, gid: int, *, made: bool) -> None:
    """Give a directory of one's own to its group, with what was made before it was shared."""
    found = os.fstat(fd)
    if not made and found.st_uid != os.geteuid():
        return
    try:
        if not made:
            _share_contents(fd, gid)
        if not _is_shared(found, gid):
            os.fchown(fd, -1, gid)
            os.fchmod(fd, 0o2770)
    except OSError:
        # Whoever is no member of the group cannot; it is judged as it is.
        return


def _share_contents(folder: int, gid: int) -> None:
    """Share what is in a folder and is not shared yet: all of it before the folder itself."""
    for name in os.listdir(folder):
        try:
            fd = os.open(name, os.O_RDONLY | _UNASKED, dir_fd=folder)
        except OSError:
            continue  # another user's, gone, or no file
        try:
            found = os.fstat(fd)
            is_folder = stat.S_ISDIR(found.st_mode)
            mode = 0o2770 if is_folder else 0o660
            if found.st_uid != os.geteuid() or not (is_folder or stat.S_ISREG(found.st_mode)):
                continue
            if (found.st_gid, stat.S_IMODE(found.st_mode)) == (gid, mode):
                continue
            if is_folder:
                _share_contents(fd, gid)
            os.fchown(fd, -1, gid)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)


def _give_to_owner_above(path: str, fd: int) -> None:
    """Give a directory that root made for a command to whoever owns its parent."""
    above = os.stat(os.path.dirname(path))
    if above.st_uid != 0:
        os.fchown(fd, above.st_uid, above.st_gid)


def _is_shared(found: os.stat_result, gid: int) -> bool:
    return found.st_gid == gid and stat.S_IMODE(found.st_mode) & 0o2770 == 0o2770


def _judged(path: str, fd: int, gid: Optional[int], *, for_owner: bool) -> StateDirectory:
    try:
        _judge(path, os.fstat(fd), gid, for_owner=for_owner)
    except BaseException:
        os.close(fd)
        raise
    return StateDirectory(path, fd)


def _judge(path: str, found: os.stat_result, gid: Optional[int], *, for_owner: bool) -> None:
    if found.st_mode & stat.S_IWOTH:
        raise StateError(f"the state directory {path} can be written by everybody: {FIX}")
    me = os.geteuid()
    if found.st_uid in (0, me) or found.st_gid == gid or (for_owner and me == 0):
        return
    raise StateError(
        f"the state directory {path} belongs to another user (uid {found.st_uid}): share it "
        f"through RELAYCONF_STATE_GROUP, or {FIX}"
    )


def _unusable(path: str, error: Exception) -> StateError:
    at, reason = _facts(error)
    where = f"{at}: " if at and at != path else ""
    return StateError(f"the state directory {path} cannot be used ({where}{reason}): {FIX}")


def _facts(error: Exception) -> Tuple[Optional[str], str]:
    if isinstance(error, OSError):
        return error.filename, error.strerror or str(error)
    return None, str(error)


def _group(group: Optional[str]) -> Optional[int]:
    if group is None or not group.strip():
        return None
    group = group.strip()
    if group.isascii() and group.isdigit() and len(group) < 11:
        return int(group)
    import grp  # noqa: PLC0415 - only where a group is named

    try:
        return grp.getgrnam(group).gr_gid
    except (KeyError, ValueError):
        raise StateError(
            f"RELAYCONF_STATE_GROUP names the group {group[:60]!a}, which does not exist"
        ) from None
