"""The document of overrides: a kill engages whatever stands beside it, the rest is judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relayconf.overrides.document import (
    EMPTY,
    Broken,
    Document,
    Override,
    Pin,
    Quarantined,
    parse,
    render,
)
from relayconf.overrides.ttl import End

KILL = {"target": "app", "name": "APP_FAST", "kind": "kill"}


def document(*entries: Any, **head: Any) -> Document:
    body = {"version": 1, "generation": 7, "audit": {"seq": 0, "hash": ""}, **head}
    return parse(json.dumps({**body, "entries": list(entries)}).encode())


class TestKills:
    def test_one_needs_target_name_and_kind(self) -> None:
        """A kill that somebody writes by hand in the night is three words long."""
        (kill,) = document(KILL).overrides
        assert ("app", "APP_FAST", "kill", None) == (*kill.key, kill.end)

    @pytest.mark.parametrize(
        "text",
        [
            '17, "x", null, [[]], {}, {"target": 3}',
            '{"target": "app", "name": "", "kind": "kill"}',
            '{"kind": "set", "target": "app", "name": "APP_N", "value": 5}',
            '{"a": 1e400}, {"b": NaN}, {"c": -Infinity}, {"d": ' + "9" * 5000 + "}",
            '{"target": "app", "name": "APP_N", "kind": "set", "value": "1", "expires_at": "soon"}',
            '"\\ud800", {"name": "\\udfff", "target": "\\u0000", "kind": "K"}',
            "[" * 200 + "]" * 200,
        ],
    )
    def test_garbage_beside_it_changes_nothing(self, text: str) -> None:
        """A kill engages although its neighbours are no entries."""
        found = parse(f'{{"entries": [{text}, {json.dumps(KILL)}]}}'.encode())
        assert [("app", "APP_FAST", "kill")] == [o.key for o in found.overrides]
        assert found.quarantined

    def test_garbage_in_it_changes_nothing(self) -> None:
        """Every other field of a kill may be anything; an end that cannot be read is none."""
        found = document({**KILL, "value": 7, "reason": [], "id": {}, "expires_at": "tomorrow"})
        (kill,) = found.overrides
        assert (None, None) == (kill.end, kill.reason)
        assert "does not end" in " ".join(found.faults)

    def test_the_longer_of_two_counts(self) -> None:
        """A second kill that ends does not take away one that does not."""
        ending = {**KILL, "id": "ends", "expires_at": "2026-11-30T12:00:00Z"}
        for entries in ((ending, KILL), (KILL, ending)):
            (kill,) = document(*entries).overrides
            assert kill.end is None


class TestValues:
    def test_the_last_of_two_counts(self) -> None:
        """As in every file, the later one of two values for one setting speaks."""
        entry = {"target": "app", "name": "APP_N", "kind": "set"}
        (value,) = document({**entry, "value": "1"}, {**entry, "value": "2"}).overrides
        assert "2" == value.value

    def test_a_kill_and_a_value_stand_side_by_side(self) -> None:
        """There is one entry for each target, name and kind."""
        value = {**KILL, "kind": "set", "value": "true"}
        assert 2 == len(document(KILL, value).overrides)


class TestWhole:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"", "empty"),
            (b" \n", "empty"),
            (b"{", "not JSON"),
            (b"[]", "no JSON object"),
            (b'{"entries": {}}', "no list of entries"),
            (b'{"version": 2, "entries": []}', "version is 2"),
            (b'{"version": true, "entries": []}', "version is True"),
            (b'{"entries": [\xff]}', "not UTF-8"),
            (b'{"entries": ' + b"[" * 100_000, "nests too deep"),
            (b" " * (1 << 20) + b"{}", "larger than"),
        ],
    )
    def test_what_is_none_is_refused_as_a_whole(self, data: bytes, reason: str) -> None:
        """Bytes that are no document say why in one line."""
        with pytest.raises(Broken, match=reason):
            parse(data)

    @pytest.mark.parametrize("pin", [None, {"seq": "1", "hash": ""}, {"seq": 1}, []])
    def test_a_damaged_head_is_a_fault(self, pin: Any) -> None:
        """Generation and pin are needed by writers alone; the entries apply without them."""
        found = document(KILL, generation="seven", audit=pin)
        assert (0, Pin(), 1) == (found.generation, found.audit, len(found.overrides))
        assert 2 == len(found.faults)

    @pytest.mark.parametrize("generation", [(1 << 63) - 1, (1 << 53) + 1, 1 << 70])
    def test_a_generation_that_nothing_can_follow(self, generation: int) -> None:
        """It is damage like any other, so that the next change has a number."""
        found = document(KILL, generation=generation, audit={"seq": 0, "hash": ""})
        assert (0, 1) == (found.generation, len(found.faults))

    def test_no_line_has_no_hash(self) -> None:
        """A pin before the first line has nothing that --verify could miss."""
        assert Pin() == document(KILL, generation=1, audit={"seq": 0, "hash": "x"}).audit

    def test_what_is_written_is_read_back(self) -> None:
        """Everything survives: texts of any kind, ends, lines that are owed, unusable entries."""
        end = End("2026-11-30T12:00:00.000Z", "boot", 5)
        override = Override("i", "app", "APP_N", "set", "ü\ud800\n", "why", "me", "I", "at", end, 3)
        pin = Pin(4, "h", ({"action": "kill"},))
        kept = Quarantined({"name": "X"}, "its target is missing or no text")
        whole = Document(9, pin, (override,), (kept,), written=("boot", 7))
        assert whole == parse(render(whole))

    def test_nothing_is_a_document_too(self) -> None:
        """The empty state can be written and read."""
        assert EMPTY == parse(render(EMPTY))
