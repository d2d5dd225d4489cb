"""What a writer goes by: which of relay.json, environment and contract decides, and when."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from relay import protocol
from relay.client import options
from relay.client.declared import CONTRACT
from relay.client.directory import Held
from relay.client.options import NOTHING_TOLD, Options, OptionsSource, Told, decide, own_texts, told
from relayconf.contract.reading import load_installed
from relayconf.values import clamp

NOBODY = own_texts({})

#: What decides how a text is read; the rest of a setting is documentation.
WHAT_COUNTS = ("type", "default", "unit", "minimum", "maximum", "reject", "choices", "legacy")

#: The contract's defaults, as a writer uses them.
DEFAULTS = Options(0.3, 1.5, 5, 60.0, 16 * 1024 * 1024, watch=True)

#: What a runner with nothing set tells its writers.
ALL_TOLD: dict[str, tuple[Any, str]] = {
    "RELAY_POLL_MS": (300, "default"),
    "RELAY_POLL_MAX_MS": (1500, "default"),
    "RELAY_IDLE_GROW_AFTER": (5, "default"),
    "RELAY_TIMEOUT_MS": (60_000, "default"),
    "RELAY_MAX_RESPONSE_BYTES": (16 * 1024 * 1024, "default"),
    "RELAY_RESPONSE_WATCH_ENABLED": (True, "default"),
    "RELAY_MODE": ("auto", "default"),
}


def telling(**settings: tuple[Any, str]) -> Told:
    """Return what a runner tells, with these settings in the place of its defaults."""
    return Told({**ALL_TOLD, **settings}, ())


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test see each warning anew."""
    monkeypatch.setattr(options, "_warned", set())


class TestNames:
    def test_the_environments_names_are_the_contracts(self) -> None:
        """A writer hears every name, also a legacy one, that its contract knows."""
        contract = load_installed("relay")
        assert contract is not None
        known = [*options.NAMES, *(n for m in options.NAMES for n in contract.settings[m].legacy)]
        assert sorted(known) == sorted(options.ENVIRONMENT_NAMES)

    def test_what_is_surely_in_range_is_in_the_contracts(self) -> None:
        """A value that needs no contract is one that the contract would leave as it is."""
        contract = load_installed("relay")
        assert contract is not None
        for name, (low, high) in zip(options.NAMES, options.SURELY_IN_RANGE, strict=False):
            setting = contract.settings[name]
            assert [] == [v for v in (low, high) if clamp(setting, v) != (v, None)]

    def test_what_a_writer_declares_itself_is_the_contracts(self) -> None:
        """A copy without the contract goes by the same defaults, ranges, names and rules."""
        contract = load_installed("relay")
        assert contract is not None
        assert list(options.NAMES) == list(CONTRACT.settings)
        for name, own in CONTRACT.settings.items():
            published = contract.settings[name]
            same = {field: getattr(published, field) for field in WHAT_COUNTS}
            assert same == {field: getattr(own, field) for field in WHAT_COUNTS}
        of_writers = [r for r in contract.rules if {r.low, r.high} & set(options.NAMES)]
        assert of_writers == list(CONTRACT.rules)


class TestPrecedence:
    def test_without_anything_the_contract_decides(self) -> None:
        """A writer that nobody tells anything works with the documented defaults."""
        assert DEFAULTS == decide(NOTHING_TOLD, NOBODY)

    def test_a_runner_at_its_defaults_changes_nothing(self) -> None:
        """What the runner tells means the same as what the contract says."""
        assert DEFAULTS == decide(telling(), NOBODY)

    def test_a_runner_decides_where_the_writer_says_nothing(self) -> None:
        """A value that the runner was given reaches its writers."""
        assert 0.05 == decide(telling(RELAY_POLL_MS=(50, "env-file")), NOBODY).poll

    def test_a_partial_relay_json_is_filled_by_the_contract(self) -> None:
        """A runner that tells little leaves the rest to the contract."""
        found = decide(Told({"RELAY_TIMEOUT_MS": (5000, "option")}, ()), NOBODY)
        assert DEFAULTS._replace(timeout=5.0) == found

    def test_the_writers_environment_beats_the_runner(self) -> None:
        """Whoever starts the writer may set it apart."""
        own = own_texts({"RELAY_POLL_MS": "70ms"})
        assert 0.07 == decide(telling(RELAY_POLL_MS=(50, "environment")), own).poll

    @pytest.mark.parametrize("layer", ["override", "fleet"])
    def test_an_override_beats_the_writers_environment(self, layer: str) -> None:
        """What an operator sets during an incident reaches every writer."""
        own = own_texts({"RELAY_POLL_MS": "70ms"})
        assert 0.9 == decide(telling(RELAY_POLL_MS=(900, layer)), own).poll

    def test_a_legacy_name_counts(self) -> None:
        """A writer that still has the former names is heard."""
        own = own_texts({"AGENTA_AGENT_TOOLS_RELAY_TIMEOUT": "2000"})
        assert 2.0 == decide(telling(), own).timeout

    def test_a_blank_is_unset(self) -> None:
        """An empty variable says nothing."""
        assert DEFAULTS == decide(telling(), own_texts({"RELAY_POLL_MS": " "}))

    def test_values_are_clamped_and_rules_kept(self) -> None:
        """A writer honours the same ranges and rules as every other process."""
        found = decide(telling(), own_texts({"RELAY_POLL_MS": "5s", "RELAY_TIMEOUT_MS": "1"}))
        assert (5.0, 5.0, 0.1) == (found.poll, found.poll_max, found.timeout)

    @pytest.mark.parametrize("value", [True, 0, -5, 1.5, "junk", "1e3", 10**12, None])
    def test_a_value_that_is_none_counts_as_missing_or_is_clamped(self, value: object) -> None:
        """Whatever stands in relay.json, a writer polls within the setting's range."""
        assert 0.01 <= decide(telling(RELAY_POLL_MS=(value, "default")), NOBODY).poll <= 60

    def test_an_invalid_text_falls_through_with_one_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A value that cannot be read is named once, and the next layer decides."""
        own = own_texts({"RELAY_POLL_MS": "30000junk"})
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                assert 0.05 == decide(telling(RELAY_POLL_MS=(50, "default")), own).poll
        assert 1 == len(caplog.messages)
        assert "RELAY_POLL_MS" in caplog.messages[0]


class TestWatch:
    @pytest.mark.parametrize(
        ("flag", "mode", "watch"),
        [
            ((True, "default"), "auto", True),
            ((False, "env-file"), "auto", False),
            ((True, "default"), "poll", False),
            ((False, "env-file"), "watch", True),
            ((False, "override"), "watch", False),
            ((False, "fleet"), "watch", False),
            ((False, "fleet"), "auto", False),
            ((True, "override"), "poll", False),
        ],
    )
    def test_the_flag_and_the_mode(self, flag: tuple[bool, str], mode: str, *, watch: bool) -> None:
        """Auto follows the flag, poll never watches, watch always does, and a kill beats all."""
        found = telling(RELAY_RESPONSE_WATCH_ENABLED=flag, RELAY_MODE=(mode, "environment"))
        assert watch == decide(found, NOBODY).watch

    def test_a_kill_beats_the_writers_own_environment(self) -> None:
        """A writer that insists on its watch gives it up when it is killed outside."""
        own = own_texts({"RELAY_RESPONSE_WATCH_ENABLED": "true", "RELAY_MODE": "watch"})
        found = decide(telling(RELAY_RESPONSE_WATCH_ENABLED=(False, "fleet")), own)
        assert not found.watch


class TestRelayJson:
    @pytest.fixture
    def held(self, tmp_path: Path) -> Held:
        """Hold an empty session directory."""
        return Held(str(tmp_path))

    def publish(self, held: Held, body: object) -> None:
        """Publish a relay.json as a runner does."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        protocol.publish(held.fd, protocol.RELAY_JSON, data)

    def settings(self, **values: object) -> Mapping[str, object]:
        """Return a whole relay.json with these settings."""
        entries = {name: {"value": v, "layer": "default"} for name, v in values.items()}
        return {"protocol": 1, "settings": entries, "tools": []}

    def test_it_is_read_again_when_it_changes(self, held: Held) -> None:
        """A writer goes by the newest relay.json, and by the contract when it is gone."""
        source = OptionsSource(NOBODY)
        seen = [source.current(held).poll]
        for poll in (50, 60):
            self.publish(held, self.settings(RELAY_POLL_MS=poll))
            seen.append(source.current(held).poll)
        os.unlink("relay.json", dir_fd=held.fd)
        seen.append(source.current(held).poll)
        assert [0.3, 0.05, 0.06, 0.3] == seen

    def test_tools_are_told(self, held: Held) -> None:
        """The tools stand in it as the runner wrote them; what is no tool is left out."""
        tool = {"name": "add", "description": "Add.", "input": {"type": "object"}}
        self.publish(held, {"protocol": 1, "tools": [tool, 5, {"name": 5}, {}]})
        assert Told({}, (tool,)) == told(held)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b'{"protocol":2}',
            b'{"settings":{}}',
            b'{"protocol":1,"protocol":1}',
            b"\xff",
            b" " * (1024 * 1024 + 1),
            b"[" * 100_000,
        ],
    )
    def test_a_damaged_one_is_as_none(
        self, held: Held, body: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A relay.json that cannot be used is named once in the log, and calls go on."""
        self.publish(held, body)
        with caplog.at_level(logging.WARNING):
            assert [None, None] == [told(held), told(held)]
        assert 1 == len(caplog.messages)
        assert "relay.json" in caplog.messages[0]

    @pytest.mark.parametrize(
        "body",
        [
            {"protocol": 1},
            {"protocol": 1, "settings": [], "tools": {}},
            {"protocol": 1, "settings": {"RELAY_POLL_MS": 5}},
            {"protocol": 1, "settings": {"RELAY_POLL_MS": {"value": [1], "layer": "fleet"}}},
            {"protocol": 1, "settings": {"RELAY_POLL_MS": {"value": 5}}},
            {"protocol": 1, "settings": {"RELAY_UNKNOWN": {"value": 5, "layer": "fleet"}}},
        ],
    )
    def test_strange_parts_are_left_out(self, held: Held, body: object) -> None:
        """What is not a setting with its value counts as missing."""
        self.publish(held, body)
        assert DEFAULTS == OptionsSource(NOBODY).current(held)

    @pytest.mark.parametrize("kind", ["directory", "fifo", "symlink"])
    def test_what_is_no_file_is_as_none(self, held: Held, kind: str, tmp_path: Path) -> None:
        """Something planted under its name neither blocks a writer nor misleads it."""
        planted = tmp_path / "relay.json"
        if kind == "directory":
            planted.mkdir()
        elif kind == "fifo":
            os.mkfifo(planted)
        else:
            (tmp_path / "else").write_text(json.dumps(self.settings(RELAY_POLL_MS=50)))
            planted.symlink_to(tmp_path / "else")
        assert DEFAULTS == OptionsSource(NOBODY).current(held)
