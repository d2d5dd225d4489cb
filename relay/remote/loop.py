"""The loop of a runner whose sessions are remote: one task for each, and the runner's own chores.

It stands where ``relay.engine.loop`` stands for local sessions, and shares the engine with it. All
its sessions lie behind one host. A session that fails in a way that nobody foresaw is logged and
served again after a pause; the others go on.
"""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import random
from collections.abc import Callable

from relay.engine.execute import Engine
from relay.engine.guard import Guard
from relay.engine.locks import Identity
from relay.engine.loop import PEER_CHECK
from relay.engine.shared import Shared
from relay.engine.telemetry import log
from relay.hosts.host import Host
from relay.remote.counters import RemoteCounters
from relay.remote.draining import Means
from relay.remote.limits import RemoteLimits, remote_limits
from relay.remote.session import RemoteSession
from relay.remote.tripping import Tripping
from relay.settings import RelaySettings
from relay.tools.registry import Registry
from relayconf.errors import StateError
from relayconf.live.snapshot import Live

#: Seconds until a session whose loop failed is served again.
_AGAIN = 5.0

#: A dead runner's mark is kept so long, in seconds, since a drain of its may still claim.
_MOURNED = 300.0


class RemoteLoop:
    """Serves remote sessions until it is told to stop.

    Args:
        host: how all of them are reached.
        shared: the runner's parts.
        tools: what is offered.
        guard: asked before each call.
        live: the settings.
        tripping: kills the flag where too many sessions are demoted.
        rand: a source of jitter, for tests.
    """

    def __init__(
        self,
        host: Host,
        shared: Shared,
        tools: Registry,
        guard: Guard | None,
        live: Live[RelaySettings],
        *,
        tripping: Tripping | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.engine = Engine(shared, tools, guard, self.freed)
        self.sessions: list[RemoteSession] = []
        self.stopping = False
        #: Called whenever the peers are looked at, for chores of the runner's own.
        self.chores: list[Callable[[], None]] = []
        #: Called when the settings have changed.
        self.on_change: Callable[[], None] | None = None
        self.host = host
        self.means = Means(host)
        self._shared = shared
        self._live = live
        self._tripping = tripping
        self.random = rand
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[RemoteSession, asyncio.Task[None]] = {}
        self._running = False
        self._turn = 0
        self._counted = host.requests.copy()
        self._dead: dict[Identity, dict[str, float]] = {}
        self._unsubscribe = live.subscribe(lambda _old, _new: self._soon())

    async def open(self, path: str, *, sweep: bool = True, make: bool = True) -> RemoteSession:
        """Begin to serve one remote directory.

        Args:
            path: the directory.
            sweep: answer for what was left behind there, rather than execute it.
            make: make the directory where it is missing.

        Raises:
            HostError: it cannot be served.
        """
        self._look_at_peers()
        session = RemoteSession(
            self.host,
            path,
            self._shared,
            self,
            limits=self.limits(path),
            random=self.random,
            means=self.means,
        )
        session.waiting.on_demotion = lambda: self._demoted(path)
        try:
            await session.start(sweep=sweep, make=make)
            self._shared.locks.mark(self._identity(path))
        except BaseException:
            await session.leave(0.0)
            raise
        self.sessions.append(session)
        # RACE: settings that changed while it started were not applied to it.
        session.change(self.limits(path))
        if self._running:
            self._begin(session)
        return session

    async def drop(self, session: RemoteSession) -> None:
        """Serve a session no more: its directory is gone."""
        self.sessions.remove(session)
        session.waiting.stop()
        task = self._tasks.pop(session, None)
        if task is not None:
            await asyncio.wait([task])
        await session.leave(0.0, release=False)
        self._shared.locks.unmark(self._identity(session.path))

    def limits(self, path: str) -> RemoteLimits:
        """Return what the settings in force say to the relay of one directory."""
        key = posixpath.basename(path.rstrip("/")) or path
        return remote_limits(self._live.snapshot, key)

    def _identity(self, path: str) -> Identity:
        """Return the key under which runners of one remote directory know each other's locks."""
        key = f"{self.host.name}\0{path}".encode("utf-8", "surrogateescape")
        digest = hashlib.sha256(key).digest()
        return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")

    def _demoted(self, path: str) -> None:
        if self._tripping is not None:
            self._tripping.demoted(path, among=len(self.sessions))

    async def run(self) -> None:
        """Serve until ``stopping``."""
        self._running = True
        for session in self.sessions:
            self._begin(session)
        try:
            while not self.stopping:
                await self._shared.hub.wait(PEER_CHECK)
                self._look_around()
        finally:
            self._running = False
            for session in self.sessions:
                session.waiting.stop()
            if self._tasks:
                await asyncio.wait(self._tasks.values())

    def _begin(self, session: RemoteSession) -> None:
        self._tasks[session] = asyncio.ensure_future(self._serve(session))

    async def _serve(self, session: RemoteSession) -> None:
        waiting = session.waiting
        while not waiting.stopping:
            try:
                await waiting.run()
            except Exception:  # noqa: BLE001 - logged; the other sessions go on
                log.exception("%s: serving failed", waiting.name)
                await asyncio.sleep(_AGAIN)

    def _look_around(self) -> None:
        self._look_at_peers()
        for session in self.sessions:
            session.announcing.look()
        self.count()
        for chore in self.chores:
            chore()

    def count(self) -> None:
        """Take over what the host has sent since the last time."""
        counters = self._shared.counters
        if isinstance(counters, RemoteCounters):
            counters.sent.update(self.host.requests - self._counted)
            self._counted = self.host.requests.copy()

    def _look_at_peers(self) -> None:
        try:
            served, dead = self._shared.locks.look()
        except StateError as error:
            log.error("%s", error)
            return
        if not served:
            return
        now = self._shared.clock()
        for session in self.sessions:
            identity = self._identity(session.path)
            for runner in served.get(identity, set()) & dead:
                self._mourn(identity, runner, now)

    def _mourn(self, identity: Identity, runner: str, now: float) -> None:
        since = self._dead.setdefault(identity, {}).setdefault(runner, now)
        if now - since > _MOURNED:
            self._shared.locks.unmark(identity, runner)

    def is_dead(self, session: RemoteSession, runner: str) -> bool:
        """See ``Owner.is_dead``."""
        identity = self._identity(session.path)
        if runner in self._dead.get(identity, {}):
            return True
        try:
            served, dead = self._shared.locks.look()
        except StateError:
            return False
        return runner in served.get(identity, set()) & dead

    def begin(self, session: RemoteSession, request: str, wake: str, picked: float) -> None:
        """See ``Owner.begin``."""
        self._shared.counters.wakes += wake == "activity"
        self.engine.begin(session, request, wake, picked)

    def freed(self, session: object) -> None:
        """See ``Owner.freed``: whoever waits for a slot looks whether it is free, in turns."""
        self._turn = (self._turn + 1) % max(1, len(self.sessions))
        for other in (*self.sessions[self._turn :], *self.sessions[: self._turn]):
            if other is session or other.starved:
                other.go_on()

    def _soon(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.change)
        except RuntimeError:
            # RACE: the loop was closed before it was told; nobody goes by settings any more.
            return

    def change(self) -> None:
        """Go by new settings, which are in the snapshot already."""
        self._shared.slots.change(self._shared.limits)
        for session in self.sessions:
            session.change(self.limits(session.path))
        if self.on_change is not None:
            self.on_change()

    def unwatched(self) -> bool:
        """Whether a session that should be watched could not be."""
        return any(s.limits.watches and not s.waits for s in self.sessions)

    async def leave(self) -> None:
        """Publish what is left, empty the leases, let the host go."""
        self._unsubscribe()
        if self._tripping is not None:
            await self._tripping.wait()
        patience = max(1.0, min(self._shared.limits.drain_timeout, 5.0))
        if self.sessions:
            await asyncio.gather(*(session.leave(patience) for session in self.sessions))
        self.count()
        await self.host.close()
