"""Following: a process that keeps up with its sources, and is known to those who change them.

A thread looks more than once a second, and at once where a directory's event tells of a change:
events only wake, the look underneath is what finds. It keeps the process registered among the live
instances, says what is applied once everybody who applies anything has, and is the one to notice
the end of an override. Nothing here can stop the process: what fails is logged once, and tried
again.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from relayconf import report
from relayconf.errors import RelayconfError, StateError
from relayconf.instances.listing import Listing
from relayconf.instances.register import Instance
from relayconf.live.events import DirectoryEvents, NoEvents
from relayconf.overrides.layer import next_end_ms
from relayconf.overrides.store import Store
from relayconf.overrides.ttl import is_over
from relayconf.problems import Problem
from relayconf.settings import contract_of
from relayconf.state.clock import SYSTEM
from relayconf.state.directory import find, make
from relayconf.values import present

if TYPE_CHECKING:
    from relayconf.live.infleet import InFleet
    from relayconf.live.snapshot import Live

#: How often the sources are looked at without any event, in seconds: twice in the 1.5 s within
#: which a change acts where there is no watch.
LOOK_EVERY = 0.75


log = logging.getLogger("relayconf")


class Applier:
    """Somebody who has to act on a change before it counts as applied.

    ``applied`` is the number of the last snapshot it goes by. ``problems`` are what it could not do
    for some of what it serves, without that holding up anybody; ``refused`` are settings that it
    cannot go by at all, so that their change does not count as applied.
    """

    def __init__(self, following: Following, number: int) -> None:
        self._following = following
        self.applied = number
        self.problems: tuple[str, ...] = ()
        self.refused: tuple[str, ...] = ()

    def done(
        self, number: int, problems: tuple[str, ...] = (), *, refused: tuple[str, ...] = ()
    ) -> None:
        """Report that a snapshot is applied."""
        self.applied = max(self.applied, number)
        self.problems, self.refused = problems, refused
        self._following.live.confirm()

    def close(self) -> None:
        """Stop applying anything."""
        self._following.appliers.discard(self)
        self._following.live.confirm()


class Following:
    """One process's following of its sources. Made by ``Live.follow``.

    Attributes:
        live: whose sources they are.
        users: how many want it.
        appliers: who has to report before a snapshot counts as applied.
        directories: those whose changes call for a look, as of the last one.
        fleet: the process's part in its fleet, where it has one.
    """

    def __init__(self, live: Live[Any], *, events: bool) -> None:
        self.live = live
        self.users = 1
        self.appliers: set[Applier] = set()
        self.directories: list[str] = []
        self._events: DirectoryEvents | NoEvents = DirectoryEvents() if events else NoEvents()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._instance: Instance | None = None
        self.fleet: InFleet | None = None
        self._chores_at = 0.0

    def start(self) -> None:
        """Arm, register, then read: whatever is written from now on is seen, or was."""
        self._make_place()
        self._arm()
        self._join_fleet()
        self._sign_on()
        if self.fleet is not None:
            self.fleet.start(self._known_as())
        self.live.poke()
        self._thread = threading.Thread(target=self._run, name="relayconf-live", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    def applier(self) -> Applier:
        """Return a new applier, who goes by the snapshot in force."""
        applier = Applier(self, self.live.snapshot.number)
        self.appliers.add(applier)
        return applier

    def stop(self) -> None:
        """End the thread and sign off."""
        atexit.unregister(self._leave)
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(LOOK_EVERY)
        self._leave()
        self._events.close()

    def acknowledge(self) -> None:
        """Say what is applied, where everybody has applied it. The live settings' lock is held."""
        instance, live, fleet = self._instance, self.live, self.fleet
        here = instance is not None and instance.registered
        if not here and fleet is None:
            return
        snapshot = live.snapshot
        facts: dict[str, Any] = {
            "pending_restart": list(snapshot.pending),
            "problems": self._problems(),
            "refused": sorted({name for each in tuple(self.appliers) for name in each.refused}),
            "flags": _flags(live),
        }
        late = any(applier.applied < snapshot.number for applier in tuple(self.appliers))
        if fleet is not None:
            applied = not late and not live.subscribers.deaf
            fleet.acknowledge(self._known_as(), facts, applied=applied)
            facts.update(fleet.facts(live.fleet))
        if instance is None or not here:
            return
        try:
            if live.subscribers.deaf:
                instance.say(**facts)
            elif not late:
                instance.acknowledge(live.generation, live.written, **facts)
        except OSError as error:
            if instance.is_lost():
                return
            self._complain(f"what is applied cannot be acknowledged: {error.strerror or error}")

    def go_on_in_child(self) -> None:
        """Begin anew in a forked child: another instance, another thread, nobody else to apply."""
        if self._instance is not None:
            self._instance.abandon()
        if self.fleet is not None:
            self.fleet.abandon()
        self._events.abandon()
        self._events = DirectoryEvents()
        self._stop = threading.Event()
        self.appliers = set()
        self.start()

    def _leave(self) -> None:
        fleet, self.fleet = self.fleet, None
        if fleet is not None:
            fleet.stop()
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.sign_off()

    def _join_fleet(self) -> None:
        options, earlier = self.live.sources.fleet, self.fleet
        if options is not None:
            from relayconf.live.infleet import InFleet  # noqa: PLC0415 - only where there is one

            self.fleet = InFleet(self.live, options, forked_from=earlier)

    def _known_as(self) -> Instance | None:
        instance = self._instance
        return instance if instance is not None and instance.registered else None

    def _run(self) -> None:
        while not self._stop.is_set():
            self._events.wait(self._pause(), self._stop)
            if self._stop.is_set():
                return
            try:
                self._turn()
            except Exception:
                # Nobody foresaw it; whatever it is, the next look may get past it.
                log.exception("following the settings failed; trying again")
                self._stop.wait(LOOK_EVERY)

    def _turn(self) -> None:
        self.live.poke()
        if self.fleet is not None:
            self.fleet.follower.nudge()
        self._tend()
        if time.monotonic() >= self._chores_at:
            self._chores_at = time.monotonic() + LOOK_EVERY * 0.9
            self._do_chores()

    def _pause(self) -> float:
        reading = self.live.reading
        ends = [None if reading is None else next_end_ms(reading.document, SYSTEM)]
        if self.fleet is not None:
            ends.append(self.fleet.next_end_ms())
        return min([LOOK_EVERY, *(end / 1000 + 0.001 for end in ends if end is not None)])

    def _do_chores(self) -> None:
        self._arm()
        with self.live.turn():
            if self._instance is None or self._instance.is_lost():
                self._sign_on()
                self.live.poke()
            else:
                self._touch(self._instance)

    def _touch(self, instance: Instance) -> None:
        try:
            instance.touch()
        except OSError as error:
            self._complain(f"this process's entry cannot be written: {error.strerror or error}")

    def _arm(self) -> None:
        self.directories = self.live.directories
        self._events.arm(self.directories)

    def _tend(self) -> None:
        """Remove what has ended, and put back what was emptied away."""
        try:
            if self._changed_store():
                self.live.poke()
        except (RelayconfError, OSError) as error:
            # Another process may, or this one the next time; until then the overrides are obeyed.
            self._complain(str(error))

    def _changed_store(self) -> bool:
        reading, path = self.live.reading, self.live.sources.state_dir
        if reading is None or path is None:
            return False
        ended = any(is_over(override.end, SYSTEM) for override in reading.document.overrides)
        emptied = reading.source == "kept" and reading.document.overrides
        if not ended and not emptied:
            return False
        directory = find(path, group=self.live.sources.state_group)
        if directory is None:
            return False
        try:
            store = Store(directory)
            return store.expire() if ended else store.put_back(reading.document)
        finally:
            directory.close()

    def _make_place(self) -> None:
        sources = self.live.sources
        if sources.state_dir is not None:
            try:
                make(sources.state_dir, group=sources.state_group).close()
            except StateError as error:
                self._complain(str(error))

    def _sign_on(self) -> None:
        sources = self.live.sources
        if sources.state_dir is None:
            return
        before = self._instance
        contract = contract_of(type(self.live.current))
        instance = Instance(sources.state_dir, contract, group=sources.state_group)
        try:
            instance.sign_on()
            self._bury(sources.state_dir)
        except StateError as error:
            self._complain(str(error))
        self._instance = instance
        if before is not None:
            # Only now, so that at no instant one that cannot register seems not to be there.
            before.abandon()

    def _bury(self, path: str) -> None:
        """Remove what dead instances have left, so that one that is restarted often leaves little.

        Raises:
            StateError: the state directory cannot be used.
        """
        directory = find(path, group=self.live.sources.state_group)
        if directory is not None:
            listing = Listing(directory)
            if self.fleet is not None:
                for instance in listing.dead():
                    self.fleet.follower.bury(instance)
            listing.bury()
            directory.close()

    def _problems(self) -> list[str]:
        severe = [p.line() for p in self.live.problems if p.severity == "error"]
        severe.extend("a subscriber failed" for _ in self.live.subscribers.deaf)
        for applier in tuple(self.appliers):
            severe.extend(applier.problems)
        return severe

    def _complain(self, text: str) -> None:
        report.once([Problem("state-directory", "overrides.json", text, raw=text)])


def _flags(live: Live[Any]) -> dict[str, Any]:
    return {
        name: {
            "value": present(effective.setting, effective.value),
            "layer": effective.layer,
            "status": effective.status,
        }
        for name, effective in live.snapshot.resolution.settings.items()
        if effective.setting.flag is not None
    }
