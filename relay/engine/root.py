"""A root: a directory whose sub-directories are sessions, found and dropped while it is served.

A sub-directory that appears is joined and scanned, one that goes takes its session along; what was
there before the start is swept first. The root is watched through the runner's one inotify
instance, and looked at underneath. Whoever may write the root decides what a session is; symbolic
links, files, and directories of users who are not trusted with it are refused, each with one line.
Names with a leading dot are not looked at.
"""

from __future__ import annotations

import asyncio
import os
import stat
from itertools import islice
from typing import NamedTuple

from relay.engine.directory import COARSE_NS, DirectoryError, SessionDirectory, make_directory
from relay.engine.loop import AnySession, Loop
from relay.engine.openfiles import raise_limit
from relay.engine.opening import session_at
from relay.engine.place import WatchError
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, event, log, token
from relay.engine.worker import Stuck, Worker
from relay.errors import RelayError
from relay.settings import Mode
from relayconf.errors import RelayconfError

#: Sessions that are started at one time; most of a start is waiting for a lock, where there is one.
_STARTS = 64

#: Open files that sessions leave to everything else: claims being read, tools, libraries.
_RESERVED = 256

#: How often the root is listed although its ctime says that nothing changed, in seconds.
_LIST_AT_LEAST = 10.0

#: How soon a session that could not be started is tried again, in seconds.
_TRY_AGAIN = 5.0

#: Refused names that are looked at again each time: somebody may be about to make them right.
_LOOKED_AT = 64

#: Stands for what is not looked at here, since that may take for ever.
_ELSEWHERE = (0, 0, 0)


class _Refusal(NamedTuple):
    """Why a name is no session, for what it was then, and when it is tried again."""

    reason: str
    identity: tuple[int, int, int]
    again_at: float


class _View(NamedTuple):
    """What a look has found: what the root is, ``None`` where it is gone; what was opened anew.

    ``names`` are what it holds, where it was listed; ``error`` is what came in between. The look
    began at ``at``, by the clock that file times are on.
    """

    at: float
    facts: os.stat_result | None
    opened: SessionDirectory | None
    names: set[str] | None
    error: OSError | None

    @property
    def why(self) -> str:
        """The error's text."""
        return "" if self.error is None else str(self.error.strerror)


class Root:
    """The sessions of one root.

    Args:
        path: the root; its last component is made where missing.
        shared: the runner's parts.
        loop: serves the sessions.

    Raises:
        DirectoryError: there is no such directory, and none can be made.
    """

    def __init__(self, path: str, shared: Shared, loop: Loop) -> None:
        make_directory(path)
        self.path = os.path.realpath(path)
        self.sessions: dict[str, AnySession] = {}
        self._shared = shared
        self._loop = loop
        self._held: SessionDirectory | None = None
        self._facts: os.stat_result | None = None
        self._watch: int | None = None
        self._unwatched = ""
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, _Refusal] = {}
        self._gate = asyncio.Semaphore(_STARTS)
        self._turn = asyncio.Lock()
        self._most = 0
        self._listed_ns: int | None = None
        self._list_at = 0.0
        self._worker = Worker(lambda: shared.limits.file_op_timeout, shared.clock)
        self._looking: asyncio.Task[None] | None = None
        self._opened: SessionDirectory | None = None
        self._stuck = False

    async def start(self) -> None:
        """Find the sessions that are there, and start them all.

        Raises:
            DirectoryError: the root cannot be opened.
            WatchError: RELAY_MODE is ``watch``, and something cannot be watched.
        """
        allowed = raise_limit()
        self._most = max(allowed - _RESERVED, allowed // 2)
        self._loop.on_lost = self._lost
        self._loop.on_change = self.change
        self._loop.chores.append(self.look)
        view = self._see()
        if view.opened is None or view.facts is None:
            raise DirectoryError(f"{self.path} cannot be opened: {view.why}") from None
        self._opened = None
        self._hold(view.opened, view.facts)
        if self._shared.limits.mode is Mode.WATCH and self._unwatched:
            raise WatchError(
                f"{self.path} cannot be watched ({self._unwatched}), and RELAY_MODE is watch; set "
                "it to auto to poll instead"
            )
        self._take_names(view, sweep=True)
        await asyncio.gather(*self._starting.values())

    def stop(self) -> None:
        """Find nothing more. The sessions are the loop's to stop."""
        for task in self._starting.values():
            task.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._let_go()
        self._worker.close()

    def change(self) -> None:
        """Go by new settings: watch or not."""
        if not self._shared.limits.watches:
            self._unarm()
        elif self._watch is None and self._held is not None:
            self._arm()

    def look(self) -> None:
        """See whether the root is still there, and whether names came or went."""
        if not self._may_stall(self.path):
            self._take_in(self._see())
        elif self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look_in_time())

    async def _look_in_time(self) -> None:
        """Look in a thread, and go on without the answer where there is none."""
        path = escaped(self.path)
        try:
            view = await self._worker.do(self._see)
        except Stuck as error:
            if not self._stuck:
                log.warning("the root %s: %s; waiting for it", path, error.strerror)
            self._stuck = True
            return
        if self._stuck:
            log.warning("the root %s: the file system answers again", path)
        self._stuck = False
        self._take_in(view)

    def _see(self) -> _View:
        """Look at the root's own directory. Changes nothing here, since it may run in a thread."""
        at, held, facts = self._shared.wall(), self._held, None
        if held is not None:
            facts = held.at(self.path)
        opened = None
        try:
            if held is None or facts is None:
                # One that was opened too late the last time is used now.
                held = opened = self._opened = self._opened or self._open()
                facts = os.fstat(opened.fd)
            if facts.st_ctime_ns == self._listed_ns and self._shared.clock() < self._list_at:
                return _View(at, facts, opened, None, None)
            return _View(at, facts, opened, set(held.names()), None)
        except OSError as error:
            return _View(at, facts, opened, None, error)

    def _open(self) -> SessionDirectory:
        return SessionDirectory(self.path, follow=False)

    def _take_in(self, view: _View) -> None:
        """Go by what a look has found."""
        self._opened = None
        gone = view.facts is None or view.opened is not None
        if self._held is not None and gone:
            log.warning("the root %s is gone; waiting for it", escaped(self.path))
            self._let_go()
        if view.facts is None:
            return
        if view.opened is not None:
            self._hold(view.opened, view.facts)
            log.warning("the root %s is served again", escaped(self.path))
        before, self._facts = self._facts, view.facts
        if _whose(before) != _whose(view.facts):
            for session in self.sessions.values():
                session.place.judge_again()
        self.change()
        self._take_names(view, sweep=False)
        for name in tuple(islice(self._refused, _LOOKED_AT)):
            self._consider(name, sweep=False)

    def _hold(self, opened: SessionDirectory, facts: os.stat_result) -> None:
        self._held, self._facts = opened, facts
        if facts.st_mode & stat.S_IWOTH:
            log.warning(
                "the root %s can be written by everybody: only directories of this user and of "
                "root are sessions",
                escaped(self.path),
            )
        self.change()

    def _let_go(self) -> None:
        self._unarm()
        self._listed_ns = None
        if self._held is not None:
            self._worker.when_settled(self._held.retire)
            self._held = None

    def _arm(self) -> None:
        # Looked at every half second all the same: this only makes a session's beginning quicker.
        if self._may_stall(self.path):
            return
        try:
            self._watch = self._shared.hub.notice(self.path, self._on_change)
        except OSError as error:
            reason = str(error.strerror)
            if reason != self._unwatched:
                log.warning("%s: no file events (%s); polling", escaped(self.path), reason)
            self._unwatched = reason
        else:
            self._unwatched = ""
            self._listed_ns = None

    def _unarm(self) -> None:
        if self._watch is not None:
            self._shared.hub.ignore(self._watch)
            self._watch = None

    def _on_change(self, name: bytes | None, _key: int) -> None:
        if name is None:
            # The root itself went; the look that comes next finds out where it is now.
            self._watch = None
        if name:
            self._consider(os.fsdecode(name), sweep=False)
        else:
            self._listed_ns = None

    def _take_names(self, view: _View, *, sweep: bool) -> None:
        """Go by the names that a look has found, where it has listed them."""
        names = view.names
        if view.error is not None:
            log.warning("%s: it cannot be listed: %s", escaped(self.path), view.why)
            self._list_at = self._shared.clock() + _LIST_AT_LEAST
        if names is None or view.facts is None:
            return
        changed = view.facts.st_ctime_ns
        fresh = view.at * 1e9 - changed <= COARSE_NS
        self._list_at = self._shared.clock() + _LIST_AT_LEAST
        self._listed_ns = None if fresh else changed
        for name in names - self.sessions.keys():
            self._consider(name, sweep=sweep)
        for name in self.sessions.keys() - names:
            self.sessions[name].be_due()
        for name in self._refused.keys() - names:
            del self._refused[name]

    def _consider(self, name: str, *, sweep: bool) -> None:
        """Take a name for a session's where it is one; what is one already is looked at."""
        if name.startswith(".") or name in self._starting or self._held is None:
            return
        if name in self.sessions:
            self.sessions[name].be_due()
            return
        found = None
        if not self._may_stall(self._path_of(name)):
            found = self._held.examine(name)
            if found is None:
                return
        identity = (found.st_dev, found.st_ino, found.st_ctime_ns) if found else _ELSEWHERE
        before = self._refused.get(name)
        same = before is not None and before.identity == identity
        if before is not None and same and self._shared.clock() < before.again_at:
            return
        reason = (self.refusal(found) if found else None) or self._too_many()
        if reason is not None:
            self._refuse(name, identity, reason)
            return
        task = asyncio.ensure_future(self._begin(name, identity, sweep=sweep))
        self._starting[name] = task

    def _may_stall(self, path: str) -> bool:
        """Whether a path is on a file system that may not answer: it is not looked at inline."""
        return self._shared.mounts.elsewhere(path) is not None

    def refusal(self, found: os.stat_result) -> str | None:
        """Return why something in the root is no session, as far as its kind and owner go."""
        if stat.S_ISLNK(found.st_mode):
            return "a symbolic link is not followed"
        if not stat.S_ISDIR(found.st_mode):
            return "it is not a directory"
        facts = self._facts
        if found.st_uid in (0, os.geteuid()) or facts is None:
            return None
        everybodys = facts.st_mode & stat.S_IWOTH
        if not everybodys and found.st_uid == facts.st_uid:
            return None
        shared = found.st_mode & facts.st_mode & stat.S_ISGID and found.st_gid == facts.st_gid
        if shared and not everybodys:
            return None
        return (
            f"it belongs to another user (uid {found.st_uid}): give it to this user, or share the "
            "root and it by group (chgrp, chmod 2770)"
        )

    def _too_many(self) -> str | None:
        if len(self.sessions) + len(self._starting) < self._most:
            return None
        return f"{self._most} sessions are served, and the limit of open files allows no more"

    def _refuse(
        self,
        name: str,
        identity: tuple[int, int, int],
        reason: str,
        *,
        again_in: float = _TRY_AGAIN,
    ) -> None:
        before = self._refused.get(name)
        self._refused[name] = _Refusal(reason, identity, self._shared.clock() + again_in)
        if before is None or before.reason != reason:
            log.warning("%s is no session: %s", escaped(self._path_of(name)), escaped(reason))

    def _path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    async def _begin(self, name: str, identity: tuple[int, int, int], *, sweep: bool) -> None:
        """Start one session.

        Raises:
            WatchError: RELAY_MODE is ``watch``, and this is the runner's start.
        """
        session = session_at(self._path_of(name), self._shared, self._loop, judge=self.refusal)
        try:
            async with self._gate:
                async with self._turn:
                    # A start takes a millisecond. Of thousands, one has its turn in each turn of
                    # the loop, so that nobody waits for all of them.
                    await asyncio.sleep(0)
                await session.start(sweep=sweep)
        except (RelayError, RelayconfError, OSError) as error:
            session.stop()
            if sweep and isinstance(error, WatchError):
                raise
            self._refuse(name, identity, str(error))
            return
        except BaseException:
            session.stop()
            raise
        finally:
            self._starting.pop(name, None)
        self._refused.pop(name, None)
        self.sessions[name] = session
        self._loop.add(session)
        if not sweep:
            event(f"stage=relay_session dir={token(session.place.path)}")

    def _lost(self, session: AnySession) -> None:
        """A session's directory is gone, or is no session's any more."""
        event(f"stage=relay_session_over dir={token(session.place.path)}")
        name = os.path.basename(session.place.path)
        if self.sessions.get(name) is session:
            del self.sessions[name]
            self._consider(name, sweep=False)


def _whose(found: os.stat_result | None) -> tuple[int, int, int] | None:
    return None if found is None else (found.st_mode, found.st_uid, found.st_gid)
