"""A running relay obeys overrides on both sides of the wall, and loses no call over it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from relay.client import Writer
from tests.namespaces import NO_INSTANCE, inside, that_work

TOOLS = """
[tools.echo]
python = "relay_tools:echo"
"""

MODULE = '''
async def echo(text: str = "") -> str:
    """Give the text back."""
    return text
'''


class Relay:
    """One ``relay serve`` in a place, with what it says."""

    def __init__(self, place: Any, *, prefix: tuple[str, ...] = (), **environment: str) -> None:
        self.place = place
        self.session = place.folder / "session"
        (place.folder / "tools.toml").write_text(TOOLS)
        (place.folder / "relay_tools.py").write_text(MODULE)
        self.log = place.folder / "relay.log"
        words = f"relay serve --dir {self.session} --tools tools.toml 2>{self.log}"
        # A shell that prints one line, as every program of these tests does, and becomes the relay.
        code = (
            "import os; print('{}', flush=True); "
            f"os.execvp('sh', ['sh', '-c', 'exec python -m {words}'])"
        )
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.program = place.start(
            "-c", code, environment={"PATH": path, **environment}, prefix=prefix
        )
        self.told("ready")
        place.settle()

    def told(self, word: str) -> None:
        """Wait until its log has a word."""
        self.place.until(lambda: word in self.said())

    def said(self) -> str:
        """Return its log."""
        return self.log.read_text() if self.log.exists() else ""

    def relay_json(self) -> Any:
        """Return what writers are told."""
        return json.loads((self.session / "relay.json").read_bytes())

    def change(self, *words: str) -> None:
        """Run a command that must be applied by the relay."""
        done = self.place.run(*words, "--reason", "a test", "--wait", "20s")
        assert 0 == done.code, done

    def wakes(self) -> list[str]:
        """Return how each call's request was found."""
        lines = self.said().splitlines()
        return [line.rpartition("wake=")[2] for line in lines if "stage=relay_pickup" in line]

    def descriptors(self) -> int:
        """Return how many files it has open."""
        return len(os.listdir(f"/proc/{self.program.process.pid}/fd"))


@pytest.fixture
def relay(place: Any) -> Relay:
    """Return a running relay."""
    return Relay(place, RELAY_POLL_MS="50", RELAY_POLL_MAX_MS="100")


class TestObeying:
    def test_a_kill_ends_the_watch_on_both_hops(self, relay: Relay) -> None:
        """Calls go on by polling, the writer is told, and a restore brings the watch back."""
        writer = Writer(relay.session, environ={})
        assert "1" == writer.call("echo", {"text": "1"})
        relay.change("kill", "@watch")
        told = relay.relay_json()
        assert (1, {"value": False, "layer": "override"}) == (
            told["generation"],
            told["settings"]["RELAY_RESPONSE_WATCH_ENABLED"],
        )
        assert not writer.options.watch
        assert "2" == writer.call("echo", {"text": "2"})
        relay.change("restore", "@watch")
        assert "3" == writer.call("echo", {"text": "3"})
        relay.place.until(lambda: len(relay.wakes()) == 3)
        assert ["activity", "poll", "activity"] == relay.wakes()

    @pytest.mark.parametrize(
        ("assignment", "name", "value"),
        [
            ("RELAY_POLL_MS=70", "RELAY_POLL_MS", 70),
            ("RELAY_TIMEOUT_MS=7s", "RELAY_TIMEOUT_MS", 7000),
            ("RELAY_MODE=poll", "RELAY_MODE", "poll"),
            ("RELAY_MAX_RESPONSE_BYTES=2KiB", "RELAY_MAX_RESPONSE_BYTES", 2048),
        ],
    )
    def test_writers_are_told(self, relay: Relay, assignment: str, name: str, value: Any) -> None:
        """Each setting that a writer goes by reaches it through relay.json."""
        relay.change("set", assignment)
        assert {"value": value, "layer": "override"} == relay.relay_json()["settings"][name]

    def test_limits_change_at_once(self, relay: Relay) -> None:
        """What is too large is so from the next call on."""
        writer = Writer(relay.session, environ={})
        text = "x" * 3000
        assert text == writer.call("echo", {"text": text})
        relay.change("set", "RELAY_MAX_REQUEST_BYTES=2KiB")
        with pytest.raises(Exception, match="RELAY_MAX_REQUEST_BYTES is 2048"):
            writer.call("echo", {"text": text})
        relay.change("restore", "--all")
        assert text == writer.call("echo", {"text": text})

    def test_the_log_level_changes_at_once(self, relay: Relay) -> None:
        """A relay that is to be quieter is, without a restart."""
        relay.change("set", "RELAY_LOG_LEVEL=error")
        writer = Writer(relay.session, environ={})
        before = relay.said()
        writer.call("echo")
        assert before == relay.said()

    def test_a_parked_writer_is_woken(self, relay: Relay) -> None:
        """One that waits for a long answer goes by the kill while it waits."""
        relay.change("kill", "RELAY_LOCAL_WATCH_ENABLED")
        relay.change("set", "RELAY_POLL_MS=60s")
        relay.change("set", "RELAY_POLL_MAX_MS=5m")
        answers: list[str] = []
        writer = Writer(relay.session, environ={})
        thread = threading.Thread(target=lambda: answers.append(writer.call("echo", {"text": "x"})))
        thread.start()
        # The runner polls every minute now; with its watch it finds the request at once.
        relay.place.until(lambda: any(".req.json" in path.name for path in relay.session.iterdir()))
        relay.change("restore", "RELAY_LOCAL_WATCH_ENABLED")
        thread.join(20)
        assert ["x"] == answers

    def test_poll_means_no_events_anywhere(self, relay: Relay) -> None:
        """In mode poll not even the settings are watched; the look underneath finds the change."""
        relay.change("set", "RELAY_MODE=poll")
        fdinfo = Path(f"/proc/{relay.program.process.pid}/fdinfo")

        def watches() -> int:
            return sum(path.read_text().count("inotify wd") for path in fdinfo.iterdir())

        relay.place.until(lambda: watches() == 0)
        relay.change("set", "RELAY_MODE=auto")
        relay.place.until(lambda: watches() >= 2)


class TestWithoutWatches:
    @pytest.mark.parametrize("prefix", that_work(inside(NO_INSTANCE)))
    def test_a_mode_that_cannot_be_obeyed(self, place: Any, prefix: tuple[str, ...]) -> None:
        """Switched to watch where none is to be had, a relay keeps its mode, and kills go on."""
        relay = Relay(place, prefix=prefix)
        done = place.run("set", "RELAY_MODE=watch", "--reason", "r", "--wait", "3s")
        assert (3, True) == (done.code, "cannot go by RELAY_MODE" in done.out)
        assert "auto stays in force" in str(place.run("status").out)
        relay.change("kill", "RELAY_LOCAL_WATCH_ENABLED")
        relay.change("restore", "RELAY_MODE")
        assert "cannot be obeyed" not in place.run("status").out


class TestUnderLoad:
    def test_flipping_loses_nothing_and_leaks_nothing(self, relay: Relay) -> None:
        """Hundreds of flips while calls flow: every answer is right, nothing is left open."""
        relay.change("kill", "@watch")
        relay.change("restore", "@watch")
        before = relay.descriptors()
        stop = threading.Event()
        flips = 0
        kill = [
            {"target": "relay", "name": name, "kind": "kill"}
            for name in ("RELAY_LOCAL_WATCH_ENABLED", "RELAY_RESPONSE_WATCH_ENABLED")
        ]

        def flip() -> None:
            nonlocal flips
            while not stop.is_set():
                relay.place.write(*(kill if flips % 2 == 0 else ()), name="new.json").rename(
                    relay.place.state / "overrides.json"
                )
                flips += 1
                time.sleep(0.004)

        async def calls() -> list[str]:
            writer = Writer(relay.session, environ={})

            async def caller(number: int) -> list[str]:
                return [
                    await writer.acall("echo", {"text": f"{number}-{turn}"}) for turn in range(25)
                ]

            return [
                text for texts in await asyncio.gather(*map(caller, range(8))) for text in texts
            ]

        flipping = threading.Thread(target=flip)
        flipping.start()
        try:
            texts = asyncio.run(calls())
        finally:
            stop.set()
            flipping.join()
        assert [f"{number}-{turn}" for number in range(8) for turn in range(25)] == texts
        assert flips > 50
        relay.place.write()
        relay.place.until(lambda: relay.descriptors() <= before)


class TestProof:
    def test_writers_that_cannot_be_told_are_named(self, relay: Relay) -> None:
        """A session in which relay.json cannot be written holds up nobody, and is tried again."""
        relay.session.chmod(0o500)
        if os.geteuid() == 0:
            # Root writes everywhere; a name that cannot be replaced does as well.
            relay.session.chmod(0o700)
            (relay.session / "relay.json").unlink()
            (relay.session / "relay.json").mkdir()
            relay.change("kill", "RELAY_LOCAL_WATCH_ENABLED")
            assert relay.relay_json()["generation"] == 1
            return
        done = relay.place.run("kill", "@watch", "--reason", "r", "--wait", "20s")
        assert 0 == done.code
        relay.place.until(lambda: "relay.json" in str(relay.place.run("status").out))
        relay.session.chmod(0o700)
        relay.place.until(lambda: relay.relay_json()["generation"] == 1)

    def test_the_directory_may_be_emptied(self, relay: Relay) -> None:
        """Deleted in mid-incident, the state comes back with the kill, and goes on working."""
        relay.change("kill", "RELAY_LOCAL_WATCH_ENABLED")
        # The relay may still write into what it holds open; that it is away is what counts.
        shutil.rmtree(relay.place.state.rename(relay.place.folder / "gone"), ignore_errors=True)
        relay.place.until((relay.place.state / "overrides.json").exists)
        done = relay.place.run(
            "restore", "RELAY_LOCAL_WATCH_ENABLED", "--reason", "r", "--wait", "20s"
        )
        assert (0, True) == (done.code, "restored" in done.out)
        writer = Writer(relay.session, environ={})

        def woken_by_an_event() -> bool:
            # A poll may come first once; with a watch it does not come first for ever.
            assert "x" == writer.call("echo", {"text": "x"})
            return relay.wakes()[-1:] == ["activity"]

        relay.place.until(woken_by_an_event)

    def test_a_runner_that_leaves_signs_off(self, relay: Relay) -> None:
        """Stopped in peace, it is no instance any more."""
        relay.program.process.terminate()
        relay.program.process.wait()
        status = relay.place.run("status", "--json", "--target", "relay").answer
        assert [] == status["instances"]


class TestMetrics:
    def test_they_are_served(self, place: Any) -> None:
        """Prometheus sees the generation, each flag's state, and what the runner did."""
        relay = Relay(place, RELAY_METRICS_ADDR="127.0.0.1:0")
        port = relay.said().partition("stage=relay_metrics port=")[2].split()[0]
        relay.change("kill", "RELAY_LOCAL_WATCH_ENABLED")
        Writer(relay.session, environ={}).call("echo")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            text = response.read().decode()
        assert 'relayconf_generation{target="relay"} 1\n' in text
        killed = 'name="RELAY_LOCAL_WATCH_ENABLED",state="killed",source="override"} 1\n'
        assert killed in text
        assert "relay_executed_total 1\n" in text
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/elsewhere")

    def test_a_port_in_use_is_one_message(self, place: Any) -> None:
        """Exit 2, and what to do."""
        relay = Relay(place, RELAY_METRICS_ADDR="127.0.0.1:0")
        port = relay.said().partition("stage=relay_metrics port=")[2].split()[0]
        environment = {**place.environment, "RELAY_METRICS_ADDR": port}
        words = ["-m", "relay", "serve", "--dir", "other", "--tools", "tools.toml"]
        done = _run(place, words, environment)
        assert (2, 1) == (done.returncode, len(done.stderr.splitlines()))
        assert f"RELAY_METRICS_ADDR {port}" in done.stderr


def _run(place: Any, words: list[str], environment: dict[str, str]) -> Any:
    return subprocess.run(
        [sys.executable, *words],
        cwd=place.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
