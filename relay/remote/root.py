"""A remote root: a directory in a sandbox whose sub-directories are sessions.

It is waited for like a session: a bounded program inside ends as soon as a name comes or goes, and
the host's own listing, which decides, goes on underneath. A root so costs what one relay more
costs, however many sessions it has. What is there at the start is swept first; what comes later may
hold a request already, and is executed. Links, files and names with a leading dot are no sessions.
"""

from __future__ import annotations

import asyncio
import posixpath
from typing import NamedTuple

from relay.engine.openfiles import raise_limit
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, event, log, token
from relay.hosts.host import HostError, Missing, NoCommand, TimedOut, Unreachable
from relay.hosts.publishing import temp_path
from relay.remote.draining import STARTING, ProgramDrains
from relay.remote.health import Health
from relay.remote.limits import RemoteLimits, window
from relay.remote.loop import RemoteLoop
from relay.remote.session import RemoteSession
from relayconf.errors import StateError

#: Sessions that are started at one time.
_STARTS = 8

#: Sessions of one root: each holds one request open, and one program in the sandbox.
MOST = 1000

#: Seconds between two listings where nobody waits inside, and at least, whatever changes.
PAUSE = 5.0
_AT_LEAST = 0.5

#: Seconds that it may take to end the program that waits inside.
_GOODBYE = 2.0

#: Seconds until a sub-directory that cannot be served is tried again: the first time, at most.
_AGAIN_FIRST = 5.0
_AGAIN_LONGEST = 120.0


class _Refusal(NamedTuple):
    """Why a name is no session, when it is tried again, and after which pause."""

    reason: str
    again_at: float
    pause: float


class RemoteRoot:
    """The sessions of one root.

    Args:
        path: the root's absolute path; its last component is made where missing.
        shared: the runner's parts.
        loop: serves the sessions.
    """

    def __init__(self, path: str, shared: Shared, loop: RemoteLoop) -> None:
        self.path = path
        self.sessions: dict[str, RemoteSession] = {}
        self._shared = shared
        self._loop = loop
        self._name = escaped(f"{path} on {loop.host.name}")
        self._health = Health(self._name, loop.random)
        self._refused: dict[str, _Refusal] = {}
        self._gate = asyncio.Semaphore(_STARTS)
        self._news = asyncio.Event()
        self._listed_at = 0.0
        self._since = 0
        #: Whether a program may be waiting inside.
        self._waits = False
        self._said = ""
        self._crowded = False
        self._task: asyncio.Task[None] | None = None

    @property
    def _limits(self) -> RemoteLimits:
        return self._loop.limits(self.path)

    async def start(self) -> None:
        """Find the sessions that are there, start them all, and go on finding them.

        Raises:
            HostError: the root cannot be listed, within RELAY_FILE_OP_TIMEOUT_MS.
        """
        raise_limit()
        self._loop.on_change = self._news.set
        deadline = self._shared.clock() + self._limits.file_op_timeout
        while True:
            try:
                await self._look(sweep=True)
            except (Unreachable, TimedOut):
                if self._shared.clock() >= deadline:
                    raise
                await asyncio.sleep(0.2)
                self._loop.host.renew()
            else:
                break
        self._task = asyncio.ensure_future(self._serve())

    async def stop(self) -> None:
        """Find nothing more, and let nobody wait inside. The sessions are the loop's to end."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._waits:
            await self._end_census()

    async def _end_census(self) -> None:
        """Have a program that waits inside end now, by a name that comes and goes."""
        name = temp_path(posixpath.join(self.path, ".relay-census"))
        try:
            async with asyncio.timeout(_GOODBYE):
                await self._loop.host.write(name, b"", kind="release")
                await self._loop.host.remove(name)
        except (HostError, TimeoutError) as error:
            log.info("%s: it is waited in until the end of its window: %s", self._name, error)

    async def _serve(self) -> None:
        while True:
            try:
                await self._go_on()
            except Exception:  # noqa: BLE001 - logged; the sessions go on
                log.exception("%s: looking for sessions failed", self._name)
                await asyncio.sleep(PAUSE)

    async def _go_on(self) -> None:
        """Wait for news, and list where there is some, or where the last listing is old."""
        before = self._shared.clock()
        changed = await self._wait()
        now = self._shared.clock()
        if not changed and now - self._listed_at < self._limits.safety_poll:
            return
        await asyncio.sleep(max(0.0, _AT_LEAST - (now - before)))
        try:
            await self._look(sweep=False)
        except HostError as error:
            if isinstance(error, (TimedOut, Unreachable)):
                self._loop.host.renew()
            self._complain(str(error))
        else:
            self._said = ""

    def _complain(self, text: str) -> None:
        if not self._said:
            log.warning("%s: it cannot be listed: %s", self._name, text)
        self._said = text

    async def _wait(self) -> bool:
        """Wait inside the sandbox, else for a pause; True where it is time to list."""
        limits, now = self._limits, self._shared.clock()
        drains = None
        if not limits.watches:
            self._health.reset()
        elif now >= self._health.retry_at:
            drains = await self._drains()
        self._news.clear()
        if drains is None:
            await self._pause(min(PAUSE, limits.safety_poll))
            return True
        waiting = asyncio.ensure_future(self._census(drains, limits))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({waiting, news}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else False
        finally:
            news.cancel()
            waiting.cancel()

    async def _drains(self) -> ProgramDrains | None:
        try:
            found = await self._loop.means.drains(
                self.path, self._shared.locks.runner, seconds=self._limits.file_op_timeout
            )
        except HostError:
            return None
        return found if isinstance(found, ProgramDrains) else None

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _census(self, drains: ProgramDrains, limits: RemoteLimits) -> bool:
        """Wait until a name came or went; True where it is time to list."""
        self._waits = True
        began, seconds = self._shared.clock(), window(limits, self._loop.random)
        try:
            report = await drains.census(
                self._since,
                window=seconds,
                rescan=limits.rescan,
                grace=limits.grace,
            )
        except HostError as error:
            if isinstance(error, NoCommand):
                self._loop.means.forget()
            self._health.fail(str(error), self._shared.clock(), limits)
            return True
        self._waits = False
        now = self._shared.clock()
        early = report.status == "expired" and now - began < seconds / 2
        if early or report.status not in {"changed", "expired"}:
            self._health.fail(f"it ended as {report.status}", now, limits)
            return True
        self._health.succeed(found=True)
        self._since = report.mtime
        return report.status == "changed"

    async def _look(self, *, sweep: bool) -> None:
        """List the root; begin with what is new, and end what is gone.

        Raises:
            HostError: it cannot be listed.
        """
        names = await self._names()
        self._listed_at = self._shared.clock()
        await asyncio.gather(*(self._drop(name) for name in self.sessions.keys() - names))
        for name in self._refused.keys() - names:
            del self._refused[name]
        new = sorted(name for name in names - self.sessions.keys() if self._is_due(name))
        room = MOST - len(self.sessions)
        if len(new) > room and not self._crowded:
            log.warning("%s: %d sessions are served, and no more than that", self._name, MOST)
        self._crowded = len(new) > room
        await asyncio.gather(*(self._begin(name, sweep=sweep) for name in new[: max(room, 0)]))

    async def _names(self) -> set[str]:
        """Return the names of what may be sessions.

        Raises:
            HostError: they cannot be listed.
        """
        try:
            entries = await self._loop.host.entries(self.path, kind="root")
        except Missing:
            drains = await self._drains()
            if drains is None or self._task is not None:
                # It was there at the start: whoever took it away makes it again, or not.
                raise
            await drains.census(0, window=0.0, rescan=1.0, grace=STARTING, make=True)
            try:
                entries = await self._loop.host.entries(self.path, kind="root")
            except Missing:
                raise HostError(
                    f"{self._name}: it is not there and cannot be made; its parent must be there "
                    "and be writable"
                ) from None
        return {e.name for e in entries if e.directory and not e.name.startswith(".")}

    def _is_due(self, name: str) -> bool:
        refused = self._refused.get(name)
        return refused is None or self._shared.clock() >= refused.again_at

    async def _begin(self, name: str, *, sweep: bool) -> None:
        """Start one session; one that cannot be is named once, and tried again later."""
        path = posixpath.join(self.path, name)
        try:
            async with self._gate:
                # RACE: one that was removed since the listing is not made again.
                self.sessions[name] = await self._loop.open(path, sweep=sweep, make=False)
        except (HostError, StateError, OSError) as error:
            self._refuse(name, str(error))
            return
        self._refused.pop(name, None)
        if not sweep:
            event(f"stage=relay_session dir={token(path)}")

    def _refuse(self, name: str, reason: str) -> None:
        before = self._refused.get(name)
        pause = _AGAIN_FIRST if before is None else min(before.pause * 2, _AGAIN_LONGEST)
        self._refused[name] = _Refusal(reason, self._shared.clock() + pause, pause)
        if before is None or before.reason != reason:
            path = escaped(posixpath.join(self.path, name))
            log.warning("%s is not served: %s", path, escaped(reason))

    async def _drop(self, name: str) -> None:
        session = self.sessions.pop(name)
        event(f"stage=relay_session_over dir={token(session.path)}")
        await self._loop.drop(session)
