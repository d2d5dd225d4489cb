"""What a remote relay falls back to, and how it comes back, on a clock of its own."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest

from relay.hosts.host import Missing, Unreachable
from relay.remote.draining import Hit
from relay.remote.report import Report
from tests.unit.remote.answers import Play, claimed, failing, finding, gaps, never


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

    @pytest.mark.parametrize("taken", [Report("claimed", cancelled=("a",)), claimed("a")])
    def test_poll_that_is_quicker(self, taken: Report, play: Play) -> None:
        """Polls that take requests before a trial does fail it; a cancel is no event there."""

        async def story(sandbox: Any) -> None:
            sandbox.script.extend([failing] * 3)
            await sandbox.past(70)
            sandbox.polled = lambda: taken
            sandbox.hits = [Hit("a", claimed=True, modified=0.0)]
            await sandbox.past(72)
            sandbox.hits = []
            await sandbox.past(100)
            assert sandbox.waiting.health.demoted == bool(taken.claims)

        play(story)

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
            # At 5, 10 and 15 seconds: a listing, and a drain that asks for the lease.
            assert 3 == len(sandbox.drains) == len(sandbox.looks)
            sandbox.polled = polled
            await sandbox.past(26)
            assert sandbox.waiting.flight is not None

        sandbox = play(story)
        assert 0 == sandbox.counters.failures
        assert {"free"} == {d.take for d in sandbox.drains}

    def test_another_runner_that_is_lost(self, play: Play) -> None:
        """Requests that lie there for a safety poll and more are taken from a silent runner."""
        asked: list[float] = []

        async def story(sandbox: Any) -> None:
            await stand_by(sandbox)
            await sandbox.past(30)
            sandbox.hits = [Hit("young", claimed=False, modified=0.0)]
            await sandbox.past(60)
            assert {"free"} == {d.take for d in sandbox.drains}
            sandbox.hits = [Hit("old", claimed=False, modified=0.0)]
            await sandbox.past(110)
            asked.extend(d.at for d in sandbox.drains if d.take == "force")
            assert sandbox.waiting.flight is not None

        sandbox = play(story)
        # It is first seen at most five seconds after 60, and lies for 35 from then on.
        assert 95 <= asked[0] <= 105
        assert [("old", "poll")] == sandbox.executed

    def test_another_runner_that_is_dead(self, play: Play) -> None:
        """One that died on this machine is succeeded at the next look."""

        async def story(sandbox: Any) -> None:
            await stand_by(sandbox)
            await sandbox.past(11)
            sandbox.dead.add("other")
            await sandbox.past(17)
            assert sandbox.waiting.flight is not None

        sandbox = play(story)
        assert 1 == sum(d.take == "force" for d in sandbox.drains)


async def stand_by(sandbox: Any) -> None:
    """Have another runner hold the lease against all but force."""
    other = Report("superseded", holder="other")
    sandbox.script.append(lambda _asked: other)
    polled = sandbox.polled

    def judged() -> Report:
        forced = sandbox.drains[-1].take == "force"
        return polled() if forced else other

    sandbox.polled = judged
    await sandbox.past(1)
