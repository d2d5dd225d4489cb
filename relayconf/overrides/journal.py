"""Writing the audit: lines are appended, made durable, and taken back where the change failed.

One open file for one change. Whoever holds the store's lock may also cut off what a crash left half
written; it is kept in a file beside it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from relayconf.overrides import audit
from relayconf.overrides.document import HIGHEST, Json, Pin
from relayconf.state.directory import StateDirectory, read_all, write_all

#: Where the pieces of lines go that a crash left at the end of the audit.
TORN = "audit.torn"

#: What a line may say that was done to an override.
CHANGES = ("kill", "set", "restore", "expire")

#: How long to wait until others have appended, and between two tries, in seconds.
_PATIENCE = 1.0
_PAUSE = 0.002

_TAIL = 2 * audit.MAX_LINE


class Journal:
    """The audit of one state directory, open for one change.

    ``tail`` is its last whole line, ``generation`` that line's generation; both are 0 where there
    is none. ``past`` are the numbers of the lines at its end that came after a given pin.

    Raises:
        OSError: it cannot be opened or read.
    """

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._fd = os.open(audit.NAME, flags, 0o600, dir_fd=directory.fd)
        try:
            found = _judged(os.fstat(self._fd))
            if found.st_size == 0:
                directory.own(self._fd)
            self._size = found.st_size
            self._texts, self._torn = self._read_tail()
        except BaseException:
            os.close(self._fd)
            raise
        last = next(self._backwards(), None)
        self.tail = Pin() if last is None else Pin(last["seq"], last["hash"])
        generation = 0 if last is None else last.get("generation")
        self.generation = generation if type(generation) is int and generation <= HIGHEST else 0

    def past(self, pin: Pin) -> list[int]:
        """Return the numbers of the lines at the end that came after ``pin``."""
        later = takewhile(lambda line: line["seq"] > pin.seq, self._backwards())
        return [line["seq"] for line in later][::-1]

    def later(self, seq: int) -> set[tuple[str, str, str]]:
        """Return what was changed by the lines at the end after number ``seq``, void ones aside."""
        bodies = [line for line in self._backwards() if line["seq"] > seq]
        void: list[object] = []
        for line in bodies:
            of = line.get("of")
            void.extend(of if line.get("action") == "void" and isinstance(of, list) else [])
        return {
            (str(line.get("target")), str(line.get("name")), str(line.get("kind")))
            for line in bodies
            if line.get("action") in CHANGES and line["seq"] not in void
        }

    def be_alone(self) -> None:
        """Keep others from appending until this is closed; nobody waits for that more than 1 s."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_PAUSE)

    def has_grown(self) -> bool:
        """Whether somebody else has appended meanwhile."""
        return os.fstat(self._fd).st_size != self._size

    def append(self, lines: Sequence[Json], *, locked: bool) -> None:
        """Append lines, and make them durable.

        Args:
            lines: chained already.
            locked: whether nobody else may be writing; only then anything is cut off.

        Raises:
            OSError: they cannot be written; nothing was.
        """
        data = b"".join(map(audit.encode, lines))
        if self._torn and locked:
            self._set_torn_aside()
        elif self._torn or not self._ends_whole():
            data = b"\n" + data
        try:
            write_all(self._fd, data)
            os.fsync(self._fd)
        except OSError:
            self.take_back(locked=locked)
            raise

    def take_back(self, *, locked: bool) -> None:
        """Undo ``append``, for a change that failed after it."""
        if not locked:
            return
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            # The lines stay; the next change says of them that they are not in the document.
            return

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _backwards(self) -> Iterator[Json]:
        """Yield the whole lines at the end, the last one first."""
        return (line for text in reversed(self._texts) if (line := audit.parse(text)) is not None)

    def _read_tail(self) -> tuple[list[bytes], bytes]:
        """Return the last lines as they stand, and what is no whole line behind them."""
        start = max(0, self._size - _TAIL)
        os.lseek(self._fd, start, os.SEEK_SET)
        data = read_all(self._fd, self._size - start)
        *texts, rest = data.split(b"\n")
        if start:
            texts = texts[1:]
        if rest and audit.parse(rest) is not None:
            return [*texts, rest], b""
        return texts, rest

    def _ends_whole(self) -> bool:
        return self._size == 0 or os.pread(self._fd, 1, self._size - 1) == b"\n"

    def _set_torn_aside(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(TORN, flags, 0o600, dir_fd=self._directory.fd)
        try:
            self._directory.own(fd)
            write_all(fd, self._torn + b"\n")
        finally:
            os.close(fd)
        self._size -= len(self._torn)
        os.ftruncate(self._fd, self._size)
        self._torn = b""


def _judged(found: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise OSError(f"{audit.NAME} is no file of its own")
    return found
