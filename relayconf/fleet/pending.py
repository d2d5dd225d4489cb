"""The queue of a host: changes are added, and taken off once the server has them.

Whoever changes it holds its lock, for at most a moment; the file is replaced as a whole, so that a
reader sees the queue before or after.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from relayconf.errors import RelayconfError
from relayconf.fleet import waiting
from relayconf.fleet.engine import Change
from relayconf.fleet.record import Position
from relayconf.fleet.waiting import Waiting
from relayconf.state.directory import StateDirectory

#: The folder of locks, and the queue's.
_FOLDER, _LOCK = "locks", "fleet-pending.lock"

#: How long a change of the queue waits for another one, in seconds; then it goes on without.
_PATIENCE = 1.0

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Pending:
    """The changes of one host that wait for the server.

    Args:
        directory: the state directory; it stays the caller's to close.
    """

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory

    def read(self) -> tuple[Waiting, ...]:
        """Return what waits, in the order in which it was made."""
        return waiting.read(self._directory).changes

    def add(self, changes: Sequence[Change]) -> None:
        """Let changes wait; they are in force on this host from now on.

        Raises:
            OSError: they cannot be written; nothing has changed.
        """
        added = [Waiting(change.entry, change.expected) for change in changes]
        ids = {each.id for each in added}
        self._change(lambda there: [*(w for w in there if w.id not in ids), *added])

    def remove(self, ids: Iterable[str]) -> None:
        """Take changes off.

        Raises:
            OSError: the queue cannot be written; they are still on it.
        """
        gone = set(ids)
        self._change(lambda there: [each for each in there if each.id not in gone])

    def overtake(self, kill: Change) -> None:
        """Note what a kill is to be written on top of; what waits behind it did not know that.

        Nothing holds up a kill: where the queue cannot be written, it goes there all the same.
        """

        def edit(there: tuple[Waiting, ...]) -> list[Waiting]:
            after, behind = [], False
            for each in there:
                if each.id == kill.id:
                    behind = True
                    after.append(each._replace(expected=kill.expected))
                elif behind and each.entry.key == kill.entry.key:
                    knew = each.expected[:2] == kill.expected[:2]
                    after.append(each if knew else each._replace(expected=waiting.OVERTAKEN))
                else:
                    after.append(each)
            return after

        with suppress(OSError, RelayconfError):
            self._change(edit)

    def settle(self, change: Waiting, position: Position) -> None:
        """Take off a change that the server has, so that what waits behind it builds upon it.

        What was overtaken does not.

        Args:
            change: the change.
            position: of the entry that stands at the server now.

        Raises:
            OSError: the queue cannot be written; it is still on it.
        """

        def edit(there: tuple[Waiting, ...]) -> list[Waiting]:
            key = change.entry.key
            if all(each.id != change.id for each in there):
                # RACE: another one has settled it already, and what waits may have been made since.
                return list(there)
            rest = [each for each in there if each.id != change.id]
            return [
                each._replace(expected=position)
                if each.entry.key == key and each.expected != waiting.OVERTAKEN
                else each
                for each in rest
            ]

        self._change(edit)

    def _change(self, edit: Callable[[tuple[Waiting, ...]], list[Waiting]]) -> None:
        with self._locked():
            before = self.read()
            after = edit(before)
            if list(before) == after:
                return
            directory = self._directory
            temp = directory.prepare(waiting.NAME, waiting.render(after), durable=True)
            directory.rename(temp, waiting.NAME)
            directory.sync()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # RACE: one that is held up goes on without the lock; of two changes at the same instant
        # then one may be lost from the queue. Nothing may hold up a kill.
        folder = self._directory.folder(_FOLDER, make=True)
        if folder is None:
            yield
            return
        try:
            fd = os.open(_LOCK, _OPEN, 0o600, dir_fd=folder.fd)
        finally:
            folder.close()
        try:
            self._directory.own(fd)
            _acquire(fd)
            yield
        finally:
            os.close(fd)


def _acquire(fd: int) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.005)
        else:
            return
