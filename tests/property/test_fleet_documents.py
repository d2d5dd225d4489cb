"""The documents of a fleet, whatever stands in them: read or refused, never a crash; and back."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relayconf.fleet import chain, lastgood, waiting
from relayconf.fleet.engine import Change, InstanceRecord, Item
from relayconf.fleet.known import Known
from relayconf.fleet.record import FleetEntry, Position, Scope, from_body, to_body
from relayconf.fleet.records import applied_text, read_applied, read_record, record_text
from relayconf.overrides.document import KINDS, Override
from relayconf.overrides.ttl import End

texts = st.text(max_size=12)
names = st.text(min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
counts = st.integers(0, 1 << 52)
positions = st.builds(Position, texts, counts, texts)
scopes = st.builds(Scope, st.none() | names, st.none() | names)
ends = st.none() | st.builds(
    End, st.just("2026-11-30T12:00:00.000Z"), st.just("boot"), st.integers(0, 1 << 40)
)
ids = st.from_regex(r"[0-9A-Za-z_-]{1,12}", fullmatch=True)
overrides = st.builds(
    Override,
    ids,
    names,
    names,
    st.sampled_from(KINDS),
    texts,
    st.none() | texts,
    st.none() | texts,
    st.none() | texts,
    st.just("2026-11-30T12:00:00.000Z"),
    ends,
    st.just(0),
    st.just("fleet"),
)


@st.composite
def entries(draw: st.DrawFn) -> FleetEntry:
    """Draw an entry that somebody could have written."""
    override, tombstone = draw(overrides), draw(st.booleans())
    if tombstone:
        override = override._replace(value="", end=None)
    return FleetEntry(override, draw(scopes), tombstone, draw(counts), draw(texts), draw(counts))


known = st.builds(
    Known,
    positions,
    st.lists(entries(), max_size=4).map(tuple),
    st.lists(entries(), max_size=2).map(tuple),
    st.none() | st.tuples(names, counts),
    st.integers(1, 60_000),
    st.booleans(),
    heard=st.none() | st.tuples(names, counts),
)

#: Fields as a document has them, with anything at all in some.
broken = st.dictionaries(
    st.sampled_from(
        [
            "id",
            "target",
            "name",
            "kind",
            "value",
            "reason",
            "expires_at",
            "expires_boot",
            "scope",
            "tombstone",
            "revision",
            "epoch",
            "at_ms",
            "changes",
            "version",
            "expected",
            "entry",
            "applied",
            "host",
            "pid",
            "sum",
            "held",
        ]
    ),
    json_values | st.sampled_from(["kill", "set", 1, [], {}]),
)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


class TestThereAndBack:
    @given(entries())
    def test_an_entry(self, entry: FleetEntry) -> None:
        """What an entry says survives being written."""
        found = from_body(json.loads(json.dumps(to_body(entry))))
        assert found == entry._replace(revision=0, epoch="", at_ms=0)

    @given(known)
    def test_a_last_good_file(self, known: Known) -> None:
        """What a host knows survives its file."""
        found = lastgood.parse(lastgood.render(known))
        # What was taken in is each process's own.
        assert found._replace(faults=known.faults, taken=known.taken) == known

    @given(st.lists(st.builds(waiting.Waiting, entries(), positions), max_size=4))
    def test_a_queue(self, changes: list[waiting.Waiting]) -> None:
        """What waits survives its file, in its order."""
        found = waiting.parse(waiting.render(changes)).changes
        assert [each.id for each in found] == [each.id for each in changes]
        assert [each.expected for each in found] == [each.expected for each in changes]
        assert [each.entry.key for each in found] == [each.entry.key for each in changes]

    @given(entries(), counts, counts)
    def test_a_line(self, entry: FleetEntry, revision: int, at_ms: int) -> None:
        """A line reads as what was written, by Python's words for it and by the server's."""
        body = chain.body_text(Change("c1", entry))
        assert body.isascii()
        item = chain.read_item(chain.line_text("c1", body, (revision, "e"), at_ms, None))
        assert isinstance(item, Item)
        assert (item.position[:2], item.at_ms, item.expires_ms) == (("e", revision), at_ms, None)
        assert not isinstance(from_body(item.body), str)

    @given(
        st.builds(
            InstanceRecord,
            names,
            texts,
            texts,
            counts,
            positions,
            counts,
            st.none() | texts,
            texts,
            st.lists(texts).map(tuple),
        )
    )
    def test_a_record(self, record: InstanceRecord) -> None:
        """What an instance says of itself survives the store."""
        assert read_record(record_text(record), 0) == record
        line = read_applied(applied_text(record), 7, record.applied.revision, 5)
        assert line is not None
        assert line["took_ms"] == 2


class TestWhateverStandsThere:
    @given(json_values | broken)
    def test_an_entry(self, body: Any) -> None:
        """Any JSON is an entry or has a reason; a kill needs only whom it is for."""
        found = from_body(body)
        assert isinstance(found, FleetEntry | str)

    @given(names, names, broken)
    def test_nothing_holds_up_a_kill(self, target: str, name: str, rest: dict[str, Any]) -> None:
        """Whatever stands beside target, name and kind, a kill is one."""
        rest.pop("tombstone", None)
        found = from_body({**rest, "target": target, "name": name, "kind": "kill"})
        assert isinstance(found, FleetEntry)
        assert found.is_kill

    @given(st.binary(max_size=60) | (json_values | broken).map(as_json))
    def test_files_and_lines(self, data: bytes) -> None:
        """Bytes of any kind are read or refused."""
        with suppress(lastgood.Damaged):
            lastgood.parse(data)
        waiting.parse(data)
        chain.read_item(data)
        text = data.decode("utf-8", "replace")
        read_record(text, 0)
        read_applied(text, 0, 0, 0)
        chain.audit_line(text, "", "")

    @given(known, st.data())
    def test_a_damaged_file_is_noticed(self, known: Known, data: st.DataObject) -> None:
        """A file in which any byte was changed says what was written, or is refused."""
        whole = lastgood.render(known)
        place = data.draw(st.integers(0, len(whole) - 1))
        other = data.draw(st.integers(0, 255))
        damaged = whole[:place] + bytes([other]) + whole[place + 1 :]
        try:
            found = lastgood.parse(damaged)
        except lastgood.Damaged:
            return
        assert found == lastgood.parse(whole)
