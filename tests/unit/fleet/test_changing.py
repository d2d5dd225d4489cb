"""The way of a change: made, queued on its host, written once, whatever is lost on the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relayconf.errors import FleetUnavailable
from relayconf.fleet import waiting
from relayconf.fleet.changing import change_of, puts, restores, submit
from relayconf.fleet.memory import ANSWER_LOST, REQUEST_LOST, MemoryEngine, MemoryServer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pending import Pending
from relayconf.fleet.reading import NOTHING, read_fleet
from relayconf.fleet.record import Scope
from relayconf.fleet.session import Session
from relayconf.overrides.changes import Assignment, Because
from relayconf.state.directory import StateDirectory, make

FAST, N = Assignment("app", "APP_FAST", "false"), Assignment("app", "APP_N", "7")
WHY = Because("a test", "me", "INC-1")
OPTIONS = FleetOptions("redis://localhost")
KILL = ("app", "APP_FAST", "kill", None, None)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    made = make(str(tmp_path / "state"))
    yield made
    made.close()


def reading(directory: StateDirectory) -> dict[str, str]:
    """Return what is in force on the host, kind by name."""
    found = read_fleet(directory.path, OPTIONS)
    return {entry.override.name: entry.override.kind for entry in found.entries}


class TestQueue:
    def test_what_waits_is_in_force_here(self, directory: StateDirectory) -> None:
        """A kill acts from the moment at which it is queued, and a restore takes it away."""
        queue = Pending(directory)
        queue.add(puts("kill", [FAST], WHY, seen=NOTHING))
        assert {"APP_FAST": "kill"} == reading(directory)
        queue.add(restores([KILL], WHY, seen=NOTHING))
        assert {} == reading(directory)

    def test_it_comes_back_as_it_was(self, directory: StateDirectory) -> None:
        """Everything about a change is written again as it was made, its time to live too."""
        scope = Scope("prod", "blue")
        because = Because("r", "me", ttl_ms=60_000)
        changes = puts("set", [N], because, scope=scope, seen=NOTHING)
        Pending(directory).add(changes)
        (waits,) = Pending(directory).read()
        again = change_of(waits)
        assert (changes[0].id, scope) == (again.id, again.entry.scope)
        assert again.ttl_ms is not None
        assert 0 < again.ttl_ms <= 60_000
        assert "7" == again.entry.override.value

    def test_only_what_is_named_goes(self, directory: StateDirectory) -> None:
        """Taking one change off leaves the others in their order."""
        queue = Pending(directory)
        changes = [c for _ in range(3) for c in puts("set", [N], WHY, seen=NOTHING)]
        queue.add(changes)
        queue.add(changes[:1])
        queue.remove([changes[1].id, "unknown"])
        assert [changes[2].id, changes[0].id] == [each.id for each in queue.read()]

    def test_many_at_once_lose_nothing(self, directory: StateDirectory) -> None:
        """Commands that queue at the same time all stand in it."""
        changes = [c for _ in range(40) for c in puts("set", [N], WHY, seen=NOTHING)]
        threads = [
            threading.Thread(target=lambda c=change: Pending(directory).add([c]))
            for change in changes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {c.id for c in changes} == {each.id for each in Pending(directory).read()}

    def test_one_that_is_broken_holds_up_nobody(self, directory: StateDirectory) -> None:
        """A kill goes through although what waited before cannot be read; status tells."""
        Path(directory.path, waiting.NAME).write_text("{")
        Pending(directory).add(puts("kill", [FAST], WHY, seen=NOTHING))
        assert {"APP_FAST": "kill"} == reading(directory)


class TestSubmit:
    def test_a_kill_wins(self) -> None:
        """It is written on top of whatever came between."""

        async def work() -> Any:
            engine = MemoryEngine(MemoryServer())
            for _ in range(3):
                (change,) = puts("kill", [FAST], WHY, seen=NOTHING)
                last = await submit(engine, change)
            return last

        last = asyncio.run(work())
        assert (None, 3) == (last.refused, last.outcome.revision)

    def test_anything_else_is_refused(self) -> None:
        """A value in conflict is not written, and the sentence says who came between."""

        async def work() -> list[Any]:
            engine = MemoryEngine(MemoryServer())
            first, second = (puts("set", [N], WHY, seen=NOTHING)[0] for _ in range(2))
            return [await submit(engine, first), await submit(engine, second)]

        first, second = asyncio.run(work())
        assert first.refused is None
        assert "APP_N was not set: it was set meanwhile by me" == second.refused

    def test_an_answer_that_is_lost(self) -> None:
        """Asked again under the same id, the change stands once."""

        async def work() -> Any:
            server = MemoryServer()
            faults = iter([ANSWER_LOST, None])
            engine = MemoryEngine(server, fault=lambda _name: next(faults))
            (change,) = puts("kill", [FAST], WHY, seen=NOTHING)
            with pytest.raises(FleetUnavailable):
                await submit(engine, change)
            return await submit(engine, change), server.standing()

        again, standing = asyncio.run(work())
        assert (True, 1) == (again.outcome.repeated, standing.position.revision)


class TestSession:
    def test_a_fault_is_raised_at_the_call(self) -> None:
        """Entering never fails; every call tells the same, and the next one tries anew."""
        server = MemoryServer()
        fault: list[str | None] = [REQUEST_LOST]
        engine = MemoryEngine(server, fault=lambda _name: fault[0])
        with Session(OPTIONS, opening=lambda _options: engine) as session:
            with pytest.raises(FleetUnavailable):
                session.snapshot()
            fault[0] = None
            assert () == session.snapshot().items
            (change,) = puts("kill", [FAST], WHY, seen=NOTHING)
            assert session.submit(change).refused is None
            assert 1 == len(session.audit())

    def test_a_url_with_a_fault_is_never_opened(self) -> None:
        """What is wrong with it is what every call says."""
        options = OPTIONS._replace(fault="RELAYCONF_FLEET_URL holds no url that can be used")
        with Session(options) as session, pytest.raises(FleetUnavailable, match="holds no url"):
            session.snapshot()
