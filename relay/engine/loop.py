"""The loop: sessions take turns at what they have to do, and are looked at when they are due.

A turn is bounded for each session and in all, and every turn yields to the event loop, so that a
flood in one session delays neither its neighbours nor any timer. A session that fails in a way
that nobody foresaw is logged and looked at again later; the others go on.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from itertools import islice
from math import inf

from relay.engine.bounded import BoundedSession
from relay.engine.execute import Engine
from relay.engine.guard import Guard
from relay.engine.locks import Identity
from relay.engine.session import Session
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.tools.registry import Registry
from relayconf.errors import StateError

#: How often the other runners are looked at, in seconds (design section 7).
PEER_CHECK = 0.5

#: Requests claimed before the next session has its turn, and in one turn of all.
_PER_SESSION = 4
_PER_TURN = 32

#: Directories looked at in one turn.
_POLLS_PER_TURN = 100

#: How long one turn may hold up the event loop, in seconds: a tenth of what a timer may be late.
_TURN = 0.005

#: Sessions that are due within this share of RELAY_POLL_MS are looked at together: waking up costs
#: as much as looking at three of them.
_TOGETHER = 1 / 16

#: Turns taken at once when an event comes; what then still comes waits for the loop.
_ACTS = 2

#: Blocked sessions looked at when a slot was freed. The longest blocked comes first.
_CANDIDATES = 8

AnySession = Session | BoundedSession


class Loop:
    """Serves sessions until it is told to stop. Owns the sessions and what executes for them."""

    def __init__(self, shared: Shared, tools: Registry, guard: Guard | None) -> None:
        self.engine = Engine(shared, tools, guard, self.freed)
        #: Executes what a session has claimed.
        self.begin = self.engine.begin
        self.sessions: list[AnySession] = []
        self.stopping = False
        self._shared = shared
        #: Sessions that wait for a turn, and those among them in which somebody is known to wait.
        self._ready: deque[Session] = deque()
        self._asked: deque[Session] = deque()
        self._blocked: dict[Session, None] = {}
        self._schedule: list[tuple[float, int, Session]] = []
        self._last_asked = False
        self._entries = 0
        self._peers_at = 0.0
        self._wakes_at = 0.0
        self._met_peers = False
        self._burying: set[tuple[Identity, str]] = set()
        self._state_is_lost = False
        #: Called whenever the peers are looked at.
        self.chores: list[Callable[[], None]] = []
        #: Called when the settings have changed.
        self.on_change: Callable[[], None] | None = None
        #: Called with a session that is over.
        self.on_lost: Callable[[AnySession], None] | None = None

    def add(self, session: AnySession) -> None:
        """Serve one more session, once it has been started."""
        self.sessions.append(session)

    def lost(self, session: AnySession) -> None:
        """Serve a session no more. What it has in flight goes on."""
        session.stop()
        if isinstance(session, Session):
            session.due = inf
            self._blocked.pop(session, None)
        if session in self.sessions:
            self.sessions.remove(session)
        if self.on_lost is not None:
            self.on_lost(session)

    def ready(self, session: Session) -> None:
        """Give a session its turn. Outside of an event of the hub, wake the hub as well."""
        if not session.queued:
            session.queued = True
            self._ready.append(session)

    def asked(self, session: Session) -> None:
        """Give a session its turn before those that have only a directory to look through."""
        if not session.awaited:
            session.awaited = True
            self._asked.append(session)

    def reschedule(self, session: Session) -> None:
        """Look at a session when it says; an earlier entry of it is void."""
        self._entries += 1
        heapq.heappush(self._schedule, (session.due, self._entries, session))
        if session.due < self._wakes_at:
            self._shared.hub.wake()

    async def run(self) -> None:
        """Serve until ``stopping``."""
        shared = self._shared
        shared.hub.serve(self._act)
        while not self.stopping:
            now = shared.clock()
            self._look_around(now)
            self._wakes_at = 0.0 if self._take_turns() else self._next_due()
            await shared.hub.wait(self._wakes_at - shared.clock())
        patience = shared.limits.drain_timeout
        resting = [s.rest(patience) for s in self.sessions if isinstance(s, BoundedSession)]
        await asyncio.gather(*resting)

    def _act(self) -> bool:
        """Act on events of the hub; True where the loop has to go on with it."""
        self._shared.counters.wakes += 1
        if self.stopping:
            return True
        for _ in range(_ACTS):
            if self._take_turns():
                return True
            if not self._shared.hub.absorb():
                return False
        return True

    def change(self) -> None:
        """Go by new limits, which are in the shared record already."""
        # A runner that has joined since the last look tells the writers, and no longer this one.
        if not self._shared.locks.are_known():
            self._meet_peers()
        self._shared.slots.change(self._shared.limits)
        if self.on_change is not None:
            self.on_change()
        for session in self.sessions:
            session.change()
        for session in tuple(self._blocked):
            self._unblock(session)
        self._shared.hub.wake()

    def unwatched(self) -> bool:
        """Whether a session that should be watched is not, and could not be."""
        wanted = self._shared.limits.watches
        # What may not answer is watched later, in a thread, where it can be.
        places = [s.place for s in self.sessions if isinstance(s, Session)]
        return wanted and any(p.directory is not None and p.watch is None for p in places)

    def _next_due(self) -> float:
        first = self._schedule[0][0] if self._schedule else self._peers_at
        return min(first, self._peers_at)

    def _look_around(self, now: float) -> None:
        if now >= self._peers_at:
            self._peers_at = now + PEER_CHECK
            self._meet_peers()
            for chore in self.chores:
                try:
                    chore()
                except Exception:  # noqa: BLE001 - logged; the sessions go on
                    log.exception("a look around failed")
        soon = now + self._shared.limits.poll * _TOGETHER
        if not self._schedule or self._schedule[0][0] > now:
            return
        until = now + _TURN
        for _ in range(_POLLS_PER_TURN):
            if not self._schedule or self._schedule[0][0] > soon or self._shared.clock() > until:
                return
            due, _, session = heapq.heappop(self._schedule)
            if due == session.due:
                self._tick(session, now)

    def _tick(self, session: Session, now: float) -> None:
        try:
            session.tick(now)
        except Exception:  # noqa: BLE001 - logged; the other sessions go on
            log.exception("%s: polling failed", escaped(session.place.path))
            session.due = now + self._shared.limits.poll_max
        if session.due < inf:
            self.reschedule(session)

    def _take_turns(self) -> bool:
        """Let each ready session claim; True where some are not done."""
        counters = self._shared.counters
        enough = counters.requests + _PER_TURN
        clock = self._shared.clock
        until = clock() + _TURN
        while counters.requests < enough and clock() < until:
            session = self._next()
            if session is None:
                break
            try:
                outcome = session.pump(_PER_SESSION, until)
            except Exception:  # noqa: BLE001 - logged; the other sessions go on
                log.exception("%s: serving failed", escaped(session.place.path))
                continue
            if outcome == "more":
                # Whoever asked meanwhile comes before what this one has left.
                self._shared.hub.absorb()
                self._put_back(session)
            elif outcome == "blocked":
                self._blocked[session] = None
            else:
                # It may have been given a slot for a request that was withdrawn meanwhile.
                self.freed(session)
        return bool(self._ready or self._asked)

    def _next(self) -> Session | None:
        """Return whose turn it is: of either kind in turn, so that neither waits for the other."""
        self._last_asked = not self._last_asked
        if self._asked and (self._last_asked or not self._ready):
            session = self._asked.popleft()
            session.awaited = False
        elif self._ready:
            session = self._ready.popleft()
            session.queued = False
        else:
            return None
        return session

    def _put_back(self, session: Session) -> None:
        if session.has_hints:
            self.asked(session)
        else:
            self.ready(session)

    def freed(self, session: object) -> None:
        """A slot is free: give it to the session that had it, or to one that waits longest."""
        if not self._blocked:
            return
        first = [session] if isinstance(session, Session) else []
        for other in (*first, *islice(self._blocked, _CANDIDATES)):
            if other in self._blocked and self._shared.slots.has_one_for(other):
                self._unblock(other)
                self._shared.hub.wake()
                return

    def _unblock(self, session: Session) -> None:
        del self._blocked[session]
        self._put_back(session)

    def _meet_peers(self) -> None:
        """Look who else is alive, and bury the dead."""
        try:
            served, dead = self._shared.locks.look()
        except StateError as error:
            if not self._state_is_lost:
                log.error("%s", error)
            self._state_is_lost = True
            return
        except OSError as error:
            # No descriptor is free, say: the peers are looked at again next time.
            if not self._state_is_lost:
                log.warning("the other runners cannot be looked at: %s", error.strerror)
            self._state_is_lost = True
            return
        self._state_is_lost = False
        if not served and not self._met_peers:
            return
        self._met_peers = bool(served)
        for session in self.sessions:
            directory = session.place.directory
            if directory is not None:
                others = served.get(directory.identity, set())
                session.place.meet(others - dead)
                for runner in others & dead:
                    self._bury(session, directory.identity, runner)

    def _bury(self, session: AnySession, identity: Identity, runner: str) -> None:
        burial = (identity, runner)
        if burial in self._burying:
            return

        def over() -> None:
            self._burying.discard(burial)
            self._shared.locks.unmark(identity, runner)

        self._burying.add(burial)
        log.warning("runner %s died; answering for it in %s", runner, escaped(session.place.path))
        session.bury(over)
