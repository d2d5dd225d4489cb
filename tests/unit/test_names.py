"""Names that nobody declared: what is reported, from where, with which suggestion."""

from __future__ import annotations

import pytest

from relayconf.layers import Entry, Layer
from relayconf.names import unknown_names
from relayconf.problems import Problem
from relayconf.setting import Contract, Setting

APP = Contract(
    "app",
    "APP_",
    {
        s.name: s
        for s in (
            Setting("APP_POLL_MAX_MS", "duration", unit="ms", legacy=("OLD_POLL",)),
            Setting("APP_REMOTE_WATCH_WINDOW_MS", "duration", unit="ms"),
            Setting("APP_TOKEN", "secret"),
            Setting("APP_USER", "string"),
        )
    },
)
BARE = Contract("bare", "", {"PORT": Setting("PORT", "integer")})


def found(layer: str, *names: str, contract: Contract = APP) -> list[tuple[str, str, str | None]]:
    entries = tuple(Entry(name, "hunter2", layer) for name in names)
    problems = unknown_names(contract, [Layer(layer, entries)])
    assert "hunter2" not in repr(problems)
    return [(p.code, p.name, p.suggestion) for p in problems]


class TestEnvironment:
    @pytest.mark.parametrize(
        ("name", "suggestion"),
        [
            ("APP_POLL_MAX_MZ", "APP_POLL_MAX_MS"),
            ("app_poll_max_ms", "APP_POLL_MAX_MS"),
            ("APP__POLL__MAX__MS", "APP_POLL_MAX_MS"),
            ("app__remote__watch__window__ms", "APP_REMOTE_WATCH_WINDOW_MS"),
            ("APP_TOKN_FILE", "APP_TOKEN_FILE"),
            ("app_token_file", "APP_TOKEN_FILE"),
        ],
    )
    def test_near_miss(self, name: str, suggestion: str) -> None:
        """A slip of the pen, another case, two underscores: each with the name that was meant."""
        assert [("near-miss", name, suggestion)] == found("environment", name)

    @pytest.mark.parametrize("name", ["APP_USER_NAME_LONG", "APP_", "APP_POLL_MAX_MS_FILE"])
    def test_unknown(self, name: str) -> None:
        """A prefixed name that is near none is reported without a guess."""
        assert [("unknown-name", name, None)] == found("environment", name)

    @pytest.mark.parametrize("name", ["USER", "POLL_MAX_MS", "TOKEN", "old_poll", "APPLE", "", "é"])
    def test_foreign(self, name: str) -> None:
        """Whatever has not the prefix is none of our business, even where it is like a name."""
        assert [] == found("environment", name)

    @pytest.mark.parametrize("name", ["APP_USER", "OLD_POLL", "APP_TOKEN_FILE"])
    def test_known(self, name: str) -> None:
        """Declared names, legacy names and the file of a secret are no problem of their name."""
        assert [] == found("environment", name)

    def test_pointer_to_what_is_no_secret(self) -> None:
        """NAME_FILE for a plain setting says why it has no effect."""
        entry = Entry("APP_USER_FILE", "x", "environment")
        (problem,) = unknown_names(APP, [Layer("environment", (entry,))])
        assert "APP_USER is no secret, and only a secret is read from one" in problem.message


class TestFiles:
    @pytest.mark.parametrize("layer", ["file", "env-file"])
    @pytest.mark.parametrize(
        ("name", "suggestion"),
        [
            ("POLL_MAX_MS", "APP_POLL_MAX_MS"),
            ("poll_max_ms", "APP_POLL_MAX_MS"),
            ("poll-max-ms", "APP_POLL_MAX_MS"),
            ("POLL__MAX__MS", "APP_POLL_MAX_MS"),
            ("app-poll-max-ms", "APP_POLL_MAX_MS"),
            ("app.poll.max.ms", "APP_POLL_MAX_MS"),
            ("USER", "APP_USER"),
            ("token_file", "APP_TOKEN_FILE"),
        ],
    )
    def test_missing_prefix(self, layer: str, name: str, suggestion: str) -> None:
        """In a file a declared name without its prefix, or with other separators, is found."""
        assert [("near-miss", name, suggestion)] == found(layer, name)

    @pytest.mark.parametrize("name", ["MAX_MS", "POLL_MAX_MZ", "database", "x" * 5000, ""])
    def test_foreign(self, name: str) -> None:
        """A name that only resembles one is some other program's."""
        assert [] == found("file", name)

    def test_no_prefix(self) -> None:
        """A contract without a prefix finds its names in another case, and nothing else."""
        assert [("near-miss", "port", "PORT")] == found("env-file", "port", "HOME", contract=BARE)
        assert [] == found("environment", "port", "HOME", contract=BARE)

    def test_once_a_layer(self) -> None:
        """A name that is written many times in one layer is reported once."""
        assert 1 == len(found("file", "USER", "USER", "USER"))

    def test_unprintable_key(self) -> None:
        """A key of control characters is reported in one printable line."""
        entry = Entry("APP_\x1b[2J\udcff\n", "x", "settings.json:1:2")
        (problem,) = unknown_names(APP, [Layer("file", (entry,))])
        assert problem.line().isprintable()

    def test_a_flood_of_names(self) -> None:
        """Thousands of unknown names are all reported, at a bounded cost."""
        problems = found("file", *(f"APP_POLL_MAX_M{n}" for n in range(20_000)))
        assert 20_000 == len(problems)
        assert "near-miss" == problems[0][0]


class TestProblem:
    def test_line(self) -> None:
        """A finding names the service, the origin and what to write instead."""
        entry = Entry("user", "x", "settings.toml:3:1")
        (problem,) = unknown_names(APP, [Layer("file", (entry,))])
        expected = (
            "user: app has no setting of that name; the nearest is APP_USER; names carry their "
            "prefix APP_ (from settings.toml:3:1); try APP_USER"
        )
        assert expected == Problem.line(problem)
