"""The last good file: what a host last knew of its fleet, for the next process that starts.

``fleet.json`` is written at each change, with a checksum; a stamp beside it, in a folder whose
changes nobody watches, says when it was last known to be all. A file that is damaged is none.
Ground floor.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from relayconf.fleet.known import UNKNOWN, Known, Moment
from relayconf.fleet.record import FleetEntry, Position, from_body, to_body
from relayconf.state.directory import StateDirectory

NAME = "fleet.json"

#: The folder of what changes often, and the stamp in it.
FOLDER, STAMP = "fleet", "checked.json"

VERSION = 1

Json = Dict[str, Any]


class Damaged(ValueError):
    """A file that is none; the text says why."""


def render(known: Known) -> bytes:
    """Return the bytes of a file."""
    body: Json = {
        "version": VERSION,
        **known.position._asdict(),
        "checked": _moment_body(known.checked),
        "heard": _moment_body(known.heard),
        "heartbeat_ms": known.heartbeat_ms,
        "lost": known.lost,
        "entries": [_body(entry) for entry in known.entries],
        "held": [_body(entry) for entry in known.held],
    }
    return json.dumps({"sum": _sum(body), **body}, indent=1).encode("ascii") + b"\n"


def parse(data: bytes) -> Known:
    """Read a file.

    Raises:
        Damaged: it is none, or not what was written.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Damaged("it is no JSON") from None
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise Damaged("it is no file of this version")
    if body.pop("sum", None) != _sum(body):
        raise Damaged("its content does not fit its checksum")
    try:
        faults: List[str] = []
        entries = tuple(e for raw in body["entries"] if (e := _entry(raw, faults)) is not None)
        held = tuple(e for raw in body["held"] if (e := _entry(raw, faults)) is not None)
        return Known(
            Position(*(body[name] for name in Position._fields)),
            entries,
            held,
            _moment(body["checked"]),
            body["heartbeat_ms"],
            body["lost"],
            tuple(faults),
            # A file of an earlier release does not say.
            _moment(body.get("heard")),
        )
    except (KeyError, TypeError, ValueError):
        raise Damaged("it lacks something") from None


def read(directory: StateDirectory) -> Tuple[Known, Optional[str]]:
    """Return what a host knows, and what is wrong with its file, if anything is."""
    try:
        data = directory.read(NAME)
        known = UNKNOWN if data is None else parse(data)
    except Damaged as damage:
        return UNKNOWN, f"{NAME} cannot be used: {damage}"
    except OSError as error:
        return UNKNOWN, f"{NAME} cannot be read: {error.strerror or error}"
    stamp = read_stamp(directory)
    if stamp is not None and stamp[0] == known.position:
        known = known._replace(checked=_later(known.checked, stamp[1]))
    return known, None


def write(directory: StateDirectory, known: Known) -> None:
    """Write the file.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    directory.rename(directory.prepare(NAME, render(known), durable=True), NAME)


def read_stamp(directory: StateDirectory) -> Optional[Tuple[Position, Moment]]:
    """Return at which moment some position was known to be the last; ``None`` for no such stamp."""
    try:
        folder = directory.folder(FOLDER, make=False)
        if folder is None:
            return None
        try:
            body = json.loads(folder.read(STAMP) or b"null")
        finally:
            folder.close()
        moment = _moment(body["checked"])
        return None if moment is None else (Position(*body["position"]), moment)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_stamp(directory: StateDirectory, position: Position, checked: Moment) -> None:
    """Say that a position is still the last.

    Raises:
        OSError: it cannot be written.
    """
    folder = directory.folder(FOLDER, make=True)
    if folder is None:
        raise FileNotFoundError(FOLDER)
    try:
        body = {"position": list(position), "checked": _moment_body(checked)}
        folder.publish(STAMP, json.dumps(body).encode())
    finally:
        folder.close()


def _body(entry: FleetEntry) -> Json:
    taken = {"revision": entry.revision, "epoch": entry.epoch, "at_ms": entry.at_ms}
    return {**to_body(entry), **taken}


def _entry(raw: Any, faults: List[str]) -> Optional[FleetEntry]:
    entry = from_body(raw)
    if isinstance(entry, str):
        faults.append(entry)
        return None
    return entry._replace(revision=raw["revision"], epoch=raw["epoch"], at_ms=raw["at_ms"])


def _later(one: Optional[Moment], other: Moment) -> Moment:
    return other if one is None or one[0] != other[0] else max(one, other)


def _moment(body: Any) -> Optional[Moment]:
    if body is None:
        return None
    boot, boot_ms = body["boot"], body["boot_ms"]
    if not isinstance(boot, str) or not boot or type(boot_ms) is not int:
        return None
    return boot, boot_ms


def _moment_body(moment: Optional[Moment]) -> Optional[Json]:
    return None if moment is None else {"boot": moment[0], "boot_ms": moment[1]}


def _sum(body: Json) -> str:
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and only a host with a fleet needs it

    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
