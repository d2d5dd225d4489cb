"""What this host knows of its fleet, and what the server says where it can be asked.

A command never writes what it has learned: whoever follows on this host does, and a command may be
run by another user, or with other settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from relayconf.errors import FleetUnavailable
from relayconf.fleet.engine import Standing
from relayconf.fleet.layer import fleet_layer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.reading import FleetReading, read_files, reading_of
from relayconf.fleet.session import Session
from relayconf.fleet.view import View
from relayconf.layers import Layer, Sources
from relayconf.problems import Problem
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM, Clock


class Lookout:
    """One command's knowledge of the fleet.

    Args:
        path: the state directory; ``None`` where there is none.
        group: the group that shares it.
        options: how the fleet is reached.
        for_owner: see ``relayconf.state.directory.find``.
        clock: of this host.

    Attributes:
        host: what this host knew when the command began.
        reading: the same, with what the server has said since.
        standing: where the server stood when it was asked last; ``None`` where it was not reached.
        unavailable: why it cannot be asked; ``None`` where it answered last.
    """

    def __init__(
        self,
        path: str | None,
        group: str | None,
        options: FleetOptions,
        *,
        for_owner: bool = True,
        clock: Clock = SYSTEM,
    ) -> None:
        self._options = options
        self._clock = clock
        known, self._queue, self._faults = read_files(path, group=group, for_owner=for_owner)
        self._view = View(known, heartbeat_ms=known.heartbeat_ms, clock=clock)
        self.known = known
        self.host = self.reading = self._read()
        self.standing: Standing | None = None
        self.unavailable: str | None = None

    def ask(self, session: Session) -> bool:
        """Take in what the server has; tell whether it could be asked."""
        with self.available():
            asked = self._view.moment()
            snapshot = session.snapshot(self._view.known.position)
            self._view.take_snapshot(snapshot, asked)
            self.standing = snapshot.standing
            self.reading = self._read()
        return self.unavailable is None

    @contextmanager
    def available(self) -> Iterator[None]:
        """Note whether the server can be asked, instead of raising."""
        try:
            yield
        except FleetUnavailable as error:
            self.unavailable = str(error)
        else:
            self.unavailable = None

    @property
    def latest_ms(self) -> int:
        """The server's time of the newest entry that is known here."""
        return self._view.known.latest_ms

    @property
    def remarks(self) -> list[str]:
        """What the server's answer has shown to be wrong."""
        return self._view.remarks

    @property
    def lost(self) -> bool:
        """Whether the server is known to have lost what this host knows."""
        known, standing = self.known.position, self.standing
        if standing is None or not known.epoch:
            return False
        now = standing.position
        return now.epoch != known.epoch or now.revision < known.revision or bool(self.remarks)

    def _read(self) -> FleetReading:
        return reading_of(
            self._view.known, self._queue, self._options, clock=self._clock, faults=self._faults
        )


def asked_layer(contract: Contract, sources: Sources, options: FleetOptions) -> Layer:
    """Return the fleet's layer for a command that is about to start, the server asked first.

    Where it cannot be asked the host's own knowledge has to do, with a problem that says so.
    """
    lookout = Lookout(sources.state_dir, sources.state_group, options, for_owner=False)
    with Session(options) as session:
        lookout.ask(session)
    layer = fleet_layer(contract, lookout.reading, options)
    if lookout.unavailable is None:
        return layer
    text = f"{lookout.unavailable}; going by what this host knew of the fleet"
    problem = Problem("fleet-unavailable", "fleet", text, raw=text)
    return layer._replace(problems=(*layer.problems, problem))
