"""Live settings: an immutable, numbered snapshot behind one reference.

Reading a value is an attribute read: ``live.current.poll``. A change builds a whole new snapshot,
then swaps the reference, then calls the subscribers in order; a reader never sees half of a change.
A setting that does not apply live keeps its value until the next start and is reported as pending.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from relayconf import report
from relayconf.layers import Sources, collect
from relayconf.process import read_process
from relayconf.resolve import Effective, Resolution, resolve
from relayconf.settings import Settings, contract_of

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """One complete state of a process's settings.

    Attributes:
        number: 1 for the first, and one more for each swap.
        settings: the typed values.
        resolution: the same values with their reasons.
        pending: names whose change waits for the next start.
    """

    number: int
    settings: S
    resolution: Resolution
    pending: tuple[str, ...] = ()


Subscriber = Callable[[Snapshot[S], Snapshot[S]], None]


class Live(Generic[S]):
    """The current settings of a process, and the way to change them.

    Guarantees: ``current`` and ``snapshot`` are each replaced by one store, after everything in the
    new ones is built; a reload that raises changes nothing; subscribers run one swap at a time, in
    the order of subscription, in the thread that reloads.
    Non-guarantees: two reads of ``current`` may see two snapshots; keep one where values belong
    together.
    """

    current: S
    snapshot: Snapshot[S]

    def __init__(self, snapshot: Snapshot[S], sources: Sources) -> None:
        self.snapshot = snapshot
        self.current = snapshot.settings
        self._sources = sources
        self._subscribers: list[Subscriber[S]] = []
        self._swapping = threading.RLock()

    def subscribe(self, callback: Subscriber[S]) -> Callable[[], None]:
        """Call ``callback(old, new)`` after each swap; the returned function ends that."""
        with self._swapping:
            self._subscribers.append(callback)

        def unsubscribe() -> None:
            with self._swapping:
                if callback in self._subscribers:
                    self._subscribers.remove(callback)

        return unsubscribe

    def reload(self, sources: Sources | None = None) -> Snapshot[S]:
        """Read the sources again, or new ones, and swap where a value or its reason changed.

        Returns:
            The snapshot now in force.

        Raises:
            SourceError: a file cannot be read or parsed; the last good snapshot stays in force.
            InvalidSettingsError: the class's own validators refuse; likewise.
        """
        with self._swapping:
            cls = type(self.current)
            sources = self._sources if sources is None else sources
            contract = contract_of(cls)
            fresh = resolve(contract, collect(contract, sources))
            report.once(fresh.problems)
            old = self.snapshot
            resolution, pending = _hold_back(old.resolution, fresh)
            self._sources = sources
            if resolution.settings == old.resolution.settings and pending == old.pending:
                return old
            return self._swap(resolution, pending)

    def put(self, resolution: Resolution, sources: Sources) -> Snapshot[S]:
        """Put a resolution in force as a whole, restart-only settings too, as tests need it.

        Args:
            resolution: of this class's contract.
            sources: what later reloads read.

        Raises:
            InvalidSettingsError: the class's own validators refuse; nothing changes.
        """
        with self._swapping:
            snapshot = self._swap(resolution, ())
            self._sources = sources
            return snapshot

    @property
    def sources(self) -> Sources:
        """Where the values are read."""
        return self._sources

    def _swap(self, resolution: Resolution, pending: tuple[str, ...]) -> Snapshot[S]:
        old = self.snapshot
        settings = type(self.current).from_resolution(resolution)
        new = Snapshot(old.number + 1, settings, resolution, pending)
        self.snapshot = new
        self.current = settings
        for callback in tuple(self._subscribers):
            callback(old, new)
        return new


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
    resolution = resolve(contract, collect(contract, sources))
    if strict:
        report.refuse(resolution.problems)
    report.once(resolution.problems)
    return Live(Snapshot(1, cls.from_resolution(resolution), resolution), sources)


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
