"""Saying that a directory cannot be watched: once, however many sessions it is so for."""

from __future__ import annotations

from collections import Counter

from relay.engine.telemetry import escaped, log


class Unwatched:
    """Whether one session cannot be watched, and its part in how many there are.

    Args:
        path: its directory.
        counted: how many sessions cannot be watched, by the number of the error.
    """

    def __init__(self, path: str, counted: Counter[int]) -> None:
        self._path = path
        self._counted = counted
        self._number: int | None = None

    def note(self, number: int, what: str) -> None:
        """Take note that it cannot be watched; said until it is so for no session any more."""
        if self._number == number:
            return
        self.clear()
        self._number = number
        if not self._counted[number]:
            log.warning("%s: %s; polling", escaped(self._path), what)
        self._counted[number] += 1

    def clear(self) -> None:
        """Take note that it can be, or need not be."""
        if self._number is not None:
            self._counted[self._number] -= 1
            self._number = None
