"""The audit: one line for every change, each chained to the one before it by its hash.

A line says what was changed, by whom as they claim, and why. Its hash covers the line and the hash
before it, and the document pins the last one: a line that was altered, removed or cut off is found
and named. It is no proof against whoever may write the state directory. Ground floor.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

from relayconf.overrides.document import Pin

NAME = "audit.jsonl"

#: A longer line is none of ours.
MAX_LINE = 256 * 1024

Json = Dict[str, Any]


class Line(NamedTuple):
    """One line as it stands.

    ``number`` counts from 1. ``body`` is ``None`` where it is no line of an audit; ``fault`` says
    what is wrong with it, or with its place in the chain.
    """

    number: int
    body: Optional[Json]
    fault: Optional[str]

    @property
    def seq(self) -> int:
        """Its number in the chain, 0 where it has none."""
        return 0 if self.body is None else int(self.body["seq"])


def digest(body: Json) -> str:
    """Return the hash of a line: over everything in it but the hash itself."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and most readers look at no line

    rest = {key: value for key, value in body.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def chained(body: Json, pin: Pin) -> Json:
    """Return a line as it follows the pinned one."""
    line = {"seq": pin.seq + 1, **body, "prev": pin.hash}
    line["hash"] = digest(line)
    return line


def encode(body: Json) -> bytes:
    """Return the bytes of a line."""
    return json.dumps(body).encode() + b"\n"


def parse(text: bytes) -> Optional[Json]:
    """Return the line that some bytes are, whole and with its own hash; ``None`` otherwise."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    seq, prev = body.get("seq"), body.get("prev")
    if type(seq) is not int or seq < 1 or not isinstance(prev, str):
        return None
    try:
        return body if body.get("hash") == digest(body) else None
    except RecursionError:
        return None


def scan(texts: Iterable[bytes]) -> Iterator[Line]:
    """Judge the lines of an audit in their order, given without their ends."""
    pin = Pin()
    for number, text in enumerate(texts, 1):
        body = parse(text)
        if body is None:
            yield Line(number, None, _what_is_wrong(text))
            continue
        fault = None
        if body["seq"] != pin.seq + 1:
            fault = f"it is number {body['seq']} and should be {pin.seq + 1}: lines are missing"
            if body["seq"] <= pin.seq:
                fault = f"it is number {body['seq']} again, after {pin.seq}"
        elif body["prev"] != pin.hash:
            fault = "it does not follow the line before it: one of both was altered"
        yield Line(number, body, fault)
        pin = Pin(body["seq"], body["hash"])


def verify(texts: Sequence[bytes], pin: Pin) -> List[str]:
    """Return what is wrong with an audit, the first thing first; nothing where it is whole.

    Args:
        texts: its lines.
        pin: the line that the document knows to be there. More may follow it: those of a change
            that was interrupted before the document was renamed.
    """
    faults = []
    hashes: Dict[int, str] = {0: ""}
    last = 0
    for line in scan(texts):
        if line.fault is not None:
            faults.append(f"line {line.number}: {line.fault}")
        if line.body is not None:
            last = max(last, line.seq)
            hashes[line.seq] = line.body["hash"]
    if pin.seq > last:
        count = f"{last + 1} to {pin.seq}" if pin.seq > last + 1 else f"{pin.seq}"
        faults.append(f"line {len(texts) + 1}: missing; the document knows of number {count}")
    elif pin.seq in hashes and hashes[pin.seq] != pin.hash:
        faults.append(f"number {pin.seq} is another than the document knows: it was replaced")
    if pin.owed:
        faults.append(f"{len(pin.owed)} change(s) could not be written to it yet")
    return faults


def _what_is_wrong(text: bytes) -> str:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return "it is no JSON: damaged or cut off"
    if not isinstance(body, dict) or "hash" not in body:
        return "it is no line of an audit"
    return "its content does not fit its hash: it was altered"
