"""An event loop whose time is its own, and a sandbox made of promises, for the rules of waiting."""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from relay.hosts.host import HostError, Missing
from relay.remote.counters import RemoteCounters
from relay.remote.draining import Hit
from relay.remote.limits import RemoteLimits
from relay.remote.report import Claim, Report
from relay.remote.waiting import Waiting

#: More turns than the relays of a test need at one time, however many they are.
_TURNS = 100


class _Leap(selectors.SelectSelector):
    """A selector that never waits: it lets its loop's time pass instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.turns = 0

    def select(self, timeout: float | None = None) -> Any:
        self.turns = 0 if timeout else self.turns + 1
        # A pause below the loop's resolution would never pass; so many turns take a moment.
        self.now += timeout or (1e-6 if self.turns > _TURNS else 0.0)
        return super().select(0)


class Leaping(asyncio.SelectorEventLoop):
    """A loop in which an hour takes no time, and the same steps come in the same order."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        """Return the loop's own time."""
        return self._leap.now


LIMITS = RemoteLimits(
    watches=True,
    window=25.0,
    grace=5.0,
    rescan=2.0,
    safety_poll=30.0,
    demote_after=3,
    backoff_base=1.0,
    backoff_max=30.0,
    poll=0.3,
    poll_max=1.5,
    idle_grow_after=5,
    file_op_timeout=10.0,
)


class Asked:
    """One drain that was sent: its window, how it is to take the lease, and its answer."""

    def __init__(self, at: float, seconds: float, take: str, tag: int) -> None:
        self.at = at
        self.window = seconds
        self.take = take
        self.tag = tag
        self.answer: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        self.cancelled = False
        self.on_batch: Callable[[Report], None] | None = None


class Sandbox:
    """A sandbox whose drains are answered by the test, and a relay that waits for them.

    ``script`` answers drains as they are sent; without it, a window expires in its time and a look
    is idle. ``hits`` is what a listing finds, or an error.
    """

    runner = "me"
    waits = True

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = LIMITS
        self.counters = RemoteCounters()
        self.windows: list[Asked] = []
        self.drains: list[Asked] = []
        self.looks: list[float] = []
        self.executed: list[tuple[str, str]] = []
        self.script: deque[Callable[[Asked], Report | HostError | None]] = deque()
        self.hits: list[Hit] | HostError = []
        self.room = True
        self.busy = False
        self.dead: set[str] = set()
        self.rejoined = 0
        self.distrusted = 0
        self.stubborn = False
        self._accepted: list[str] = []
        self._seen: set[str] = set()
        self.waiting = Waiting(
            self,
            limits=lambda: self.limits,
            clock=self.loop.time,
            random=lambda: 1.0,
            counters=self.counters,
            name="relay",
        )
        self.task = asyncio.ensure_future(self.waiting.run())

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return round(self.loop.time() - 1000.0, 6)

    async def drain(
        self,
        seconds: float,
        grace: float,
        *,
        take: str,
        tag: int,
        kind: str,
        on_batch: Callable[[Report], None] | None = None,
    ) -> Report:
        """Send one drain."""
        del grace, kind
        asked = Asked(self.now, seconds, take, tag)
        asked.on_batch = on_batch
        (self.windows if seconds else self.drains).append(asked)
        if not seconds and isinstance(self.hits, HostError) and not isinstance(self.hits, Missing):
            raise self.hits
        if self.script and seconds:
            outcome = self.script.popleft()(asked)
            if isinstance(outcome, HostError):
                raise outcome
            if outcome is not None:
                return outcome
        elif seconds:
            self.loop.call_later(seconds, self.settle, asked, Report("expired", watched=True))
        else:
            self.settle(asked, self.polled())
        try:
            return await asyncio.shield(asked.answer)
        except asyncio.CancelledError:
            asked.cancelled = True
            if self.stubborn:
                return await asked.answer
            raise

    def polled(self) -> Report:
        """Answer a look of the program: what the listing shows is claimed."""
        if isinstance(self.hits, HostError):
            return Report("idle")
        claims = [claim(hit.request, age=hit.modified) for hit in self.hits]
        self.hits = []
        return Report("claimed" if claims else "idle", tuple(claims))

    @staticmethod
    def settle(asked: Asked, report: Report) -> None:
        """Answer a drain, unless it was."""
        if not asked.answer.done():
            asked.answer.set_result(report)

    async def look(self) -> list[Hit]:
        """List."""
        self.looks.append(self.now)
        if isinstance(self.hits, HostError):
            raise self.hits
        return self.hits

    def accept(self, report: Report) -> int:
        """Take over what is new."""
        new = [c for c in report.claims if c.key not in self._seen]
        self._seen |= {c.key for c in new}
        self._accepted += [c.request for c in new]
        return len(new) + len(report.cancelled)

    def execute(self, wake: str) -> None:
        """Begin with it."""
        accepted, self._accepted = self._accepted, []
        self.executed += [(request, wake) for request in accepted]

    def has_room(self) -> bool:
        """Whether there are slots."""
        return self.room

    def is_busy(self) -> bool:
        """Whether something is in flight."""
        return self.busy

    async def rejoin(self) -> None:
        """Tell writers."""
        self.rejoined += 1

    async def probe(self) -> None:
        """Find out anew."""

    def distrust(self) -> None:
        """Drop connections."""
        self.distrusted += 1

    def is_dead(self, runner: str) -> bool:
        """Whether a runner is known to be dead."""
        return runner in self.dead

    async def past(self, seconds: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        await asyncio.sleep(max(0.0, seconds - self.now))

    def change(self, **limits: Any) -> None:
        """Change settings."""
        self.limits = self.limits._replace(**limits)
        self.waiting.wake()

    async def stop(self) -> None:
        """Stop the relay."""
        self.waiting.stopping = True
        self.waiting.wake()
        await self.task


def claim(request: str, *, age: float = 0.0, ino: int = 1) -> Claim:
    """Return a claim of a request."""
    return Claim(request, ino, 1, 2, age, b"{}")


#: A test's own part: it is given a sandbox whose relay runs.
Story = Callable[[Sandbox], Coroutine[Any, Any, None]]


@pytest.fixture
def play() -> Callable[[Story], Sandbox]:
    """Return what plays a story in a time of its own."""

    def run(story: Story) -> Sandbox:
        async def main() -> Sandbox:
            sandbox = Sandbox()
            await story(sandbox)
            await sandbox.stop()
            return sandbox

        with asyncio.Runner(loop_factory=Leaping) as runner:
            return runner.run(main())

    return run
