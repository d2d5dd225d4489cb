"""How the record of an instance is written on a server, and read back whatever stands there."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from relayconf.fleet.engine import InstanceRecord
from relayconf.fleet.record import Json, Position


def record_text(record: InstanceRecord) -> str:
    """Return a record as a server keeps it: all but its age."""
    body = asdict(record)
    body.pop("age_ms")
    body["applied"] = list(record.applied)
    return json.dumps(body, separators=(",", ":"))


def read_record(text: str, age_ms: int) -> InstanceRecord | None:
    """Return the record that a text is; ``None`` where it is none."""
    try:
        body = json.loads(text)
        applied = body["applied"]
        position = Position(str(applied[0]), int(applied[1]), str(applied[2]))
        return InstanceRecord(
            id=str(body["id"]),
            target=str(body["target"]),
            host=str(body["host"]),
            pid=int(body["pid"]),
            applied=position,
            generation=int(body.get("generation") or 0),
            deployment=_optional(body.get("deployment")),
            contract=str(body.get("contract") or ""),
            names=_texts(body.get("names")),
            pending_restart=_texts(body.get("pending_restart")),
            refused=_texts(body.get("refused")),
            problems=_texts(body.get("problems")),
            flags=_flags(body.get("flags")),
            heartbeat_ms=int(body.get("heartbeat_ms") or 1000),
            restart_only=bool(body.get("restart_only")),
            place=str(body.get("place") or ""),
            age_ms=max(0, age_ms),
        )
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError):
        return None


def applied_text(record: InstanceRecord) -> str:
    """Return the line that says that an instance has applied something."""
    body = {
        "instance": record.id,
        "target": record.target,
        "host": record.host,
        "pid": record.pid,
        "epoch": record.applied.epoch,
        "revision": record.applied.revision,
    }
    return json.dumps(body, separators=(",", ":"))


def read_applied(line: str, at_ms: int, revision: int, written_ms: int) -> Json | None:
    """Return a line with its time; ``took_ms`` where nothing was written since the change."""
    try:
        body = json.loads(line)
        took = at_ms - written_ms if body["revision"] == revision else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return {**body, "at_ms": at_ms, "took_ms": None if took is None else max(0, took)}


def _optional(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _flags(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {name: facts for name, facts in value.items() if isinstance(facts, dict)}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
