"""Tools that go on although their call was answered for them: how many, and whose.

They hold memory and threads. A session that leaves many behind is refused before it takes the room
of others; beyond a number in all, everybody is.
"""

from __future__ import annotations

from relay.tools.registry import Failure

#: So many in all, and for one session.
MOST = 256
MOST_OF_ONE = 64


class Behind:
    """What was left behind, by session."""

    def __init__(self) -> None:
        self._counts: dict[object, int] = {}

    def add(self, session: object) -> None:
        """Count one more."""
        self._counts[session] = self._counts.get(session, 0) + 1

    def remove(self, session: object) -> None:
        """Count one less: it has ended."""
        self._counts[session] -= 1
        if not self._counts[session]:
            del self._counts[session]

    def refuse(self, session: object, *, in_all: int) -> None:
        """Start nothing more while too many go on.

        Raises:
            Failure: so it is, for this session or for all.
        """
        if in_all >= MOST or self._counts.get(session, 0) >= MOST_OF_ONE:
            raise Failure("busy", "too many tools run past their deadlines; try again later")
