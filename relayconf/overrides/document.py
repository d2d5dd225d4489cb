"""The document of overrides: bytes in, judged entries out, and back. Pure.

A document is refused as a whole only where it is no document at all; its entries are judged one by
one, and a bad one is quarantined while the rest apply. A kill is engaged wherever it says whom it
is for: nothing else in it, and nothing beside it, can hold it up. Ground floor.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from relayconf.overrides.ttl import End, end_of
from relayconf.state.clock import seconds_of
from relayconf.values import excerpt

VERSION = 1

#: No number of changes gets here: a generation beyond it is damage, or the next would be.
HIGHEST = 1 << 53

KINDS = ("kill", "set")

#: A bound on the document: a few thousand entries. A longer file is none of ours.
MAX_BYTES = 1024 * 1024

#: Names and texts of an entry beyond this many characters are no one's.
_LONGEST = 64 * 1024

#: A longer numeral stays text.
_LONGEST_NUMERAL = 40

Json = Dict[str, Any]


class Broken(ValueError):
    """Bytes that are no document of overrides; the text says why."""


class Pin(NamedTuple):
    """The last line of the audit that the document knows of.

    ``owed`` are lines that could not be written yet; the next change writes them first.
    """

    seq: int = 0
    hash: str = ""
    owed: Tuple[Json, ...] = ()


class Override(NamedTuple):
    """One entry: a value (``set``) or a kill for one setting of one target.

    ``value`` is text; a kill's counts for nothing. ``end`` is when it ends by itself. Times are UTC
    stamps. ``generation`` is that of the document in which it came, 0 where that is unknown.
    ``store`` is where it stands.
    """

    id: str
    target: str
    name: str
    kind: str
    value: str = ""
    reason: Optional[str] = None
    actor: Optional[str] = None
    incident: Optional[str] = None
    made_at: Optional[str] = None
    end: Optional[End] = None
    generation: int = 0
    store: str = "overrides.json"

    @property
    def key(self) -> Tuple[str, str, str]:
        """What there is one entry for."""
        return (self.target, self.name, self.kind)

    @property
    def origin(self) -> str:
        """Where it stands, as ``explain`` says it."""
        return f"{self.store}#{excerpt(self.id, 40)}"

    def outlasts(self, other: Override) -> bool:
        """Whether it ends later than another one, or never."""
        if self.end is None or other.end is None:
            return self.end is None
        return (seconds_of(self.end.at) or 0) > (seconds_of(other.end.at) or 0)


class Quarantined(NamedTuple):
    """An entry that cannot be used, as it stands in the document, and why."""

    raw: Any
    reason: str

    @property
    def name(self) -> str:
        """The setting that it seems to be for."""
        name = self.raw.get("name") if isinstance(self.raw, dict) else None
        return excerpt(name, 100) if isinstance(name, str) and name else "overrides.json"


class Document(NamedTuple):
    """What a document says. ``faults`` are things beside the entries that had to be passed over.

    ``written`` is when it was, on the clock that counts from the boot named in it.
    """

    generation: int = 0
    audit: Pin = Pin()
    overrides: Tuple[Override, ...] = ()
    quarantined: Tuple[Quarantined, ...] = ()
    faults: Tuple[str, ...] = ()
    written: Optional[Tuple[str, int]] = None

    def find(self, target: str, name: str, kind: str) -> Optional[Override]:
        """Return the entry of one kind for one setting."""
        for override in self.overrides:
            if override.key == (target, name, kind):
                return override
        return None


EMPTY = Document()


def parse(data: bytes) -> Document:
    """Read a document.

    Raises:
        Broken: the bytes are none: not JSON, not of this version, or without a list of entries.
    """
    body = _load(data)
    if not isinstance(body, dict):
        raise Broken("it is no JSON object")
    version = body.get("version", VERSION)
    if type(version) is not int or version != VERSION:
        raise Broken(f"its version is {_short(version)}, and this program reads version {VERSION}")
    entries = body.get("entries")
    if not isinstance(entries, list):
        raise Broken("it has no list of entries")
    faults: List[str] = []
    overrides, quarantined = _judged(entries, faults)
    return Document(
        _generation(body, faults),
        _pin(body.get("audit"), faults),
        overrides,
        quarantined,
        tuple(faults),
        _written(body.get("written")),
    )


def render(document: Document) -> bytes:
    """Return the bytes of a document; reading them gives the same one again, but for its faults."""
    audit: Json = {"seq": document.audit.seq, "hash": document.audit.hash}
    if document.audit.owed:
        audit["owed"] = list(document.audit.owed)
    head: Json = {"version": VERSION, "generation": document.generation, "audit": audit}
    if document.written is not None:
        boot, boot_ms = document.written
        head["written"] = {"boot": boot, "boot_ms": boot_ms}
    lines = [json.dumps(entry(override)) for override in document.overrides]
    lines.extend(_as_it_stood(item.raw) for item in document.quarantined)
    entries = ",\n  ".join(lines)
    text = f'{json.dumps(head)[:-1]},\n "entries": [\n  {entries}]}}\n'
    return text.encode("ascii")


def entry(override: Override) -> Json:
    """Return one entry as it stands in the document."""
    end = override.end
    body: Json = {
        "id": override.id,
        "target": override.target,
        "name": override.name,
        "kind": override.kind,
        "value": override.value,
        "reason": override.reason,
        "actor": override.actor,
        "incident": override.incident,
        "made_at": override.made_at,
        "expires_at": None if end is None else end.at,
    }
    if end is not None and end.boot is not None:
        body["expires_boot"] = {"boot": end.boot, "boot_ms": end.boot_ms}
    body["generation"] = override.generation
    return body


def judge(raw: Any) -> Union[Override, str]:
    """Return an entry, or the reason why what stands there is none."""
    if not isinstance(raw, dict):
        return "it is no object"
    texts: Dict[str, str] = {}
    for key in ("target", "name", "kind"):
        value = raw.get(key)
        if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
            return f"its {key} is missing or no text"
        texts[key] = value
    if texts["kind"] not in KINDS:
        return f"its kind is {_short(texts['kind'])}, not kill or set"
    kill = texts["kind"] == "kill"
    value = _text(raw.get("value"))
    end = end_of(raw.get("expires_at"), raw.get("expires_boot"))
    if not kill:
        if value is None:
            return "its value is missing or no text"
        if isinstance(end, str):
            return end
    return Override(
        _text(raw.get("id")) or "unnamed",
        texts["target"],
        texts["name"],
        texts["kind"],
        value or "",
        _text(raw.get("reason")),
        _text(raw.get("actor")),
        _text(raw.get("incident")),
        _text(raw.get("made_at")),
        None if isinstance(end, str) else end,
        _count(raw.get("generation")) or 0,
    )


def _as_it_stood(raw: Any) -> str:
    try:
        return json.dumps(raw)
    except RecursionError:
        return '"an entry that nested too deep"'


def _judged(
    entries: List[Any], faults: List[str]
) -> Tuple[Tuple[Override, ...], Tuple[Quarantined, ...]]:
    """Judge each entry; of two values for one setting the last counts, of two kills the longer."""
    overrides: Dict[Tuple[str, str, str], Override] = {}
    quarantined: List[Quarantined] = []
    for raw in entries:
        override = judge(raw)
        if isinstance(override, str):
            quarantined.append(Quarantined(raw, override))
            continue
        if isinstance(end_of(raw.get("expires_at"), raw.get("expires_boot")), str):
            faults.append(f"{_called(override)} has an end that cannot be read; it does not end")
        earlier = overrides.pop(override.key, None)
        if earlier is not None:
            faults.append(f"{_called(override)} stands twice; one of both counts")
            if override.kind == "kill" and earlier.outlasts(override):
                override = earlier
        overrides[override.key] = override
    return tuple(overrides.values()), tuple(quarantined)


def _called(override: Override) -> str:
    return f"the {override.kind} of {excerpt(override.name, 100)}"


def _generation(body: Mapping[str, Any], faults: List[str]) -> int:
    generation = _count(body.get("generation"))
    if generation is None or generation > HIGHEST:
        faults.append("its generation is missing or no number")
        return 0
    return generation


def _pin(body: Any, faults: List[str]) -> Pin:
    if isinstance(body, dict):
        seq, line_hash, owed = _count(body.get("seq")), body.get("hash"), body.get("owed", [])
        if seq is not None and isinstance(line_hash, str) and isinstance(owed, list):
            line_hash = line_hash if seq else ""  # number 0 is no line, and has no hash
            return Pin(seq, line_hash, tuple(line for line in owed if isinstance(line, dict)))
    faults.append("its pin of the audit is missing or damaged")
    return Pin()


def _written(body: Any) -> Optional[Tuple[str, int]]:
    if isinstance(body, dict):
        boot, boot_ms = body.get("boot"), _count(body.get("boot_ms"))
        if isinstance(boot, str) and boot_ms is not None:
            return boot, boot_ms
    return None


def _count(value: Any) -> Optional[int]:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and len(value) <= _LONGEST else None


def _short(value: Any) -> str:
    return excerpt(repr(value), 40)


def _load(data: bytes) -> Any:
    if len(data) > MAX_BYTES:
        raise Broken(f"it is larger than {MAX_BYTES} bytes")
    if not data.strip():
        raise Broken("it is empty")
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            parse_float=_number,
            parse_int=_number,
            # What is no number stays text: one bad number must not take its neighbours along.
            parse_constant=str,
        )
    except UnicodeDecodeError:
        raise Broken("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise Broken(f"it is not JSON: {error.msg} (line {error.lineno})") from None
    except RecursionError:
        raise Broken("it nests too deep") from None
    except ValueError as error:
        raise Broken(f"it is not JSON: {error}") from None


def _number(text: str) -> Union[int, float, str]:
    if len(text) > _LONGEST_NUMERAL:
        return text
    return int(text) if text.lstrip("-").isdigit() else _finite(text)


def _finite(text: str) -> Union[float, str]:
    value = float(text)
    return text if value in (float("inf"), float("-inf")) else value
