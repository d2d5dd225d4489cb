"""One session's directory, held by its descriptor, and what a runner does in it.

Every operation is relative to the descriptor, so that nothing done to the path can lead it
elsewhere. The writer is hostile: names that it owns may be links, devices, directories or gone at
any moment; an operation then fails or refuses, and never blocks and never follows. Which request
is taken when is decided elsewhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from errno import EMFILE, ENFILE, ENOMEM

from relay.errors import RelayError
from relay.protocol import REQUEST_SUFFIX, RESPONSE_SUFFIX, discard, mode_of_files, publish
from relay.tools.registry import Failure

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_CLAIM = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

#: How long the kernel's clock for timestamps may lag behind the real one (one tick at 100 Hz),
#: doubled: a directory changed twice within it may show one and the same time.
COARSE_NS = 20_000_000


class DirectoryError(RelayError):
    """The session directory cannot be made, or is none."""

    code = "directory"


def make_directory(path: str) -> None:
    """Make the last component of ``path`` (0700) where it is missing.

    Raises:
        DirectoryError: its parent is missing, it is a file, or it cannot be made.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise DirectoryError(f"{path} is not a directory; name another path") from None
    except FileNotFoundError:
        parent = os.path.dirname(os.path.abspath(path))
        raise DirectoryError(
            f"{path}: its parent {parent} does not exist; make it first, only the last component "
            "is made for you"
        ) from None
    except OSError as error:
        raise DirectoryError(f"{path} cannot be made: {error.strerror}") from None


class SessionDirectory:
    """A session's directory while it is held open.

    ``identity`` is its device and inode, which no other directory has while it is held. It stays
    open until it is retired and its last user has released it. ``signals`` is whether what is
    published in it is to be signalled (see ``protocol.SIGNALS``).

    Raises:
        OSError: it cannot be opened, or is no directory.
    """

    __slots__ = ("_retired", "_users", "fd", "identity", "mode", "signals")

    def __init__(self, path: str, *, follow: bool = True, signals: bool = False) -> None:
        self.signals = signals
        self.fd = os.open(path, _OPEN_DIRECTORY | (0 if follow else os.O_NOFOLLOW))
        held = os.fstat(self.fd)
        self.identity = (held.st_dev, held.st_ino)
        self.mode = mode_of_files(held.st_mode)
        self._users = 0
        self._retired = False

    def hold(self) -> None:
        """Keep it open for one more user."""
        self._users += 1

    def release(self) -> None:
        """End one ``hold``."""
        self._users -= 1
        self._close_if_unused()

    def retire(self) -> None:
        """Close it as soon as nobody uses it any more."""
        self._retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._retired and self._users == 0 and self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @property
    def deleted(self) -> bool:
        """Whether it has been removed; nothing can be published in it any more."""
        return os.fstat(self.fd).st_nlink == 0

    def can_be_written(self) -> bool:
        """Whether names in it can be changed: without that, no request can be taken."""
        effective = os.access in os.supports_effective_ids
        return os.access(".", os.W_OK | os.X_OK, dir_fd=self.fd, effective_ids=effective)

    def takes_group(self, found: os.stat_result) -> bool:
        """Go by what the directory is now; True where its group began, or ceased, to share it."""
        mode = mode_of_files(found.st_mode)
        changed = mode != self.mode
        self.mode = mode
        return changed

    def changed_ns(self) -> int:
        """Return when a name in it last changed. By its ctime, which no writer can set."""
        return os.fstat(self.fd).st_ctime_ns

    def at(self, path: str) -> os.stat_result | None:
        """Return what ``path`` leads to, where that is still this very directory."""
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError:
            return None
        return found if (found.st_dev, found.st_ino) == self.identity else None

    def names(self) -> Iterator[str]:
        """Yield the names in it, unordered. Names that come or go meanwhile may be among them."""
        # A descriptor of its own: listings through copies of one descriptor share one position.
        fd = os.open(".", _OPEN_DIRECTORY, dir_fd=self.fd)
        try:
            entries = os.scandir(fd)
        finally:
            os.close(fd)
        with entries:
            for entry in entries:
                yield entry.name

    def claim(self, request: str, claim: str) -> None:
        """Take a request: from now on it is the claim's.

        Raises:
            FileNotFoundError: it was withdrawn, or another runner won.
            OSError: it cannot be taken.
        """
        os.rename(request + REQUEST_SUFFIX, claim, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def rename(self, old: str, new: str) -> bool:
        """Rename one of the relay's own names; False where that cannot be done."""
        try:
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError:
            # RACE: whoever renamed or removed it first has it; the others find nothing.
            return False
        return True

    def examine(self, name: str) -> os.stat_result | None:
        """Return what ``name`` itself is, or ``None`` where it is not there."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return None

    def read(self, name: str, found: os.stat_result, limit: int) -> bytes:
        """Return the bytes of a claim that ``examine`` found.

        Raises:
            Failure: it is not a regular file of its own, is larger than ``limit`` bytes, or cannot
                be read.
        """
        _judge(found, limit)
        try:
            fd = os.open(name, _OPEN_CLAIM, dir_fd=self.fd)
        except OSError as error:
            raise _unreadable(error) from None
        try:
            # RACE: a writer that swapped the file since it was examined is judged again.
            opened = os.fstat(fd)
            _judge(opened, limit)
            return _read(fd, opened.st_size, limit)
        except OSError as error:
            raise _unreadable(error) from None
        finally:
            os.close(fd)

    def respond(self, request: str, data: bytes) -> None:
        """Publish the answer of a request.

        Raises:
            OSError: it cannot be published.
        """
        self.publish(request + RESPONSE_SUFFIX, data)

    def publish(self, name: str, data: bytes) -> bool:
        """Publish a file; a directory that somebody put in its place is moved aside.

        Returns:
            Whether it was signalled.

        Raises:
            OSError: it cannot be published.
        """
        try:
            return publish(self.fd, name, data, mode=self.mode, signal=self.signals)
        except IsADirectoryError:
            self.set_aside(name)
            return publish(self.fd, name, data, mode=self.mode, signal=self.signals)

    def remove(self, name: str) -> None:
        """Remove a claim, whatever the writer made of it."""
        if discard(self.fd, name):
            return
        try:
            os.rmdir(name, dir_fd=self.fd)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            self.set_aside(name)

    def set_aside(self, name: str) -> None:
        """Give what stands at one of the relay's names a name that nobody looks at."""
        with suppress(OSError):
            aside = f"{name[:200]}.aside.{os.urandom(6).hex()}"
            os.rename(name, aside, src_dir_fd=self.fd, dst_dir_fd=self.fd)


def _judge(found: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Failure("bad_request", "the request is not a regular file")
    if found.st_nlink != 1:
        raise Failure("bad_request", "the request has more than one name")
    if found.st_size > limit:
        raise _too_large(limit)


def _read(fd: int, expected: int, limit: int) -> bytes:
    data = os.read(fd, expected + 1)
    if len(data) == expected:
        return data
    pieces, size = [data], len(data)
    while piece := os.read(fd, min(limit + 1 - size, 1 << 20)):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            break
    if size > limit:
        raise _too_large(limit)
    return data if len(pieces) == 1 else b"".join(pieces)


def _unreadable(error: OSError) -> Failure:
    """Blame the runner for what it has run out of, and the request for everything else."""
    code = "busy" if error.errno in (EMFILE, ENFILE, ENOMEM) else "bad_request"
    return Failure(code, f"the request cannot be read: {error.strerror}")


def _too_large(limit: int) -> Failure:
    return Failure("too_large", f"the request is larger than {limit} bytes")
