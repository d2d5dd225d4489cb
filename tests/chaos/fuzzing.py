"""A fuzzer for overrides: documents and audits, mutated byte by byte, against three promises.

No bytes crash a reader. No garbage hides a kill that stands there as it should, and none becomes a
value that the contract does not allow. A change on top of any garbage goes through, and takes no
whole line from the audit. What is expected is worked out from the bytes by Python's own JSON.

Run it as ``python -m tests.chaos.fuzzing --documents 1000000``; it stops at the first promise that
is broken and prints the bytes, and the seed that leads there again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relayconf.contract.reading import from_document
from relayconf.overrides import audit, changes
from relayconf.overrides.document import Broken, Document, Override, parse, render
from relayconf.overrides.layer import override_layer
from relayconf.overrides.reading import Reader, Reading
from relayconf.overrides.rebuild import rebuild
from relayconf.overrides.store import Store
from relayconf.overrides.ttl import End
from relayconf.resolve import resolve
from relayconf.state.directory import make

FLAG = {"kind": "kill-switch", "kill": False, "owner": "me", "why": "permanent"}
CONTRACT = from_document(
    {
        "x-relayconf": {"version": 1, "target": "app", "prefix": "APP_"},
        "properties": {
            "APP_FAST": {
                "default": True,
                "x-relayconf": {"type": "boolean", "live": True, "flag": FLAG},
            },
            "APP_N": {"default": 5, "x-relayconf": {"type": "integer", "min": 1, "max": 100}},
        },
    },
    origin="fuzzing",
)

KILL = Override("a" * 12, "app", "APP_FAST", "kill", "false", "why", "me", None, generation=3)
SET = Override("b" * 12, "app", "APP_N", "set", "7", "why", "me", None, generation=2)
ENDED = KILL._replace(id="c" * 12, name="APP_OTHER", end=End("2099-01-01T00:00:00Z", "boot", 9))
BECAUSE = changes.Because("fuzzing", "fuzzer")

#: Pieces that a slip, an editor or an attacker may put anywhere.
PIECES = (
    *(
        b"null",
        b"[]",
        b"{}",
        b'"kill"',
        b'"set"',
        b'"APP_FAST"',
        b"NaN",
        b"1e999",
        b"-0",
        b"\\u0000",
    ),
    *(
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x00",
        b'"',
        b"}",
        b"]",
        b",",
        b"\n",
        b"9" * 5000,
        b"[" * 3000,
    ),
    *(b'"version": 2', b'"entries": []', b'"expires_at": "2020-01-01T00:00:00Z"', b"\\ud800"),
)


def seeds() -> list[bytes]:
    """Return what is mutated: documents with and without kills, and of other makers."""
    documents = [Document(3, overrides=each) for each in ((KILL,), (SET, KILL, ENDED), (SET,), ())]
    by_hand = {"version": 1, "entries": [{"target": "app", "name": "APP_FAST", "kind": "kill"}]}
    return [*map(render, documents), json.dumps(by_hand, indent=2).encode()]


def lines() -> list[bytes]:
    """Return a short audit: a value, a kill, and nothing that takes the kill away."""
    pin, made = Document().audit, []
    for override in (SET, KILL):
        body = {"action": override.kind, "generation": 1, **override._asdict(), "end": None}
        line = audit.chained({k: v for k, v in body.items() if k != "store"}, pin)
        pin = pin._replace(seq=line["seq"], hash=line["hash"])
        made.append(audit.encode(line).rstrip(b"\n"))
    return made


def mutated(data: bytes, dice: random.Random) -> bytes:
    """Return some bytes with one to four things done to them."""
    done = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at, to = sorted(dice.randint(0, len(done)) for _ in range(2))
        kind = dice.randrange(6)
        if kind == 0 and done:
            done[min(at, len(done) - 1)] = dice.randrange(256)
        elif kind == 1:
            done[at:at] = dice.choice(PIECES)
        elif kind == 2:
            del done[at : min(to, at + dice.choice((1, 4, 64)))]
        elif kind == 3:
            done[at:at] = done[at:to][:200]
        elif kind == 4:
            done[at:to] = dice.choice(PIECES) if to - at < 40 else done[at:to]
        else:
            del done[at if dice.random() < 0.1 else len(done) :]
    return bytes(done)


def must_be_killed(data: bytes) -> bool:
    """Whether a document says so plainly that the flag is killed that nobody reads it otherwise."""
    try:
        body = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    entries = body.get("entries") if isinstance(body, dict) else None
    wanted = {"target": "app", "name": "APP_FAST", "kind": "kill"}
    return isinstance(entries, list) and any(
        isinstance(each, dict) and wanted.items() <= each.items() and each.get("expires_at") is None
        for each in entries
    )


def check_document(data: bytes, dice: random.Random) -> None:
    """Hold a document against the first two promises."""
    del dice
    try:
        found = parse(data)
    except Broken:
        return
    layer = override_layer(CONTRACT, Reading(found, (), "document"))
    values: dict[str, Any] = resolve(CONTRACT, [layer]).values
    killed, said = (
        any(e.name == "APP_FAST" for e in each) for each in (layer.kills, layer.entries)
    )
    assert values["APP_FAST"] is (not killed) or (said and not killed)
    assert 1 <= values["APP_N"] <= 100
    assert values["APP_FAST"] is False or not must_be_killed(data)
    assert parse(render(found)).overrides == found.overrides


def check_audit(data: bytes, dice: random.Random) -> None:
    """Hold a rebuilding from a mutated audit, with any copy, against the first two promises."""
    whole = lines()
    texts = mutated(b"\n".join(whole), dice).split(b"\n")
    found = rebuild(data, texts)
    if found is not None and whole[1] in texts and must_be_killed(render(found)) is False:
        copy_knows = _seq(data) >= 2
        assert copy_knows, texts


def _seq(data: bytes) -> int:
    try:
        return parse(data).audit.seq
    except Broken:
        return 0


class Folder:
    """A state directory in which changes are made on top of garbage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = make(str(path))
        first = changes.kill([changes.Assignment("app", "APP_FAST", "false")], BECAUSE)
        Store(self.directory).change(first)
        self.lines = (path / audit.NAME).read_bytes().splitlines()

    def check_change(self, data: bytes, dice: random.Random) -> None:
        """Hold a change on top of garbage against the third promise."""
        (self.path / "overrides.json").write_bytes(data)
        Reader(str(self.path)).read()
        flag = [changes.Assignment("app", "APP_FAST", "false")]
        edit = changes.kill(flag, BECAUSE)
        if dice.random() < 0.5:
            edit = changes.restore(lambda _target, _name: True, BECAUSE)
        outcome = Store(self.directory).change(edit)
        killed = outcome.document.find("app", "APP_FAST", "kill") is not None
        assert killed == bool(edit(Document()).made)
        now = (self.path / audit.NAME).read_bytes().splitlines()
        assert self.lines == now[: len(self.lines)]
        # Without a change the pin is what the garbage says, and may well be wrong.
        assert not outcome.changed or not audit.verify(now, outcome.document.audit)
        self.lines = now


def main() -> int:
    """Fuzz, and say what was tried; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    pool = seeds()
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name) / "state")
        checks: list[tuple[Callable[[bytes, random.Random], None], int]] = [
            (check_document, 1),
            (check_audit, 10),
            (folder.check_change, 500),
        ]
        for number in range(arguments.documents):
            data = mutated(dice.choice(pool), dice)
            for check, every in checks:
                if number % every == 0:
                    try:
                        check(data, dice)
                    except Exception as error:  # noqa: BLE001 - whatever it is, it is a find
                        where = f"seed {arguments.seed}, document {number}, {check.__name__}"
                        sys.stderr.write(f"{where}: {error!r}\n{data!r}\n")
                        return 1
    sys.stdout.write(f"{arguments.documents} documents, no promise broken\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
