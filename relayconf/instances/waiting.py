"""Waiting for proof: until every live instance that a change concerns has applied it, or not.

The answer is never better than what is known: an instance that was there and has not applied it is
named, and a directory that was just made proves nothing yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from relayconf.instances.listing import SETTLING_MS, Listing, Seen
from relayconf.instances.pending import with_frozen

#: Between two looks, in seconds.
_LOOK = 0.005

#: What is settled by the proof, and the exit codes that say it (design section 10).
APPLIED = 0
NOT_BY_ALL = 3
NOBODY = 4


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known about a change.

    Attributes:
        code: ``APPLIED``, ``NOT_BY_ALL`` or ``NOBODY``.
        concerned: the live instances that declare one of the settings.
        missing: those of them that have not applied it.
        settling: whether the directory is so new that instances may not be back yet.
        others: how many live instances declare none of the settings.
    """

    code: int
    concerned: tuple[Seen, ...]
    missing: tuple[Seen, ...]
    settling: bool
    others: int = 0


def look(
    listing: Listing,
    settings: Sequence[tuple[str, str]],
    generation: int,
    *,
    overridden: Collection[tuple[str, str]],
) -> Proof:
    """Return what is known now.

    Args:
        listing: who lives.
        settings: targets and names that were changed.
        generation: what an instance must have applied.
        overridden: targets and names of what is overridden after the change.
    """
    settling = listing.is_settling()
    live = listing.live()
    concerned = tuple(
        with_frozen(seen, overridden)
        for seen in live
        if any(seen.declares(*each) for each in settings)
    )
    missing = tuple(seen for seen in concerned if not _has_applied(seen, settings, generation))
    if not concerned:
        code = NOT_BY_ALL if settling else NOBODY
    else:
        code = NOT_BY_ALL if missing or settling else APPLIED
    return Proof(code, concerned, missing, settling, len(live) - len(concerned))


def wait(
    listing: Listing,
    settings: Sequence[tuple[str, str]],
    generation: int,
    seconds: float,
    *,
    overridden: Collection[tuple[str, str]],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Proof:
    """Wait until all have applied a change, or the time is over.

    Returns:
        As soon as all have, or nobody is there. Where nobody is there yet in a directory that was
        just made, it is waited until that can be told, also a while beyond ``seconds``.
    """
    deadline = clock() + seconds
    settled = max(deadline, clock() + 2 * SETTLING_MS / 1000)
    while True:
        proof = look(listing, settings, generation, overridden=overridden)
        if proof.code != NOT_BY_ALL:
            return proof
        now = clock()
        if now >= deadline and (proof.concerned or not proof.settling or now >= settled):
            return proof
        sleep(_LOOK)


def _has_applied(seen: Seen, settings: Sequence[tuple[str, str]], generation: int) -> bool:
    return all(
        seen.has_applied(generation, name)
        for target, name in settings
        if seen.declares(target, name)
    )
