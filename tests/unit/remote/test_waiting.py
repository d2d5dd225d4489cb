"""The rules of waiting for a remote sandbox, each on a clock of its own."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from relay.hosts.host import Faulty, Missing, TimedOut, Unreachable
from relay.remote.draining import Hit
from relay.remote.limits import RemoteLimits, window
from relay.remote.report import Claim, Report

Play = Callable[[Any], Any]

EXPIRED = Report("expired", watched=True)


def claimed(*requests: str, age: float = 0.0) -> Report:
    """Return a report that brings requests."""
    return Report("claimed", tuple(Claim(r, 1, 1, 2, age, b"{}") for r in requests))


def failing(_asked: Any) -> Faulty:
    """Answer a window with a rejection."""
    return Faulty("it is broken")


def finding(request: str, _asked: Any) -> Report:
    """Answer a window with a request."""
    return claimed(request)


def never(_asked: Any) -> None:
    """Never answer a window."""


def gaps(times: list[float]) -> list[float]:
    """Return the pauses between times."""
    return [round(b - a, 3) for a, b in pairwise(times)]


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


class TestDemotion:
    def test_one_line_and_classic_polling(
        self, play: Play, caplog: pytest.LogCaptureFixture
    ) -> None:
        """After RELAY_DEMOTE_AFTER failures in a row the relay polls, and says so in one line."""
        caplog.set_level(logging.INFO, logger="relay")

        async def story(sandbox: Any) -> None:
            sandbox.script.extend([failing] * 3)
            await sandbox.past(60)

        sandbox = play(story)
        assert 3 == len(sandbox.windows)
        warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert ["stage=relay_demoted"] == [r.getMessage().split(" ")[0] for r in warnings]
        assert all(gap <= 1.5 for gap in gaps(sandbox.looks))
        assert 1 == sandbox.counters.demotions

    def test_trial_ends_it(self, play: Play, caplog: pytest.LogCaptureFixture) -> None:
        """A minute later the watch is tried once; where it works, polling ends."""
        caplog.set_level(logging.INFO, logger="relay")

        async def story(sandbox: Any) -> None:
            sandbox.script.extend([failing] * 3)
            await sandbox.past(200)

        sandbox = play(story)
        assert 63.0 == sandbox.windows[3].at
        assert not sandbox.waiting.health.demoted
        assert any("stage=relay_promoted" in r.getMessage() for r in caplog.records)
        assert {30.0} == set(gaps([at for at in sandbox.looks if at > 90]))

    def test_failed_trials_double_their_pause(self, play: Play) -> None:
        """A trial that fails is repeated after 2, 4, ... minutes, at most each hour."""

        async def story(sandbox: Any) -> None:
            sandbox.limits = sandbox.limits._replace(poll=60.0, poll_max=60.0)
            sandbox.script.extend([failing] * 12)
            await sandbox.past(20_000)

        sandbox = play(story)
        trials = gaps([w.at for w in sandbox.windows[2:10]])
        assert [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0] == trials

    def test_lowered_limit_demotes_at_once(self, play: Play) -> None:
        """RELAY_DEMOTE_AFTER counts the failures that are there already."""

        async def story(sandbox: Any) -> None:
            sandbox.script.extend([failing] * 2)
            await sandbox.past(1.5)
            sandbox.change(demote_after=2)
            await sandbox.past(1.6)
            assert sandbox.waiting.health.demoted

        assert 1 == play(story).counters.demotions

    def test_success_forgets_failures(self, play: Play) -> None:
        """Failures count in a row: a window that ends well begins the count anew."""

        async def story(sandbox: Any) -> None:
            for name in ("a", "b", "c", "d"):
                sandbox.script.extend([failing, failing, partial(finding, name)])
            sandbox.script.extend([failing, failing])
            await sandbox.past(60)

        assert 0 == play(story).counters.demotions


class TestFlips:
    def test_switched_off_in_mid_window(self, play: Play) -> None:
        """The flag ends a window at once; polling goes on and no window follows."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(7)
            sandbox.change(watches=False)
            await sandbox.past(7.1)
            assert sandbox.windows[0].cancelled
            await sandbox.past(60)

        sandbox = play(story)
        assert 1 == len(sandbox.windows)
        assert 7.0 == sandbox.drains[0].at
        assert "free" == sandbox.drains[0].take
        assert {0.3, 0.6, 1.2, 1.5} >= set(gaps(sandbox.looks))
        assert 1.5 == gaps(sandbox.looks)[-1]

    def test_switched_on_again(self, play: Play) -> None:
        """The flag begins a window at once, also for a relay that was demoted."""

        async def story(sandbox: Any) -> None:
            sandbox.script.extend([failing] * 3)
            await sandbox.past(10)
            sandbox.change(watches=False)
            await sandbox.past(11)
            sandbox.change(watches=True)
            await sandbox.past(11.1)

        sandbox = play(story)
        assert 11.0 == sandbox.windows[-1].at
        assert not sandbox.waiting.health.demoted

    @pytest.mark.parametrize("change", [{"window": 10.0}, {"rescan": 1.0}, {"grace": 1.0}])
    def test_window_is_sent_anew(self, change: dict[str, float], play: Play) -> None:
        """What a window was sent with applies at once, by a window under a new lease."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(5)
            sandbox.change(**change)
            await sandbox.past(5.1)

        sandbox = play(story)
        assert [0.0, 5.0] == [w.at for w in sandbox.windows]
        assert sandbox.windows[1].tag > sandbox.windows[0].tag
        assert "free" == sandbox.windows[1].take
        assert 0 == sandbox.counters.failures

    def test_safety_poll_changes_at_once(self, play: Play) -> None:
        """A shorter safety poll does not wait for the longer one to pass."""

        async def story(sandbox: Any) -> None:
            await sandbox.past(10)
            sandbox.change(safety_poll=12.0)
            await sandbox.past(25)

        assert [12.0, 24.0] == [round(at, 3) for at in play(story).looks]

    def test_poll_changes_at_once(self, play: Play) -> None:
        """A shorter poll applies to a relay that polls slowly."""

        async def story(sandbox: Any) -> None:
            sandbox.limits = sandbox.limits._replace(watches=False, poll=60.0, poll_max=60.0)
            sandbox.waiting.wake()
            await sandbox.past(100)
            sandbox.change(poll=0.1, poll_max=0.1)
            before = len(sandbox.looks)
            await sandbox.past(101)
            assert len(sandbox.looks) >= before + 9

        play(story)


class TestClassic:
    def test_cadence(self, play: Play) -> None:
        """With the flag off the directory is listed every 300 ms, growing to 1.5 s while idle."""

        async def story(sandbox: Any) -> None:
            sandbox.limits = sandbox.limits._replace(watches=False)
            await sandbox.past(20)

        found = gaps(play(story).looks)
        assert [0.3] * 5 == found[:5]
        assert [0.6, 1.2, 1.5] == found[5:8]
        assert {1.5} == set(found[7:])

    def test_request_resets_it(self, play: Play) -> None:
        """A request brings the cadence back to its shortest."""

        async def story(sandbox: Any) -> None:
            sandbox.limits = sandbox.limits._replace(watches=False)
            await sandbox.past(20)
            sandbox.hits = [Hit("a", claimed=False, modified=0.1)]
            await sandbox.past(25)

        sandbox = play(story)
        assert [("a", "poll")] == sandbox.executed
        after = gaps([at for at in sandbox.looks if at > 20])
        assert 0.3 == after[1]

    def test_sandbox_that_cannot_wait(self, play: Play) -> None:
        """Without an interpreter in the sandbox the relay polls, whatever the flag says."""

        async def story(sandbox: Any) -> None:
            sandbox.waits = False
            await sandbox.past(5)

        assert [] == play(story).windows


class TestTrouble:
    def test_unreachable_host(self, play: Play) -> None:
        """While nobody answers, polls go on at their cadence; the first that succeeds serves."""

        async def story(sandbox: Any) -> None:
            sandbox.hits = Unreachable("refused")
            sandbox.script.extend([lambda _asked: Unreachable("refused")] * 50)
            await sandbox.past(40)
            sandbox.script.clear()
            sandbox.hits = [Hit("a", claimed=False, modified=0.1)]
            await sandbox.past(42)
            assert [("a", "poll")] == sandbox.executed
            assert sandbox.waiting.flight is not None

        assert 0 < play(story).distrusted

    def test_failed_publication_wakes_the_polls(self, play: Play) -> None:
        """An answer that led nowhere puts the window in doubt, and polling stands in at once."""

        async def story(sandbox: Any) -> None:
            sandbox.script.append(never)
            await sandbox.past(3)
            sandbox.waiting.suspect()
            await sandbox.past(4)
            assert sandbox.windows[0].cancelled

        sandbox = play(story)
        assert 2 == len(sandbox.windows)
        assert 0 == sandbox.counters.failures

    def test_directory_that_is_gone(self, play: Play, caplog: pytest.LogCaptureFixture) -> None:
        """A removed directory is waited for by polls, and its return is told to its writers."""

        async def story(sandbox: Any) -> None:
            sandbox.hits = Missing("gone")
            sandbox.script.append(lambda _asked: Report("gone"))
            await sandbox.past(10)
            assert 1 == len(sandbox.windows)
            sandbox.hits = []
            await sandbox.past(13)
            assert sandbox.waiting.flight is not None

        sandbox = play(story)
        assert 1 == sandbox.rejoined
        assert 0 == sandbox.counters.failures
        assert 2 == sum(r.levelno >= logging.WARNING for r in caplog.records)

    def test_another_runner(self, play: Play) -> None:
        """A relay whose lease another took stands by, and comes back once it is free."""

        async def story(sandbox: Any) -> None:
            other = Report("superseded", holder="other")
            sandbox.script.append(lambda _asked: other)
            polled = sandbox.polled
            sandbox.polled = lambda: other
            await sandbox.past(20)
            assert 1 == len(sandbox.windows)
            sandbox.polled = polled
            await sandbox.past(26)
            assert sandbox.waiting.flight is not None

        sandbox = play(story)
        assert 0 == sandbox.counters.failures
        assert {"free"} == {d.take for d in sandbox.drains}


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


class TestMany:
    def test_no_lockstep(self) -> None:
        """Two hundred relays that start together send their windows spread out after a while."""
        limits = RemoteLimits(True, 25, 5, 2, 30, 3, 1, 30, 0.3, 1.5, 5, 10)
        source = random.Random(1)
        ends = [sum(window(limits, source.random) for _ in range(20)) for _ in range(200)]
        seconds = [int(end) for end in ends]
        assert 20 >= max(seconds.count(second) for second in set(seconds))
