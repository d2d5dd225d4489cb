"""The audit's chain: whatever is done to a line, or to the end, is found and named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relayconf.overrides import audit
from relayconf.overrides.document import Pin
from relayconf.overrides.rebuild import rebuild

EARLY = "2026-11-30T12:00:00.000Z"


def chain(count: int) -> tuple[list[bytes], Pin]:
    lines, pin = [], Pin()
    for number in range(1, count + 1):
        body: dict[str, Any] = {
            "action": "kill",
            "target": "app",
            "name": f"APP_{number}",
            "kind": "kill",
            "generation": number,
        }
        line = audit.chained(body, pin)
        pin = Pin(line["seq"], line["hash"])
        lines.append(audit.encode(line).rstrip(b"\n"))
    return lines, pin


class TestVerify:
    def test_a_whole_one(self) -> None:
        """Nothing is wrong with what nobody touched, nor with an empty one."""
        lines, pin = chain(5)
        assert [] == audit.verify(lines, pin)
        assert [] == audit.verify([], Pin())

    def test_an_altered_line(self) -> None:
        """The first bad line is named by its number."""
        lines, pin = chain(5)
        lines[2] = lines[2].replace(b"APP_3", b"APP_9")
        assert audit.verify(lines, pin)[0].startswith("line 3: its content does not fit its hash")

    def test_an_altered_line_with_a_new_hash(self) -> None:
        """A line that was made anew does not fit the next one."""
        lines, pin = chain(5)
        body = {**json.loads(lines[2]), "name": "APP_9"}
        lines[2] = audit.encode({**body, "hash": audit.digest(body)}).rstrip(b"\n")
        assert audit.verify(lines, pin)[0].startswith("line 4: it does not follow")

    def test_a_removed_line(self) -> None:
        """What follows a gap names it."""
        lines, pin = chain(5)
        del lines[2]
        assert audit.verify(lines, pin)[0].startswith("line 3: it is number 4 and should be 3")

    @pytest.mark.parametrize("left", [0, 3])
    def test_a_cut_off_tail(self, left: int) -> None:
        """The document knows how many there were."""
        lines, pin = chain(5)
        faults = audit.verify(lines[:left], pin)
        assert faults[0].startswith(f"line {left + 1}: missing")
        assert f"{left + 1} to 5" in faults[0]

    def test_a_replaced_audit(self) -> None:
        """Another chain of the same length is not the one that the document knows."""
        lines, _ = chain(5)
        assert "was replaced" in audit.verify(lines, Pin(5, "0" * 64))[0]

    def test_a_repeated_line(self) -> None:
        """A line that stands twice is found."""
        lines, pin = chain(3)
        assert audit.verify([*lines[:2], *lines[1:]], pin)[0].startswith("line 3: it is number 2 ")

    def test_lines_after_the_pin(self) -> None:
        """A change that was interrupted before its rename leaves a line, and the chain whole."""
        lines, _ = chain(5)
        assert [] == audit.verify(lines, Pin(4, json.loads(lines[3])["hash"]))

    @pytest.mark.parametrize("line", [b"{", b"17", b"{}", b"[" * 100_000, b"\xff", b'{"seq": "1"}'])
    def test_what_is_no_line(self, line: bytes) -> None:
        """Any bytes are judged, and none is a traceback."""
        lines, pin = chain(2)
        assert audit.verify([line, *lines], pin)[0].startswith("line 1: ")


class TestRebuild:
    def test_from_the_audit_alone(self) -> None:
        """Where no copy is left, every kill of the audit is in force."""
        lines, pin = chain(3)
        found = rebuild(None, lines)
        assert found is not None
        assert (3, pin) == (found.generation, found.audit)
        assert ["APP_1", "APP_2", "APP_3"] == [o.name for o in found.overrides]

    def test_an_intact_restore_takes_a_kill_away(self) -> None:
        """What was restored before the loss stays restored."""
        lines, pin = chain(2)
        body = {"action": "restore", "target": "app", "name": "APP_1", "kind": "kill"}
        lines.append(audit.encode(audit.chained(body, pin)).rstrip(b"\n"))
        found = rebuild(None, lines)
        assert found is not None
        assert ["APP_2"] == [o.name for o in found.overrides]

    @pytest.mark.parametrize("damage", ["restore", "before"])
    def test_no_other_restore_does(self, damage: str) -> None:
        """One that was altered, or stands behind a break in the chain, takes nothing away."""
        lines, pin = chain(2)
        body = {"action": "restore", "target": "app", "name": "APP_1", "kind": "kill"}
        lines.append(audit.encode(audit.chained(body, pin)).rstrip(b"\n"))
        index = {"restore": 2, "before": 1}[damage]
        lines[index] = lines[index].replace(b'"kind"', b'"xind"')
        found = rebuild(None, lines)
        assert found is not None
        assert "APP_1" in [o.name for o in found.overrides]

    def test_a_kill_behind_a_break_counts(self) -> None:
        """A kill is believed as long as its own line is whole."""
        lines, _ = chain(3)
        del lines[1]
        found = rebuild(None, lines)
        assert found is not None
        assert ["APP_1", "APP_3"] == [o.name for o in found.overrides]

    @pytest.mark.parametrize(
        "interrupted",
        [
            {"action": "restore", "name": "APP_1", "kind": "kill"},
            {"action": "kill", "name": "APP_1", "kind": "kill", "expires_at": EARLY},
            {"action": "set", "name": "APP_9", "kind": "set", "value": "5"},
        ],
    )
    def test_what_was_never_in_force_does_not_count(self, interrupted: dict[str, Any]) -> None:
        """A change that was interrupted takes no kill away, cuts none short, and sets nothing."""
        lines, pin = chain(1)
        for body in ({"target": "app", **interrupted}, {"action": "void", "of": [2]}):
            line = audit.chained(body, pin)
            pin = Pin(line["seq"], line["hash"])
            lines.append(audit.encode(line).rstrip(b"\n"))
        found = rebuild(None, lines)
        assert found is not None
        assert [("APP_1", None)] == [(o.name, o.end) for o in found.overrides]

    @pytest.mark.parametrize("of", [7, None, [1], [[1]], [True], ["2"], [10**30]])
    def test_what_a_void_line_may_not_say(self, of: object) -> None:
        """No such line takes a kill away, whatever it names."""
        lines, pin = chain(2)
        lines.append(audit.encode(audit.chained({"action": "void", "of": of}, pin)).rstrip(b"\n"))
        found = rebuild(None, lines)
        assert found is not None
        assert ["APP_1", "APP_2"] == [o.name for o in found.overrides]

    def test_nothing_comes_of_nothing(self) -> None:
        """Without copy and audit there is no document."""
        assert rebuild(None, []) is None
        assert rebuild(b"\xff", [b"17"]) is None
