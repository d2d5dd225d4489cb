"""A change that leaves the queue stays in force until the fleet is known to have it."""

from __future__ import annotations

from itertools import count

from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.known import Known
from relayconf.fleet.lingering import Lingering
from relayconf.fleet.record import Position
from relayconf.fleet.waiting import EMPTY, Queue, Waiting
from relayconf.state.clock import Clock

KILL = Waiting(kill("A", "k1").entry)
OTHER = Waiting(kill("B", "k2").entry)


class TestLingering:
    def test_until_a_later_comparison(self) -> None:
        """It is settled by a comparison that was asked for after it had left, not by an earlier."""
        now = 1000
        lingering = Lingering(clock=Clock(lambda: 0.0, lambda: now, lambda: "boot"))
        found = []
        for at, queue, checked in (
            (1000, Queue((KILL,)), ("boot", 900)),
            (1010, EMPTY, ("boot", 900)),
            (1020, EMPTY, None),
            (1030, EMPTY, ("another", 5000)),
            (1040, EMPTY, ("boot", 1010)),
            (1050, EMPTY, ("boot", 1011)),
            (1060, EMPTY, ("boot", 900)),
        ):
            now = at
            taken = lingering.take(queue, Known(checked=checked))
            # Who holds what the server has lost is somebody else.
            lingering.release(lingering.lost)
            found.append(bool(taken.changes))
        assert [True, True, True, True, True, True, False] == found

    def test_its_place_is_before_what_waits(self) -> None:
        """What still waits was made later, and counts before it."""
        lingering = Lingering(clock=Clock(lambda: 0.0, lambda: 1000, lambda: "boot"))
        lingering.take(Queue((KILL,)), Known())
        taken = lingering.take(Queue((OTHER,)), Known())
        assert (KILL, OTHER) == taken.changes

    def test_what_was_taken_in(self) -> None:
        """A change that has come from the server is settled, on the queue or off it."""
        lingering = Lingering(clock=Clock(lambda: 0.0, lambda: 1000, lambda: "boot"))
        queue = Queue((KILL, OTHER))
        assert (OTHER,) == lingering.take(queue, Known(taken=("k1",))).changes
        assert () == lingering.take(EMPTY, Known(taken=("k1", "k2"))).changes

    def test_what_was_taken_in_behind_it(self) -> None:
        """A later change of the entry that was taken in settles it, for as long as it is there."""
        behind = Waiting(restore("A", "r1").entry)
        taken, later = Known(taken=("r1",)), Known(taken=("r1",), checked=("boot", 2000))
        for queues in (
            # The last has been taken off, and the first has not.
            ((KILL, OTHER, behind), (KILL, OTHER), (OTHER,)),
            # Both have left.
            ((OTHER,), (OTHER,), (OTHER,)),
        ):
            lingering = Lingering(clock=Clock(lambda: 0.0, lambda: 1000, lambda: "boot"))
            lingering.take(Queue((KILL, OTHER, behind)), Known())
            for queue, known in zip(queues, (taken, later, later), strict=True):
                assert (OTHER,) == lingering.take(Queue(queue), known).changes
            assert () == lingering.lost

    def test_what_was_taken_in_before_it(self) -> None:
        """An earlier change of the entry that was taken in settles nothing."""
        lingering = Lingering(clock=Clock(lambda: 0.0, lambda: 1000, lambda: "boot"))
        before = Waiting(restore("A", "r0").entry)
        lingering.take(Queue((before, KILL)), Known())
        assert (KILL,) == lingering.take(EMPTY, Known(taken=("r0",))).changes

    def test_what_comes_back(self) -> None:
        """A change that is on the queue again is there once."""
        lingering = Lingering(clock=Clock(lambda: 0.0, lambda: 1000, lambda: "boot"))
        for queue in (Queue((KILL,)), EMPTY, Queue((KILL,))):
            taken = lingering.take(queue, Known())
            assert (KILL,) == taken.changes

    def test_a_kill_that_the_server_has_lost(self) -> None:
        """It is lost where nothing is in its place; a restore behind it alone takes it away."""
        behind = Waiting(restore("A", "r1").entry)
        there = KILL.entry._replace(tombstone=True, epoch="e", revision=7, at_ms=5)
        for entries, queue, lost in (
            ((), (KILL,), True),
            ((there,), (KILL._replace(expected=Position("e", 7)),), True),
            ((there,), (KILL,), False),
            ((), (KILL, behind), False),
            ((), (behind, KILL), True),
            ((), (behind,), False),
        ):
            now = count(1000, 100)
            lingering = Lingering(clock=Clock(lambda: 0.0, now.__next__, lambda: "boot"))
            lingering.take(Queue(queue), Known())
            lingering.take(EMPTY, Known())
            known = Known(entries=entries, checked=("boot", 1500))
            left = lingering.take(EMPTY, known).changes
            assert (lost, lost) == (bool(left), bool(lingering.lost))
