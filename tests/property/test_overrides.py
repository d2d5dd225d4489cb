"""Overrides under any input: no bytes crash a reader, no garbage hides a kill or makes a value."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from relayconf.contract.reading import from_document
from relayconf.overrides import audit, changes
from relayconf.overrides.document import Broken, Document, Override, Pin, Quarantined, parse, render
from relayconf.overrides.layer import override_layer
from relayconf.overrides.reading import Reader, Reading, audit_lines
from relayconf.overrides.rebuild import rebuild
from relayconf.overrides.store import Store
from relayconf.overrides.ttl import End
from relayconf.resolve import Resolution, resolve
from relayconf.setting import Contract
from relayconf.state.clock import Clock
from relayconf.state.directory import make


def contract() -> Contract:
    """Return a contract with a flag, a bounded integer and a secret."""
    flag = {"kind": "kill-switch", "kill": False, "owner": "me", "why": "permanent"}
    properties = {
        "APP_FAST": {
            "default": True,
            "x-relayconf": {"type": "boolean", "live": True, "flag": flag},
        },
        "APP_N": {"default": 5, "x-relayconf": {"type": "integer", "min": 1, "max": 100}},
        "APP_KEY": {"x-relayconf": {"type": "secret"}},
    }
    facts = {"version": 1, "target": "app", "prefix": "APP_"}
    return from_document({"x-relayconf": facts, "properties": properties}, origin="test")


CONTRACT = contract()
CLOCK = Clock(lambda: 1_800_000_000.0, lambda: 1_000_000, lambda: "this-boot")

KILL = {"target": "app", "name": "APP_FAST", "kind": "kill"}

#: Anything that JSON can say, and what it cannot but Python's reader takes.
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)

#: Entries that are nearly right: the right keys, with anything in them.
NEAR = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON,
        "target": st.sampled_from(["app", "other"]) | JSON,
        "name": st.sampled_from(["APP_FAST", "APP_N", "APP_KEY", "APP_M"]) | JSON,
        "kind": st.sampled_from(["kill", "set"]) | JSON,
        "value": st.sampled_from(["true", "7", "junk", "1000", ""]) | JSON,
        "reason": JSON,
        "expires_at": st.sampled_from(["2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"]) | JSON,
        "expires_boot": st.just({"boot": "this-boot", "boot_ms": 5}) | JSON,
        "generation": JSON,
    },
)


def resolved(document: Document) -> Resolution:
    """Return what a process makes of a document."""
    reading = Reading(document, (), "document")
    return resolve(CONTRACT, [override_layer(CONTRACT, reading, clock=CLOCK)])


def is_right(found: Resolution) -> None:
    """Check that no value is one that the contract does not allow."""
    values = found.values
    assert values["APP_FAST"] in (True, False)
    assert isinstance(values["APP_N"], int)
    assert 1 <= values["APP_N"] <= 100
    assert values["APP_KEY"] is None


class TestDocuments:
    @given(st.binary(max_size=400))
    def test_any_bytes(self, data: bytes) -> None:
        """Bytes are a document or a reason, and what is a document can be written and resolved."""
        try:
            found = parse(data)
        except Broken:
            return
        is_right(resolved(found))
        assert parse(render(found)).overrides == found.overrides

    @given(st.lists(NEAR | JSON, max_size=6), st.integers(0, 6), JSON)
    def test_a_kill_among_anything(self, entries: list[Any], at: int, head: Any) -> None:
        """A kill without an end engages, whatever stands around it."""
        entries.insert(at, KILL)
        body = {"entries": entries, "generation": head, "audit": head, "written": head}
        found = parse(json.dumps(body).encode())
        values = resolved(found)
        assert (False, "killed") == (
            values.values["APP_FAST"],
            values.settings["APP_FAST"].status,
        )
        is_right(values)
        # Writing it again changes nothing of that.
        assert parse(render(found)).overrides == found.overrides

    @given(st.integers(0, 2**32), st.integers(1, 30))
    def test_a_damaged_one(self, seed: int, count: int) -> None:
        """Bytes that are flipped, cut or doubled crash nothing and make no value."""
        source = random.Random(seed)
        entries = [KILL, {**KILL, "name": "APP_N", "kind": "set", "value": "7"}]
        data = bytearray(render(parse(json.dumps({"entries": entries}).encode())))
        for _ in range(count):
            at = source.randrange(len(data))
            data[at : at + source.randrange(3)] = source.randbytes(source.randrange(4))
            if not data:
                break
        try:
            is_right(resolved(parse(bytes(data))))
        except Broken:
            return

    texts = st.text(max_size=20)
    counts = st.integers(0, 2**62)
    overrides = st.builds(
        Override,
        texts.filter(bool),
        texts.filter(bool),
        texts.filter(bool),
        st.sampled_from(["kill", "set"]),
        texts,
        texts | st.none(),
        texts | st.none(),
        texts | st.none(),
        texts | st.none(),
        st.none() | st.builds(End, st.just("2026-11-30T12:00:00Z"), texts.filter(bool), counts),
        counts,
        st.just("overrides.json"),
    )

    @given(
        st.integers(0, 2**53),
        st.just(Pin()) | st.builds(Pin, st.integers(1, 2**62), texts, st.just(())),
        st.lists(overrides, max_size=4, unique_by=lambda o: o.key),
    )
    def test_writing_and_reading(self, generation: int, pin: Pin, entries: list[Override]) -> None:
        """What is written is what is read."""
        document = Document(generation, pin, tuple(entries), (Quarantined(5, "it is no object"),))
        assert document == parse(render(document))


class TestAudits:
    @given(
        st.lists(st.binary(max_size=60) | NEAR.map(lambda e: json.dumps(e).encode()), max_size=6)
    )
    def test_any_lines(self, lines: list[bytes]) -> None:
        """No line crashes what verifies or rebuilds, and lines without a hash make nothing."""
        assert lines == [] or audit.verify(lines, Pin()) != []
        assert rebuild(None, lines) is None

    @given(st.lists(NEAR, max_size=5))
    def test_any_bodies(self, bodies: list[Any]) -> None:
        """Whatever a chained line says, a rebuilt document is one that can be written and used."""
        lines, pin = [], Pin()
        for body in bodies:
            line = audit.chained({**body, "action": body.get("kind")}, pin)
            pin = Pin(line["seq"], line["hash"])
            lines.append(audit.encode(line).rstrip(b"\n"))
        assert [] == audit.verify(lines, pin)
        found = rebuild(None, lines)
        if found is not None:
            is_right(resolved(found))
            assert parse(render(found)).overrides == found.overrides


class Operators(RuleBasedStateMachine):
    """Operators and accidents in one directory; a model says what must be in force."""

    names = st.sampled_from(["APP_ONE", "APP_TWO", "APP_THREE"])

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "state"
        self.directory = make(str(self.path))
        self.killed: set[str] = set()
        self.reader = Reader(str(self.path))
        self.reader.read()
        self.whole = True

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.directory.close()
        self._folder.cleanup()

    def change(self, editing: changes.Editing) -> None:
        """Make a change; after it the document is whole."""
        Store(self.directory).change(editing)
        self.whole = True

    @rule(name=names)
    def kill(self, name: str) -> None:
        """Somebody kills."""
        flag = changes.Assignment("app", name, "false")
        self.change(changes.kill([flag], changes.Because("r", "me")))
        self.killed.add(name)

    @rule(name=names)
    def restore(self, name: str) -> None:
        """Somebody restores."""
        self.change(changes.restore(lambda _, it: it == name, changes.Because("r", "me")))
        self.killed.discard(name)

    @rule(data=st.sampled_from([b"", b"{", b"\xff", b"[]"]))
    def damage(self, data: bytes) -> None:
        """Something damages the document, as long as there is one."""
        path = self.path / "overrides.json"
        if path.exists():
            path.write_bytes(data)
            self.whole = False

    @rule()
    def remove(self) -> None:
        """Somebody removes the document."""
        if (self.path / "overrides.json").exists():
            (self.path / "overrides.json").unlink()
            self.whole = False

    @rule()
    def lose_the_copy(self) -> None:
        """The copy goes; the audit is enough."""
        (self.path / "overrides.last.json").unlink(missing_ok=True)

    @rule(data=st.binary(max_size=20).filter(lambda data: b"\n" not in data))
    def tear(self, data: bytes) -> None:
        """A loss of power leaves a piece of a line."""
        path = self.path / "audit.jsonl"
        if self.whole and path.exists():
            with path.open("ab") as file:
                file.write(data)

    @invariant()
    def every_process_knows_every_kill(self) -> None:
        """One that runs, and one that starts now, whatever has happened."""
        for reader in (self.reader, Reader(str(self.path))):
            found = {override.name for override in reader.read().document.overrides}
            assert self.killed == found

    @invariant()
    def the_chain_is_whole(self) -> None:
        """No line is lost, and none is in doubt but a torn one at the end."""
        pin = Store(self.directory).read().audit
        lines = [text for text in audit_lines(self.directory) if audit.parse(text) is not None]
        assert [] == audit.verify(lines, pin)


TestOperators = Operators.TestCase
TestOperators.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
