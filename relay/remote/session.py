"""One remote session: what is claimed, executed, answered and published, and for whom.

It stands between the loop that decides when to look, the engine that executes, and the host. A
request is executed once: what was printed again is known by id, inode and mtime. An answer is
published until it is there or its caller is gone; its slot is free only then.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Coroutine
from typing import Any, Protocol

from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.hosts.host import Host, HostError, NoCommand, TimedOut, Unreachable
from relay.protocol import claim_name
from relay.remote.announcing import Announcing
from relay.remote.burying import Burying
from relay.remote.counters import RemoteCounters
from relay.remote.directory import RemoteDirectory
from relay.remote.draining import MOST_ROOM, STARTING, Drains, Hit, Means, OnBatch
from relay.remote.intake import Intake, Taken
from relay.remote.limits import Random, RemoteLimits
from relay.remote.publications import Publications
from relay.remote.report import Order, Report
from relay.remote.waiting import Waiting

#: Seconds between two removals of what nobody fetched, at least.
_TIDY_AT_LEAST = 60.0

#: Drains at the start, each of which may clear a batch.
_SWEEPS = 50

#: Seconds until a request that was too large to be printed is read again.
_READ_AGAIN = 0.5

#: A file's time may lag behind the clock by a tick, and a clock is read before a lease is taken.
_MARGIN = 0.05


class Owner(Protocol):
    """The runner, as far as one of its remote sessions knows it."""

    def begin(self, session: RemoteSession, request: str, wake: str, picked: float) -> None:
        """Execute a request that is in ``session``'s directory."""

    def freed(self, session: RemoteSession) -> None:
        """A slot of a session is free."""

    def is_dead(self, session: RemoteSession, runner: str) -> bool:
        """Whether another runner of this session ran on this machine and lives no more."""


class RemotePlace:
    """What reports and the engine ask of a session's place: its path, its directory, its faults."""

    def __init__(self, announcing: Announcing, directory: RemoteDirectory) -> None:
        self._announcing = announcing
        self.path = announcing.path
        self.name = posixpath.basename(self.path)
        self.directory: RemoteDirectory | None = directory

    @property
    def unannounced(self) -> str:
        """Why the writers could not be told; empty where they were."""
        return self._announcing.unannounced


class RemoteSession:
    """One session directory behind a host.

    Args:
        host: how it is reached.
        path: the directory there.
        shared: the runner's parts.
        owner: its runner.
        limits: the settings in force.
        random: a source of jitter.
        means: by what the sandbox can be drained.
    """

    def __init__(
        self,
        host: Host,
        path: str,
        shared: Shared,
        owner: Owner,
        *,
        limits: RemoteLimits,
        random: Random,
        means: Means,
    ) -> None:
        self.host = host
        self.path = path
        self.runner = shared.locks.runner
        self.in_flight: set[str] = set()
        self.held = 0
        self.not_before: float | None = None
        self.limits = limits
        self._shared = shared
        self._owner = owner
        self._means = means
        self._drains: Drains | None = None
        #: Whether its path may be a link: one that was there at the start is the operator's.
        self._follows = True
        self._intake = Intake(self, shared)
        self._until: dict[str, float] = {}
        self._publishing: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tidied_at = shared.clock()
        self._patient_until = 0.0
        self._burying_now = False
        self._half_trip = 0.0
        self._directory = RemoteDirectory(self.runner, self._publish)
        self.announcing = Announcing(host, path, shared)
        self.place = RemotePlace(self.announcing, self._directory)
        self._burying = Burying(host, path, self.runner, is_dead=self.is_dead)
        counters = shared.counters
        self.counters = counters if isinstance(counters, RemoteCounters) else RemoteCounters()
        self.waiting = Waiting(
            self,
            limits=lambda: self.limits,
            clock=shared.clock,
            random=random,
            counters=self.counters,
            name=escaped(f"{path} on {host.name}"),
        )
        self._publications = Publications(
            host,
            path,
            self.runner,
            clock=shared.clock,
            on_trouble=self.waiting.suspect,
            holds=self._holds,
        )

    @property
    def waits(self) -> bool:
        """Whether a drain can wait inside the sandbox."""
        return self._drains is not None and self._drains.waits

    async def start(self, *, sweep: bool = True, make: bool = True) -> None:
        """Take the lease, answer for what was left behind, and tell the writers.

        Args:
            sweep: answer requests from before as not executed; else they are executed, since their
                writers could not know that the runner was not there yet.
            make: make the directory where it is missing.

        Raises:
            HostError: the host cannot be used, within RELAY_FILE_OP_TIMEOUT_MS.
        """
        began = self._shared.wall()
        before = await self._first_contact(make=make)
        if sweep and (not before or before == self.runner or self.is_dead(before)):
            self.not_before = began - _MARGIN
        self._tidied_at = float("-inf")
        if sweep and await self._sweep():
            # What is older and comes later has an old time, and is judged by its age alone.
            self.not_before = None
        told = self._shared.clock()
        await self.announcing.now()
        # Whatever starts quickly there will do as a first measure of the way.
        self._measured(self._shared.clock() - told)

    async def _sweep(self) -> bool:
        """Take what is there, to be answered or executed; True where nothing was left."""
        for _ in range(_SWEEPS):
            report = await self.drain(
                0.0, self.limits.grace + STARTING, take="", tag=1, kind="poll"
            )
            self.accept(report)
            self.execute("poll")
            if self._tasks:
                await asyncio.wait(self._tasks)
            if report.status != "claimed" or not self.has_room():
                return report.status == "idle"
        return False

    async def _first_contact(self, *, make: bool) -> str:
        """Find out what the sandbox can run, take the lease; return whose it was before.

        Raises:
            HostError: it cannot be reached in time, or refuses.
        """
        deadline = self._shared.clock() + self.limits.file_op_timeout
        while True:
            try:
                await self.probe()
                report = await self._send(
                    Order(1, take="force", make=make), self.limits.grace + STARTING, "lease"
                )
            except (Unreachable, TimedOut):
                if self._shared.clock() >= deadline:
                    raise
                await asyncio.sleep(0.2)
                self.host.renew()
            else:
                if report.status in {"idle", "claimed"}:
                    self._follows = report.linked
                    if self._drains is not None:
                        self._drains.follows = self._follows
                    return report.before
                told = report.error or report.status
                raise HostError(
                    f"{self.host.name}: {escaped(self.path)} cannot be served: {told}; the "
                    "directory's parent must be there and the directory be writable"
                )

    async def probe(self) -> None:
        """See ``Sandbox.probe``."""
        seconds = self.limits.file_op_timeout
        self._drains = await self._means.drains(self.path, self.runner, seconds=seconds)
        self._drains.follows = self._follows

    async def drain(
        self,
        seconds: float,
        grace: float,
        *,
        take: str,
        tag: int,
        kind: str,
        on_batch: OnBatch | None = None,
    ) -> Report:
        """See ``Sandbox.drain``."""
        if self._drains is None:
            await self.probe()
        limits = self._shared.limits
        order = Order(
            tag,
            window=seconds,
            rescan=self.limits.rescan,
            poll=min(self.limits.poll, self.limits.rescan),
            most=self._intake.free(),
            room=min(MOST_ROOM, limits.max_request),
            known=self._intake.keys(),
            keep=self._keep(),
            take=take,
        )
        try:
            return await self._send(order, grace, kind, on_batch)
        except NoCommand:
            self._drains = None
            self._means.forget()
            raise

    async def _send(
        self, order: Order, grace: float, kind: str, on_batch: OnBatch | None = None
    ) -> Report:
        if self._drains is None:  # pragma: no cover - every caller has probed
            raise NoCommand(f"{self.host.name}: nothing can be run")
        return await self._drains.drain(order, grace=grace, kind=kind, on_batch=on_batch)

    def _keep(self) -> float:
        """Return how long unfetched answers are kept, where it is time to remove older ones."""
        now, timeout = self._shared.clock(), self._shared.limits.timeout
        if now - self._tidied_at < max(_TIDY_AT_LEAST, timeout / 4):
            return 0.0
        if self._shared.wall() < self._patient_until:
            return 0.0
        self._tidied_at = now
        return timeout

    def has_room(self) -> bool:
        """See ``Sandbox.has_room``."""
        return self._intake.free() > 0

    def is_busy(self) -> bool:
        """See ``Sandbox.is_busy``."""
        return bool(self.in_flight)

    async def look(self) -> list[Hit]:
        """See ``Sandbox.look``."""
        if self._drains is None:
            await self.probe()
        if self._drains is None:  # pragma: no cover - the probe finds something or raises
            return []
        began = self._shared.clock()
        hits = await self._drains.look(self._intake.requests())
        self._measured(self._shared.clock() - began)
        return hits

    def _measured(self, trip: float) -> None:
        """Note how long the way there and back took; the shortest is the truest."""
        self._half_trip = min(self._half_trip or trip / 2, trip / 2)

    def accept(self, report: Report) -> int:
        """See ``Sandbox.accept``."""
        cancelled = sum(map(self._cancel, report.cancelled))
        before = self._intake.replays
        new = self._intake.accept(report.claims, late=self._half_trip)
        self.counters.replays += self._intake.replays - before
        if report.foreign and not self._burying_now:
            self._burying_now = True
            self._run(self._bury(report))
        return new + cancelled

    def _cancel(self, request: str) -> bool:
        """Note that a caller took its request back; False where there is no such request."""
        if request not in self.in_flight:
            return self._intake.drop(request)
        # The engine looks there for whatever is in flight, several times a second.
        self._directory.cancel(request)
        return True

    async def _bury(self, report: Report) -> None:
        limits = self._shared.limits
        try:
            self.counters.interrupted += await self._burying.look(
                report.foreign, limits.timeout, limits.max_request
            )
        except HostError as error:
            log.info("%s: claims of others stay for now: %s", self.waiting.name, error)
        finally:
            self._burying_now = False

    def execute(self, wake: str) -> None:
        """See ``Sandbox.execute``."""
        for taken in self._intake.take():
            claim = taken.claim
            self.counters.requests += 1
            self._until[claim.request] = self._shared.clock() + self._shared.limits.timeout
            if claim.data is None and not claim.bad:
                self._run(self._fetch(taken, wake))
            else:
                self._begin(taken, wake)

    @property
    def starved(self) -> bool:
        """Whether it waits for a slot, with requests or to look for some."""
        return self._intake.waits or self.waiting.starved

    def go_on(self) -> None:
        """A slot may be free: execute what is claimed and waits, or claim more."""
        if self._intake.waits:
            self.execute("activity")
        self.waiting.wake()

    async def _fetch(self, taken: Taken, wake: str) -> None:
        """Read what was too large to be printed, for as long as its caller waits."""
        claim, limit = taken.claim, self._shared.limits.max_request
        name = posixpath.join(self.path, claim_name(claim.request, self.runner))
        while claim.size <= limit and claim.data is None and not claim.bad:
            try:
                data = await self.host.read(name, limit=limit)
            except HostError as error:
                lost = isinstance(error, (TimedOut, Unreachable))
                if lost:
                    self.waiting.suspect()
                if lost and self._shared.clock() < self._until[claim.request]:
                    await asyncio.sleep(_READ_AGAIN)
                    continue
                claim = claim._replace(bad=f"the request cannot be read: {error.code}")
            else:
                claim = claim._replace(data=data, size=len(data))
        self._begin(Taken(claim, taken.modified), wake)

    def _begin(self, taken: Taken, wake: str) -> None:
        self._directory.add(taken.claim, taken.modified)
        self._owner.begin(self, taken.claim.request, wake, self._shared.wall())

    def _publish(self, request: str, data: bytes) -> None:
        self._publishing.add(request)
        self._publications.send(
            request,
            data,
            until=lambda: self._until.get(request, 0.0),
            over=lambda published: self._over(request, published=published),
        )

    async def _holds(self, request: str) -> bool:
        """Whether the claim of what is in flight is still there, in the sandbox."""
        claim = self._intake.claim_of(request)
        if claim is None:
            return False
        if self._drains is None:
            await self.probe()
        return self._drains is not None and await self._drains.holds(claim)

    def done(self, request: str, *, awaited_until: float | None = None) -> None:
        """Note that a request is answered, or given up; its slot is freed with its publication.

        Args:
            request: its id.
            awaited_until: the deadline of a caller that waits longer than RELAY_TIMEOUT_MS, on the
                wall clock.
        """
        if awaited_until is not None:
            self._patient_until = max(self._patient_until, awaited_until)
            left = awaited_until - self._shared.wall()
            self._until[request] = self._shared.clock() + left
        if request not in self._publishing:
            self._over(request, published=False)

    def _over(self, request: str, *, published: bool) -> None:
        self._publishing.discard(request)
        self._until.pop(request, None)
        cancelled = self._directory.over(request)
        self._intake.over(request, published=published or cancelled)
        self.execute("activity")
        self._owner.freed(self)

    def change(self, limits: RemoteLimits) -> None:
        """Go by new settings."""
        self.limits = limits
        self.host.timeout = limits.file_op_timeout
        self.announcing.soon()
        self.waiting.wake()

    async def rejoin(self) -> None:
        """See ``Sandbox.rejoin``."""
        self._intake.forget()
        self.announcing.forget()
        self.announcing.soon()

    def distrust(self) -> None:
        """See ``Sandbox.distrust``."""
        self.host.renew()

    def is_dead(self, runner: str) -> bool:
        """See ``Sandbox.is_dead``."""
        return self._owner.is_dead(self, runner)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def leave(self, patience: float, *, release: bool = True) -> None:
        """Publish what is left to publish, and empty the lease.

        Args:
            patience: seconds that the publications may take.
            release: whether there is a lease to be emptied.
        """
        await self._publications.flush(patience)
        self.announcing.stop()
        for task in tuple(self._tasks):
            task.cancel()
        mine = release and not self.waiting.standby and not self.waiting.gone
        if self._drains is not None and mine:
            try:
                async with asyncio.timeout(max(1.0, patience)):
                    await self._drains.release(self.waiting.generation)
            except (HostError, TimeoutError) as error:
                log.info("%s: its lease was not emptied: %s", self.waiting.name, error)
