"""Changing the overrides: under a lock, audited, atomic, durable; and never held up by any of it.

A change reads the document, or rebuilds a broken one, edits it and writes it. Another change that
comes between makes it start over, so that concurrent ones lose nothing. A command that is held up
by somebody who does not get on writes without the lock, and looks again; of two such commands the
later one counts, by the audit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from relayconf.errors import WriteError
from relayconf.overrides import audit, reserve
from relayconf.overrides.attempt import Attempt, Base, Edit
from relayconf.overrides.document import EMPTY, MAX_BYTES, Broken, Document, entry, parse
from relayconf.overrides.journal import Journal
from relayconf.overrides.lock import QUEUE, Lock
from relayconf.overrides.reading import LAST, NAME, rebuilt
from relayconf.overrides.ttl import is_over
from relayconf.state.clock import SYSTEM, Clock
from relayconf.state.directory import StateDirectory

#: How often a change starts over because another one came between.
_ATTEMPTS = 50

#: How long a change without the lock makes sure that it stays, at most, and between two looks, in
#: seconds.
_STAYS = 0.3
_LONGEST = 5.0
_LOOK = 0.02

#: A temporary file that is older was left by a crash, in seconds.
_STALE = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change.

    Attributes:
        document: what is in force now.
        changed: whether anything was written.
        alarms: what went wrong on the way without stopping it, for a person.
        edit: what was written, if anything.
    """

    document: Document
    changed: bool
    alarms: tuple[str, ...] = ()
    edit: Edit | None = None


class Store:
    """The overrides of one state directory, to be changed.

    Args:
        directory: the state directory; it stays the caller's to close.
        clock: see ``relayconf.state.clock``.
        least: generations that were seen elsewhere; a new document's is higher.
    """

    def __init__(self, directory: StateDirectory, *, clock: Clock = SYSTEM, least: int = 0) -> None:
        self._directory = directory
        self._clock = clock
        self._least = least

    def read(self) -> Document:
        """Return what is in force, rebuilt where the document cannot be used."""
        return self._base().document

    def change(self, edit: Callable[[Document], Edit]) -> Outcome:
        """Change the document, also where another change comes between.

        Args:
            edit: given the document, says what to make of it. It may be asked several times.

        Raises:
            WriteError: it cannot be written; nothing was changed.
        """
        lock = Lock(self._directory)
        try:
            if lock.acquire():
                return self._write(edit, lock)
            outcome = self._write_in_turn(edit, lock)
            settled = lock.held or not outcome.changed
            return outcome if settled else self._insist(edit, lock, outcome)
        finally:
            lock.release()

    def expire(self) -> bool:
        """Remove what has ended, where nobody else is writing; tell whether anything was.

        Raises:
            WriteError: it cannot be written.
        """
        lock = Lock(self._directory)
        try:
            if not lock.try_acquire():
                return False
            return self._write(lambda d: Edit(d.overrides, d.quarantined), lock).changed
        finally:
            lock.release()

    def put_back(self, document: Document) -> bool:
        """Write a document whose directory was emptied, where nobody was faster.

        Raises:
            WriteError: it cannot be written.
        """
        lock = Lock(self._directory)
        try:
            if not lock.try_acquire() or any(map(self._exists, (NAME, LAST, audit.NAME))):
                return False
            lines = tuple(
                {**entry(override), "action": override.kind, "note": "put back by a live instance"}
                for override in document.overrides
            )
            kept = Edit(document.overrides, document.quarantined, lines, urgent=True)
            self._least = max(self._least, document.generation)
            return self._write(lambda _: kept, lock).changed
        finally:
            lock.release()

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._directory.fd)
        except OSError:
            return False
        return True

    def _write_in_turn(self, edit: Callable[[Document], Edit], lock: Lock) -> Outcome:
        """Write although the lock is held up, one after another."""
        queue = Lock(self._directory, QUEUE)
        try:
            queue.acquire()
            lock.try_acquire()
            return self._write(edit, lock, queue)
        finally:
            queue.release()

    def _insist(self, edit: Callable[[Document], Edit], lock: Lock, outcome: Outcome) -> Outcome:
        """Make sure that a change made without the lock stays."""
        # RACE: a writer that was stopped between its last look and its rename puts an older
        # document over this one; it loses, since the change is made again on top of it.
        now = time.monotonic()
        until, latest = now + _STAYS, now + _LONGEST
        while time.monotonic() < min(until, latest):
            time.sleep(_LOOK)
            if self._stays(outcome):
                continue
            again = self._write_in_turn(edit, lock)
            if again.changed:
                outcome = again
                until = time.monotonic() + _STAYS
        return outcome

    def _stays(self, outcome: Outcome) -> bool:
        """Whether what was written is there still, or somebody has changed it since."""
        base, edit = self._base(), outcome.edit
        if edit is None or base.broken is not None:
            return edit is None
        if edit.holds(base.document):
            return True
        try:
            journal = Journal(self._directory)
        except OSError:
            return False
        try:
            return edit.holds(base.document, journal.later(outcome.document.audit.seq))
        finally:
            journal.close()

    def _write(self, edit: Callable[[Document], Edit], lock: Lock, *turns: Lock) -> Outcome:
        def beat() -> None:
            for each in (lock, *turns):
                each.beat()

        for _ in range(_ATTEMPTS):
            base = self._base()
            wanted = edit(base.document)
            ended = [o for o in wanted.overrides if is_over(o.end, self._clock)]
            if not wanted.lines and not ended:
                return Outcome(base.document, changed=False)
            written = Attempt(
                self._directory,
                base,
                wanted,
                ended,
                locked=lock.held,
                beat=beat,
                least=self._least,
                clock=self._clock,
            ).run()
            if written is not None:
                self._tidy(locked=lock.held)
                return Outcome(written, changed=True, alarms=tuple(base.alarms), edit=wanted)
        raise WriteError("the overrides change faster than this change can be made; try again")

    def _base(self) -> Base:
        """Read the document to start from. A broken one is rebuilt."""
        broken = None
        data: bytes | None = None
        try:
            data = self._directory.read(NAME, limit=MAX_BYTES)
            if data is not None:
                return Base(parse(data), data, None)
        except Broken as error:
            broken = str(error)
        except OSError as error:
            broken = error.strerror or str(error)
        document = rebuilt(self._directory)
        if document is None and broken is None:
            return Base(EMPTY, None, None)
        what = "is gone" if broken is None else f"could not be used ({broken})"
        alarm = f"{NAME} {what}; it was rebuilt from its copy and the audit"
        return Base(document or EMPTY, data, broken or "gone", [alarm])

    def _tidy(self, *, locked: bool) -> None:
        """Lay in the reserve again, and remove what crashes have left."""
        reserve.replenish(self._directory)
        if not locked:
            return
        with suppress(OSError):
            for name in os.listdir(self._directory.fd):
                if name.startswith(".") and name.endswith(".tmp"):
                    found = os.stat(name, dir_fd=self._directory.fd, follow_symlinks=False)
                    if abs(self._clock.wall() - found.st_mtime) > _STALE:
                        self._directory.remove(name)
