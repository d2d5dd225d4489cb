"""The nearest word: what somebody probably meant who wrote a name or a word that does not exist.

A suggestion is made only where it is likely to be right, and never acted on. Letter case is ASCII's
and does not count. Ground floor.
"""

from __future__ import annotations

from typing import Iterable, List, Optional

#: Edits that still count as a slip: one in three characters, at least one and at most three. The
#: leading parts (up to a ``_``) that two names share do not count, or every short name with the
#: same prefix would be near.
_MOST_EDITS = 3
_CHARACTERS_PER_EDIT = 3

#: A beginning of so many characters that only one candidate has is as good as the word.
_PREFIX = 3

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def nearest(word: str, candidates: Iterable[str]) -> Optional[str]:
    """Return the candidate that was probably meant, or ``None`` where none is near.

    Args:
        word: what was written, of any length.
        candidates: what exists. Among equally near ones the first is taken.

    Returns:
        A candidate within a few edits (a wrong, missing, additional or swapped character), else
        the only one that starts with ``word``, else the only one that adds one part to it
        (``APP_POLL`` for ``APP_POLL_MS``, beside ``APP_POLL_MAX_MS``).
    """
    known = [(candidate, candidate.translate(_LOWER)) for candidate in candidates]
    lowered = word.translate(_LOWER)
    best, best_edits = None, _MOST_EDITS + 1
    for candidate, spelled in known:
        own = len(lowered) - _shared_parts(lowered, spelled)
        if own == 1 and len(spelled) == len(lowered) and spelled != lowered:
            continue  # one letter for another is no slip, where there is no more than one
        limit = min(best_edits - 1, max(1, own // _CHARACTERS_PER_EDIT))
        if abs(len(spelled) - len(lowered)) <= limit:
            edits = distance(lowered, spelled)
            if edits <= limit:
                best, best_edits = candidate, edits
    if best is None and len(word) >= _PREFIX:
        starting = [candidate for candidate, spelled in known if spelled.startswith(lowered)]
        # A name without its last part, which often is a unit, leads past longer ones.
        whole = [c for c, spelled in known if spelled.rpartition("_")[0] == lowered]
        best = next((found[0] for found in (starting, whole) if len(found) == 1), None)
    return best


def _shared_parts(left: str, right: str) -> int:
    """Return the length of the leading parts, each ending in ``_``, that two names share."""
    shared = 0
    for index, (char, other) in enumerate(zip(left, right), start=1):
        if char != other:
            break
        if char == "_":
            shared = index
    return shared


def distance(left: str, right: str) -> int:
    """Return how many edits make one text of the other; swapping two neighbours is one edit."""
    before: List[int] = []
    row = list(range(len(right) + 1))
    for i, char in enumerate(left, start=1):
        before, above, row = row, before, [i]
        for j, other in enumerate(right, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != other))
            if i > 1 and j > 1 and char == right[j - 2] and left[i - 2] == other:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]
