"""What a running runner tells Prometheus, and its log's format and level as they change."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relay.client import Writer
from relay.engine.metrics import runner_metrics

PATIENCE = 30.0

SERVE = (
    *(sys.executable, "-m", "relay", "serve"),
    *("--dir", "session", "--tools", "tools.toml"),
)

TOOLS = """
[tools.upper]
command = ["tr", "a-z", "A-Z"]
"""


def samples(text: str) -> dict[str, float]:
    """Return each sample's value by its name and labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


class TestCounting:
    def test_what_is_told(self, hand: Any) -> None:
        """Calls by their answers, how long they lay there, sessions and what is in flight."""
        release = asyncio.Event()

        async def slow() -> str:
            await release.wait()
            return "slow"

        hands = [hand.beside(f"s{number}") for number in range(3)]

        async def go() -> tuple[dict[str, float], dict[str, float]]:
            async with hand.root_runner({"echo": lambda: "x", "slow": slow}) as runner:
                for each in hands:
                    await each.call("echo")
                await hands[0].call("nothing")
                hands[1].ask("x", "slow")
                await hand.until(lambda: runner.counters.executed == 4)
                during = samples(runner_metrics(runner))
                release.set()
                await hands[1].answer("x")
                return during, samples(runner_metrics(runner))

        during, after = asyncio.run(go())
        assert (3, 0, 1, 0) == tuple(
            during[f"relay_{name}"]
            for name in ("sessions", "sessions_unwatched", "in_flight", "left_behind")
        )
        assert (3, 1) == tuple(
            during[f'relay_answers_total{{code="{code}"}}'] for code in ("ok", "unknown_tool")
        )
        assert (0, 4) == (after["relay_in_flight"], after['relay_answers_total{code="ok"}'])
        assert (5, 4) == (after["relay_requests_total"], after["relay_executed_total"])
        assert 4 == after["relay_pickup_seconds_count"]
        assert 4 == after['relay_pickup_seconds_bucket{le="+Inf"}']

    def test_large_numbers_are_whole(self, hand: Any) -> None:
        """A counter is told to its last digit, however long a runner has been there."""

        async def go() -> str:
            async with hand.runner() as runner:
                runner.counters.requests = 123_456_789_012
                return runner_metrics(runner)

        assert "relay_requests_total 123456789012\n" in asyncio.run(go())


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, Callable[[], str]]]:
    """Run ``relay serve`` with metrics; give their port, and what reads the log."""
    (folder / "tools.toml").write_text(TOOLS)
    own = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    log = folder / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*SERVE, "--set", "RELAY_METRICS_ADDR=127.0.0.1:0"],
            env={**own, "RELAYCONF_STATE_DIR": str(folder / "state")},
            cwd=folder,
            stderr=stderr,
        )
    try:
        until(lambda: "relay_ready" in log.read_text())
        port = log.read_text().partition("port=")[2].split()[0]
        yield int(port), log.read_text
    finally:
        process.terminate()
        process.wait()


def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestServing:
    def test_over_http(self, tmp_path: Path) -> None:
        """RELAY_METRICS_ADDR names where the metrics are, while calls go on."""
        with served(tmp_path) as (port, _):
            Writer(tmp_path / "session", environ={}).call("upper", {"text": "x"})
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("GET", "/metrics")
            found = samples(connection.getresponse().read().decode())
            connection.close()
        assert (1, 1) == (found["relay_executed_total"], found['relay_answers_total{code="ok"}'])
        assert "relayconf_flag{" in str(found) or "relayconf_generation" in str(found)


class TestLog:
    def test_format_and_level_change_while_it_runs(self, tmp_path: Path) -> None:
        """A file of settings that changes changes the log of a running relay, line by line."""
        settings = tmp_path / "settings.toml"
        settings.write_text('[default]\nRELAY_LOG_FORMAT = "text"\n')
        with served(tmp_path) as (_, log):
            writer = Writer(tmp_path / "session", environ={})
            writer.call("upper", {"text": "x"}, call_id="first")

            def call_until(change: str, told: Callable[[list[str]], bool]) -> None:
                temp = tmp_path / "settings.new"
                temp.write_text(f"[default]\n{change}\n")
                temp.rename(settings)
                number = 0
                while True:
                    before = len(log())
                    writer.call("upper", {"text": "x"}, call_id=f"c{number}")
                    number += 1
                    if told(log()[before:].splitlines()):
                        return

            call_until(
                'RELAY_LOG_FORMAT = "json"', lambda lines: "".join(lines[-1:]).startswith("{")
            )
            last = json.loads(log().splitlines()[-1])
            call_until('RELAY_LOG_LEVEL = "warning"', lambda lines: not lines)
        assert ("relay_pickup", "info") == (last["stage"], last["level"])
        assert "stage=relay_pickup id=first-" in log()
