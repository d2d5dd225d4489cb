"""One attempt at a change of the overrides: compose, write under temporary names, audit, rename.

Up to the rename of the document nothing has changed for anybody; after it everything has. A kill
goes through without the audit where that cannot be written, and with the last reserve of a full
disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field

from relayconf.errors import WriteError
from relayconf.overrides import audit, reserve
from relayconf.overrides.document import (
    MAX_BYTES,
    Document,
    Json,
    Override,
    Pin,
    Quarantined,
    entry,
    render,
)
from relayconf.overrides.journal import Journal
from relayconf.overrides.reading import LAST, NAME
from relayconf.state.clock import Clock, stamp
from relayconf.state.directory import StateDirectory

#: What there is one entry for: target, name, kind.
Key = tuple[str, str, str]

#: Where something goes that stood in the document's place and was none, followed by the time.
ASIDE = "overrides.broken"


@dataclass(frozen=True, slots=True)
class Edit:
    """What a change makes of the document.

    Attributes:
        overrides: all that are in force afterwards.
        quarantined: the unusable entries that stay.
        lines: what the audit says of it, one line each; none where nothing changes.
        urgent: whether it must go through even where it cannot be audited.
        made: what it puts into force.
        removed: what it takes out of force.
    """

    overrides: tuple[Override, ...]
    quarantined: tuple[Quarantined, ...]
    lines: tuple[Json, ...] = ()
    urgent: bool = False
    made: tuple[Override, ...] = ()
    removed: tuple[Override, ...] = ()

    def holds(self, document: Document, later: Container[Key] = ()) -> bool:
        """Whether a document has everything that this puts into force, and nothing it takes.

        Args:
            document: the one that is there.
            later: what somebody else has changed since; that counts for nothing.
        """
        there = {override.id for override in document.overrides}
        made, removed = (
            {o.id for o in each if o.key not in later} for each in (self.made, self.removed)
        )
        return made <= there and not removed & there


@dataclass(slots=True)
class Base:
    """The document that a change starts from.

    Attributes:
        document: what holds, rebuilt where it had to be.
        data: the bytes that stand there, ``None`` for none.
        broken: why the document had to be rebuilt, or ``None``.
        alarms: what a person should hear of.
    """

    document: Document
    data: bytes | None
    broken: str | None
    alarms: list[str] = field(default_factory=list)


class Attempt:
    """One attempt.

    Args:
        directory: the state directory.
        base: what to start from.
        edit: what to make of it.
        ended: those of its overrides whose time is over.
        locked: whether nobody else may be writing.
        beat: is called whenever a step is done that may take its time.
        least: the new document's generation is higher.
        clock: the time.
    """

    def __init__(
        self,
        directory: StateDirectory,
        base: Base,
        edit: Edit,
        ended: list[Override],
        *,
        locked: bool,
        beat: Callable[[], object],
        least: int,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._base = base
        self._edit = edit
        self._ended = ended
        self._locked = locked
        self._beat = beat
        self._least = least
        self._clock = clock

    def run(self) -> Document | None:
        """Write the change; ``None`` where another one came between.

        Raises:
            WriteError: it cannot be written; nothing was changed.
        """
        try:
            return self._run()
        except OSError as error:
            if not self._release_reserve(error):
                raise self._failed(error) from None
        try:
            return self._run()
        except OSError as error:
            raise self._failed(error) from None

    def _release_reserve(self, error: OSError) -> bool:
        full = error.errno in reserve.FULL
        return full and self._edit.urgent and reserve.release(self._directory)

    def _failed(self, error: OSError) -> WriteError:
        reason = error.strerror or str(error)
        if error.errno in reserve.FULL:
            reason += f"; free some space on the disk that holds {self._directory.path}"
        text = f"the overrides in {self._directory.path} cannot be written: {reason}"
        return WriteError(f"{text}; nothing was changed")

    def _run(self) -> Document | None:
        try:
            journal = Journal(self._directory)
        except OSError as error:
            return self._run_unaudited(error)
        try:
            return self._run_audited(journal)
        finally:
            journal.close()

    def _run_audited(self, journal: Journal) -> Document | None:
        document, lines = self._composed(journal)
        prepared = self._prepare(document)
        # RACE: a writer without the lock, or whom one such has overtaken, must find between this
        # look and the rename neither another line nor another document. Where one was stopped just
        # here for over a second, the chain has a fork that ``--verify`` names; no change is lost.
        journal.be_alone()
        if self._moved() or journal.has_grown():
            self._drop(prepared)
            return None
        try:
            journal.append(lines, locked=self._locked)
        except OSError as error:
            self._drop(prepared)
            if self._release_reserve(error):
                return self._run_audited(journal)
            return self._run_unaudited(error)
        self._beat()
        if self._moved():
            # Others went on without this one, and have called its line void.
            self._drop(prepared)
            return None
        try:
            return self._commit(document, prepared)
        except OSError:
            journal.take_back(locked=self._locked)
            raise

    def _run_unaudited(self, error: OSError) -> Document:
        """Write an urgent change although the audit cannot be; the document keeps its lines."""
        reason = error.strerror or str(error)
        if not self._edit.urgent:
            text = f"the audit in {self._directory.path} cannot be written: {reason}"
            raise WriteError(f"{text}; nothing was changed") from None
        before = self._base.document
        generation = max(before.generation, self._least) + 1
        now = stamp(self._clock.wall())
        owed = [{"at": now, "generation": generation, **line} for line in self._edit.lines]
        pin = before.audit._replace(owed=(*before.audit.owed, *owed))
        document = self._document(generation, pin)
        document = self._commit(document, self._prepare(document))
        self._base.alarms.append(
            f"the audit cannot be written: {reason}; the change is in force, and {NAME} keeps its "
            "line for the next change to write"
        )
        return document

    def _composed(self, journal: Journal) -> tuple[Document, list[Json]]:
        """Return the new document, and the lines of the audit that lead to it."""
        before = self._base.document
        pin = before.audit._replace(owed=())
        if journal.tail.seq >= pin.seq:
            pin = journal.tail
        generation = max(before.generation, journal.generation, self._least) + 1
        lines = []
        for body in self._bodies(journal):
            line = audit.chained({"generation": generation, **body}, pin)
            pin = Pin(line["seq"], line["hash"])
            lines.append(line)
        return self._document(generation, pin), lines

    def _bodies(self, journal: Journal) -> list[Json]:
        """Return what the audit is to say, what it was owed first."""
        base, now = self._base, stamp(self._clock.wall())
        bodies: list[Json] = []
        if base.broken is not None:
            bodies.append({"action": "rebuild", "at": now, "note": base.broken})
        elif base.document.audit.seq and (orphans := journal.past(base.document.audit)):
            note = "these lines are not in the document: their change was interrupted or undone"
            bodies.append({"action": "void", "at": now, "of": orphans, "note": note})
        bodies.extend(
            {
                "action": "expire",
                "at": now,
                **entry(override),
                "actor": "auto",
                "reason": "its time was over",
            }
            for override in self._ended
        )
        bodies.extend({"at": now, **line} for line in self._edit.lines)
        for body in bodies:
            # An entry's own generation is that of its making; a line's is that of its change.
            body.pop("generation", None)
        return [*base.document.audit.owed, *bodies]

    def _document(self, generation: int, pin: Pin) -> Document:
        kept = tuple(
            override if override.generation else override._replace(generation=generation)
            for override in self._edit.overrides
            if override not in self._ended
        )
        boot = self._clock.boot_id()
        written = (boot, self._clock.boot_ms()) if boot else None
        return Document(generation, pin, kept, self._edit.quarantined, written=written)

    def _prepare(self, document: Document) -> tuple[str, str]:
        """Write the copy and the document under temporary names."""
        data = render(document)
        if len(data) > MAX_BYTES:
            raise WriteError(
                f"{NAME} would be larger than {MAX_BYTES} bytes; restore something first; nothing "
                "was changed"
            )
        copy = self._directory.prepare(LAST, data, durable=True)
        self._beat()
        try:
            prepared = copy, self._directory.prepare(NAME, data, durable=True)
        except BaseException:
            self._directory.remove(copy)
            raise
        self._beat()
        return prepared

    def _drop(self, prepared: tuple[str, str]) -> None:
        for temp in prepared:
            self._directory.remove(temp)

    def _moved(self) -> bool:
        """Whether the document is another than the one that the change starts from."""
        try:
            return self._directory.read(NAME, limit=MAX_BYTES) != self._base.data
        except OSError:
            return False

    def _commit(self, document: Document, prepared: tuple[str, str]) -> Document:
        self._clear_the_way()
        copy, new = prepared
        try:
            self._directory.rename(copy, LAST)
            # RACE: who renames between the look at the document and this rename loses; only a
            # writer without the lock can, and it looks again.
            self._directory.rename(new, NAME)
        except OSError:
            self._drop(prepared)
            raise
        with suppress(OSError):
            self._directory.sync()
        return document

    def _clear_the_way(self) -> None:
        """Keep what is broken under another name; a file has both, so that it is never missing."""
        fd = self._directory.fd
        if self._base.broken is not None:
            with suppress(OSError):
                os.link(NAME, self._aside(), src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        for name in (LAST, NAME):
            with suppress(OSError):
                if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    os.rename(name, self._aside(), src_dir_fd=fd, dst_dir_fd=fd)

    def _aside(self) -> str:
        unique = os.urandom(2).hex()
        return f"{ASIDE}-{stamp(self._clock.wall()).replace(':', '')}-{unique}.json"
