"""The rules of waiting for a remote sandbox, each on a clock of its own."""

from __future__ import annotations

import asyncio
import itertools
import random
from bisect import bisect_left
from itertools import pairwise
from typing import Any

import pytest

from relay.hosts.host import Faulty, TimedOut, Unreachable
from relay.remote.draining import Hit
from relay.remote.limits import RemoteLimits, window
from relay.remote.report import Report
from tests.unit.remote.answers import EXPIRED, Play, claimed, failing, gaps, never


class TestHealthy:
    def test_idle_relay_is_quiet(self, play: Play) -> None:
        """An idle relay sends a window after the other, a safety poll each 30 s, and no more."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(600)

        sandbox = play(story)
        assert 24 == len(sandbox.windows)
        assert {30.0} == set(gaps(sandbox.looks))
        sent = sorted([w.at for w in sandbox.windows] + sandbox.looks)
        assert 5 >= max(sum(at <= other < at + 60 for other in sent) for at in sent)
        assert [] == sandbox.drains

    def test_no_minute_has_more_than_five(self, play: Play) -> None:
        """However long a listing is under way, now and then, no minute at the host has a sixth."""
        arrived: list[float] = []

        async def story(sandbox: Any) -> None:
            trips = itertools.cycle((0.9, 0.0, 0.3, 0.0))

            async def look() -> list[Hit]:
                await asyncio.sleep(next(trips))
                arrived.append(sandbox.now)
                return []

            sandbox.look = look
            sandbox.waiting._random = random.Random(8).random
            await sandbox.past(36000)

        sandbox = play(story)
        sent = sorted([w.at for w in sandbox.windows] + arrived)
        assert 5 == max(bisect_left(sent, at + 60) - n for n, at in enumerate(sent))
        assert 2780 <= len(sent) <= 2830

    def test_expiry_is_no_failure(self, play: Play) -> None:
        """However many windows end with nothing, the relay goes on watching."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(2000)

        sandbox = play(story)
        assert 0 == sandbox.counters.failures
        assert 80 == sandbox.counters.expired

    def test_at_most_one_window(self, play: Play) -> None:
        """The next window is sent when the last one has ended, never beside it."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(200)
            for one, other in pairwise(sandbox.windows):
                assert one.answer.done()
                assert other.at >= one.at + one.window

        play(story)

    def test_next_drain_goes_before_the_tool_runs(self, play: Play) -> None:
        """A pickup is answered by the next drain at once; only then is anything executed."""
        order: list[str] = []

        async def story(sandbox: Any) -> None:
            sandbox.script.append(lambda _asked: claimed("a"))
            execute = sandbox.execute

            def noted(wake: str) -> None:
                order.append(f"execute after {len(sandbox.windows)} drains")
                execute(wake)

            sandbox.execute = noted
            await sandbox.past(1)

        sandbox = play(story)
        assert ["execute after 2 drains"] == order
        assert [("a", "activity")] == sandbox.executed

    def test_window_is_jittered(self, play: Play) -> None:
        """Windows are drawn up to a fifth shorter, by the random source that is given."""

        async def story(sandbox: Any) -> None:
            sandbox.waiting._random = lambda: 0.0
            await sandbox.past(100)

        sandbox = play(story)
        assert {20.0} == {w.window for w in sandbox.windows[1:]}


class TestStreaming:
    def test_batches_come_while_it_waits(self, play: Play) -> None:
        """A window that prints as it goes is not sent anew for each request."""

        async def story(sandbox: Any) -> None:
            for number in range(3):
                await sandbox.past(number + 1)
                sandbox.windows[0].on_batch(claimed(f"r{number}"))
            assert [(f"r{n}", "activity") for n in range(3)] == sandbox.executed
            assert 1 == len(sandbox.windows)

        play(story)

    def test_batch_of_an_abandoned_window(self, play: Play) -> None:
        """What a window prints after it was given up is left to the next drain."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(1)
            sandbox.change(window=10.0)
            await sandbox.past(2)
            sandbox.windows[0].on_batch(claimed("late"))
            assert [] == sandbox.executed

        play(story)


class TestFailures:
    def test_backs_off_and_polls_meanwhile(self, play: Play) -> None:
        """A rejected drain is tried again after 1, 2, ... s, and polling stands in meanwhile."""

        async def story(sandbox: Any) -> None:
            sandbox.limits = sandbox.limits._replace(demote_after=100)
            sandbox.script.extend([failing] * 4)
            await sandbox.past(20)

        sandbox = play(story)
        assert [1.0, 2.0, 4.0, 8.0] == gaps([w.at for w in sandbox.windows])
        polls = sorted(sandbox.looks + [d.at for d in sandbox.drains])
        assert all(gap <= 1.5 for gap in gaps(polls[: len(polls) - 1]))

    def test_failure_re_arms_inside_the_same_wait(self, play: Play) -> None:
        """After a failure the watch is back once its pause is over, with nothing published."""

        async def story(sandbox: Any) -> None:
            sandbox.script.append(failing)
            await sandbox.past(1.5)
            assert sandbox.waiting.flight is not None

        assert 2 == len(play(story).windows)

    def test_late_answer_is_ignored(self, play: Play) -> None:
        """A drain that never settles is given up in time; what it says much later is dropped."""

        async def story(sandbox: Any) -> None:
            sandbox.stubborn = True
            sandbox.script.append(never)
            await sandbox.past(32.5)
            first = sandbox.windows[0]
            assert first.cancelled
            assert 1 == sandbox.counters.failures
            sandbox.settle(first, claimed("late"))
            await sandbox.past(40)
            assert [] == sandbox.executed
            assert sandbox.windows[1].tag > first.tag

        play(story)

    def test_grace_is_waited_for(self, play: Play) -> None:
        """An answer within window and grace is no failure."""

        async def story(sandbox: Any) -> None:
            def late(asked: Any) -> None:
                sandbox.loop.call_later(29.9, sandbox.settle, asked, EXPIRED)

            sandbox.script.append(late)
            await sandbox.past(31)

        assert 0 == play(story).counters.failures

    @pytest.mark.parametrize(
        "outcome",
        [
            Faulty("rejected"),
            TimedOut("no answer"),
            Unreachable("reset"),
            Report("failed", error="ENOSPC"),
            Report("unread"),
            Report("superseded"),
            EXPIRED,
        ],
        ids=lambda o: getattr(o, "status", type(o).__name__),
    )
    def test_what_counts(self, outcome: Any, play: Play) -> None:
        """Rejected, timed out, abnormal, superseded by nobody, too early: all are failures."""

        async def story(sandbox: Any) -> None:
            sandbox.script.append(lambda _asked: outcome)
            await sandbox.past(0.5)

        sandbox = play(story)
        assert 1 == sandbox.counters.failures

    def test_a_rewritten_lease_follows_nobodys(self, play: Play) -> None:
        """A lease that was lost to nobody is taken again, by the next drain."""

        async def story(sandbox: Any) -> None:
            sandbox.script.append(lambda _asked: Report("superseded"))
            await sandbox.past(1.5)

        sandbox = play(story)
        assert "free" == sandbox.drains[0].take
        assert sandbox.drains[0].tag > sandbox.windows[0].tag

    def test_endless_repetition_is_a_failure(self, play: Play) -> None:
        """A sandbox that prints the same claim for ever does not keep its runner busy."""

        async def story(sandbox: Any) -> None:
            sandbox.script.extend([lambda _asked: claimed("a")] * 500)
            await sandbox.past(30)

        sandbox = play(story)
        assert [("a", "activity")] == sandbox.executed
        assert 60 > len(sandbox.windows)


class TestSafetyPoll:
    def test_finds_what_the_watch_missed(self, play: Play) -> None:
        """A request that a deaf watch has not seen is taken by the safety poll, and counted."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(29)
            sandbox.hits = [Hit("a", claimed=False, modified=20.0)]
            await sandbox.past(31)
            assert [("a", "timeout")] == sandbox.executed
            assert 1 == sandbox.counters.misses
            assert 1 == sandbox.counters.failures

        play(story)

    def test_miss_counts_though_the_window_ends_well(self, play: Play) -> None:
        """Three misses in a row demote, even where every window then ends as it should."""

        async def story(sandbox: Any) -> None:
            sandbox.limits = sandbox.limits._replace(window=119.0, safety_poll=30.0)
            for round_ in range(1, 200):
                await sandbox.past(round_)
                sandbox.hits = [Hit(f"r{round_}", claimed=False, modified=9.0)]
                if sandbox.waiting.health.demoted:
                    return

        sandbox = play(story)
        assert 1 == sandbox.counters.demotions
        assert 3 == sandbox.counters.misses

    def test_young_request_is_no_miss(self, play: Play) -> None:
        """A request of a moment ago, whose event is on its way, is nobody's fault."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(29)
            sandbox.hits = [Hit("a", claimed=False, modified=2.9)]
            await sandbox.past(31)

        sandbox = play(story)
        assert 0 == sandbox.counters.misses
        assert [("a", "timeout")] == sandbox.executed

    def test_nothing_found_starts_no_drain(self, play: Play) -> None:
        """Only a hit of the plain listing starts a drain that looks."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(95)

        sandbox = play(story)
        assert [30.0, 60.0, 90.0] == [round(at, 3) for at in sandbox.looks]
        assert [] == sandbox.drains


class TestRoom:
    def test_without_slots_nothing_is_taken(self, play: Play) -> None:
        """Where every slot is taken nothing is sent; a freed one starts the watch again at once."""

        async def story(sandbox: Any) -> None:
            sandbox.script.append(lambda _asked: claimed("a"))
            sandbox.room = False
            await asyncio.sleep(0)
            await sandbox.past(100)
            assert 0 == len(sandbox.windows)
            sandbox.room = True
            sandbox.waiting.wake()
            await sandbox.past(100.1)
            assert [("a", "activity")] == sandbox.executed

        play(story)

    def test_without_slots_cancels_are_found(self, play: Play) -> None:
        """Where what is in flight has every slot, listings look for cancels, and no more."""

        async def story(sandbox: Any) -> None:
            sandbox.room, sandbox.busy = False, True
            sandbox.hits = [Hit("new", claimed=False, modified=0.0)]
            await sandbox.past(20)
            assert ([], []) == (sandbox.windows, sandbox.drains)
            assert all(gap <= 1.5 for gap in gaps(sandbox.looks))
            sandbox.polled = lambda: Report("claimed", cancelled=("a",))
            sandbox.hits.append(Hit("a", claimed=True, modified=0.0))
            await sandbox.past(22)
            assert sandbox.drains

        play(story)


class TestMany:
    def test_no_lockstep(self) -> None:
        """Two hundred relays that start together send their windows spread out after a while."""
        limits = RemoteLimits(True, 25, 5, 2, 30, 3, 1, 30, 0.3, 1.5, 5, 10)
        source = random.Random(1)
        ends = [sum(window(limits, source.random) for _ in range(20)) for _ in range(200)]
        seconds = [int(end) for end in ends]
        assert 20 >= max(seconds.count(second) for second in set(seconds))
