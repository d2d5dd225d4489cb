"""Live settings: an immutable, numbered snapshot behind one reference.

Reading a value is an attribute read: ``live.current.poll``. A change builds a whole new snapshot,
then swaps the reference, then calls the subscribers in order; a reader never sees half of a change.
A setting that does not apply live keeps its value until the next start and is reported as pending.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from relayconf import report
from relayconf.classes.plain import plain
from relayconf.errors import RelayconfError
from relayconf.fleet.reading import FleetReading
from relayconf.layers import Layer, Sources
from relayconf.live.rereading import Found, Rereader
from relayconf.live.subscribers import Subscriber, Subscribers
from relayconf.overrides.reading import Reading
from relayconf.problems import Problem
from relayconf.process import read_process
from relayconf.resolve import Effective, Resolution, resolve
from relayconf.settings import Settings, contract_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Event

    from relayconf.fleet.follower import Follower
    from relayconf.live.following import Following

S = TypeVar("S", bound=Settings)

log = logging.getLogger("relayconf")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """One complete state of a process's settings.

    Attributes:
        number: 1 for the first, and one more for each swap.
        settings: the typed values.
        resolution: the same values with their reasons.
        pending: names whose change waits for the next start.
        made: when it was swapped in, in monotonic seconds.
    """

    number: int
    settings: S
    resolution: Resolution
    pending: tuple[str, ...] = ()
    made: float = 0.0

    @property
    def generation(self) -> int:
        """The generation of the overrides that it was made from; 0 without any."""
        return self.resolution.generation


class Live(Generic[S]):
    """The current settings of a process, and the way to change them.

    Guarantees: ``current`` and ``snapshot`` are each replaced by one store, after everything in the
    new ones is built; a reload that raises changes nothing; subscribers run one swap at a time, in
    the order of subscription, in the thread that reloads; one that raises is logged and holds up no
    other. A forked child goes on from the snapshot that it was forked with.
    Non-guarantees: two reads of ``current`` may see two snapshots; keep one where values belong
    together. Which thread reloads is not fixed.
    """

    current: S
    snapshot: Snapshot[S]

    def __init__(
        self, snapshot: Snapshot[S], sources: Sources, *, rereader: Rereader | None = None
    ) -> None:
        self.snapshot = snapshot
        self.current = snapshot.settings
        self.problems: tuple[Problem, ...] = snapshot.resolution.problems
        self.reload_failures = 0
        self.looked = time.monotonic()
        #: The overrides that are in force: their document's generation, and when it was written.
        self.generation = snapshot.generation
        self.written: tuple[str, int] | None = None
        #: What the fleet says, as far as it is in force here; without a fleet, nothing.
        self.fleet: FleetReading | None = None
        self.subscribers: Subscribers[Snapshot[S]] = Subscribers()
        self._rereader = rereader or Rereader(contract_of(type(snapshot.settings)), sources)
        self._found: Found | None = None
        self._good = None if rereader is None else rereader.configured
        self._poked = False
        self._confirming = False
        self._following: Following | None = None
        self._renew_locks()
        _alive.add(self)

    def hear_fleet(self, reading: Callable[[], FleetReading]) -> None:
        """Ask somebody else than the state directory what the fleet says."""
        self._rereader.fleet = reading

    def _renew_locks(self) -> None:
        self._swapping = threading.RLock()
        self._swapped = threading.Condition()

    @property
    def sources(self) -> Sources:
        """Where the values are read."""
        return self._rereader.sources

    @property
    def directories(self) -> list[str]:
        """The directories whose changes call for ``poke``."""
        with self.turn():
            return self._rereader.directories()

    @property
    def reading(self) -> Reading | None:
        """The overrides that were read last."""
        found = self._found
        return None if found is None else found.reading

    @property
    def follower(self) -> Follower | None:
        """What follows the fleet, in a process that does."""
        following = self._following
        fleet = None if following is None else following.fleet
        return None if fleet is None else fleet.follower

    def subscribe(self, callback: Subscriber[Snapshot[S]]) -> Callable[[], None]:
        """Call ``callback(old, new)`` after each swap; the returned function ends that."""
        with self._swapping:
            self.subscribers.add(callback)

        def unsubscribe() -> None:
            with self._swapping:
                self.subscribers.remove(callback)

        return unsubscribe

    def reload(self, sources: Sources | None = None) -> Snapshot[S]:
        """Read the sources again, or new ones, and swap where a value or its reason changed.

        Returns:
            The snapshot now in force.

        Raises:
            SourceError: a file cannot be read or parsed; the last good snapshot stays in force.
            InvalidSettingsError: the class's own validators refuse; likewise.
        """
        with self.turn():
            rereader = self._rereader
            if sources is not None:
                rereader = Rereader(contract_of(type(self.current)), sources)
                rereader.fleet = self._rereader.fleet
            found = rereader.read()
            self._take(found, found.layers)
            self.fleet = found.fleet
            self._rereader, self._found, self._good = rereader, found, found.configured
            return self.snapshot

    def poke(self) -> None:
        """Look at the sources, since something may have changed, and swap where it did.

        Never raises and never waits: where another thread is reloading, that one looks again. What
        cannot be used leaves the last good values in force, and is a problem that is said once.
        """
        self._poked = True
        self._serve()

    def confirm(self) -> None:
        """Say what is applied by now, since somebody has applied something. Never waits."""
        self._confirming = True
        self._serve()

    def put(self, resolution: Resolution, sources: Sources) -> Snapshot[S]:
        """Put a resolution in force as a whole, restart-only settings too, as tests need it.

        Args:
            resolution: of this class's contract.
            sources: what later reloads read.

        Raises:
            InvalidSettingsError: the class's own validators refuse; nothing changes.
        """
        with self.turn():
            self._swap(resolution, ())
            self._rereader = Rereader(resolution.contract, sources)
            self._found = self._good = None
            return self.snapshot

    def wait_past(self, number: int, timeout: float | None = None) -> Snapshot[S]:
        """Wait in this thread until a snapshot with a higher number is in force, and return it.

        Returns:
            The snapshot in force; after ``timeout`` seconds that may still be the same.
        """
        with self._swapped:
            self._swapped.wait_for(lambda: self.snapshot.number > number, timeout)
            return self.snapshot

    async def past(self, number: int) -> Snapshot[S]:
        """Wait in the running event loop until a snapshot with a higher number is in force."""
        import asyncio  # noqa: PLC0415 - for who has it already

        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        end = self.subscribe(lambda _old, _new: _set(loop, news))
        try:
            while self.snapshot.number <= number:
                news.clear()
                if self.snapshot.number <= number:
                    await news.wait()
            return self.snapshot
        finally:
            end()

    def follow(self, *, events: bool = True) -> Following:
        """Follow the sources from now on, and register as a live instance.

        A daemon thread looks more than once a second, and at once where it is told of a change.
        Following twice is counted; ``close`` ends one of both.

        Args:
            events: watch the directories; without it whoever calls this does, and pokes.
        """
        from relayconf.live.following import Following  # noqa: PLC0415 - it imports this module

        with self.turn():
            if self._following is None:
                self._following = Following(self, events=events)
                self._following.start()
            else:
                self._following.users += 1
            return self._following

    def close(self) -> None:
        """End one ``follow``; with the last, sign off. The values stay readable."""
        with self._swapping:
            following = self._following
            if following is None:
                return
            following.users -= 1
            if following.users:
                return
            self._following = None
        following.stop()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Reload alone; what others have asked for meanwhile is done afterwards."""
        with self._swapping:
            yield
        self._serve()

    def _serve(self) -> None:
        # RACE: who finds the lock taken has left its wish; whoever lets go of the lock looks for
        # wishes once more, so that none is lost. So does whoever is telling the subscribers.
        while (self._poked or self._confirming) and not self.subscribers.telling:
            if not self._swapping.acquire(blocking=False):
                return
            try:
                if self._poked:
                    self._poked = False
                    self._look()
                self._confirming = False
                if self._following is not None:
                    self._following.acknowledge()
            finally:
                self._swapping.release()

    def _look(self) -> None:
        found = self._rereader.look()
        self.looked = time.monotonic()
        before, self._found = self._found, found
        if found == before or not self._rereader.has_read:
            return
        if found.failure is not None and (before is None or before.failure != found.failure):
            self.reload_failures += 1
        # What the class's own validators refuse must not hold up a kill that came along with it.
        refusals: list[Problem] = []
        good = found.configured if self._good is None else self._good
        kills = found.kills(self.generation)
        for configured, overriding in (
            (found.configured, found.overriding),
            (good, found.overriding),
            (good, kills),
        ):
            try:
                self._take(found, [*configured, *overriding])
            except RelayconfError as error:
                refusals.append(self._refusal(error))
            else:
                self._good = configured
                if overriding is not kills:
                    self.fleet = found.fleet
                break
        self.problems = (*self.problems, *dict.fromkeys(refusals))

    def _refusal(self, error: RelayconfError) -> Problem:
        self.reload_failures += 1
        text = f"{error}; keeping the values from before"
        problem = Problem("settings-refused", type(self.current).__name__, text, raw=text)
        report.once([problem])
        return problem

    def _take(self, found: Found, layers: list[Layer]) -> None:
        """Put layers in force, where they are anything new."""
        fresh = resolve(contract_of(type(self.current)), layers)
        problems = fresh.problems if found.failure is None else (*fresh.problems, found.failure)
        report.once(problems)
        old = self.snapshot
        resolution, pending = _hold_back(old.resolution, fresh)
        if resolution.settings != old.resolution.settings or pending != old.pending:
            self._swap(resolution, pending)
        self.problems = problems
        self.generation = resolution.generation
        self.written = found.reading.document.written
        self._confirming = True

    def _swap(self, resolution: Resolution, pending: tuple[str, ...]) -> None:
        old = self.snapshot
        settings = plain(type(self.current).from_resolution(resolution))
        new = Snapshot(old.number + 1, settings, resolution, pending, time.monotonic())
        self.snapshot = new
        self.current = settings
        with self._swapped:
            self._swapped.notify_all()
        log.info(
            "stage=settings_applied target=%s generation=%d snapshot=%d changed=%s",
            resolution.contract.target,
            new.generation,
            new.number,
            ",".join(_changed(old.resolution, resolution)) or "-",
        )
        self.subscribers.tell(old, new)

    def _go_on_in_child(self) -> None:
        """Let go of what belongs to the parent, after a fork."""
        self._renew_locks()
        self._poked = self._confirming = False
        self.subscribers.forget_news()
        self.current = self.snapshot.settings
        if self._following is not None:
            self._following.go_on_in_child()


def load(cls: type[S], sources: Sources | None = None, *, strict: bool | None = None) -> Live[S]:
    """Resolve a settings class from its sources and hold the result live.

    Args:
        cls: the settings class.
        sources: where to read; without it, what relayconf's own settings in the process
            environment say.
        strict: refuse to start on any value that is not used as it was written; without it,
            ``RELAYCONF_STRICT`` decides.

    Raises:
        StrictError: strict, and there are such values; it lists all of them.
        SourceError: a file cannot be read or parsed.
        InvalidSettingsError: the class's own validators refuse.
    """
    if sources is None or strict is None:
        process = read_process(os.environ)
        sources = process.sources if sources is None else sources
        strict = process.strict if strict is None else strict
    contract = contract_of(cls)
    rereader = Rereader(contract, sources)
    found = rereader.read()
    resolution = resolve(contract, found.layers)
    if strict:
        report.refuse(resolution.problems)
    report.once(resolution.problems)
    settings = plain(cls.from_resolution(resolution))
    snapshot = Snapshot(1, settings, resolution, made=time.monotonic())
    live = Live(snapshot, sources, rereader=rereader)
    live.fleet = found.fleet
    return live


def _hold_back(old: Resolution, fresh: Resolution) -> tuple[Resolution, tuple[str, ...]]:
    """Keep the old value of every restart-only setting that changed, and name it."""
    settings: dict[str, Effective] = {}
    pending = []
    for name, effective in fresh.settings.items():
        before = old.settings[name]
        if not effective.setting.live and effective.value != before.value:
            pending.append(name)
            settings[name] = before
        else:
            settings[name] = effective
    return fresh._replace(settings=settings), tuple(pending)


def _changed(old: Resolution, new: Resolution) -> list[str]:
    return [n for n, e in new.settings.items() if e.value != old.settings[n].value]


def _set(loop: AbstractEventLoop, news: Event) -> None:
    with suppress(RuntimeError):
        # RACE: a loop that is closed by now has nobody in it who waits.
        loop.call_soon_threadsafe(news.set)


_alive: weakref.WeakSet[Live[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for live in tuple(_alive):
        live._go_on_in_child()  # noqa: SLF001 - this module's own class


os.register_at_fork(after_in_child=_after_fork)
