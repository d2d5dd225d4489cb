"""Live settings: a swap is whole, in order, and never happens for nothing."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pytest

from relayconf import Live, Settings, Snapshot, SourceError, Sources, StrictError, load
from relayconf.declare import AppliesLive, Clamp, Env, Owner, ms


class AppSettings(Settings, target="app", prefix="APP_"):
    """Two settings that apply live, one that does not."""

    poll: Annotated[timedelta, Env("APP_POLL_MS"), Clamp("10ms", "60s"), AppliesLive()] = ms(300)
    title: Annotated[str, AppliesLive()] = "untitled"
    port: Annotated[int, Owner("app")] = 80


def live(tmp_path: Path, text: str = "") -> tuple[Live[AppSettings], Path]:
    path = tmp_path / "app.env"
    path.write_text(text)
    return load(AppSettings, Sources({}, env_files=(str(path),)), strict=False), path


class TestReload:
    def test_a_change_gives_a_new_numbered_snapshot(self, tmp_path: Path) -> None:
        """The new values are in force after the swap; the old snapshot is as it was."""
        settings, path = live(tmp_path, "APP_POLL_MS=1s\n")
        first = settings.snapshot
        path.write_text("APP_POLL_MS=2s\nAPP_TITLE=new\n")
        second = settings.reload()
        assert (1, ms(1000)) == (first.number, first.settings.poll)
        assert (2, ms(2000), "new") == (second.number, settings.current.poll, second.settings.title)

    def test_no_change_is_no_swap(self, tmp_path: Path) -> None:
        """Reading the same content again calls nobody."""
        settings, path = live(tmp_path, "APP_POLL_MS=1s\n")
        calls: list[int] = []
        settings.subscribe(lambda _, new: calls.append(new.number))
        path.write_text("APP_POLL_MS=1s\n")
        assert 1 == settings.reload().number
        assert [] == calls

    def test_a_bad_file_keeps_the_last_good_snapshot(self, tmp_path: Path) -> None:
        """A file that does not parse changes nothing."""
        settings, path = live(tmp_path, "APP_POLL_MS=1s\n")
        path.write_text('APP_POLL_MS="2s\n')
        with pytest.raises(SourceError, match=r"app\.env:1"):
            settings.reload()
        assert (1, ms(1000)) == (settings.snapshot.number, settings.current.poll)

    def test_a_restart_only_change_is_pending(self, tmp_path: Path) -> None:
        """A setting that does not apply live keeps its value and is reported."""
        settings, path = live(tmp_path, "APP_PORT=81\n")
        path.write_text("APP_PORT=82\nAPP_TITLE=new\n")
        snapshot = settings.reload()
        assert (81, "new", ("APP_PORT",)) == (
            settings.current.port,
            settings.current.title,
            snapshot.pending,
        )
        path.write_text("APP_PORT=81\nAPP_TITLE=new\n")
        assert () == settings.reload().pending

    def test_subscribers_run_in_order_after_the_swap(self, tmp_path: Path) -> None:
        """Each is called with the old and the new snapshot, and sees the new one in force."""
        settings, path = live(tmp_path)
        seen: list[tuple[str, str]] = []

        def subscriber(name: str) -> None:
            def called(old: Snapshot[AppSettings], new: Snapshot[AppSettings]) -> None:
                assert settings.snapshot is new
                seen.append((name, f"{old.settings.title}->{new.settings.title}"))

            settings.subscribe(called)

        subscriber("first")
        subscriber("second")
        path.write_text("APP_TITLE=new\n")
        settings.reload()
        assert [("first", "untitled->new"), ("second", "untitled->new")] == seen

    def test_unsubscribing_ends_the_calls(self, tmp_path: Path) -> None:
        """After unsubscribing nothing arrives."""
        settings, path = live(tmp_path)
        seen: list[int] = []
        unsubscribe = settings.subscribe(lambda _, new: seen.append(new.number))
        unsubscribe()
        unsubscribe()
        path.write_text("APP_TITLE=new\n")
        settings.reload()
        assert [] == seen

    def test_a_reader_never_sees_half_of_a_change(self, tmp_path: Path) -> None:
        """Threads that read while another reloads see values that were written together."""
        settings, path = live(tmp_path, "APP_POLL_MS=100\nAPP_TITLE=100\n")
        torn: list[str] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                current = settings.current
                if current.poll != ms(int(current.title)):
                    torn.append(current.title)
                # Let the others have the interpreter; they wait for it at each file that they open.
                time.sleep(0)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for number in range(101, 301):
            path.write_text(f"APP_POLL_MS={number}\nAPP_TITLE={number}\n")
            settings.reload()
        done.set()
        for reader in readers:
            reader.join()
        assert ([], 201) == (torn, settings.snapshot.number)


class TestStart:
    def test_strict_refuses_with_every_problem(self) -> None:
        """All that is wrong is in one error."""
        environ = {"APP_POLL_MS": "x", "APP_PORT": "y", "APP_UNKNOWN": "z"}
        with pytest.raises(StrictError) as caught:
            load(AppSettings, Sources(environ), strict=True)
        assert 2 == len(caught.value.problems)

    def test_the_environment_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without sources the process environment is read, RELAYCONF_STRICT included."""
        monkeypatch.setenv("APP_TITLE", "from env")
        assert "from env" == load(AppSettings).current.title
        monkeypatch.setenv("APP_PORT", "junk")
        monkeypatch.setenv("RELAYCONF_STRICT", "1")
        with pytest.raises(StrictError):
            load(AppSettings)
