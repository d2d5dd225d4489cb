"""Expiry: where a flag stands between its declaration and the day by which it is gone.

The expiry date is the last day on which the flag is in order. The date of today is an argument.
Ground floor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

from relayconf.setting import Flag

if TYPE_CHECKING:
    from datetime import date

#: Days before its end in which a flag is due, and after it in which it is expired but not yet
#: overdue: about what it takes to plan, release and deploy its removal.
NOTICE_DAYS = 30


class Expiry(NamedTuple):
    """One flag's state, and the days until its last one (negative once that is over).

    ``state`` is ``overdue``, ``expired``, ``due``, ``ahead`` or ``permanent``; ``days`` is None for
    a permanent flag.
    """

    state: str
    days: Optional[int] = None

    @property
    def over(self) -> bool:
        """Whether the flag should be gone."""
        return self.state in ("expired", "overdue")


def expiry(flag: Flag, today: date) -> Expiry:
    """Return where a flag stands on one day."""
    if flag.expires is None:
        return Expiry("permanent")
    days = (type(today).fromisoformat(flag.expires) - today).days
    if days < -NOTICE_DAYS:
        return Expiry("overdue", days)
    if days < 0:
        return Expiry("expired", days)
    return Expiry("due" if days <= NOTICE_DAYS else "ahead", days)
