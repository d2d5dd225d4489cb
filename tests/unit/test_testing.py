"""The helpers for tests: they isolate, they override, and they leave nothing behind."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import SecretStr

from relayconf import load, testing
from relayconf.declare import AppliesLive, Clamp, NotBelow
from relayconf.errors import RelayconfError
from relayconf.live.snapshot import Snapshot
from relayconf.settings import Settings


class AppSettings(Settings, target="app", prefix="APP"):
    poll: Annotated[timedelta, Clamp("1s", "60s"), AppliesLive()] = timedelta(seconds=5)
    longest: Annotated[timedelta, NotBelow("APP_POLL")] = timedelta(seconds=60)
    name: str = "app"
    token: SecretStr | None = None


class OtherSettings(Settings, target="other", prefix="OTHER"):
    size: int = 1


class TestIsolated:
    def test_nothing_of_the_machine_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Variables of the class and of relayconf, settings files and secrets do not count."""
        (tmp_path / "settings.toml").write_text('[default]\nAPP_NAME = "file"\n')
        (tmp_path / "app.env").write_text("APP_NAME=env file\n")
        (tmp_path / "token").write_text("secret")
        monkeypatch.chdir(tmp_path)
        for name, text in {
            "APP_NAME": "environment",
            "APP_TOKEN_FILE": str(tmp_path / "token"),
            "RELAYCONF_ENV_FILE": str(tmp_path / "app.env"),
            "RELAYCONF_STRICT": "1",
            "RELAYCONF_DEPLOYMENT": "prod",
        }.items():
            monkeypatch.setenv(name, text)
        with testing.isolated(AppSettings):
            assert ("app", None) == (AppSettings().name, AppSettings().token)
            assert "RELAYCONF_STRICT" not in os.environ
        assert ("environment", "1") == (os.environ["APP_NAME"], os.environ["RELAYCONF_STRICT"])

    def test_foreign_variables_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Everything else of the environment is there as before."""
        monkeypatch.setenv("FOREIGN", "x")
        with testing.isolated(AppSettings):
            assert "x" == os.environ["FOREIGN"]

    def test_values(self) -> None:
        """Fields are given as objects or as text, for several classes at once."""
        with testing.isolated(
            AppSettings, OtherSettings, poll=timedelta(seconds=2), name="x", size="7", token=None
        ):
            assert (timedelta(seconds=2), "x") == (
                AppSettings().poll,
                load(AppSettings).current.name,
            )
            assert 7 == OtherSettings().size

    def test_environment(self, caplog: pytest.LogCaptureFixture) -> None:
        """Variables are set as they are, also wrong ones, to test what is said of them."""
        for _ in range(2):
            caplog.clear()
            with (
                caplog.at_level(logging.WARNING),
                testing.isolated(AppSettings, env={"APP_POLL": "x"}),
            ):
                assert timedelta(seconds=5) == AppSettings().poll
            assert 1 == len(caplog.records)

    def test_files(self) -> None:
        """The places are directories of the test's own, which are read, and gone afterwards."""
        with testing.isolated(AppSettings) as place:
            (Path(place.config_dir) / "settings.toml").write_text('[default]\nAPP_NAME = "file"\n')
            (Path(place.secrets_dir) / "APP_TOKEN").write_text("secret")
            settings = AppSettings()
            assert "file" == settings.name
            assert settings.token is not None
            assert "secret" == settings.token.get_secret_value()
        assert [False] * 3 == [os.path.exists(path) for path in place]

    def test_restores_after_an_error(self) -> None:
        """What a test raises passes through, and the environment is restored."""
        before = dict(os.environ)

        def fail() -> None:
            with testing.isolated(AppSettings, name="x"):
                os.environ["ADDED"] = "y"
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert before == dict(os.environ)

    def test_nests(self) -> None:
        """An inner one begins with nothing, and gives the outer one's back."""
        with testing.isolated(AppSettings, name="outer"):
            with testing.isolated(AppSettings):
                assert "app" == AppSettings().name
            assert "outer" == AppSettings().name

    def test_decorates(self) -> None:
        """It works as a decorator of a test function."""

        @testing.isolated(AppSettings, name="decorated")
        def function() -> str:
            return AppSettings().name

        assert ["decorated", "decorated"] == [function(), function()]

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"poll": "1ms"}, "APP_POLL: not used as it is written: 1ms is below the minimum"),
            ({"poll": "junk"}, "APP_POLL: not used as it is written"),
            ({"name": " "}, "APP_NAME: not used as it is written"),
            ({"poll": timedelta(microseconds=1)}, "APP_POLL: .* not a whole number"),
            ({"pol": 1}, "none of the classes has a field 'pol'; did you mean poll?"),
        ],
    )
    def test_bad_values(self, values: dict[str, Any], said: str) -> None:
        """A value that would not be used is an error of the test, at once."""
        with pytest.raises(RelayconfError, match=said), testing.isolated(AppSettings, **values):
            pass


@pytest.fixture
def alone() -> Iterator[None]:
    with testing.isolated(AppSettings, name="before"):
        yield


@pytest.mark.usefixtures("alone")
class TestOverridden:
    def test_restart_only_settings_too(self) -> None:
        """Every field takes its value at once, and the old ones are back afterwards."""
        held = load(AppSettings)
        with testing.overridden(held, name="during", poll="7s") as settings:
            assert held.current is settings
            assert ("during", timedelta(seconds=7)) == (settings.name, settings.poll)
        assert ("before", timedelta(seconds=5)) == (held.current.name, held.current.poll)

    def test_survives_a_reload(self) -> None:
        """A reload meanwhile, as a changed file causes, does not take the values away."""
        held = load(AppSettings)
        with testing.overridden(held, poll="7s"):
            held.reload()
            assert timedelta(seconds=7) == held.current.poll
        held.reload()
        assert timedelta(seconds=5) == held.current.poll

    def test_subscribers_are_told(self) -> None:
        """Who listens for changes hears of both, with the old and the new snapshot."""
        held = load(AppSettings)
        seen: list[tuple[str, str]] = []

        def listen(old: Snapshot[AppSettings], new: Snapshot[AppSettings]) -> None:
            seen.append((old.settings.name, new.settings.name))

        held.subscribe(listen)
        with testing.overridden(held, name="during"):
            pass
        assert [("before", "during"), ("during", "before")] == seen

    def test_rules_hold(self) -> None:
        """A value that a rule would move is an error of the test."""
        held = load(AppSettings)
        with (
            pytest.raises(RelayconfError, match="APP_LONGEST"),
            testing.overridden(held, poll="30s", longest="20s"),
        ):
            pass
        assert "before" == held.current.name
