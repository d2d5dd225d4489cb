"""Threads for what blocks: results, errors, and calls that are given up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from relay.engine.threads import QUICK, Threads


def play(act: Callable[[Threads], Awaitable[None]], most: int = 2) -> None:
    """Run a test's steps with a pool."""

    async def go() -> None:
        threads = Threads(asyncio.get_running_loop(), most=most)
        try:
            await asyncio.wait_for(act(threads), 30)
        finally:
            threads.close()

    asyncio.run(go())


class TestThreads:
    def test_results_and_errors(self) -> None:
        """A call's result and exception come back; SystemExit comes as something harmless."""

        async def act(threads: Threads) -> None:
            assert 3 == await threads.run(lambda: 3)
            with pytest.raises(ZeroDivisionError):
                await threads.run(lambda: 1 // 0)
            with pytest.raises(RuntimeError, match="SystemExit"):
                await threads.run(exit)

        play(act)

    def test_no_more_than_allowed(self) -> None:
        """More calls than threads wait for their turn; all are made."""

        async def act(threads: Threads) -> None:
            seen: set[int] = set()
            futures = [threads.run(lambda: seen.add(threading.get_ident())) for _ in range(50)]
            await asyncio.gather(*futures)
            assert 1 <= len(seen) <= 2

        play(act)

    def test_a_call_that_hangs(self) -> None:
        """A call that is given up keeps no other from running, and is counted until it ends."""

        async def act(threads: Threads) -> None:
            release = threading.Event()
            hung = [threads.run(release.wait) for _ in range(3)]
            await asyncio.sleep(0.05)
            for future in hung:
                future.cancel()
            assert "fine" == await threads.run(lambda: "fine")
            assert 2 == threads.left_behind
            release.set()
            for _ in range(4000):
                if threads.left_behind:
                    await asyncio.sleep(0.005)
            assert 0 == threads.left_behind

        play(act)

    def test_a_call_that_was_given_up_before_its_turn(self) -> None:
        """A call that is cancelled while it waits is never made."""

        async def act(threads: Threads) -> None:
            release = threading.Event()
            made: list[int] = []
            first = threads.run(release.wait)
            second = threads.run(lambda: made.append(1))
            second.cancel()
            await asyncio.sleep(0)
            release.set()
            assert await first
            await threads.run(lambda: None)
            assert ([], 0) == (made, threads.left_behind)

        play(act, most=1)


class TestMoment:
    """The loop waits for a moment where calls of the same kind were quick."""

    def test_a_quick_call_is_over_at_once(self) -> None:
        """Its result, or its exception, is there without a turn of the loop."""

        async def act(threads: Threads) -> None:
            await threads.run(lambda: None)
            for function, over in ((lambda: 3, "3"), (lambda: 1 // 0, "by zero")):
                seen = ""
                while not seen:
                    # On a machine that is busy, a moment may be too short for anything.
                    future = threads.run(function, "quick")
                    at_once = future.done()
                    try:
                        result = str(await future)
                    except ZeroDivisionError as error:
                        result = str(error)
                    seen = result if at_once else ""
                assert over in seen

        play(act)

    def test_a_slow_call_is_not_waited_for(self) -> None:
        """It goes on beside the loop, and the next one of its kind is not waited for at all."""

        async def act(threads: Threads) -> None:
            await threads.run(lambda: None)
            release = threading.Event()

            def nap() -> bool:
                # Its thread may have begun just now, on a machine that is busy.
                time.sleep(QUICK)
                return release.wait()

            slow = threads.run(nap, "slow")
            assert not slow.done()
            release.set()
            assert await slow
            after = threads.run(lambda: "quick", "slow")
            assert not after.done()
            assert "quick" == await after

        play(act)

    def test_what_ends_within_the_moment_may_be_slow(self) -> None:
        """Where a call takes longer than it saves, the next one of its kind goes on beside."""

        async def act(threads: Threads) -> None:
            await threads.run(lambda: time.sleep(2 * QUICK), "naps")
            await threads.run(lambda: time.sleep(2 * QUICK), "naps")
            beside = threads.run(lambda: "quick", "naps")
            assert not beside.done()
            assert "quick" == await beside

        play(act)

    def test_one_that_hangs_is_known_to_be_slow(self) -> None:
        """While it has not ended, calls of its kind are not waited for, either."""

        async def act(threads: Threads) -> None:
            both = threading.Barrier(2)
            await asyncio.gather(threads.run(both.wait), threads.run(both.wait))
            release = threading.Event()
            hangs = threads.run(release.wait, "hangs")
            beside = threads.run(lambda: "quick", "hangs")
            assert not beside.done()
            assert "quick" == await beside
            release.set()
            assert await hangs

        play(act)

    def test_one_that_is_given_up_after_the_moment(self) -> None:
        """It is left behind like any other, and its thread is replaced."""

        async def act(threads: Threads) -> None:
            await threads.run(lambda: None)
            release = threading.Event()
            hung = threads.run(release.wait, "hangs")
            hung.cancel()
            await asyncio.sleep(0)
            assert 1 == threads.left_behind
            assert "fine" == await threads.run(lambda: "fine", "fine")
            release.set()
            for _ in range(4000):
                if threads.left_behind:
                    await asyncio.sleep(0.005)
            assert 0 == threads.left_behind

        play(act, most=1)
