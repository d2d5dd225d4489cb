"""The three changes an operator makes: kill, set, restore; each as an edit of the document.

An edit may be asked several times, whenever another change came between; what it makes has the same
id every time. Pure, but for the clock and the ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from relayconf.overrides.attempt import Edit
from relayconf.overrides.document import Document, Json, Override, Quarantined, entry
from relayconf.overrides.ttl import end_after
from relayconf.state.clock import SYSTEM, Clock, stamp

Editing = Callable[[Document], Edit]


@dataclass(frozen=True, slots=True)
class Because:
    """Who changes something, and why; recorded as claimed.

    Attributes:
        reason: for the people who read the history.
        actor: who asks.
        incident: what it belongs to, if anything.
        ttl_ms: after how many milliseconds the change ends by itself, if ever.
    """

    reason: str
    actor: str
    incident: str | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """One setting that is killed or set: ``value`` is text, for a kill the safe value."""

    target: str
    name: str
    value: str


def kill(flags: Sequence[Assignment], because: Because, *, clock: Clock = SYSTEM) -> Editing:
    """Return the edit that kills flags."""
    return _put("kill", flags, because, clock)


def assign(settings: Sequence[Assignment], because: Because, *, clock: Clock = SYSTEM) -> Editing:
    """Return the edit that sets values."""
    return _put("set", settings, because, clock)


def restore(
    wanted: Callable[[str, str], bool], because: Because, *, everything: bool = False
) -> Editing:
    """Return the edit that takes overrides away.

    Args:
        wanted: given a target and a name, whether that setting is to be restored.
        because: who and why.
        everything: a setting's value is taken away along with its kill; without it a kill goes
            first, and what the setting was set to before stays.
    """

    def edit(document: Document) -> Edit:
        chosen = [o for o in document.overrides if wanted(o.target, o.name)]
        killed = {(o.target, o.name) for o in chosen if o.kind == "kill"}
        removed = [
            o for o in chosen if everything or o.kind == "kill" or (o.target, o.name) not in killed
        ]
        kept, dropped = _sorted_out(document.quarantined, wanted)
        lines = [_line("restore", override, because) for override in removed]
        lines.extend(_dropped(item, because) for item in dropped)
        return Edit(
            tuple(o for o in document.overrides if o not in removed),
            tuple(kept),
            tuple(lines),
            removed=tuple(removed),
        )

    return edit


def _put(kind: str, settings: Sequence[Assignment], because: Because, clock: Clock) -> Editing:
    end = None if because.ttl_ms is None else end_after(because.ttl_ms, clock)
    made_at = stamp(clock.wall())
    made = tuple(
        Override(
            os.urandom(6).hex(),
            each.target,
            each.name,
            kind,
            each.value,
            because.reason,
            because.actor,
            because.incident,
            made_at,
            end,
        )
        for each in settings
    )

    def edit(document: Document) -> Edit:
        replaced = {override.key for override in made}
        kept = [override for override in document.overrides if override.key not in replaced]
        return Edit(
            (*kept, *made),
            document.quarantined,
            tuple({"action": kind, **entry(override)} for override in made),
            urgent=kind == "kill",
            made=made,
        )

    return edit


def _sorted_out(
    items: Iterable[Quarantined], wanted: Callable[[str, str], bool]
) -> tuple[list[Quarantined], list[Quarantined]]:
    """Part the unusable entries that stay from those that go along."""
    kept: list[Quarantined] = []
    dropped: list[Quarantined] = []
    for item in items:
        raw = item.raw if isinstance(item.raw, dict) else {}
        goes = wanted(str(raw.get("target", "")), str(raw.get("name", "")))
        (dropped if goes else kept).append(item)
    return kept, dropped


def _line(action: str, override: Override, because: Because) -> Json:
    return {
        "action": action,
        **entry(override),
        "reason": because.reason,
        "actor": because.actor,
        "incident": because.incident,
    }


def _dropped(item: Quarantined, because: Because) -> Json:
    return {
        "action": "drop",
        "name": item.name,
        "note": f"an entry that could not be used: {item.reason}",
        "reason": because.reason,
        "actor": because.actor,
        "incident": because.incident,
    }
