"""The claims of one session, from the drain that printed them until their answers are published.

Each is taken once, however often it is printed. What finds no slot, or whose id is still in flight
from before, waits here in its order: it is claimed, so nobody else will run it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from relay.engine.shared import Shared
from relay.engine.slots import Holder
from relay.remote.report import Claim
from relay.remote.seen import Seen

#: Claims taken from one report at most.
MOST_CLAIMS = 64

#: Requests in flight at most: the keys of all travel with each drain, as one argument.
_MOST_IN_FLIGHT = 300

#: Claims whose answers were given up and that are still remembered.
_MOST_GIVEN_UP = 100


class Taken(NamedTuple):
    """A claim, and when its request was published, in seconds of the runner's wall clock."""

    claim: Claim
    modified: float


class Intake:
    """See the module.

    Args:
        holder: the session; the ids in flight are kept there.
        shared: the runner's parts.
    """

    def __init__(self, holder: Holder, shared: Shared) -> None:
        self._holder = holder
        self._shared = shared
        self._seen = Seen(shared.clock)
        self._claims: dict[str, Claim] = {}
        self._queue: deque[Taken] = deque()
        self._given_up: dict[str, None] = {}
        #: How many claims were printed more than once.
        self.replays = 0

    def accept(self, claims: Iterable[Claim], *, late: float) -> int:
        """Note what was printed; return how many are new.

        Args:
            claims: what a report brings.
            late: seconds since it was printed.
        """
        now, new = self._shared.wall(), 0
        for claim in claims:
            if new >= MOST_CLAIMS:
                break
            if not self._seen.first(claim.key):
                self.replays += 1
                continue
            new += 1
            self._queue.append(Taken(claim, now - claim.age - late))
        return new

    def take(self) -> list[Taken]:
        """Put in flight what may be, and return it."""
        taken, kept = [], deque[Taken]()
        for one in self._queue:
            request = one.claim.request
            # The answer to the last one under this id may be there already, unheard of.
            if request in self._holder.in_flight or not self._shared.slots.has_one_for(
                self._holder
            ):
                kept.append(one)
                continue
            self._holder.in_flight.add(request)
            self._shared.slots.taken += 1
            self._claims[request] = one.claim
            taken.append(one)
        self._queue = kept
        return taken

    def drop(self, request: str) -> bool:
        """Forget a claim that is gone and is not in flight; False where there was none."""
        before = len(self._queue) + len(self._given_up)
        self._queue = deque(one for one in self._queue if one.claim.request != request)
        for key in [key for key in self._given_up if key.partition(":")[0] == request]:
            del self._given_up[key]
        return len(self._queue) + len(self._given_up) < before

    def over(self, request: str, *, published: bool) -> None:
        """End a request; a claim whose answer was given up stays there, and is not taken again."""
        claim = self._claims.pop(request, None)
        if claim is not None and not published:
            self._given_up[claim.key] = None
            if len(self._given_up) > _MOST_GIVEN_UP:
                del self._given_up[next(iter(self._given_up))]
        self._holder.in_flight.discard(request)
        self._shared.slots.taken -= 1

    def claim_of(self, request: str) -> Claim | None:
        """Return the claim of what is in flight."""
        return self._claims.get(request)

    def forget(self) -> None:
        """The directory is another one: the claims that were given up are gone with the old one."""
        self._given_up.clear()

    @property
    def waits(self) -> bool:
        """Whether claims wait for a slot."""
        return any(one.claim.request not in self._holder.in_flight for one in self._queue)

    def free(self) -> int:
        """Return how many more requests may be claimed."""
        limits, slots = self._shared.limits, self._shared.slots
        if self.waits or not slots.has_one_for(self._holder):
            return 0
        most = min(limits.session_max_in_flight, _MOST_IN_FLIGHT)
        left = limits.max_in_flight - limits.max_in_flight // 4 - slots.taken
        mine = len(self._holder.in_flight) + len(self._queue)
        return max(0, min(most - mine, max(1, left), MOST_CLAIMS))

    def keys(self) -> tuple[str, ...]:
        """Return the keys of what is worked on, is next, or was given up."""
        waiting = [one.claim.key for one in self._queue]
        return (*(c.key for c in self._claims.values()), *waiting, *self._given_up)

    def requests(self) -> list[str]:
        """Return their ids."""
        waiting = [one.claim.request for one in self._queue]
        given_up = [key.partition(":")[0] for key in self._given_up]
        return [*self._holder.in_flight, *waiting, *given_up]
