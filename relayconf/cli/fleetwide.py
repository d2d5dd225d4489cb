"""What kill, set and restore do where there is a fleet: here at once, then the server, then proof.

A change is queued in the state directory first, so that the processes of this host act on it
whatever the server does, and a command that dies half-way is finished by whoever comes next, under
the same id. Then it is written to the server, and taken off the queue once it stands there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from relayconf.cli.because import seconds_to_wait
from relayconf.cli.changing import Desk, made
from relayconf.cli.lookout import Lookout
from relayconf.errors import RelayconfError, WriteError
from relayconf.fleet.changing import Submitted, change_of, puts, restores
from relayconf.fleet.ended import ended
from relayconf.fleet.engine import Change, Durability
from relayconf.fleet.merging import take_off
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pending import Pending
from relayconf.fleet.proof import FleetProof, Proving
from relayconf.fleet.reading import FleetReading
from relayconf.fleet.record import EVERYWHERE, NOWHERE, Key, Position, Scope
from relayconf.fleet.session import Session
from relayconf.fleet.waiting import find
from relayconf.instances.listing import Listing, Seen
from relayconf.instances.waiting import NOT_BY_ALL
from relayconf.overrides.changes import Assignment, Because

#: How often a change is made anew because another one came between.
_ATTEMPTS = 8

#: Between two looks while waiting, in seconds: the first, and the longest.
_FIRST_LOOK, _LONGEST_LOOK = 0.01, 0.25

#: How long the processes of this host are looked at while the server is away, in seconds.
_MOMENT = 1.0

#: Beyond two heartbeats, how long an instance may take to find a server that was emptied.
_COMING_BACK = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a command asks of the fleet.

    Attributes:
        kind: ``kill``, ``set`` or ``restore``.
        because: who and why.
        scope: whom it is for; for a restore ``None`` means whomever an entry is for.
        assignments: what is killed or set.
        wanted: whether the setting of a target and a name is to be restored.
        named: the settings that were named, which are restored even where nothing is known of them.
        everything: a setting's value is restored along with its kill.
    """

    kind: str
    because: Because
    scope: Scope | None = None
    assignments: tuple[Assignment, ...] = ()
    wanted: Callable[[str, str], bool] = lambda _target, _name: False
    named: tuple[Key, ...] = ()
    everything: bool = False

    def changes(self, seen: FleetReading) -> list[Change]:
        """Return the changes that bring it about, given what is known."""
        if self.kind == "restore":
            return restores(self._keys(seen), self.because, seen=seen)
        scope = self.scope or EVERYWHERE
        return puts(self.kind, self.assignments, self.because, scope=scope, seen=seen)

    def _keys(self, seen: FleetReading) -> list[Key]:
        """Return what is restored: kills first, and with ``everything`` values too."""
        found = [
            entry.key
            for entry in seen.entries
            if self.wanted(*entry.key[:2]) and self.scope in (None, entry.scope)
        ]
        killed = {key[:2] for key in found if key[2] == "kill"}
        chosen = [k for k in found if self.everything or k[2] == "kill" or k[:2] not in killed]
        known = {key[:2] for key in found}
        chosen.extend(key for key in self.named if key[:2] not in known)
        return list(dict.fromkeys(chosen))


@dataclass(slots=True)
class Errand:
    """One command's dealings with the fleet, and what came of them.

    Attributes:
        options: how the fleet is reached.
        wish: what is asked for.
        lookout: what is known of the fleet.
        changes: what is to be written.
        written: what became of those that the server has answered for, by id.
        waiting: those that it has not.
        queued: whether they are kept on this host until the server has them.
        alarms: what went wrong without stopping it.
        proof: who has applied the changes; ``None`` where the server could not be asked.
    """

    options: FleetOptions
    wish: Wish
    lookout: Lookout
    changes: list[Change] = field(default_factory=list)
    written: dict[str, Submitted] = field(default_factory=dict)
    waiting: list[Change] = field(default_factory=list)
    queued: bool = False
    alarms: list[str] = field(default_factory=list)
    proof: FleetProof | None = None

    @property
    def unavailable(self) -> str | None:
        """Why the server cannot be asked; ``None`` where it answered last."""
        return self.lookout.unavailable

    @property
    def position(self) -> Position:
        """What an instance has to have applied: the last of the changes."""
        done = [s.outcome for s in self.written.values() if s.outcome is not None]
        if not done:
            return NOWHERE
        last = max(done, key=lambda outcome: outcome.revision)
        return last.standing.position._replace(revision=last.revision)

    @property
    def refused(self) -> list[str]:
        """Why changes were not written although the server could be asked."""
        return [s.refused for s in self.written.values() if s.refused is not None]

    @property
    def durability(self) -> Durability | None:
        """The least that any of the changes has reached."""
        reached = [s.outcome.durability for s in self.written.values() if s.outcome is not None]
        return min(reached, key=lambda d: (bool(d.on_disk), d.replicas or 0), default=None)

    @property
    def is_safe(self) -> bool:
        """Whether the changes have reached what ``RELAYCONF_FLEET_DURABILITY`` asks for."""
        reached, wanted = self.durability, self.options.durability
        if wanted == "memory" or reached is None:
            return True
        return bool(reached.on_disk) if wanted == "disk" else bool(reached.replicas)

    @property
    def lifted(self) -> set[tuple[str, str]]:
        """The targets and names that the changes restore."""
        return {c.entry.key[:2] for c in self.changes if c.entry.tombstone}

    @property
    def keys(self) -> list[Key]:
        """The entries that the changes are about."""
        return [change.entry.key for change in self.changes]


def carry_out(
    desk: Desk, options: FleetOptions, arguments: argparse.Namespace, wish: Wish
) -> Errand:
    """Bring a wish about on the fleet, and prove it where that is asked for.

    Raises:
        WriteError: it could be written nowhere, or another change stands in its way.
        RelayconfError: the time to wait cannot be read.
    """
    seconds = seconds_to_wait(arguments)
    lookout = Lookout(desk.path, desk.group, options)
    errand = Errand(options, wish, lookout)
    with Session(options) as session:
        # A kill does not wait for the server to be asked first: it wins whatever that says.
        if arguments.dry_run or wish.kind != "kill":
            lookout.ask(session)
        errand.changes = errand.waiting = wish.changes(lookout.reading)
        if arguments.dry_run or not errand.changes:
            _look(desk, session, errand)
            return errand
        until = time.monotonic() + (seconds or 0)
        _queue(desk, errand)
        _write(desk, session, errand)
        if errand.refused:
            raise WriteError(f"{'; '.join(errand.refused)}; nothing was changed")
        if errand.unavailable is not None and not errand.queued:
            raise WriteError(f"{errand.unavailable}; {errand.alarms[-1]}; nothing was changed")
        if seconds is not None:
            _wait(desk, session, errand, until)
        elif errand.unavailable is None:
            _look(desk, session, errand)
        if errand.unavailable is not None and errand.waiting:
            _look_here(desk, errand)
    return errand


def _queue(desk: Desk, errand: Errand) -> None:
    """Keep the changes on this host, where that is possible; its processes act on them at once."""
    try:
        desk.directory = desk.directory or made(desk)
        Pending(desk.directory).add(errand.changes)
        errand.queued = True
    except (OSError, RelayconfError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        errand.alarms.append(f"the change cannot be kept on this host: {reason}")


def _write(desk: Desk, session: Session, errand: Errand) -> None:
    """Write what waits, what earlier commands have left first."""
    lookout = errand.lookout
    with lookout.available():
        _sign_off_the_dead(desk, session)
        _replay(desk, session, errand)
        for _ in range(_ATTEMPTS):
            after_ms = lookout.latest_ms
            answers = [session.submit(replace(c, after_ms=after_ms)) for c in errand.waiting]
            errand.written.update({answer.change.id: answer for answer in answers})
            if not errand.refused:
                break
            # RACE: another command came between. The same is asked for again, on top of it.
            if not lookout.ask(session):
                return
            _begin_again(desk, errand)
        errand.waiting = []
    if errand.unavailable is None:
        _take_off(desk, errand, list(errand.written))


def _begin_again(desk: Desk, errand: Errand) -> None:
    """Make the changes that were refused anew, in view of what is there now."""
    old = [change.id for change in errand.changes]
    errand.written.clear()
    errand.changes = errand.waiting = errand.wish.changes(errand.lookout.reading)
    _queue(desk, errand)
    _take_off(desk, errand, old)


def _replay(desk: Desk, session: Session, errand: Errand) -> None:
    """Write what earlier commands could not; whoever follows on this host does the same."""
    if desk.directory is None:
        return
    own = {change.id for change in errand.changes}
    pending = Pending(desk.directory)
    for earlier in pending.read():
        # It builds upon those before it, which have just been taken off.
        waits = find(pending.read(), earlier.id)
        if waits is None or waits.id in own:
            continue
        change = replace(change_of(waits), after_ms=errand.lookout.latest_ms)
        answer = session.submit(change, overtakes=pending.overtake)
        if answer.refused is not None:
            errand.alarms.append(f"an earlier change was not merged: {answer.refused}")
        with _writing(errand):
            take_off(pending, waits, answer)


def _take_off(desk: Desk, errand: Errand, ids: Sequence[str]) -> None:
    if desk.directory is None:
        return
    with _writing(errand):
        Pending(desk.directory).remove(ids)
        errand.queued = bool(errand.waiting)


@contextmanager
def _writing(errand: Errand) -> Iterator[None]:
    try:
        yield
    except (OSError, RelayconfError) as error:
        # It is merged a second time, under the same id, which changes nothing.
        reason = getattr(error, "strerror", None) or str(error)
        errand.alarms.append(f"the queue cannot be written: {reason}")


def _sign_off_the_dead(desk: Desk, session: Session) -> None:
    """Take this host's dead off the list: that they are dead is known here, and only here."""
    if desk.directory is None:
        return
    listing = Listing(desk.directory)
    for instance in listing.dead():
        session.sign_off(instance)
    listing.bury()


def _wait(desk: Desk, session: Session, errand: Errand, until: float) -> None:
    """Wait until all have applied it, or the time is over; a server that is away may come back."""
    pause = _FIRST_LOOK
    settled = time.monotonic() + _settling(errand)
    while True:
        if errand.waiting:
            _write(desk, session, errand)
            settled = time.monotonic() + _settling(errand)
        if not errand.waiting:
            _look(desk, session, errand, settling=time.monotonic() < settled)
        proof = errand.proof
        settled_now = proof is not None and (proof.code != NOT_BY_ALL or proof.over)
        if errand.unavailable is None and settled_now:
            return
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_LOOK)


def _look_here(desk: Desk, errand: Errand) -> None:
    """See who on this host acts on what waits; they do so within a moment."""
    if desk.directory is None:
        return
    listing, proving = Listing(desk.directory), Proving(errand.keys, NOWHERE)
    waiting = [change.id for change in errand.waiting]
    until = time.monotonic() + _MOMENT
    while True:
        errand.proof = proving.here(listing.live(), waiting)
        if not errand.proof.missing or time.monotonic() >= until:
            return
        time.sleep(_FIRST_LOOK)


def _settling(errand: Errand) -> float:
    """Return for how long instances may still be missing from a list that was emptied."""
    if errand.position.revision > len(errand.changes) and not errand.lookout.lost:
        return 0.0
    return 2 * errand.options.heartbeat_ms / 1000 + _COMING_BACK


def _look(desk: Desk, session: Session, errand: Errand, *, settling: bool = False) -> None:
    """See who has applied the changes."""
    live: list[Seen] = []
    dead: list[str] = []
    listing = None if desk.directory is None else Listing(desk.directory)
    if listing is not None:
        live, dead = listing.live(), listing.dead()
    errand.proof = None
    with errand.lookout.available():
        records = session.instances()
        over = [] if listing is None else ended(listing, records)
        for instance in over:
            session.sign_off(instance)
        records = [record for record in records if record.id not in over]
        errand.lookout.standing = standing = session.snapshot().standing
        proving = Proving(errand.keys, errand.position, lifted=errand.lifted)
        errand.proof = proving.look(records, standing, live, dead, settling=settling)
