"""One session: which of its requests is tried next, and when its directory is looked at.

No task of its own: the runner's loop calls ``tick`` when the session is due and ``pump`` while it
has something to do. A name in an event is a hint of what to claim first; the scan is the authority,
runs underneath on every poll, and goes on where a bound stopped it. The claim decides: whatever is
tried twice, is stale or was never there is lost by one failed rename.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from relay.engine.directory import SessionDirectory
from relay.engine.place import Judge, Place
from relay.engine.residue import Residue
from relay.engine.scan import Scan
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.protocol import RELAY_JSON, claim_name, request_id

#: Hints kept; beyond it a scan finds the rest.
_MOST_HINTS = 1024

#: Names looked at in one turn of the loop.
_ENTRIES_PER_TURN = 500

#: A listing is skipped where the directory's ctime says that nothing changed, but at least this
#: often, in seconds, it is done all the same: not every file system keeps it well.
_SCAN_AT_LEAST = 30.0

#: A call makes three events: its request, its claim, its answer. More than so many for each claim
#: are a writer's game.
EVENTS_PER_CLAIM = 16

#: A look that comes so late, in seconds, means that the runner itself stood still. What had queued
#: up meanwhile says nothing of a writer, for as long as it takes to read.
_STOOD_STILL = 1.0
_CATCHING_UP = 2.0

#: Deadlines of unusually patient callers that are remembered.
_MOST_AWAITED = 4096

#: Called without arguments.
Callback = Callable[[], None]


class Owner(Protocol):
    """The runner, as far as one of its sessions knows it."""

    def begin(self, session: Session, request: str, wake: str, picked: float) -> None:
        """Execute a claimed request; ``session.done`` is called when it is over."""

    def ready(self, session: Session) -> None:
        """The session has something to do."""

    def asked(self, session: Session) -> None:
        """The session has a hint of a request: somebody waits."""

    def reschedule(self, session: Session) -> None:
        """The session's ``due`` has changed."""

    def lost(self, session: Session) -> None:
        """The session is over: its directory in a root is gone."""


class Session:
    """One session directory as its runner serves it.

    Args:
        path: the directory.
        shared: the runner's parts.
        owner: its runner.
        judge: for a directory in a root (see ``Place``).
    """

    def __init__(
        self, path: str, shared: Shared, owner: Owner, *, judge: Judge | None = None
    ) -> None:
        self.in_flight: set[str] = set()
        self.held = 0
        self.due = 0.0
        self.queued = self.awaited = False
        self.not_before: float | None = None
        self.place = Place(path, shared, self, judge=judge)
        self.residue: Residue | None = None
        self._shared = shared
        self._owner = owner
        self._hints: deque[str] = deque()
        self._waiting: set[str] = set()
        self._scan: Scan | None = None
        self._scan_wake: str | None = None
        self._clean_ns: int | None = None
        self._bare = False
        self._scanned_at = 0.0
        self._sweep_at = 0.0
        self._sweep_wanted = False
        self._empty_polls = 0
        self._claimed = 0
        self._judged_from = 0.0
        self._complained: set[int | None] = set()
        self._on_swept: list[Callback] = []

    async def start(self, *, sweep: bool = True) -> None:
        """Join, and where no other runner lives, sweep; scanned for the first time afterwards.

        Without ``sweep``, the directory has come up while its runner was there: what is in it was
        asked of this runner, and claims in it are those of the dead.

        Raises:
            RelayError: the directory cannot be served.
        """
        lock = await self.place.open()
        try:
            self._settle_in()
            if sweep and lock is not None and not self.place.peers:
                await self._sweep()
        finally:
            if lock is not None:
                lock.release()
        self._sweep_wanted = not sweep
        self._want_scan("poll" if self.place.watch is None else "timeout")

    async def _sweep(self) -> None:
        if self.residue is None or await self.residue.sweep(self._shared.limits.timeout):
            return
        self.not_before = self._shared.wall()
        log.warning(
            "%s: not everything could be cleared; requests from before this start are not executed",
            escaped(self.place.path),
        )

    def _settle_in(self) -> None:
        """Begin with a directory that was joined just now."""
        now = self._shared.clock()
        self._clean_ns = None
        self._sweep_at = now + self._sweep_interval()
        self._complained.clear()
        directory = self.place.directory
        self.due = now + self._shared.limits.poll * (1 - _phase(directory))
        self._owner.reschedule(self)
        if directory is not None:
            self.residue = Residue(
                directory,
                self._shared.locks,
                self.in_flight,
                counters=self._shared.counters,
                wall=self._shared.wall,
            )

    def stop(self) -> None:
        """Leave the directory. What is in flight must be over."""
        self._drop_scan()
        self.place.leave()

    def on_request(self, request: str) -> None:
        """Take a hint from the hub."""
        if len(self._hints) < _MOST_HINTS:
            self._hints.append(request)
            if not self.awaited:
                self._owner.asked(self)
        else:
            self._want_scan("activity")

    def on_many(self, events: int) -> None:
        """Go without events where they outrun the claims many times over, not for their rate."""
        now = self._shared.clock()
        self._note_standstill(now)
        if now < self._judged_from:
            return
        if events > EVENTS_PER_CLAIM * (self._claimed + len(self._hints)):
            self.place.flee()

    def _note_standstill(self, now: float) -> None:
        if 0.0 < self.due < now - _STOOD_STILL:
            self._judged_from = now + _CATCHING_UP

    def on_doubt(self) -> None:
        """Events were lost."""
        self._want_scan("activity")

    def on_gone(self) -> None:
        """The directory went away, or the kernel ended its watch."""
        self.place.lose_watch()
        self._be_due_at(0.0)

    def on_unwatched(self) -> None:
        """The hub gave up."""
        self.place.watch = None
        self._want_scan("closed")

    def change(self) -> None:
        """Go by new settings."""
        had_watch = self.place.watch is not None
        self.place.change()
        self._empty_polls = 0
        self._be_due_at(self._shared.clock() + self._shared.limits.poll)
        if had_watch != (self.place.watch is not None):
            # Between two ways of looking nothing may slip through.
            self._want_scan("closed" if had_watch else "activity")

    @property
    def has_hints(self) -> bool:
        """Whether a request is known of that may be claimed."""
        return bool(self._hints)

    def bury(self, then: Callback) -> None:
        """Look for claims of dead runners now, and call ``then`` when all are answered."""
        self._on_swept.append(then)
        self._sweep_wanted = True
        self._clean_ns = None
        self._want_scan("timeout")

    def tick(self, now: float) -> None:
        """Poll: look whether the directory is still there, and whether anything changed in it."""
        self._shared.counters.polls += 1
        self._note_standstill(now)
        before = self.place.directory
        joined = self.place.look()
        if self.place.over:
            self._owner.lost(self)
            return
        if self.place.directory is not before:
            self._drop_scan()
        if joined:
            self._settle_in()
            self._sweep_wanted = True
            self._want_scan("closed")
        self._grow()
        self.due = now + self._shared.limits.pause_after(self._empty_polls)
        directory = self.place.directory
        if directory is None:
            return
        same = self.place.changed_ns == self._clean_ns
        if now >= self._sweep_at:
            self._sweep_at = now + self._sweep_interval()
            # Where there was nothing to sweep, and nothing has come, there is nothing to sweep.
            self._sweep_wanted = self._sweep_wanted or not (same and self._bare)
        if same and not self._sweep_wanted and now < self._scanned_at + _SCAN_AT_LEAST:
            return
        self._want_scan("poll" if self.place.watch is None else "timeout")

    def be_due(self) -> None:
        """Be looked at as soon as may be."""
        self._be_due_at(0.0)

    def _be_due_at(self, when: float) -> None:
        if when < self.due:
            self.due = when
            self._owner.reschedule(self)

    def _grow(self) -> None:
        self._empty_polls = 0 if self._claimed else self._empty_polls + 1
        self._claimed = 0
        if self.place.watch is not None:
            self.place.watch.events = 0

    def _sweep_interval(self) -> float:
        return max(1.0, self._shared.limits.timeout / 4)

    def _want_scan(self, wake: str) -> None:
        if self._scan_wake is None:
            self._scan_wake = wake
        if not self.queued:
            self._owner.ready(self)

    def pump(self, budget: int, until: float) -> str:
        """Claim up to ``budget`` requests, and begin none after ``until``.

        Returns:
            ``idle`` where nothing is left to do, ``more`` where the bound of a turn stopped it,
            ``blocked`` where there is no slot.
        """
        directory = self.place.directory
        if directory is None:
            self._hints.clear()
            self._scan_wake = None
            return "idle"
        entries = _ENTRIES_PER_TURN
        clock = self._shared.clock
        while budget > 0 and entries > 0 and clock() < until:
            if not self._shared.slots.has_one_for(self):
                return self._blocked(directory, until)
            if self._hints:
                budget -= self._claim(directory, self._hints.popleft(), "activity")
                continue
            entries -= 1
            name = self._next_name(directory)
            if name is None:
                if self._scan_wake is None:
                    return "idle"
                continue
            request = request_id(name)
            if request is not None and self._scan is not None:
                budget -= self._claim(directory, request, self._scan.wake)
        return "more"

    def _blocked(self, directory: SessionDirectory, until: float) -> str:
        """Without a slot, still answer for the dead: that needs none."""
        if not self._sweep_wanted and (self._scan is None or self._scan.then is None):
            return "blocked"
        for _ in range(_ENTRIES_PER_TURN):
            if self._shared.clock() >= until:
                break
            name = self._next_name(directory)
            if name is None:
                # The requests that were passed over are found again.
                self._want_scan("timeout")
                return "blocked"
            self._clean_ns = None
        return "more"

    def _next_name(self, directory: SessionDirectory) -> str | None:
        """Return the scan's next name, beginning one where it is wanted; ``None`` at its end."""
        if self._scan is None:
            if self._scan_wake is None:
                return None
            self._begin_scan(directory, self._scan_wake)
        scan = self._scan
        if scan is None:
            return None
        try:
            name = next(scan.names, None)
        except OSError as error:
            self._complain("it cannot be listed", error)
            name = None
        if name is None:
            self._end_scan(scan)
        elif name != RELAY_JSON:
            scan.bare = False
            if scan.then is not None and self.residue is not None:
                self.residue.treat(name, self._shared.limits.timeout)
        return name

    def _begin_scan(self, directory: SessionDirectory, wake: str) -> None:
        self._scan_wake = None
        self._shared.counters.scans += 1
        then = self._on_swept if self._sweep_wanted else None
        try:
            self._scan = Scan(directory, wake=wake, then=then, now=self._shared.wall())
        except OSError as error:
            self._complain("it cannot be listed", error)
            return
        if then is not None:
            self._sweep_wanted = False
            self._on_swept = []

    def _end_scan(self, scan: Scan) -> None:
        self._scan = None
        self._clean_ns = scan.clean_ns
        self._bare = scan.bare
        self._scanned_at = self._shared.clock()
        for callback in scan.then or ():
            callback()

    def _drop_scan(self) -> None:
        if self._scan is not None:
            self._scan.close()
            self._scan = None

    def _claim(self, directory: SessionDirectory, request: str, wake: str) -> int:
        """Try to take one request; 1 where it is ours now."""
        if request in self.in_flight:
            self._waiting.add(request)
            return 0
        if self.place.peers and self._is_claimed(directory, request):
            return 0
        picked = self._shared.wall()
        try:
            directory.claim(request, claim_name(request, self._shared.locks.runner))
        except FileNotFoundError:
            # RACE: it was withdrawn, or another runner won; the hint was stale.
            return 0
        except OSError as error:
            self._complain("a request cannot be taken", error)
            return 0
        self.in_flight.add(request)
        self._shared.slots.taken += 1
        self._shared.counters.requests += 1
        self._claimed += 1
        if self._empty_polls:
            self._empty_polls = 0
            self._be_due_at(self._shared.clock() + self._shared.limits.poll)
        self._owner.begin(self, request, wake, picked)
        return 1

    def _is_claimed(self, directory: SessionDirectory, request: str) -> bool:
        """Whether another runner has this id in flight; the request then waits for a later scan."""
        # RACE: of two publications under one id, the second may be taken while a peer takes the
        # first between this look and the rename; each still runs once, and one answer replaces
        # the other. Our writers never use an id twice.
        for peer in self.place.peers:
            if directory.examine(claim_name(request, peer)) is not None:
                self._clean_ns = None
                return True
        return False

    def done(self, request: str, *, awaited_until: float | None = None) -> None:
        """Free the slot of a request that was answered, or given up.

        Args:
            request: its id.
            awaited_until: the deadline of a caller that waits longer than RELAY_TIMEOUT_MS.
        """
        self.in_flight.discard(request)
        self._shared.slots.taken -= 1
        if awaited_until is not None and self.residue is not None:
            awaited = self.residue.awaited
            if len(awaited) >= _MOST_AWAITED:
                del awaited[next(iter(awaited))]
            awaited[request] = awaited_until
        if request in self._waiting:
            self._waiting.discard(request)
            self.on_request(request)

    def _complain(self, what: str, error: OSError) -> None:
        """Log a failure once for each kind, until the directory is another."""
        if error.errno not in self._complained:
            self._complained.add(error.errno)
            log.warning("%s: %s: %s", escaped(self.place.path), what, error.strerror)


def _phase(directory: SessionDirectory | None) -> float:
    """Return by which part of a pause the first look comes early.

    Thousands of sessions that are started at once are then not looked at all at once.
    """
    return 0.0 if directory is None else directory.identity[1] % 64 / 128
