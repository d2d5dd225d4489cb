"""Reading the overrides: the last good document stays until another good one is there.

A process that starts finds the document, or rebuilds in memory what can be rebuilt. One that runs
keeps what it has when the document is damaged, gone, or its directory is. Nothing here writes, and
nothing raises: what is wrong is a problem, said once. Ground floor.
"""

from __future__ import annotations

import os
import stat
from typing import Iterator, List, NamedTuple, Optional, Tuple

from relayconf.errors import StateError
from relayconf.overrides import audit
from relayconf.overrides.document import EMPTY, MAX_BYTES, Broken, Document, parse
from relayconf.overrides.rebuild import rebuild
from relayconf.problems import Problem
from relayconf.state.directory import StateDirectory, find

NAME = "overrides.json"
LAST = "overrides.last.json"

_CHUNK = 1 << 16


class Reading(NamedTuple):
    """What was read: a document, and what is wrong.

    ``source`` is ``document``, ``rebuilt``, ``kept`` (the last good one), or ``nothing``.
    """

    document: Document
    problems: Tuple[Problem, ...]
    source: str


NOTHING = Reading(EMPTY, (), "nothing")


class Reader:
    """Reads one state directory's overrides, again and again.

    Args:
        path: the state directory; with ``None`` there is nothing to read.
        group: the group that shares it.
        for_owner: see ``relayconf.state.directory.find``.
    """

    def __init__(
        self, path: Optional[str], *, group: Optional[str] = None, for_owner: bool = False
    ) -> None:
        self.path = path
        self._group = group
        self._for_owner = for_owner
        self._data: Optional[bytes] = None
        self._good: Optional[Reading] = None

    def read(self) -> Reading:
        """Return what holds now. The same document is the same object."""
        if self.path is None:
            return NOTHING
        try:
            directory = find(self.path, group=self._group, for_owner=self._for_owner)
        except StateError as error:
            text = str(error)
            return self._keep(Problem("state-directory", NAME, text, self.path, raw=text))
        if directory is None:
            if self._good is None or self._good is NOTHING:
                self._good = NOTHING
                return NOTHING
            return self._keep(self._problem("is gone"))
        try:
            return self._read(directory)
        finally:
            directory.close()

    def _read(self, directory: StateDirectory) -> Reading:
        try:
            data = directory.read(NAME, limit=MAX_BYTES)
        except OSError as error:
            return self._without(directory, f"cannot be read: {error.strerror or error}")
        if data is None:
            return self._without(directory, None)
        if data == self._data and self._good is not None:
            return self._good
        try:
            document = parse(data)
        except Broken as broken:
            return self._without(directory, f"cannot be used: {broken}")
        self._data = data
        self._good = Reading(document, self._faults(document), "document")
        return self._good

    def _without(self, directory: StateDirectory, reason: Optional[str]) -> Reading:
        """Go on without a document: with the last good one, else with a rebuilt one."""
        good = self._good
        if good is not None and good.source == "rebuilt":
            return good
        if good is NOTHING and reason is None:
            # One that another process is just writing for the first time is no lost one.
            return good
        if good is not None and good is not NOTHING:
            return self._keep(self._problem(reason or "is gone"))
        document = rebuilt(directory)
        if document is None:
            self._good = NOTHING
            return NOTHING if reason is None else self._keep(self._problem(reason))
        problem = self._problem(f"{reason or 'is gone'}; rebuilt from the copy and the audit")
        self._data = None
        self._good = Reading(document, (problem, *self._faults(document)), "rebuilt")
        return self._good

    def _keep(self, problem: Problem) -> Reading:
        if self._good is None:
            return NOTHING._replace(problems=(problem,))
        # Whatever is there next is read anew, even where it is what was there before.
        self._data = None
        return Reading(self._good.document, (problem, *self._good.problems), "kept")

    def _problem(self, what: str) -> Problem:
        path = os.path.join(self.path or "", NAME)
        kept = self._good.document if self._good is not None else None
        message = f"the document of overrides {what}"
        if kept is not None:
            message += f"; keeping generation {kept.generation} in force"
        raw = f"{message} {'' if kept is None else kept.generation}"
        return Problem("overrides-broken", NAME, message, path, raw=raw)

    def _faults(self, document: Document) -> Tuple[Problem, ...]:
        path = os.path.join(self.path or "", NAME)
        problems: List[Problem] = []
        for item in document.quarantined:
            message = f"an override cannot be used and is passed over: {item.reason}"
            problems.append(
                Problem("override-quarantined", item.name, message, path, raw=repr(item.raw)[:500])
            )
        problems.extend(
            Problem("override-damaged", NAME, fault, path, raw=fault) for fault in document.faults
        )
        return tuple(problems)


def rebuilt(directory: StateDirectory) -> Optional[Document]:
    """Return what the copy and the audit of a directory amount to; ``None`` for nothing."""
    try:
        last = directory.read(LAST, limit=MAX_BYTES)
    except OSError:
        last = None
    return rebuild(last, audit_lines(directory))


def audit_lines(directory: StateDirectory) -> Iterator[bytes]:
    """Yield the lines of the audit, without their ends; none where it cannot be read."""
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(audit.NAME, flags, dir_fd=directory.fd)
    except OSError:
        return
    rest = b""
    try:
        while stat.S_ISREG(os.fstat(fd).st_mode):
            piece = os.read(fd, _CHUNK)
            if not piece:
                break
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
            if len(rest) > audit.MAX_LINE:
                # Not of our making; it is passed on in pieces, each of which is no line.
                yield rest
                rest = b""
    except OSError:
        return
    finally:
        os.close(fd)
    if rest:
        yield rest
