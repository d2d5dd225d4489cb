"""Keeping: the last good file of a host, written by whichever of its processes comes first.

All of them know the same, or nearly: one that finds the file as it would write it leaves it, one
that finds kills in it that it has not seen takes them over, and none puts an older state over a
newer one.
"""

from __future__ import annotations

import os

from relayconf.errors import StateError
from relayconf.fleet import lastgood
from relayconf.fleet.known import Known, Moment
from relayconf.fleet.view import View
from relayconf.state.clock import SYSTEM, Clock
from relayconf.state.directory import StateDirectory, find


class Keeper:
    """Keeps one host's file.

    Args:
        path: the state directory; with ``None`` nothing is kept.
        group: the group that shares it.
        clock: of this host.
    """

    def __init__(
        self, path: str | None, *, group: str | None = None, clock: Clock = SYSTEM
    ) -> None:
        self._path = path
        self._group = group
        self._clock = clock
        self._identity: object = None
        self._gist: object = None

    def load(self, view: View) -> str | None:
        """Take over what the file says; return what is wrong with it."""
        directory = self.open()
        if directory is None:
            return None
        try:
            known, fault = lastgood.read(directory)
            view.begin(known)
            return fault
        finally:
            directory.close()

    def newer(self, known: Known) -> Known:
        """Return the later of what is known and what the file says, with the kills of both.

        Nothing is changed by it, so that any thread may ask.
        """
        there = self._read()
        if there is None:
            return known
        first, second = (there, known) if self._is_ahead(there, known) else (known, there)
        view = View(first, heartbeat_ms=known.heartbeat_ms, clock=self._clock)
        view.absorb(second)
        return view.known._replace(taken=known.taken)

    def absorb(self, view: View) -> None:
        """Let a view take over the kills of the file: what a process goes by it has seen."""
        there = self._read()
        if there is not None:
            view.absorb(there)

    def _read(self) -> Known | None:
        directory = self.open()
        if directory is None:
            return None
        try:
            there, fault = lastgood.read(directory)
        finally:
            directory.close()
        return there if fault is None else None

    def keep(self, view: View) -> None:
        """Write the file where it says something else, and its stamp where that is old.

        Raises:
            OSError: it cannot be written.
        """
        directory = self.open()
        if directory is None:
            return
        try:
            self._keep(directory, view)
        finally:
            directory.close()

    def _keep(self, directory: StateDirectory, view: View) -> None:
        identity = _identity(directory)
        if identity is None or identity != self._identity or _gist(view.known) != self._gist:
            there, fault = lastgood.read(directory)
            if fault is None:
                view.absorb(there)
            known = view.known
            other = fault is None and there.position != known.position
            if other and self._is_ahead(there, known):
                # RACE: another process has asked since; what this one knows is older.
                return
            if fault is not None or _gist(there) != _gist(known):
                lastgood.write(directory, known)
                identity = _identity(directory)
            self._identity, self._gist = identity, _gist(known)
        self._stamp(directory, view.known)

    def _stamp(self, directory: StateDirectory, known: Known) -> None:
        """Say that this is still all; of many processes one does, twice in a heartbeat."""
        if known.checked is None:
            return
        boot, now = known.checked
        position, there = lastgood.read_stamp(directory) or (None, known.checked)
        old = there[0] != boot or now - there[1] > known.heartbeat_ms // 2
        if position != known.position or old:
            lastgood.write_stamp(directory, known.position, known.checked)

    def _is_ahead(self, there: Known, ours: Known) -> bool:
        """Whether a file counts before what is known: what was true later, else what is longer."""
        if there.checked is None or ours.checked is None:
            return there.checked is not None
        if there.checked[0] != ours.checked[0]:
            # Whoever has asked since this boot knows better than who knows what was kept before it.
            return there.checked[0] == self._clock.boot_id()
        # What was all that there was after the server had had the other's change is later.
        if there.checked[1] > _had(ours, ours.checked):
            return True
        if ours.checked[1] > _had(there, there.checked):
            return False
        theirs, known = there.position, ours.position
        return theirs.epoch == known.epoch and theirs.revision > known.revision

    def open(self) -> StateDirectory | None:
        """Return the state directory, for the caller to close; ``None`` where there is none."""
        if self._path is None:
            return None
        try:
            return find(self._path, group=self._group)
        except StateError:
            # Whoever reads the overrides says so already.
            return None


def _had(known: Known, checked: Moment) -> int:
    """Return when, since boot, the server had what is known."""
    heard = known.heard
    # Before this boot is before any comparison of it.
    return checked[1] if heard is None or heard[0] != checked[0] else max(checked[1], heard[1])


def _identity(directory: StateDirectory) -> object:
    """Return something that is another once the file is another; ``None`` where there is none."""
    try:
        found = os.stat(lastgood.NAME, dir_fd=directory.fd)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _gist(known: Known) -> object:
    """Return what one process's knowledge has in common with another's: all but when and till when.

    Each reckons the ends on the host's clock for itself, and they differ by milliseconds.
    """
    kinds = (known.entries, known.held)
    entries = [sorted((e.override.id, e.revision, e.at_ms) for e in kind) for kind in kinds]
    return known.position, known.lost, known.faults, entries
