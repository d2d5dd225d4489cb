"""File operations within a bound, one after another, each in the same thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from relay.engine.worker import Stuck, Worker

BOUND = 0.05


def play(act: Callable[[Worker, threading.Event], Awaitable[None]], bound: float = BOUND) -> None:
    """Run a test's steps with a worker, and an event that ends what hangs."""

    async def go() -> None:
        worker, release = Worker(lambda: bound, time.monotonic), threading.Event()
        try:
            await asyncio.wait_for(act(worker, release), 30)
        finally:
            release.set()
            worker.close()

    asyncio.run(go())


class TestWorker:
    def test_results_and_errors(self) -> None:
        """What an operation returns or raises is its caller's."""

        def fail() -> None:
            raise FileNotFoundError(2, "gone")

        async def act(worker: Worker, _release: threading.Event) -> None:
            assert 7 == await worker.do(lambda: 7)
            with pytest.raises(FileNotFoundError, match="gone"):
                await worker.do(fail)

        play(act, bound=20)

    def test_one_after_another(self) -> None:
        """Operations never overlap, and all are done in one thread."""
        inside: list[int] = []
        seen: list[tuple[int, int]] = []

        def note() -> None:
            inside.append(1)
            seen.append((len(inside), threading.get_ident()))
            inside.pop()

        async def act(worker: Worker, _release: threading.Event) -> None:
            await asyncio.gather(*(worker.do(note) for _ in range(50)))

        play(act, bound=20)
        assert 50 == len(seen)
        assert {(1, seen[0][1])} == set(seen)

    def test_one_that_hangs(self) -> None:
        """Its caller hears of it; nothing else is begun before it is over, and then it goes on."""
        ran: list[str] = []

        async def act(worker: Worker, release: threading.Event) -> None:
            with pytest.raises(Stuck, match=r"has not answered for 0\.05 s"):
                await worker.do(release.wait)
            with pytest.raises(Stuck):
                await worker.do(lambda: ran.append("too early"))
            assert worker.stuck
            settled = asyncio.ensure_future(worker.settled())
            release.set()
            await settled
            assert not worker.stuck
            await worker.do(lambda: ran.append("afterwards"))

        play(act)
        assert ["afterwards"] == ran

    def test_many_steps(self) -> None:
        """The bound is on one step: what goes on step by step may take longer in all."""

        async def act(worker: Worker, release: threading.Event) -> None:
            def steps() -> str:
                end = time.monotonic() + 3 * BOUND
                while time.monotonic() < end:
                    worker.beat()
                    release.wait(BOUND / 50)
                return "done"

            assert "done" == await worker.do(steps)

        play(act)

    def test_what_waits_for_the_end(self) -> None:
        """What must not be touched while the thread is busy is let go of afterwards."""
        let_go: list[str] = []

        async def act(worker: Worker, release: threading.Event) -> None:
            with pytest.raises(Stuck):
                await worker.do(release.wait)
            worker.when_settled(lambda: let_go.append("late"))
            assert [] == let_go
            release.set()
            await worker.settled()
            await asyncio.sleep(0)
            assert ["late"] == let_go
            worker.when_settled(lambda: let_go.append("at once"))

        play(act)
        assert ["late", "at once"] == let_go
