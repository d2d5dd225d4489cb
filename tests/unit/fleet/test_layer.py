"""The fleet's layer: scopes, what is killed where, and what a flag does that is blind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relayconf.contract import reading as contracts
from relayconf.fleet.conformance import kill
from relayconf.fleet.known import BLIND, FRESH
from relayconf.fleet.layer import fleet_layer, host_name
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.reading import FleetReading
from relayconf.fleet.record import FleetEntry, Scope, from_body, to_body
from relayconf.layers import Entry, Layer
from relayconf.overrides.document import Override
from relayconf.resolve import resolve
from relayconf.setting import Contract

OPTIONS = FleetOptions("redis://127.0.0.1:1", deployment="prod")


def contract(blind: str | None = None) -> Contract:
    """Return a contract with one flag and one number."""
    flag: dict[str, Any] = {"kind": "kill-switch", "kill": False, "owner": "x", "why": "p"}
    flag |= {} if blind is None else {"blind": blind}
    properties = {
        "A": {
            "type": ["boolean", "string"],
            "default": True,
            "description": "A.",
            "x-relayconf": {"type": "boolean", "live": True, "legacy": ["OLD_A"], "flag": flag},
        },
        "N": {
            "type": ["integer", "string"],
            "default": 1,
            "description": "N.",
            "x-relayconf": {"type": "integer", "live": True},
        },
    }
    head = {"version": 1, "target": "target", "prefix": ""}
    document = {"x-relayconf": head, "type": "object", "properties": properties}
    return contracts.from_document(document, origin="test")


def value(name: str, text: str, change: str = "s", **scope: str) -> FleetEntry:
    override = Override(change, "target", name, "set", text, store="fleet")
    return FleetEntry(override, Scope(**scope))


def in_force(
    *entries: FleetEntry, freshness: str = FRESH, blind: str | None = None, **below: Layer
) -> dict[str, Any]:
    """Return what the values are with some entries, over some layers below."""
    declared = contract(blind)
    layer = fleet_layer(declared, FleetReading(entries=entries, freshness=freshness), OPTIONS)
    return dict(resolve(declared, [*below.values(), layer]).values)


class TestScopes:
    @pytest.mark.parametrize(
        ("scope", "counts"),
        [
            ({}, True),
            ({"deployment": "prod"}, True),
            ({"deployment": "staging"}, False),
            ({"host": host_name()}, True),
            ({"host": "elsewhere"}, False),
            ({"deployment": "prod", "host": host_name()}, True),
            ({"deployment": "staging", "host": host_name()}, False),
        ],
    )
    def test_whom_a_kill_is_for(self, scope: dict[str, str], *, counts: bool) -> None:
        """A kill counts for those whom its scope covers."""
        entry = replace(kill("A", "k", scope=Scope(**scope))).entry
        assert (not counts) == in_force(entry)["A"]

    def test_the_narrowest_value_counts(self) -> None:
        """Of several values for one setting that for the narrowest scope is in force, silently."""
        entries = [
            value("N", "4", host=host_name()),
            value("N", "5", host=host_name(), deployment="prod"),
            value("N", "2"),
            value("N", "3", deployment="prod"),
        ]
        assert 5 == in_force(*entries)["N"]
        assert 4 == in_force(entries[0], *entries[2:])["N"]
        assert 3 == in_force(*entries[2:])["N"]
        layer = fleet_layer(contract(), FleetReading(entries=tuple(entries)), OPTIONS)
        assert () == resolve(contract(), [layer]).problems

    def test_a_narrow_value_holds_up_no_kill(self) -> None:
        """A kill for everybody beats a value for this host alone."""
        assert not in_force(value("A", "true", host=host_name()), kill("A", "k").entry)["A"]


class TestLayers:
    def test_the_fleet_beats_this_hosts_value(self) -> None:
        """Among values the fleet's wins over the host's own."""
        host = Layer("override", (Entry("N", "7", "overrides.json#1"),))
        assert 9 == in_force(value("N", "9"), host=host)["N"]

    def test_a_kill_on_this_host_beats_the_fleets_value(self) -> None:
        """A kill in either layer beats every value in either."""
        host = Layer("override", (), (Entry("A", "", "overrides.json#1"),))
        assert not in_force(value("A", "true"), host=host)["A"]

    def test_a_legacy_name(self) -> None:
        """A kill under a legacy name kills the setting."""
        assert not in_force(kill("OLD_A", "k").entry)["A"]

    def test_its_generation_is_not_the_hosts(self) -> None:
        """The fleet's revisions do not count among the generations of the host."""
        reading = FleetReading(entries=(kill("A", "k").entry,))
        assert 0 == fleet_layer(contract(), reading, OPTIONS).generation


class TestBlind:
    @pytest.mark.parametrize(
        ("blind", "with_value", "without"),
        [
            (None, False, True),
            ("hold", False, True),
            ("safe", False, False),
            ("default", True, True),
        ],
    )
    def test_policies(self, blind: str | None, *, with_value: bool, without: bool) -> None:
        """A flag holds, takes its safe value, or goes by what is configured below the fleet."""
        told = value("A", "false")
        assert with_value == in_force(told, freshness=BLIND, blind=blind)["A"]
        assert without == in_force(freshness=BLIND, blind=blind)["A"]
        assert not in_force(told, freshness=FRESH, blind=blind)["A"]

    @pytest.mark.parametrize("blind", ["hold", "safe", "default"])
    def test_a_kill_stays(self, blind: str) -> None:
        """A kill that is known stays in force, whatever the flag declares."""
        assert not in_force(kill("A", "k").entry, freshness=BLIND, blind=blind)["A"]


class TestEntries:
    def test_a_body_comes_back(self) -> None:
        """What an entry says survives being written."""
        entry = kill("A", "k", scope=Scope("prod", None)).entry
        assert entry == from_body(to_body(entry))

    @pytest.mark.parametrize("scope", [7, [], {"host": 1}, {"deployment": ""}])
    def test_a_kill_whose_scope_cannot_be_read(self, scope: Any) -> None:
        """Whom a kill is for cannot be told, so it is for everybody; a value is passed over."""
        body = {"target": "target", "name": "A", "kind": "kill", "scope": scope}
        found = from_body(body)
        assert isinstance(found, FleetEntry)
        assert Scope() == found.scope
        assert isinstance(from_body({**body, "kind": "set", "value": "1"}), str)
