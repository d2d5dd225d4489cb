"""The records of the fleet: a position in its history, an entry, and how an entry is written.

An entry is one of ``overrides.json`` with what only a fleet needs around it: whom it is for, when
the server took it, and whether it is a *tombstone*, which says that something was restored and
stays, so that no merge undoes it. Pure. Ground floor.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from relayconf.overrides.document import Override, entry, judge

Json = Dict[str, Any]

#: What there is one entry for: target, name, kind, deployment, host (``None`` for all of them).
Key = Tuple[str, str, str, Optional[str], Optional[str]]

_LONGEST = 256

_CHANGE_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")


class Position(NamedTuple):
    """A place in the history of a store.

    Attributes:
        epoch: names one history; another one means that the store was emptied, or never the same.
        revision: counts the changes of the epoch, from 1.
        head: the hash of the chain of changes up to here. The same revision with another head is
            another history under the same name: the store came back from an older copy.
    """

    epoch: str = ""
    revision: int = 0
    head: str = ""


NOWHERE = Position()


class Scope(NamedTuple):
    """Whom an entry is for; ``None`` stands for all of them."""

    deployment: Optional[str] = None
    host: Optional[str] = None

    def covers(self, deployment: Optional[str], host: Optional[str]) -> bool:
        """Whether a process of a deployment on a host is meant."""
        return self.deployment in (None, deployment) and self.host in (None, host)

    @property
    def rank(self) -> int:
        """How narrow it is; of two values for one setting the narrower counts."""
        return 2 * (self.host is not None) + (self.deployment is not None)


EVERYWHERE = Scope()


class FleetEntry(NamedTuple):
    """One entry of the fleet as a process holds it.

    Attributes:
        override: what it says. Its ``end`` is on this host's clocks, reckoned from the server's.
        scope: whom it is for.
        tombstone: it says that the entry of its key was restored, and is in force as nothing.
        revision: the change that made it; 0 for one that no server has taken yet.
        epoch: the history of that revision.
        at_ms: when the server took it, in milliseconds since 1970 by the server's clock, never
            less than that of an earlier revision of the epoch; 0 where no server has.
    """

    override: Override
    scope: Scope = EVERYWHERE
    tombstone: bool = False
    revision: int = 0
    epoch: str = ""
    at_ms: int = 0

    @property
    def key(self) -> Key:
        """What there is one entry for."""
        return (*self.override.key, *self.scope)

    @property
    def is_kill(self) -> bool:
        """Whether it kills, and not merely says that something no longer does."""
        return self.override.kind == "kill" and not self.tombstone


def key_text(key: Key) -> str:
    """Return a key as the stores write it."""
    return json.dumps(list(key), separators=(",", ":"))


def to_body(item: FleetEntry) -> Json:
    """Return what an entry says, without what the server adds to it."""
    body = entry(item.override)
    body.pop("generation", None)
    if item.scope != EVERYWHERE:
        body["scope"] = dict(zip(Scope._fields, item.scope))
    if item.tombstone:
        body["tombstone"] = True
    return body


def from_body(body: Any) -> Union[FleetEntry, str]:
    """Judge what an entry says; a text is the reason why it cannot be used.

    Of a kill nothing can be wrong but whom it is for.
    """
    if not isinstance(body, dict):
        return "it is no object"
    tombstone = body.get("tombstone") is True
    if tombstone:
        # What was restored has no value any more.
        body = {**body, "value": "", "expires_at": None}
    judged = judge(body)
    if isinstance(judged, str):
        return judged
    scope = _scope(body.get("scope"))
    if isinstance(scope, str):
        if judged.kind != "kill" or tombstone:
            return scope
        # Whom a kill is for cannot be read, so it is for everybody.
        scope = EVERYWHERE
    return FleetEntry(judged._replace(generation=0, store="fleet"), scope, tombstone)


def is_change_id(text: Any) -> bool:
    """Whether a text can be the id of a change: 1 to 64 of ``0-9 A-Z a-z _ -``."""
    return isinstance(text, str) and _CHANGE_ID.fullmatch(text) is not None


def _scope(body: Any) -> Union[Scope, str]:
    if body is None:
        return EVERYWHERE
    if not isinstance(body, dict):
        return "its scope is no object"
    found = []
    for field in Scope._fields:
        value = body.get(field)
        if value is not None and not (isinstance(value, str) and 0 < len(value) <= _LONGEST):
            return f"the {field} of its scope is no text"
        found.append(value)
    return Scope(*found)
