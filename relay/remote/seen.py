"""Which claims were taken over already, by what tells one publication from another.

A batch that was lost on the wire is printed again, and one that was merely slow may come after its
repetition. A key is kept for longer than any drain can be under way, so that neither runs twice; an
id that comes again is another file and has another key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

#: Seconds that a key is kept: twice the longest window with its grace.
_KEPT = 300.0

#: Keys kept at most, by order of magnitude those of 300 s at full speed.
_MOST = 20_000


class Seen:
    """The keys of the last minutes. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: OrderedDict[str, float] = OrderedDict()

    def first(self, key: str) -> bool:
        """Note a key; True where it was not there."""
        now = self._clock()
        while self._at and (len(self._at) > _MOST or next(iter(self._at.values())) < now - _KEPT):
            self._at.popitem(last=False)
        known = key in self._at
        self._at[key] = now
        self._at.move_to_end(key)
        return not known
