"""The remote hop behind a proxy that counts and delays: latency in round trips, requests by kind.

A real sandbox daemon runs on loopback; a proxy adds 25 ms each way, so that one round trip is 50 ms
and every figure is divided by what one bare request through the same proxy takes. Nothing is
asserted. ``armed`` pauses between calls until the next window waits, ``close`` calls again after
20 ms, ``polled`` has the flag off, ``idle`` makes no call at all.

Run it as ``python -m tests.bench.remote``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from relay.hosts.daemon import DaemonHost
from relay.protocol import Request, encode_request, publish
from relay.remote.runner import RemoteRunner
from relay.settings import RelaySettings
from tests.servers.proxy import Proxy
from tests.servers.running import daemon, daemon_program

#: Seconds that a byte takes each way.
DELAY = 0.025

#: What travels, both ways.
TEXT = "x" * 100


class Taken(NamedTuple):
    """One call: milliseconds from its publication to its execution, and to its answer."""

    pickup: float
    whole: float


class Caller:
    """A writer's hand in the session, beside the sandbox's daemon: no delay on its side."""

    def __init__(self, session: Path) -> None:
        self.session = session
        self.executed: dict[str, float] = {}
        self.calls = 0
        self._fd = os.open(session, os.O_RDONLY | os.O_DIRECTORY)

    async def echo(self, text: str, number: str) -> str:
        """Give the text back, and note when."""
        self.executed[number] = time.perf_counter()
        return text

    async def call(self) -> Taken:
        """Make one call."""
        self.calls += 1
        number, answer = str(self.calls), self.session / f"c{self.calls}.res.json"
        data = encode_request(Request("echo", number, {"text": TEXT, "number": number}, None))
        begun = time.perf_counter()
        publish(self._fd, f"c{number}.req.json", data)
        await there(answer)
        ended = time.perf_counter()
        answer.unlink()
        return Taken((self.executed[number] - begun) * 1e3, (ended - begun) * 1e3)


async def there(path: Path) -> None:
    """Wait for a file; the writer's own way of waiting is not what is measured here."""
    for _ in range(60_000):
        if os.access(path, os.F_OK):
            return
        await asyncio.sleep(0.001)
    raise SystemExit(f"{path.name} did not come")


async def bare(port: int) -> float:
    """Return what one request without work takes, in milliseconds, at the median."""
    host = DaemonHost(f"http://127.0.0.1:{port}")
    took = []
    for _ in range(6):
        begun = time.perf_counter()
        await host.stat("/")
        took.append((time.perf_counter() - begun) * 1e3)
    await host.close()
    return statistics.median(took[1:])


async def measure(proxy: Proxy, folder: Path, pattern: tuple[bool, float, int]) -> dict[str, Any]:
    """Run one pattern: whether the flag is on, seconds between calls, and their number."""
    watch, think, calls = pattern
    session = Path(tempfile.mkdtemp(dir=folder))
    caller = Caller(session)
    settings = RelaySettings(remote_watch=watch)
    host = DaemonHost(f"http://127.0.0.1:{proxy.port}")
    runner = RemoteRunner(
        session, host=host, tools={"echo": caller.echo}, settings=settings, state=folder / "state"
    )
    async with runner:
        await asyncio.sleep(0.3)
        await caller.call()
        await asyncio.sleep(0.3)
        sent, kinds, begun = len(proxy.sent), runner.counters.sent.copy(), time.monotonic()
        took = []
        for _ in range(calls):
            took.append(await caller.call())
            await asyncio.sleep(think)
        seconds = time.monotonic() - begun
        counted, by_kind = len(proxy.sent) - sent, runner.counters.sent - kinds
    return {
        "pickup_ms": statistics.median(one.pickup for one in took),
        "whole_ms": statistics.median(one.whole for one in took),
        "requests_per_call": counted / calls,
        "by_kind": dict(by_kind),
        "seconds": seconds,
    }


async def idle(proxy: Proxy, folder: Path, seconds: float) -> dict[str, Any]:
    """Serve without a call, and count what is sent."""
    session = Path(tempfile.mkdtemp(dir=folder))
    host = DaemonHost(f"http://127.0.0.1:{proxy.port}")
    settings = RelaySettings(remote_watch=True)
    runner = RemoteRunner(session, host=host, tools=[], settings=settings, state=folder / "state")
    async with runner:
        await asyncio.sleep(1)
        before = len(proxy.sent)
        await asyncio.sleep(seconds)
        sent = proxy.sent[before:]
    return {
        "requests_per_minute": len(sent) * 60 / seconds,
        "most_in_a_minute": most_within(60.0, [one.at for one in sent]),
        "by_path": dict(Counter(one.path for one in sent)),
    }


def most_within(seconds: float, times: list[float]) -> int:
    """Return how many of these times lie within so many seconds, at most."""
    return max((sum(at <= other < at + seconds for other in times) for at in times), default=0)


async def run(scale: float, seconds: float) -> dict[str, Any]:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = daemon(folder)
        server.start()
        proxy = Proxy(server.port, delay=DELAY)
        await proxy.start()
        try:
            results: dict[str, Any] = {"bare_ms": await bare(proxy.port)}
            patterns = {
                "armed": (True, 0.3, max(5, round(30 * scale))),
                "close": (True, 0.02, max(5, round(60 * scale))),
                "polled": (False, 0.02, max(5, round(20 * scale))),
            }
            for pattern, asked in patterns.items():
                results[pattern] = await measure(proxy, folder, asked)
            if seconds:
                results["idle"] = await idle(proxy, folder, seconds)
            return results
        finally:
            await proxy.stop()
            server.kill()


def table(results: dict[str, Any]) -> str:
    """Return the results for a person."""
    bare_ms = results["bare_ms"]
    lines = [f"one bare request: {bare_ms:.1f} ms", ""]
    lines.append(f"{'':8}{'pickup':>12}{'round trip':>14}{'requests a call':>18}")
    for name in ("armed", "close", "polled"):
        one = results[name]
        pickup, whole = one["pickup_ms"], one["whole_ms"]
        lines.append(
            f"{name:8}{pickup:>6.1f} ms {pickup / bare_ms:.1f}x{whole:>8.1f} ms "
            f"{whole / bare_ms:.1f}x{one['requests_per_call']:>15.2f}"
        )
    if "idle" in results:
        found = results["idle"]
        per_minute, most = found["requests_per_minute"], found["most_in_a_minute"]
        lines.append(f"idle: {per_minute:.1f} requests a minute, at most {most} in one")
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(prog="remote", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many calls (1.0)")
    parser.add_argument(
        "--idle", type=float, default=120.0, help="seconds without a call (120); 0 leaves it out"
    )
    arguments = parser.parse_args()
    if daemon_program() is None:
        raise SystemExit("the sandbox daemon is not to be had: see tests/servers/install")
    results = asyncio.run(run(arguments.scale, arguments.idle))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
