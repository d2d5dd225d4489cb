"""Reading a process's sources again: what changed, and the last good of what cannot be read.

Overrides are read whenever it is asked for. What is configured in files is read anew where a file's
identity, size or times are others than before, or may be; a file that cannot be used leaves what it
said before in force, with one problem. What a text means is decided elsewhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from relayconf.errors import RelayconfError
from relayconf.files.which import settings_files
from relayconf.fleet.layer import fleet_layer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.reading import FleetReading, read_fleet
from relayconf.layers import Layer, Sources, configured
from relayconf.names import pointers
from relayconf.overrides.layer import override_layer
from relayconf.overrides.reading import Reader, Reading
from relayconf.problems import Problem
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM, Clock

#: A file changed twice within this may show the same times (the kernel's clock for files ticks at
#: 100 to 1000 Hz), so one that is fresher is read again.
_COARSE_NS = 50_000_000

#: Files of secrets that are looked at; a directory of more is no directory of secrets.
_MOST_SECRETS = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """What the sources say.

    Attributes:
        configured: the layers below the overrides.
        overriding: the layers of overrides: this host's, and the fleet's where there is one.
        reading: where the first comes from.
        fleet: where the second comes from.
        failure: why what is configured could not be read anew, if so.
    """

    configured: tuple[Layer, ...]
    overriding: tuple[Layer, ...]
    reading: Reading
    fleet: FleetReading | None = None
    failure: Problem | None = None

    @property
    def layers(self) -> list[Layer]:
        """All layers, low to high."""
        return [*self.configured, *self.overriding]

    def kills(self, generation: int) -> tuple[Layer, ...]:
        """Return the layers of overrides without their values, as of an earlier generation."""
        host, *fleet = (layer._replace(entries=()) for layer in self.overriding)
        return (host._replace(generation=generation), *fleet)


class Rereader:
    """The sources of one process, for one contract. Not safe across threads.

    Args:
        contract: whose settings are looked for.
        sources: where.
        fixed: layers that stand for what is configured, where that does not come from the sources.
        clock: what overrides end by.
    """

    def __init__(
        self,
        contract: Contract,
        sources: Sources,
        *,
        fixed: Sequence[Layer] | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.sources = sources
        self.has_read = fixed is not None
        self._contract = contract
        self._clock = clock
        self._fixed = fixed is not None
        self._pointers = pointers(contract)
        self._reader = Reader(sources.state_dir, group=sources.state_group)
        #: Says what the fleet says, in a process that follows it.
        self.fleet: Callable[[], FleetReading] | None = None
        self._begun = (clock.boot_id(), clock.boot_ms())
        #: What was read last of what is configured.
        self.configured: tuple[Layer, ...] = tuple(fixed or ())
        self._signature: object = None
        self._failure: Problem | None = None

    def read(self) -> Found:
        """Read everything.

        Raises:
            RelayconfError: what is configured cannot be read.
        """
        if not self._fixed:
            signature = self._sign()
            self.configured = tuple(configured(self._contract, self.sources))
            self._signature, self._failure, self.has_read = signature, None, True
        return self._found()

    def look(self) -> Found:
        """Read what may have changed; what cannot be read stays as it was."""
        signature = None if self._fixed else self._sign()
        if signature != self._signature:
            self._signature = signature
            try:
                self.configured = tuple(configured(self._contract, self.sources))
                self._failure, self.has_read = None, True
            except RelayconfError as error:
                text = f"{error}; keeping what was read before"
                self._failure = Problem("source-unreadable", self._contract.target, text, raw=text)
        return self._found()

    def directories(self) -> list[str]:
        """Return the directories whose changes are to be noticed at once: those that are there."""
        wanted = [self.sources.state_dir, self.sources.secrets_dir]
        with suppress(RelayconfError):
            wanted.extend(os.path.dirname(os.path.abspath(path)) for path in self._files())
        return sorted({path for path in wanted if path is not None and os.path.isdir(path)})

    def _found(self) -> Found:
        reading = self._reader.read()
        host = override_layer(self._contract, reading, clock=self._clock)
        options = self.sources.fleet
        if options is None:
            return Found(self.configured, (host,), reading, None, self._failure)
        fleet = self._read_fleet(options)
        layer = fleet_layer(self._contract, fleet, options, clock=self._clock)
        return Found(self.configured, (host, layer), reading, fleet, self._failure)

    def _read_fleet(self, options: FleetOptions) -> FleetReading:
        if self.fleet is not None:
            return self.fleet()
        # One that does not follow yet goes by what its host knew last.
        sources = self.sources
        return read_fleet(
            sources.state_dir,
            options,
            group=sources.state_group,
            clock=self._clock,
            since=self._begun,
        )

    def _files(self) -> Iterator[str]:
        if self._fixed:
            return
        sources = self.sources
        yield from sources.env_files
        if sources.config_dir is not None:
            yield from settings_files(sources.config_dir, sources.deployment)
        named = self._pointers
        for layer in self.configured:
            yield from (entry.text for entry in layer.entries if entry.name in named)
        yield from (sources.environ[name] for name in named if name in sources.environ)

    def _sign(self) -> object:
        """Return something that is another once a file has changed, or may have."""
        try:
            facts = [_facts(path) for path in self._files()]
            facts.extend(self._secrets())
        except (RelayconfError, OSError, ValueError) as error:
            return str(error)
        return facts

    def _secrets(self) -> Iterator[object]:
        folder = self.sources.secrets_dir
        if folder is None or not os.path.isdir(folder):
            return
        for name in sorted(os.listdir(folder))[:_MOST_SECRETS]:
            yield _facts(os.path.join(folder, name))


def _facts(path: str) -> object:
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        return path, type(error).__name__
    age = time.time_ns() - found.st_ctime_ns
    doubt = time.monotonic_ns() if abs(age) < _COARSE_NS else 0
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return path, found.st_dev, found.st_ino, found.st_size, times, doubt
