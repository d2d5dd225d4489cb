"""The loop of a runner whose sessions are remote: one task for each, and the runner's own chores.

It stands where ``relay.engine.loop`` stands for local sessions, and shares the engine with it. A
session that fails in a way that nobody foresaw is logged and served again after a pause; the others
go on.
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


def identity_of(host: Host, path: str) -> Identity:
    """Return the key under which runners of one remote directory know each other's locks."""
    digest = hashlib.sha256(f"{host.name}\0{path}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")


class RemoteLoop:
    """Serves remote sessions until it is told to stop.

    Args:
        shared: the runner's parts.
        tools: what is offered.
        guard: asked before each call.
        live: the settings.
        rand: a source of jitter, for tests.
    """

    def __init__(
        self,
        shared: Shared,
        tools: Registry,
        guard: Guard | None,
        live: Live[RelaySettings],
        *,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.engine = Engine(shared, tools, guard, self.freed)
        self.sessions: list[RemoteSession] = []
        self.stopping = False
        #: Called whenever the peers are looked at, for chores of the runner's own.
        self.chores: list[Callable[[], None]] = []
        #: Kills the flag where too many sessions are demoted.
        self.tripping: Tripping | None = None
        self._shared = shared
        self._live = live
        self._random = rand
        self._running = asyncio.get_running_loop()
        self._dead: dict[Identity, dict[str, float]] = {}
        self._unsubscribe = live.subscribe(lambda _old, _new: self._soon())

    def session(self, host: Host, path: str) -> RemoteSession:
        """Make the session of one remote directory, not yet started."""
        limits = self._limits(path)
        return RemoteSession(host, path, self._shared, self, limits=limits, random=self._random)

    def add(self, session: RemoteSession) -> None:
        """Serve one more session, once it has been started."""
        self.sessions.append(session)

    async def open(self, host: Host, path: str) -> None:
        """Begin to serve one remote directory.

        Raises:
            HostError: it cannot be.
        """
        self._look_at_peers()
        session = self.session(host, path)
        session.waiting.on_demotion = lambda: self._demoted(path)
        try:
            await session.start()
            self._shared.locks.mark(identity_of(host, path))
        except BaseException:
            await session.leave(0.0)
            raise
        self.add(session)

    def _limits(self, path: str) -> RemoteLimits:
        key = posixpath.basename(path.rstrip("/")) or path
        return remote_limits(self._live.snapshot, key)

    def _demoted(self, path: str) -> None:
        if self.tripping is not None:
            self.tripping.demoted(path, among=len(self.sessions))

    async def run(self) -> None:
        """Serve until ``stopping``."""
        tasks = [asyncio.ensure_future(self._serve(session)) for session in self.sessions]
        try:
            while not self.stopping:
                await self._shared.hub.wait(PEER_CHECK)
                self._look_around()
        finally:
            for session in self.sessions:
                session.waiting.stopping = True
                session.waiting.wake()
            if tasks:
                await asyncio.wait(tasks)

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
            self.count(session)
        for chore in self.chores:
            chore()

    def count(self, session: RemoteSession) -> None:
        """Take over what a host has sent since the last time."""
        sent = session.counters.sent
        sent.update(session.host.requests - session.counted)
        session.counted = session.host.requests.copy()

    def _look_at_peers(self) -> None:
        try:
            served, dead = self._shared.locks.look()
        except StateError as error:
            log.error("%s", error)
            return
        now = self._shared.clock()
        for identity, runners in served.items():
            if identity in self._mine():
                for runner in runners & dead:
                    self._mourn(identity, runner, now)

    def _mine(self) -> set[Identity]:
        return {identity_of(session.host, session.path) for session in self.sessions}

    def _mourn(self, identity: Identity, runner: str, now: float) -> None:
        since = self._dead.setdefault(identity, {}).setdefault(runner, now)
        if now - since > _MOURNED:
            self._shared.locks.unmark(identity, runner)

    def is_dead(self, session: RemoteSession, runner: str) -> bool:
        """See ``Owner.is_dead``."""
        identity = identity_of(session.host, session.path)
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
        """See ``Owner.freed``: whoever waits for a slot looks whether it is free."""
        for other in self.sessions:
            if other is session or other.waiting.flight is None:
                other.waiting.wake()

    def _soon(self) -> None:
        try:
            self._running.call_soon_threadsafe(self.change)
        except RuntimeError:
            # RACE: the loop was closed before it was told; nobody goes by settings any more.
            return

    def change(self) -> None:
        """Go by new settings, which are in the snapshot already."""
        self._shared.slots.change(self._shared.limits)
        for session in self.sessions:
            session.change(self._limits(session.path))

    def unwatched(self) -> bool:
        """Whether a session that should be watched could not be."""
        return any(s.limits.watches and not s.waits for s in self.sessions)

    async def leave(self) -> None:
        """Publish what is left, empty the leases, let the hosts go."""
        self._unsubscribe()
        if self.tripping is not None:
            await self.tripping.wait()
        patience = max(1.0, min(self._shared.limits.drain_timeout, 5.0))
        if self.sessions:
            await asyncio.gather(*(session.leave(patience) for session in self.sessions))
        for session in self.sessions:
            self.count(session)
