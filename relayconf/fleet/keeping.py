"""Keeping: the last good file of a host, written by whichever of its processes comes first.

All of them know the same, or nearly: one that finds the file as it would write it leaves it, one
that finds kills in it that it has not seen takes them over, and none puts an older state over a
newer one.
"""

from __future__ import annotations

from relayconf.errors import StateError
from relayconf.fleet import lastgood
from relayconf.fleet.known import Known
from relayconf.fleet.view import View
from relayconf.state.directory import StateDirectory, find


class Keeper:
    """Keeps one host's file.

    Args:
        path: the state directory; with ``None`` nothing is kept.
        group: the group that shares it.
    """

    def __init__(self, path: str | None, *, group: str | None = None) -> None:
        self._path = path
        self._group = group

    def load(self, view: View) -> str | None:
        """Take over what the file says; return what is wrong with it."""
        directory = self._open()
        if directory is None:
            return None
        try:
            known, fault = lastgood.read(directory)
            view.begin(known)
            return fault
        finally:
            directory.close()

    def keep(self, view: View) -> None:
        """Write the file where it says something else, and its stamp where that is old.

        Raises:
            OSError: it cannot be written.
        """
        directory = self._open()
        if directory is None:
            return
        try:
            self._keep(directory, view)
        finally:
            directory.close()

    def _keep(self, directory: StateDirectory, view: View) -> None:
        there, fault = lastgood.read(directory)
        if fault is None:
            view.absorb(there)
        known = view.known
        if fault is None and there.position != known.position and _is_later(there, known):
            # RACE: another process has asked since; what this one knows is older.
            return
        same = fault is None and there._replace(checked=None) == known._replace(checked=None)
        if not same:
            lastgood.write(directory, known)
        elif known.checked is not None and self._is_old(there.checked, known.checked, view):
            lastgood.write_stamp(directory, known.position, known.checked)

    def _is_old(self, there: tuple[str, int] | None, ours: tuple[str, int], view: View) -> bool:
        if there is None or there[0] != ours[0]:
            return True
        # Half a heartbeat, so that of many processes one writes at each.
        return ours[1] - there[1] > view.known.heartbeat_ms // 2

    def _open(self) -> StateDirectory | None:
        if self._path is None:
            return None
        try:
            return find(self._path, group=self._group)
        except StateError:
            # Whoever reads the overrides says so already.
            return None


def _is_later(there: Known, ours: Known) -> bool:
    """Whether what a file says was true at a later moment."""
    if there.checked is None or ours.checked is None:
        return ours.checked is None
    return there.checked[0] == ours.checked[0] and there.checked[1] > ours.checked[1]
