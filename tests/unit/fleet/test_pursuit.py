"""Following with a store that fails as it likes: it is caught up with, and never stormed."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace

import pytest

from relayconf.errors import FleetUnavailable
from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.engine import Engine, InstanceRecord
from relayconf.fleet.memory import ANSWER_LOST, REQUEST_LOST, MemoryEngine, MemoryServer
from relayconf.fleet.pursuit import Pursuit
from relayconf.fleet.record import NOWHERE
from relayconf.fleet.view import View

PATIENCE = 30.0
RECORD = InstanceRecord("i", "target", "host", 1, NOWHERE, heartbeat_ms=20)


class Owner:
    """Hears what happens."""

    def __init__(self) -> None:
        self.failures = 0
        self.changes = 0

    def record(self) -> InstanceRecord:
        """Return the same record each time."""
        return RECORD

    def changed(self) -> None:
        """Count."""
        self.changes += 1

    async def tend(self, engine: Engine) -> None:
        """Have nothing to do."""

    def failed(self, error: FleetUnavailable) -> None:
        """Count."""
        assert str(error)
        self.failures += 1


async def until(view: View, server: MemoryServer) -> None:
    """Wait until a view has caught up."""
    deadline = time.monotonic() + PATIENCE
    while view.known.position != server.standing().position:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


class TestFaults:
    @pytest.mark.parametrize("seed", range(5))
    def test_whatever_fails_is_caught_up_with(self, seed: int) -> None:
        """Through lost requests and answers, flushes, old copies and trims the view ends right."""
        source = random.Random(seed)
        server, owner = MemoryServer(), Owner()
        view = View(heartbeat_ms=20)
        broken = True

        def fault(_: str) -> str | None:
            return source.choice((None, None, REQUEST_LOST, ANSWER_LOST)) if broken else None

        async def play() -> None:
            nonlocal broken
            pursuit = Pursuit(lambda: MemoryEngine(server, fault=fault), view, owner)
            running = asyncio.ensure_future(pursuit.run())
            dumps = [server.dump()]
            for number in range(60):
                name = source.choice("ABC")
                there = [i.position for i in server.snapshot().items if i.body["name"] == name]
                make = source.choice((kill, restore))
                change = replace(make(name, f"c{number}"), expected=[*there, NOWHERE][0])
                server.change(change)
                event = source.random()
                if event < 0.05:
                    server.flush()
                elif event < 0.1:
                    server.restore(source.choice(dumps))
                elif event < 0.2:
                    server.trim(source.randrange(3))
                elif event < 0.3:
                    dumps.append(server.dump())
                await asyncio.sleep(source.choice((0, 0.002, 0.02)))
            broken = False
            server.change(kill("Z", "last"))
            await until(view, server)
            running.cancel()

        asyncio.run(play())
        mine = {e.override.id for e in view.known.entries}
        assert mine == {item.body["id"] for item in server.snapshot().items}
        assert owner.failures > 0
        assert owner.changes > 0

    def test_changes_arrive_as_events(self) -> None:
        """A change is there long before the next comparison."""
        server, owner = MemoryServer(), Owner()
        view = View(heartbeat_ms=60_000)

        async def play() -> None:
            running = asyncio.ensure_future(
                Pursuit(lambda: MemoryEngine(server), view, owner).run()
            )
            server.change(kill("A", "c0"))
            await until(view, server)
            server.change(kill("B", "c1"))
            await until(view, server)
            running.cancel()

        asyncio.run(play())
        assert len(view.known.entries) == 2


class TestPauses:
    def test_they_grow_and_are_drawn(self) -> None:
        """The pause before a connection is drawn from a span that doubles up to a bound."""
        draws = iter([1.0, 1.0, 1.0, 1.0, 1.0, 0.25, 0.0])

        async def pauses() -> list[float]:
            view = View(heartbeat_ms=1000)
            engine = MemoryEngine(MemoryServer())
            pursuit = Pursuit(lambda: engine, view, Owner(), draw=lambda: next(draws))
            return [pursuit._pause() for _ in range(7)]

        assert [1.0, 2.0, 4.0, 5.0, 5.0, 1.25, 0.0] == asyncio.run(pauses())
