"""Resolving layers to effective values: who wins, what is said, and what is never said."""

from __future__ import annotations

import pytest

from relayconf.layers import Entry, Layer
from relayconf.resolve import Resolution, resolve, shown
from relayconf.setting import Contract, Rule, Setting, Value

POLL = Setting("APP_POLL_MS", "duration", 300, unit="ms", minimum=10, maximum=60_000)
POLL = POLL._replace(legacy=("OLD_POLL", "OLDER_POLL"))
POLL_MAX = Setting("APP_POLL_MAX_MS", "duration", 1500, unit="ms", minimum=10, maximum=300_000)
TOKEN = Setting("APP_TOKEN", "secret")
TITLE = Setting("APP_TITLE", "string", "untitled")
BLANK = Setting("APP_SUFFIX", "string", "x", allow_blank=True)
PORT = Setting("APP_PORT", "integer", 80, minimum=1, maximum=65_535, reject=True)
ALL = {s.name: s for s in (POLL, POLL_MAX, TOKEN, TITLE, BLANK, PORT)}
CONTRACT = Contract("app", "APP_", ALL, (Rule(POLL.name, POLL_MAX.name, False, POLL_MAX.name),))


def layer(kind: str, *pairs: tuple[str, str]) -> Layer:
    return Layer(
        kind, tuple(Entry(name, text, f"{kind}:{i}") for i, (name, text) in enumerate(pairs))
    )


def outcome(resolution: Resolution, name: str) -> tuple[Value | None, str, str]:
    effective = resolution.settings[name]
    return effective.value, effective.layer, effective.status


def codes(resolution: Resolution) -> list[tuple[str, str]]:
    return [(p.name, p.code) for p in resolution.problems]


class TestLayers:
    def test_the_highest_valid_layer_wins(self) -> None:
        """An option beats the environment, which beats an env file."""
        layers = [
            layer("env-file", ("APP_POLL_MS", "1s")),
            layer("environment", ("APP_POLL_MS", "2s")),
            layer("option", ("APP_POLL_MS", "3s")),
        ]
        assert (3000, "option", "ok") == outcome(resolve(CONTRACT, layers), "APP_POLL_MS")
        assert (2000, "environment", "ok") == outcome(resolve(CONTRACT, layers[:2]), "APP_POLL_MS")

    def test_an_invalid_value_uncovers_the_next_layer(self) -> None:
        """The value below stays in force, and the status says that something above was wrong."""
        layers = [
            layer("env-file", ("APP_POLL_MS", "1s")),
            layer("environment", ("APP_POLL_MS", "1 s")),
        ]
        resolution = resolve(CONTRACT, layers)
        assert (1000, "env-file", "invalid") == outcome(resolution, "APP_POLL_MS")
        assert [("APP_POLL_MS", "invalid-value")] == codes(resolution)

    def test_a_value_below_the_one_in_force_is_not_judged(self) -> None:
        """What is shadowed is named in the notes, and its faults are nobody's problem."""
        layers = [
            layer("env-file", ("APP_POLL_MS", "junk")),
            layer("environment", ("APP_POLL_MS", "1s")),
        ]
        resolution = resolve(CONTRACT, layers)
        assert [] == codes(resolution)
        notes = resolution.settings["APP_POLL_MS"].notes
        assert ["shadowed"] == [note.code for note in notes]
        assert "junk" in notes[0].message

    @pytest.mark.parametrize("text", ["", " ", "\t\r\n"])
    def test_a_blank_is_unset(self, text: str) -> None:
        """A blank hides neither the layer below nor the default, and turns nothing on."""
        layers = [
            layer("env-file", ("APP_POLL_MS", "1s")),
            layer("environment", ("APP_POLL_MS", text), ("APP_TITLE", text)),
        ]
        resolution = resolve(CONTRACT, layers)
        assert (1000, "env-file", "ok") == outcome(resolution, "APP_POLL_MS")
        assert ("untitled", "default", "default") == outcome(resolution, "APP_TITLE")

    def test_a_blank_is_a_value_where_declared_so(self) -> None:
        """A string setting may accept the empty text."""
        resolution = resolve(CONTRACT, [layer("environment", ("APP_SUFFIX", ""))])
        assert ("", "environment", "ok") == outcome(resolution, "APP_SUFFIX")

    def test_the_last_assignment_in_a_layer_wins(self) -> None:
        """A name set twice in one layer takes the last text, and the loser is named."""
        layers = [layer("env-file", ("APP_POLL_MS", "100"), ("APP_POLL_MS", "1s"))]
        resolution = resolve(CONTRACT, layers)
        assert 1000 == resolution.settings["APP_POLL_MS"].value
        assert [("APP_POLL_MS", "shadowed")] == codes(resolution)
        assert "env-file:0" in resolution.problems[0].message


class TestLegacyNames:
    def test_a_legacy_name_works_and_is_reported(self) -> None:
        """The value counts, and the finding says which name to write instead."""
        resolution = resolve(CONTRACT, [layer("environment", ("OLD_POLL", "450"))])
        assert (450, "environment", "ok") == outcome(resolution, "APP_POLL_MS")
        assert ["APP_POLL_MS"] == [p.suggestion for p in resolution.problems]

    @pytest.mark.parametrize("order", [1, -1])
    def test_the_current_name_wins_whatever_the_order(self, order: int) -> None:
        """No answer depends on which of two names the environment lists first."""
        pairs = [("OLD_POLL", "450"), ("APP_POLL_MS", "350")][::order]
        resolution = resolve(CONTRACT, [layer("environment", *pairs)])
        assert 350 == resolution.settings["APP_POLL_MS"].value
        assert [("APP_POLL_MS", "duplicate-name")] == codes(resolution)

    def test_a_blank_current_name_does_not_hide_the_legacy_one(self) -> None:
        """A blank is unset under either name."""
        layers = [
            layer("environment", ("APP_POLL_MS", ""), ("OLD_POLL", " "), ("OLDER_POLL", "5s"))
        ]
        assert 5000 == resolve(CONTRACT, layers).settings["APP_POLL_MS"].value

    def test_the_layer_beats_the_name(self) -> None:
        """A legacy name in a higher layer beats the current name in a lower one."""
        layers = [
            layer("env-file", ("APP_POLL_MS", "1s")),
            layer("environment", ("OLD_POLL", "2s")),
        ]
        assert 2000 == resolve(CONTRACT, layers).settings["APP_POLL_MS"].value


class TestRange:
    def test_out_of_range_is_clamped(self) -> None:
        """A well-formed value outside the range moves to the bound, with one finding."""
        resolution = resolve(CONTRACT, [layer("environment", ("APP_POLL_MS", "-5"))])
        assert (10, "environment", "clamped") == outcome(resolution, "APP_POLL_MS")
        assert ["10"] == [p.suggestion for p in resolution.problems]

    def test_reject_makes_it_invalid(self) -> None:
        """Where the declaration says so, out of range falls to the next layer."""
        resolution = resolve(CONTRACT, [layer("environment", ("APP_PORT", "70000"))])
        assert (80, "default", "invalid") == outcome(resolution, "APP_PORT")


class TestRules:
    def test_the_stated_setting_moves(self) -> None:
        """A rule is kept by the smallest move of the setting that states it."""
        resolution = resolve(CONTRACT, [layer("environment", ("APP_POLL_MS", "2s"))])
        assert (2000, "default", "repaired") == outcome(resolution, "APP_POLL_MAX_MS")
        assert (2000, "environment", "ok") == outcome(resolution, "APP_POLL_MS")

    def test_equality_satisfies_a_rule_that_is_not_strict(self) -> None:
        """Nothing moves where low equals high."""
        layers = [layer("environment", ("APP_POLL_MS", "1500"))]
        assert "default" == resolve(CONTRACT, layers).settings["APP_POLL_MAX_MS"].status

    def test_a_rule_that_the_range_forbids_is_told(self) -> None:
        """Where the setting that moves is at its bound already, the broken rule is not silent."""
        low = Setting("APP_LOW", "integer", 1, minimum=0, maximum=100)
        high = Setting("APP_HIGH", "integer", 5, minimum=0, maximum=10)
        rules = (Rule("APP_LOW", "APP_HIGH", True, "APP_HIGH"),)
        contract = Contract("app", "APP_", {"APP_LOW": low, "APP_HIGH": high}, rules)
        pairs = [("APP_LOW", "50"), ("APP_HIGH", "10")]
        resolution = resolve(contract, [layer("environment", *pairs)])
        assert (10, "environment", "repaired") == outcome(resolution, "APP_HIGH")
        assert "the nearest that the range of APP_HIGH allows" in resolution.problems[0].message


class TestSecrets:
    def test_a_blank_secret_is_invalid(self) -> None:
        """A secret that is set but blank is an error, and the value below stays."""
        layers = [layer("env-file", ("APP_TOKEN", "t")), layer("environment", ("APP_TOKEN", " "))]
        resolution = resolve(CONTRACT, layers)
        assert ("t", "env-file", "invalid") == outcome(resolution, "APP_TOKEN")
        assert [("APP_TOKEN", "blank-secret")] == codes(resolution)

    def test_no_message_holds_a_secret(self) -> None:
        """Neither the winner nor a loser nor an invalid one appears in any message."""
        layers = [
            layer("env-file", ("APP_TOKEN", "canary-1")),
            layer("environment", ("APP_TOKEN", "canary-2"), ("APP_TOKEN", "canary-3")),
            layer("option", ("APP_TOKEN", "canary-\udcff")),
        ]
        resolution = resolve(CONTRACT, layers)
        effective = resolution.settings["APP_TOKEN"]
        said = [p.line() for p in resolution.problems] + [n.message for n in effective.notes]
        assert said
        assert not [line for line in said if "canary" in line]


class TestNames:
    def test_unknown_and_near(self) -> None:
        """A typo is suggested, a stranger is reported, and foreign names are not mentioned."""
        pairs = [
            ("APP_POL_MS", "1"),
            ("APP_SOMETHING_ELSE", "1"),
            ("app_title", "x"),
            ("HOME", "/"),
        ]
        resolution = resolve(CONTRACT, [layer("environment", *pairs)])
        found = {p.name: (p.code, p.suggestion) for p in resolution.problems}
        assert found == {
            "APP_POL_MS": ("near-miss", "APP_POLL_MS"),
            "APP_SOMETHING_ELSE": ("unknown-name", None),
            "app_title": ("near-miss", "APP_TITLE"),
        }


class TestUrls:
    @pytest.mark.parametrize("kind", ["url", "list"])
    def test_no_message_holds_a_password_in_a_url(self, kind: str) -> None:
        """Userinfo is masked, also where the url is wrong, or is one of several."""
        setting = Setting("APP_URL", kind, items="url")
        contract = Contract("app", "APP_", {"APP_URL": setting})
        for text in ("redis://u:canary", "redis://u:canary@h /x", "redis://a@h,redis://u:canary@h"):
            resolution = resolve(contract, [layer("environment", ("APP_URL", text))])
            said = [p.line() for p in resolution.problems]
            said.append(shown(setting, text))
            assert not [line for line in said if "canary" in line]
