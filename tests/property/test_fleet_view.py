"""The view against a server that loses everything it can: no kill that was seen is ever dropped.

A server in memory is written to, flushed, brought back from older copies and trimmed; readers ask
it, and their answers come late or never. Time is simulated.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from relayconf.fleet import lastgood
from relayconf.fleet.engine import Change
from relayconf.fleet.known import Known
from relayconf.fleet.memory import MemoryServer
from relayconf.fleet.record import FleetEntry, Key, Position
from relayconf.fleet.view import Next, View
from relayconf.overrides.document import Override
from relayconf.state.clock import Clock

HEARTBEAT = 1000
NAMES = ("A", "B")
READERS = (0, 1)


def entry_of(name: str, kind: str, change: str, *, tombstone: bool = False) -> FleetEntry:
    override = Override(change, "t", name, kind, "1", store="fleet")
    return FleetEntry(override, tombstone=tombstone)


class Reader:
    """One process: a view, the file on its host, and at most one question under way."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.next = Next.SNAPSHOT
        self.answer: tuple[str, Any, Any] | None = None
        #: The kills that were seen in force: key to change id.
        self.seen: dict[Key, set[str]] = {}


class Fleet(RuleBasedStateMachine):
    """A server with two readers on one host."""

    @initialize(skew=st.integers(-5000, 5000))
    def start(self, skew: int) -> None:
        """Start the server, and two readers on one host."""
        self.now = 1_000_000
        self.skew = skew
        self.epochs = 0
        self.changes = 0
        self.server = MemoryServer(now_ms=lambda: self.now + self.skew, new_epoch=self.new_epoch)
        self.clock = Clock(lambda: self.now / 1000, lambda: self.now, lambda: "boot")
        self.file = lastgood.render(Known())
        self.readers = [Reader(self.new_view()) for _ in READERS]
        self.dumps: list[Any] = []
        #: Where the server stood, and until when; the last one still.
        self.stood: list[tuple[Position, float]] = [(Position(), float("inf"))]
        #: What may take a kill out of force: key to the ordinals of such changes; and of each kill.
        self.made: dict[str, int] = {}
        #: By the server's clock.
        self.ends: dict[str, int] = {}
        self.releases: dict[Key, int] = {}

    def new_epoch(self) -> str:
        """Name another history."""
        self.epochs += 1
        return f"epoch{self.epochs}"

    def new_view(self) -> View:
        """Return what a process that starts knows."""
        known = lastgood.parse(self.file)
        return View(known, heartbeat_ms=HEARTBEAT, clock=self.clock)

    def note_server(self) -> None:
        """Note where the server stands, and until when it stood elsewhere."""
        position = self.server.standing().position
        last, _ = self.stood[-1]
        if position != last:
            self.stood[-1] = (last, self.now)
            self.stood.append((position, float("inf")))

    def write(self, entry: FleetEntry, ttl_ms: int | None = None, after_ms: int = 0) -> None:
        """Write an entry, in view of whatever stands there, as a command does."""
        there = [i for i in self.server.snapshot().items if i.body["name"] == entry.override.name]
        kind = entry.override.kind
        position = next((i.position for i in there if i.body["kind"] == kind), Position())
        outcome = self.server.change(Change(entry.override.id, entry, position, ttl_ms, after_ms))
        assert outcome.accepted
        self.note_server()
        self.changes += 1
        if entry.override.kind == "kill":
            self.releases[entry.key] = self.changes
            self.made[entry.override.id] = self.changes
            if ttl_ms is not None:
                self.ends[entry.override.id] = self.now + self.skew + ttl_ms
        # No two changes in one millisecond: who came first is then told by the revision alone.
        self.now += 1

    @rule(name=st.sampled_from(NAMES), ttl_ms=st.none() | st.integers(1, 8000))
    def kill(self, name: str, ttl_ms: int | None) -> None:
        """Kill, perhaps for a time."""
        self.write(entry_of(name, "kill", f"k{self.changes}"), ttl_ms)

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(("restore", "set")))
    def change(self, name: str, kind: str) -> None:
        """Restore what was killed, or set a value."""
        if kind == "set":
            self.write(entry_of(name, "set", f"s{self.changes}"))
        else:
            self.write(entry_of(name, "kill", f"r{self.changes}", tombstone=True))

    @rule(keep=st.integers(-1, 2))
    def lose(self, keep: int) -> None:
        """Lose everything, or forget changes."""
        if keep < 0:
            self.server.flush()
            self.note_server()
        else:
            self.server.trim(keep)

    @rule()
    def save(self) -> None:
        """Copy the server."""
        self.dumps.append(self.server.dump())

    @precondition(lambda self: self.dumps)
    @rule(data=st.data())
    def come_back_from_dump(self, data: st.DataObject) -> None:
        """Come back from some copy, as after a failover or a restart."""
        self.server.restore(data.draw(st.sampled_from(self.dumps)))
        self.note_server()

    @rule(ms=st.integers(1, 3000), step=st.sampled_from((0, 0, 2500)))
    def let_time_pass(self, ms: int, step: int) -> None:
        """Let time pass; the server's clock may be set forward."""
        self.now += ms
        self.skew += step

    @rule(number=st.sampled_from(READERS), compare=st.booleans())
    def ask(self, number: int, compare: bool) -> None:  # noqa: FBT001 - drawn
        """Ask what the reader is to ask next."""
        reader = self.readers[number]
        if reader.answer is not None:
            return
        moment = reader.view.moment()
        position = reader.view.known.position
        if reader.next is Next.SNAPSHOT:
            reader.answer = ("snapshot", self.server.snapshot(position), moment)
        elif compare:
            reader.answer = ("compare", self.server.standing(), moment)
        else:
            reader.answer = ("follow", self.server.after(position.revision), moment)

    @rule(number=st.sampled_from(READERS), repeated=st.booleans())
    def deliver(self, number: int, repeated: bool) -> None:  # noqa: FBT001 - drawn
        """Deliver the answer, now; perhaps twice."""
        reader = self.readers[number]
        if reader.answer is None:
            return
        (kind, answer, moment), reader.answer = reader.answer, None
        if kind == "snapshot":
            reader.view.take_snapshot(answer, moment)
            reader.next = Next.FOLLOW
        elif kind == "compare":
            reader.next = reader.view.compare(answer, moment)
        else:
            reader.next = reader.view.take(answer)
            if repeated and reader.next is Next.FOLLOW and answer:
                reader.next = reader.view.take(answer)
                assert reader.next is Next.SNAPSHOT
        self.see(reader)

    @rule(number=st.sampled_from(READERS))
    def talk(self, number: int) -> None:
        """Ask and answer without delay, as long as there is something to ask."""
        for compare in (True, False, True):
            self.ask(number, compare)
            self.deliver(number, repeated=False)

    @rule(rounds=st.integers(1, 5))
    def heartbeats(self, rounds: int) -> None:
        """Let both readers go on as they do when nothing is wrong."""
        for _ in range(rounds):
            for number in READERS:
                self.talk(number)
            self.now += HEARTBEAT

    @rule(number=st.sampled_from(READERS), ms=st.integers(0, 2500), name=st.sampled_from(NAMES))
    def talk_late(self, number: int, ms: int, name: str) -> None:
        """Get an answer that something was written after."""
        self.ask(number, compare=True)
        self.kill(name, None)
        self.now += ms
        self.deliver(number, repeated=False)

    @rule(number=st.sampled_from(READERS))
    def lose_connection(self, number: int) -> None:
        """Lose the question, and begin anew."""
        reader = self.readers[number]
        reader.answer, reader.next = None, Next.SNAPSHOT

    @rule(number=st.sampled_from(READERS))
    def keep_file(self, number: int) -> None:
        """Write the last good file."""
        view = self.readers[number].view
        view.absorb(lastgood.parse(self.file))
        self.file = lastgood.render(view.known)
        self.see(self.readers[number])

    @rule(number=st.sampled_from(READERS))
    def restart(self, number: int) -> None:
        """Come back with what the file says, after having kept it."""
        self.keep_file(number)
        seen = self.readers[number].seen
        self.readers[number] = Reader(self.new_view())
        self.readers[number].seen = seen

    def see(self, reader: Reader) -> None:
        """Note which kills are in force."""
        for entry in reader.view.known.in_force(self.clock):
            if entry.is_kill:
                reader.seen.setdefault(entry.key, set()).add(entry.override.id)

    @invariant()
    def no_kill_is_dropped(self) -> None:
        """A kill that was seen stays until its release or its end."""
        for reader in getattr(self, "readers", ()):
            in_force = {e.key for e in reader.view.known.in_force(self.clock) if e.is_kill}
            for key, ids in reader.seen.items():
                if key in in_force:
                    continue
                for change in ids:
                    released = self.releases[key] > self.made[change]
                    ended = self.ends.get(change, float("inf")) <= self.now + self.skew
                    assert released or ended, f"{change} of {key} was dropped"

    @invariant()
    def fresh_means_two_heartbeats(self) -> None:
        """Who is fresh knows what held within two heartbeats."""
        for reader in getattr(self, "readers", ()):
            if reader.view.known.is_fresh(self.clock):
                position = reader.view.known.position
                until = [end for stood, end in self.stood if stood == position]
                assert until, f"the server never stood at {position}"
                assert max(until) >= self.now - 2 * HEARTBEAT, "fresh, and further behind"

    def teardown(self) -> None:
        """In the end, who can talk again knows what the server knows, and a restore restores."""
        readers = getattr(self, "readers", ())
        for reader in readers:
            reader.view.take_snapshot(self.server.snapshot(), reader.view.moment())
            if self.server.standing().position.epoch:
                items = self.server.snapshot().items
                known = {entry.revision for entry in reader.view.known.entries}
                assert {item.position.revision for item in items} == known
                assert reader.view.known.is_fresh(self.clock)
        for name in NAMES if readers else ():
            latest = max(reader.view.known.latest_ms for reader in readers)
            tombstone = entry_of(name, "kill", f"r{self.changes}", tombstone=True)
            self.write(tombstone, after_ms=latest)
        for reader in readers:
            reader.view.take_snapshot(self.server.snapshot(), reader.view.moment())
            assert not [e for e in reader.view.known.in_force(self.clock) if e.is_kill]


Fleet.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestFleet = Fleet.TestCase
