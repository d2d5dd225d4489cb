"""A session on a file system that may not answer: over a network, or by a program (FUSE).

It is served like any other, but by a coroutine of its own, and every file operation is done in a
thread of its own within RELAY_FILE_OP_TIMEOUT_MS. A file system that does not answer costs this
session alone: its calls end by their deadlines, and once it answers again, it is served again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from math import inf
from typing import Protocol

from relay.engine.answers import Answers
from relay.engine.boundedplace import BoundedDirectory, BoundedPlace
from relay.engine.boundedwatch import BoundedWatch
from relay.engine.directory import DirectoryError, SessionDirectory
from relay.engine.locks import StartLock
from relay.engine.looking import Look, Looking
from relay.engine.place import START_WAIT, Judge, WatchError
from relay.engine.residue import Residue
from relay.engine.served import Served
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.engine.worker import Stuck, Worker
from relay.settings import Mode
from relayconf.errors import StateError

#: Requests claimed in one look.
_MOST_TAKEN = 32

#: How soon another's start lock is tried again, in seconds.
_START_RETRY = 0.02

#: Deadlines of unusually patient callers that are remembered.
_MOST_AWAITED = 4096


class BoundedOwner(Protocol):
    """The runner, as far as such a session knows it."""

    def begin(self, session: Served, request: str, wake: str, picked: float) -> None:
        """Execute a claimed request; ``session.done`` is called when it is over."""

    def lost(self, session: BoundedSession) -> None:
        """The session is over: its directory in a root is gone."""

    def freed(self, session: object) -> None:
        """A slot is free."""


class BoundedSession:
    """One such session.

    Args:
        path: the directory, an absolute path without symbolic links.
        shared: the runner's parts.
        owner: its runner.
        judge: for a directory in a root, says why it may not be served, or ``None``.
    """

    #: Its runner's loop never has to look at it.
    due = inf

    def __init__(
        self, path: str, shared: Shared, owner: BoundedOwner, *, judge: Judge | None = None
    ) -> None:
        self.place = BoundedPlace(path)
        self.in_flight: set[str] = set()
        self.held = 0
        self.not_before: float | None = None
        self._shared = shared
        self._owner = owner
        self._judge = judge
        self._worker = Worker(lambda: shared.limits.file_op_timeout, shared.clock)
        self._wake = asyncio.Event()
        self._watching = BoundedWatch(self.place, shared, self._worker, self._wake.set)
        self._opened: SessionDirectory | None = None
        self._looking: Looking | None = None
        self._residue: Residue | None = None
        self._look: Look | None = None
        self._told: tuple[bytes, frozenset[str]] | None = None
        self._answers = Answers(self._worker, shared.clock, self._over)
        self._discarding: set[str] = set()
        self._on_swept: list[Callable[[], None]] = []
        self._sweep_at = 0.0
        self._empty_looks = self._claimed = 0
        self._stuck = self._resting = False
        self._complained: set[int | str | None] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self, *, sweep: bool = True) -> None:
        """Join, and where no other runner lives, sweep; then serve. See ``Session.start``.

        In a root, one that does not answer in time is waited for afterwards, and not swept.

        Raises:
            RelayError: the directory cannot be served, or does not answer in time.
        """
        path = self.place.path
        try:
            lock = await self._join()
            try:
                if self._shared.limits.mode is Mode.WATCH and self.place.watch is None:
                    raise WatchError(f"{path} cannot be watched, and RELAY_MODE is watch")
                if sweep and lock is not None and not self.place.peers:
                    await self._sweep()
                await self._turn("poll")
            finally:
                if lock is not None:
                    lock.release()
        except OSError as error:
            if self._judge is not None and isinstance(error, Stuck):
                self._note_stuck(error)
            else:
                raise DirectoryError(f"{path} cannot be served: {error.strerror}") from None
        self._task = asyncio.ensure_future(self._serve())

    async def _join(self) -> StartLock | None:
        """Open the directory, say that this runner serves it, and watch it."""
        opened = await self._worker.do(self._open)
        locks, deadline = self._shared.locks, self._shared.clock() + START_WAIT
        while True:
            lock = locks.try_start(opened.identity)
            if lock is not None or self._shared.clock() >= deadline:
                break
            await asyncio.sleep(_START_RETRY)
        try:
            locks.mark(opened.identity)
            self.place.peers = locks.peers_on(opened.identity)
            self._settle_in(opened)
            await self._watching.arm(opened)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        return lock

    def _open(self) -> SessionDirectory:
        """Open the directory, in the thread. One that was opened too late is used the next time."""
        path = self.place.path
        opened = self._opened = self._opened or SessionDirectory(path, follow=False)
        self._worker.beat()
        refusal = self._refusal(os.fstat(opened.fd))
        if refusal is None and not opened.can_be_written():
            refusal = f"{path} cannot be written: give it to this user, or a group"
        if refusal is not None:
            raise DirectoryError(refusal)
        return opened

    def _refusal(self, found: os.stat_result) -> str | None:
        return None if self._judge is None else self._judge(found)

    def _settle_in(self, opened: SessionDirectory) -> None:
        shared = self._shared
        residue = self._residue = Residue(
            opened, shared.locks, self.in_flight, counters=shared.counters, wall=shared.wall
        )
        runner, beat = shared.locks.runner, self._worker.beat
        self._looking = Looking(opened, residue, runner, beat=beat, wall=shared.wall)
        self.place.directory = BoundedDirectory(
            opened.identity, runner, self._publish, self._discarding.add
        )
        self._told = None
        self._sweep_at = 0.0
        self._complained.clear()

    async def _sweep(self) -> None:
        looking, keep = self._looking, self._shared.limits.timeout
        if looking is not None and not await self._worker.do(lambda: looking.sweep(keep)):
            self.not_before = self._shared.wall()
            log.warning(
                "%s: not everything could be cleared; requests from before this start are not "
                "executed",
                escaped(self.place.path),
            )

    async def _serve(self) -> None:
        """Look again and again, until stopped."""
        while True:
            wake = await self._pause()
            if self._resting:
                return
            try:
                await self._turn(wake)
            except Stuck as error:
                self._note_stuck(error)
                await self._worker.settled()
                self._wake.set()
                continue
            except OSError as error:
                self._complain(error)
            except StateError as error:
                log.warning("%s", error)
            except Exception:  # noqa: BLE001 - logged; it is looked at again
                log.exception("%s: serving failed", escaped(self.place.path))
            self._note_answering()

    def _note_stuck(self, error: Stuck) -> None:
        if not self._stuck:
            log.warning("%s: %s; waiting for it", escaped(self.place.path), error.strerror)
        self._stuck = True

    def _note_answering(self) -> None:
        if self._stuck:
            log.warning("%s: the file system answers again", escaped(self.place.path))
        self._stuck = False

    async def _pause(self) -> str:
        """Wait for an event, or for the next poll; return which it was."""
        self._empty_looks = 0 if self._claimed else self._empty_looks + 1
        self._claimed = 0
        self._watching.forget_events()
        try:
            async with asyncio.timeout(self._shared.limits.pause_after(self._empty_looks)):
                await self._wake.wait()
        except TimeoutError:
            return "poll" if self.place.watch is None else "timeout"
        self._wake.clear()
        return "activity"

    async def _turn(self, wake: str) -> None:
        """Look once.

        Raises:
            Stuck: the file system does not answer.
            OSError, RelayError, StateError: the directory cannot be looked at.
        """
        self._shared.counters.polls += 1
        self._take_over(wake)
        if self.place.directory is None and not await self._find():
            return
        if await self._worker.do(self._is_gone):
            self._let_go()
            return
        if self._opened is not None:
            await self._watching.arm(self._opened)
        looking, look = self._looking, self._next_look()
        if looking is None:  # pragma: no cover - there is a directory
            return
        self._look = look
        self._shared.counters.scans += 1
        try:
            await self._worker.do(lambda: looking.do(look))
        except BaseException:
            self._on_swept += look.then
            raise
        finally:
            self._take_over(wake)
        self._note(look)

    def _next_look(self) -> Look:
        shared = self._shared
        limits, now = shared.limits, shared.clock()
        keep = None
        if now >= self._sweep_at or self._on_swept:
            self._sweep_at = now + max(1.0, limits.timeout / 4)
            keep = limits.timeout
        return Look(
            room=self._room(),
            limit=limits.max_request,
            busy=self.in_flight,
            peers=tuple(self.place.peers),
            keep=keep,
            tell=self._what_to_tell(),
            discard=[self._discarding.pop() for _ in range(len(self._discarding))],
            then=self._taken_callbacks() if keep is not None else [],
        )

    def _what_to_tell(self) -> bytes | None:
        """Return the bytes of relay.json, where this runner is the one to publish it."""
        shared, peers = self._shared, self.place.peers
        told, self._told = self._told, (shared.announcement.plain, frozenset(peers))
        if not shared.locks.newest_of(peers):
            return None
        if told != self._told and self._looking is not None:
            self._looking.tell_again()
        elif not shared.locks.are_known():
            # What differs may be a newer runner's, which this one has not met yet.
            return None
        return shared.announcement.plain

    def _taken_callbacks(self) -> list[Callable[[], None]]:
        callbacks, self._on_swept = self._on_swept, []
        return callbacks

    def _room(self) -> int:
        """Return how many requests may be claimed now."""
        limits, slots = self._shared.limits, self._shared.slots
        if not slots.has_one_for(self):
            return 0
        most = limits.max_in_flight
        left = min(
            limits.session_max_in_flight - len(self.in_flight), most - most // 4 - slots.taken
        )
        return min(_MOST_TAKEN, max(1, left))

    def _take_over(self, wake: str) -> None:
        """Begin what the last look has claimed, also where it got stuck on the way."""
        look, directory = self._look, self.place.directory
        while look is not None and directory is not None and look.taken:
            taken = look.taken.pop(0)
            self._claimed += 1
            self._shared.slots.taken += 1
            self._shared.counters.requests += 1
            self._answers.wait_until(taken.request, self._shared.limits.timeout)
            directory.add(taken)
            self._owner.begin(self, taken.request, wake, taken.picked)

    def _note(self, look: Look) -> None:
        """Take note of what a look that came to its end has found."""
        if look.refused and look.refused != self.place.unannounced:
            path = escaped(self.place.path)
            log.warning("%s: relay.json cannot be written: %s", path, look.refused)
        self.place.unannounced = look.refused
        if self.place.directory is not None:
            self.place.directory.cancels = look.cancels
        if look.full and self._shared.slots.has_one_for(self):
            self._wake.set()
        for callback in look.then:
            callback()

    def _is_gone(self) -> bool:
        """Whether the directory is no longer at its path, or may no longer be served."""
        opened = self._opened
        found = opened.at(self.place.path) if opened is not None else None
        if opened is None or found is None or self._refusal(found) is not None:
            return True
        if opened.takes_group(found):
            self._told = None
        return False

    def _let_go(self) -> None:
        if self._judge is not None:
            self._owner.lost(self)
            return
        path = escaped(self.place.path)
        log.warning("the session directory %s is gone; waiting for it", path)
        self._leave()

    async def _find(self) -> bool:
        """Join what is at the path now; True where there is something."""
        try:
            lock = await self._join()
        except Stuck:
            raise
        except OSError:
            return False
        except DirectoryError as error:
            if self._judge is not None:
                # Whoever keeps the root says why, and looks again later.
                self._owner.lost(self)
            elif str(error) not in self._complained:
                self._complained.add(str(error))
                log.warning("%s", error)
            return False
        if lock is not None:
            lock.release()
        if not self._stuck:
            log.warning("the session directory %s is served again", escaped(self.place.path))
        return True

    def _leave(self) -> None:
        """Stop serving the directory."""
        self._watching.end()
        opened, self._opened, self.place.directory = self._opened, None, None
        if opened is not None:
            self._shared.locks.unmark(opened.identity)
            self._worker.when_settled(opened.retire)

    async def rest(self, patience: float) -> None:
        """Look no more. What a look has claimed already is begun before, in so many seconds."""
        self._resting = True
        self._wake.set()
        if self._task is not None and not self._worker.stuck:
            await asyncio.wait([self._task], timeout=patience)

    def stop(self) -> None:
        """Leave the directory. What is in flight must be over."""
        if self._task is not None:
            self._task.cancel()
        self._answers.stop()
        self._leave()
        self._worker.close()

    async def flush(self, patience: float) -> None:
        """Wait until every answer is published, for at most so many seconds."""
        await self._answers.flush(patience)

    def _publish(self, request: str, data: bytes) -> None:
        looking = self._looking
        if looking is not None:
            self._answers.publish(request, lambda: looking.answer(request, data))

    def done(self, request: str, *, awaited_until: float | None = None) -> None:
        """Take note that a request is answered or given up. See ``Session.done``."""
        residue = self._residue
        if awaited_until is not None and residue is not None:
            self._answers.wait_until(request, awaited_until - self._shared.wall())
            if len(residue.awaited) < _MOST_AWAITED:
                residue.awaited[request] = awaited_until
        if not self._answers.publishing(request):
            self._over(request)

    def _over(self, request: str) -> None:
        """Free the slot of a request whose answer is there, or given up."""
        self._answers.forget(request)
        self.in_flight.discard(request)
        self._shared.slots.taken -= 1
        self._wake.set()
        self._owner.freed(self)

    def change(self) -> None:
        """Go by new settings."""
        self._watching.change()
        self._empty_looks = 0
        self._wake.set()

    def bury(self, then: Callable[[], None]) -> None:
        """Look for claims of dead runners now, and call ``then`` when all are answered."""
        self._on_swept.append(then)
        self._wake.set()

    def be_due(self) -> None:
        """Be looked at as soon as may be."""
        self._wake.set()

    def _complain(self, error: OSError) -> None:
        """Log a failure once for each kind, until the directory is another."""
        if error.errno not in self._complained:
            self._complained.add(error.errno)
            log.warning("%s: it cannot be looked at: %s", escaped(self.place.path), error.strerror)
