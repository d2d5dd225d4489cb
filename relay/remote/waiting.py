"""When a remote relay looks into its sandbox, and how: windows, polls, back-off, demotion.

At most one window waits inside the sandbox. While it is healthy nothing else is sent but the
safety poll; whenever it is not, classic polling goes on at its own cadence, so that no failure of
the watch delays a request for longer than that. Everything is decided on an injected clock, from
the settings that are in force at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from relay.engine.telemetry import log
from relay.hosts.host import HostError, Missing, NoCommand, TimedOut, Unreachable
from relay.remote.counters import RemoteCounters
from relay.remote.draining import STARTING, Hit
from relay.remote.flight import Flight
from relay.remote.health import Health
from relay.remote.limits import Random, RemoteLimits, idle_pause, window
from relay.remote.report import Report
from relay.remote.sandbox import Sandbox

#: Seconds beyond window and grace after which a drain that never settles is given up (section 9).
OUTER = 2.0

#: A request that had lain this much longer than the rescan was missed, in seconds (section 9).
MISSED_BY = 1.0

#: How often a relay whose lease another runner took looks whether it is free again, in seconds.
STANDBY = 5.0

#: A request that a relay which stands by sees lying for this much longer than a safety poll, in
#: seconds, is nobody's: its runner is lost, and on another machine there is no other sign of it.
ORPHANED_BY = 5.0

#: Reports in a row that bring nothing new, after which a drain counts as failed.
_EMPTY_HANDED = 2


class Waiting:
    """The loop of one relay.

    Args:
        sandbox: the relay's side of it.
        limits: returns the settings in force.
        clock: monotonic seconds.
        random: a source of jitter.
        counters: what is done is counted here.
        name: the relay, for log lines.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        limits: Callable[[], RemoteLimits],
        clock: Callable[[], float],
        random: Random,
        counters: RemoteCounters,
        name: str,
    ) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._clock = clock
        self._random = random
        self._counters = counters
        self.name = name
        self.health = Health(name, random)
        self.stopping = False
        self.flight: Flight | None = None
        self.gone = False
        self.standby = ""
        #: Whether it waits for a slot.
        self.starved = False
        #: The lease's generation, and whether it is known to be in force.
        self.generation = 1
        self._confirmed = True
        self._poll: asyncio.Task[None] | None = None
        self._polled_at = clock()
        self._poll_ended_at = clock()
        self._poll_at_once = False
        self._lying: dict[Hit, float] = {}
        self._empty = 0
        self._repeats = 0
        #: An operation failed on the way, and nothing has shown since that the host is reachable.
        self._trouble = False
        self._was_wanted = False
        self._said = ""
        self._news = asyncio.Event()
        #: Called when the relay is demoted.
        self.on_demotion: Callable[[], None] | None = None

    def wake(self) -> None:
        """Look at everything anew: settings changed, a slot is free, or it is time to stop."""
        self._news.set()

    def stop(self) -> None:
        """Have ``run`` end soon."""
        self.stopping = True
        self.wake()

    async def run(self) -> None:
        """Serve until ``stopping``."""
        try:
            while not self.stopping:
                self._news.clear()
                self._steer()
                await self._until_something()
                self._settle()
        finally:
            if self.flight is not None:
                self._abandon()
            if self._poll is not None:
                self._poll.cancel()

    def _wanted(self, limits: RemoteLimits) -> bool:
        return limits.watches and self._sandbox.waits

    def _steer(self) -> None:
        """Send what is due, by the settings in force."""
        now, limits = self._clock(), self._limits()
        wanted = self._wanted(limits)
        if wanted and not self._was_wanted:
            self.health.reset()
        self._was_wanted = wanted
        if self.health.change(now, limits):
            self._demoted()
        flight = self.flight
        if flight is not None and not (wanted and flight.shape == self._shape(limits)):
            self._abandon()
        self.starved = not self._sandbox.has_room()
        ready = wanted and not self.gone and not self.standby and not self.starved
        if ready and self.flight is None and now >= self.health.retry_at:
            self._send(now, limits)
            # The new lease ends an old drain as well, and finds what it has claimed.
            self._poll_at_once = False
        if self._poll is None and now >= self._poll_due(limits) and self._may_poll():
            self._polled_at = now
            self._poll_at_once = False
            self._poll = asyncio.ensure_future(self._look(limits))

    def _shape(self, limits: RemoteLimits) -> object:
        return limits.window, limits.rescan, limits.grace

    def _send(self, now: float, limits: RemoteLimits) -> None:
        seconds = window(limits, self._random)
        self._counters.windows += 1
        self.flight = Flight(
            self._drain(seconds, limits.grace, kind="drain"),
            tag=self.generation,
            now=now,
            window=seconds,
            bound=seconds + limits.grace + OUTER,
            shape=self._shape(limits),
        )

    async def _drain(self, seconds: float, grace: float, *, kind: str) -> Report:
        """Send a drain under the present generation, taking its lease where it may not be ours."""
        tag = self.generation
        take = "" if self._confirmed else "free"
        if self.standby and (self._sandbox.is_dead(self.standby) or await self._orphaned()):
            take = "force"
        on_batch = partial(self._batch, tag) if seconds else None
        report = await self._sandbox.drain(
            seconds, grace, take=take, tag=tag, kind=kind, on_batch=on_batch
        )
        if take and tag == self.generation and report.status in {"claimed", "expired", "idle"}:
            self._confirmed = True
        return report

    async def _orphaned(self) -> bool:
        """While another runner has the lease: whether requests lie there that it should have taken.

        Judged by how long they were seen here, so that no clock of the sandbox's counts.
        """
        now = self._clock()
        hits = [hit for hit in await self._sandbox.look() if not hit.claimed]
        self._lying = {hit: self._lying.get(hit, now) for hit in hits}
        late = self._limits().safety_poll + ORPHANED_BY
        return any(now - since >= late for since in self._lying.values())

    def _batch(self, tag: int, report: Report) -> None:
        """Take in what a window that goes on has brought, unless it was given up."""
        if self.flight is None or tag != self.generation:
            return
        if self._sandbox.accept(report):
            self.health.succeed(found=True)
            self._empty = 0
        self._confirmed = True
        self._sandbox.execute("activity")

    def _abandon(self) -> None:
        """Give up the window; the next drain's lease ends what goes on in the sandbox."""
        if self.flight is not None:
            self.flight.abandon()
            self.flight = None
        self.generation += 1
        self._confirmed = False
        # What the old one claims until it is ended is found by a look.
        self._poll_at_once = True

    def _healthy(self) -> bool:
        """Whether the watch alone may be relied on, with the safety poll."""
        return self.flight is not None and not self.health.demoted and not self._trouble

    def _poll_due(self, limits: RemoteLimits) -> float:
        if self._poll_at_once:
            return 0.0
        if self.standby:
            return self._polled_at + STANDBY
        if self._healthy():
            # From the end of the last one: however long each is under way, no two reach the host in
            # less time. So it is with windows, and no minute can have more than it should.
            return self._poll_ended_at + limits.safety_poll
        return self._polled_at + idle_pause(limits, self._empty)

    def _may_poll(self) -> bool:
        # Without a slot nothing could be taken, only taken back; whoever frees one wakes this loop.
        served = not self.gone and not self.standby
        return not served or self._sandbox.has_room() or self._sandbox.is_busy()

    async def _until_something(self) -> None:
        """Wait for an answer, a time, or news."""
        now, limits = self._clock(), self._limits()
        times = []
        tasks: set[asyncio.Task[object]] = set()
        if self.flight is not None:
            tasks.add(self.flight.task)
            times.append(self.flight.bound)
        elif self._wanted(limits) and self.health.retry_at > now:
            times.append(self.health.retry_at)
        if self._poll is not None:
            tasks.add(self._poll)
        elif self._may_poll():
            times.append(self._poll_due(limits))
        news = asyncio.ensure_future(self._news.wait())
        timeout = max(0.0, min(times) - now) if times else None
        try:
            await asyncio.wait({*tasks, news}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    def _settle(self) -> None:
        """Take in what has ended."""
        if self._poll is not None and self._poll.done():
            poll, self._poll = self._poll, None
            self._poll_ended_at = self._clock()
            error = poll.exception()
            if error is not None:
                raise error
        flight = self.flight
        if flight is None:
            return
        now, limits = self._clock(), self._limits()
        if not flight.task.done():
            if now >= flight.bound:
                self._fail("it did not settle", abandon=True)
            return
        self.flight = None
        error = flight.task.exception() if not flight.task.cancelled() else TimedOut("cancelled")
        if error is None:
            self._judge(flight, flight.task.result(), now, limits)
        elif isinstance(error, HostError):
            self._failed(error)
        else:
            raise error

    def _failed(self, error: HostError) -> None:
        """A window was rejected, or ended without a report."""
        if isinstance(error, (TimedOut, Unreachable)):
            self._suspect()
        if isinstance(error, NoCommand):
            self._poll_at_once = True
        self._fail(str(error), abandon=True)

    def _judge(self, flight: Flight, report: Report, now: float, limits: RemoteLimits) -> None:
        """Take in a window's report; the next one is sent before anything is executed."""
        if report.status in {"claimed", "expired"}:
            new = self._sandbox.accept(report)
            early = report.status == "expired" and now - flight.began < flight.window / 2
            self._repeats = 0 if new or report.status == "expired" else self._repeats + 1
            beaten = self.health.demoted and flight.beaten and not new
            if early or beaten or self._repeats >= _EMPTY_HANDED:
                why = "it ended early" if early else "it brings nothing new"
                self._fail("polls were quicker than it" if beaten else why, abandon=False)
            else:
                self._went_well(report, now, limits)
            self._empty = 0 if new else self._empty
            self._sandbox.execute("activity" if report.status == "claimed" else "timeout")
            return
        self._odd(report)

    def _went_well(self, report: Report, now: float, limits: RemoteLimits) -> None:
        self._counters.expired += report.status == "expired"
        self.health.succeed(found=report.status == "claimed")
        self._trouble = False
        if self._wanted(limits) and self._sandbox.has_room() and not self.stopping:
            self._send(now, limits)

    def _odd(self, report: Report) -> None:
        """Take in a report that says that this relay may not, or cannot, take requests now."""
        if report.status == "gone":
            self._lost()
        elif report.status == "superseded":
            self._superseded(report.holder)
        else:
            self._fail(f"it ended as {report.status} {report.error}".rstrip(), abandon=True)

    def _lost(self) -> None:
        if not self.gone:
            log.warning("%s: the session directory is gone; waiting for it", self.name)
        self.gone = True
        self._confirmed = False
        self._empty = 0

    def _superseded(self, holder: str) -> None:
        self._confirmed = False
        if holder and holder != self._sandbox.runner:
            if holder != self.standby:
                log.warning("%s: runner %s serves it now; standing by", self.name, holder)
            self.standby = holder
            return
        self._fail("its lease was taken away by nobody", abandon=True)

    def _fail(self, why: str, *, abandon: bool) -> None:
        self._counters.failures += 1
        if abandon:
            self._abandon()
        if self.health.fail(why, self._clock(), self._limits()):
            self._demoted()

    def _demoted(self) -> None:
        self._counters.demotions += 1
        if self.flight is not None:
            self._abandon()
        self._empty = 0
        if self.on_demotion is not None:
            self.on_demotion()

    def _suspect(self) -> None:
        if not self._trouble:
            self._empty = 0
        self._trouble = True
        self._sandbox.distrust()

    def suspect(self) -> None:
        """An operation of the relay led nowhere: poll until the host answers again."""
        self._suspect()
        self.wake()

    async def _look(self, limits: RemoteLimits) -> None:
        """Poll once; nothing that fails on the way is raised."""
        try:
            await self._poll_once(limits)
        except Missing:
            self._lost()
        except HostError as error:
            if isinstance(error, (TimedOut, Unreachable)):
                self._suspect()
            self._empty += 1
            self._complain(str(error))
        else:
            self._said = ""

    def _complain(self, text: str) -> None:
        """Say what is wrong, once until it is another thing or over."""
        if not self._said:
            log.warning("%s: polling fails: %s", self.name, text)
        self._said = text

    async def _poll_once(self, limits: RemoteLimits) -> None:
        flight = self.flight
        unsure = not self._confirmed and not self.gone
        if not unsure:
            hits = await self._sandbox.look()
            self._reached(flight)
            if not self._sandbox.has_room():
                hits = [hit for hit in hits if hit.claimed]
            if self.gone:
                hits = hits or [Hit("", claimed=False, modified=0.0)]
            if not hits:
                self._empty += 1
                return
        report = await self._drain(0.0, limits.grace + STARTING, kind="poll")
        self._reached(flight)
        if report.status not in {"claimed", "idle"}:
            self._odd(report)
            return
        await self._back()
        healthy = flight is not None and flight is self.flight and self._healthy()
        new = self._sandbox.accept(report)
        oldest = max((claim.age for claim in report.claims), default=0.0) if new else 0.0
        self._empty = 0 if new else self._empty + 1
        if flight is not None and new and report.claims:
            # A cancel alone is found by the rescan inside, and says nothing of the watch.
            flight.beaten = True
        self._sandbox.execute("timeout" if healthy else "poll")
        if healthy and flight is not None:
            self._look_for_miss(flight, oldest, limits)

    def _look_for_miss(self, flight: Flight, oldest: float, limits: RemoteLimits) -> None:
        """Count a request that the watch should have found long ago against it."""
        late = limits.rescan + MISSED_BY
        if min(oldest, self._clock() - flight.began) > late:
            self._counters.misses += 1
            self.health.missed = True
            self._fail("the safety poll found a request that it had missed", abandon=True)

    def _reached(self, flight: Flight | None) -> None:
        """The host answers: a window from before a time of trouble may wait on a dead line."""
        if not self._trouble:
            return
        self._trouble = False
        self.health.excuse(self._clock())
        if flight is not None and flight is self.flight:
            self._abandon()

    async def _back(self) -> None:
        """End being gone or standing by."""
        if self.gone or self.standby:
            log.warning("%s: the session directory is served again", self.name)
            self.gone = False
            self.standby = ""
            self._lying = {}
            await self._sandbox.rejoin()
