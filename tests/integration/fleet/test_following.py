"""A process that follows its fleet: from the change on the server to the value in the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import pytest

from relayconf.declare import AppliesLive, Doc, Env, Flag
from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.engine import Change, InstanceRecord
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pending import Pending
from relayconf.fleet.record import NOWHERE, Position
from relayconf.fleet.session import Session
from relayconf.layers import Sources
from relayconf.live.snapshot import Live, load
from relayconf.settings import Settings
from relayconf.state.directory import make
from tests.servers.fleetserver import FleetServer

PATIENCE = 30.0


class AppSettings(Settings, target="target", prefix="APP_"):
    """A service with a flag and a number."""

    fast: Annotated[
        bool,
        Env("APP_FAST"),
        Flag(kind="kill-switch", kill=False, owner="app", why="permanent"),
        AppliesLive(),
        Doc("Fast."),
    ] = True
    number: Annotated[int, Env("APP_NUMBER"), AppliesLive(), Doc("Number.")] = 1


def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Fleet:
    """A server, and a state directory with what follows in it."""

    def __init__(self, folder: Path) -> None:
        self.server = FleetServer(folder / "server")
        self.server.start()
        self.state = folder / "state"
        self.options = FleetOptions(self.server.url, heartbeat_ms=200, timeout_ms=1000)
        self.lives: list[Live[AppSettings]] = []

    def start(self, **changes: Any) -> Live[AppSettings]:
        """Return a process's settings, which follow from now on."""
        options = self.options._replace(**changes)
        live = load(AppSettings, Sources({}, state_dir=str(self.state), fleet=options))
        self.lives.append(live)
        live.follow()
        return live

    def write(self, change: Change) -> Position:
        """Write a change on top of what is there."""
        with Session(self.options._replace(timeout_ms=10_000)) as session:
            items = session.snapshot().items
            name, kind = change.entry.override.name, change.entry.override.kind
            there = [i.position for i in items if (i.body["name"], i.body["kind"]) == (name, kind)]
            submitted = session.submit(replace(change, expected=[*there, NOWHERE][0]))
            assert submitted.outcome
            assert submitted.refused is None
            return submitted.outcome.standing.position

    def instances(self) -> list[InstanceRecord]:
        """Return who is on the list."""
        with Session(self.options._replace(timeout_ms=10_000)) as session:
            return list(session.instances())

    def close(self) -> None:
        """End everything."""
        for live in self.lives:
            live.close()
        self.server.kill()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Return a fleet."""
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.close()


KILL, RESTORE = kill("APP_FAST", "k1"), restore("APP_FAST", "r1")


class TestProcess:
    def test_a_kill_and_its_restore(self, fleet: Fleet) -> None:
        """A kill on the server is the value in the process, with its layer; so is its end."""
        live = fleet.start()
        fleet.write(KILL)
        until(lambda: not live.current.fast)
        effective = live.snapshot.resolution.settings["APP_FAST"]
        assert ("fleet", "fleet#k1", "killed") == (
            effective.layer,
            effective.origin,
            effective.status,
        )
        fleet.write(RESTORE)
        until(lambda: live.current.fast)

    def test_a_kill_counts_from_the_start(self, fleet: Fleet) -> None:
        """A process that starts goes by what the server holds before it does anything."""
        fleet.write(KILL)
        assert not fleet.start().current.fast

    def test_a_start_without_the_server(self, fleet: Fleet) -> None:
        """What the host has kept is in force as soon as settings are loaded, followed or not."""
        live = fleet.start()
        fleet.write(KILL)
        file = fleet.state / "fleet.json"
        until(lambda: file.exists() and "k1" in file.read_text())
        live.close()
        fleet.server.kill()
        sources = Sources({}, state_dir=str(fleet.state), fleet=fleet.options)
        assert not load(AppSettings, sources).current.fast
        assert not fleet.start().current.fast

    def test_a_value_is_followed(self, fleet: Fleet) -> None:
        """A value of the fleet is in force until its time is over, and its end is audited once."""
        live = fleet.start()
        override = KILL.entry.override._replace(name="APP_NUMBER", kind="set", value="7")
        entry = KILL.entry._replace(override=override)
        fleet.write(Change("k1", entry, ttl_ms=700))
        until(lambda: live.current.number == 7)
        until(lambda: live.current.number == 1)
        with Session(fleet.options) as session:
            until(lambda: len(session.audit()) == 2)
            line = session.audit()[1]["entry"]
        assert ("auto", True, "its time was over") == (
            line["actor"],
            line["tombstone"],
            line["reason"],
        )

    def test_what_is_applied_is_said(self, fleet: Fleet) -> None:
        """The fleet hears what a process goes by, once everybody in it has applied it."""
        live = fleet.start()
        following = live.follow()
        applier = following.applier()
        position = fleet.write(KILL)
        until(lambda: not live.current.fast)
        until(fleet.instances)
        (record,) = fleet.instances()
        assert record.applied.revision == 0
        assert record.names == ("APP_FAST", "APP_NUMBER")
        applier.done(live.snapshot.number)
        until(lambda: [r.applied for r in fleet.instances()] == [position])
        flags = fleet.instances()[0].flags
        assert {"value": False, "layer": "fleet", "status": "killed"} == flags["APP_FAST"]
        files = [p for p in (fleet.state / "instances").iterdir() if p.stem == record.id]
        here = next(json.loads(p.read_text()) for p in files if p.suffix == ".json")
        assert 1 == here["fleet"]["revision"]
        live.close()

    def test_who_ends_signs_off(self, fleet: Fleet) -> None:
        """A process that ends is not on the list any more."""
        live = fleet.start()
        until(fleet.instances)
        live.close()
        until(lambda: not fleet.instances())

    def test_no_state_directory(self, fleet: Fleet) -> None:
        """Without a place to keep anything a process follows all the same."""
        live = load(AppSettings, Sources({}, fleet=fleet.options))
        fleet.lives.append(live)
        live.follow()
        fleet.write(KILL)
        until(lambda: not live.current.fast)
        until(lambda: [r.applied.revision for r in fleet.instances()] == [1])

    def test_a_fleet_that_cannot_be(self, fleet: Fleet) -> None:
        """A url that is none holds up nothing, and is said to be one."""
        live = fleet.start(url="redis://[::1")
        assert live.current.fast
        until(lambda: any(p.code == "fleet-unavailable" for p in live.problems))

    def test_a_neighbour_that_is_connected(self, fleet: Fleet) -> None:
        """Who has no connection goes by what another process of its host learns, and says so."""
        fleet.start()
        alone = fleet.start(url="redis://127.0.0.1:1")
        fleet.write(KILL)
        until(lambda: not alone.current.fast)
        assert any(p.code == "fleet-unavailable" for p in alone.problems)
        fleet.write(RESTORE)
        until(lambda: alone.current.fast)

    def test_what_was_learnt_from_a_neighbour_stays(self, fleet: Fleet) -> None:
        """A kill that came from the host's file stays, though the server that is back lost it."""
        fleet.start()
        dump = fleet.server.dump()
        password = fleet.state.parent / "password"
        password.write_text("wrong")
        alone = fleet.start(user="one", password="wrong", password_file=str(password))
        values: list[bool] = []
        alone.subscribe(lambda _, new: values.append(new.settings.fast))
        fleet.write(KILL)
        until(lambda: not alone.current.fast)
        fleet.server.load_dump(dump)
        fleet.server.ask("ACL", "SETUSER", "one", "on", ">right", "~*", "&*", "+@all")
        password.write_text("right")
        until(lambda: all(p.code != "fleet-unavailable" for p in alone.problems))
        until(lambda: len(fleet.instances()) == 2)
        assert {False} == set(values)

    def test_a_merged_kill_that_the_server_loses_stays(self, fleet: Fleet) -> None:
        """A kill that acted from the queue stays, though the server lost it before it arrived."""
        dump = fleet.server.dump()
        password = fleet.state.parent / "password"
        password.write_text("wrong")
        alone = fleet.start(user="one", password="wrong", password_file=str(password))
        values: list[bool] = []
        alone.subscribe(lambda _, new: values.append(new.settings.fast))
        directory = make(str(fleet.state))
        Pending(directory).add([KILL])
        until(lambda: not alone.current.fast)
        fleet.write(KILL)
        Pending(directory).remove([KILL.id])
        directory.close()
        fleet.server.load_dump(dump)
        fleet.server.ask("ACL", "SETUSER", "one", "on", ">right", "~*", "&*", "+@all")
        password.write_text("right")
        until(lambda: any(p.code == "fleet-held" for p in alone.problems))
        assert {False} == set(values)
        fleet.write(RESTORE)
        until(lambda: alone.current.fast)

    def test_a_change_that_leaves_the_queue_first(self, fleet: Fleet) -> None:
        """A kill that is merged and taken off before it arrives is never out of force."""
        live = fleet.start()
        values: list[bool] = []
        live.subscribe(lambda _, new: values.append(new.settings.fast))
        directory = make(str(fleet.state))
        pending = Pending(directory)
        position = NOWHERE
        for number in range(10):
            for bare in (kill("APP_FAST", f"k{number}"), restore("APP_FAST", f"r{number}")):
                # The process may merge it first, and merges it in view of what it says.
                change = replace(bare, expected=position)
                pending.add([change])
                restored = change.entry.tombstone
                until(lambda restored=restored: live.current.fast is restored)  # type: ignore[misc]
                position = fleet.write(change)
                pending.remove([change.id])
        until(lambda: live.fleet is not None and not live.fleet.pending)
        directory.close()
        # The same value in another layer is a swap, too.
        assert [False, True] * 10 == [value for value, _ in groupby(values)]

    def test_a_change_that_waits(self, fleet: Fleet) -> None:
        """With the server down a kill is in force on its host at once, and merged afterwards."""
        live = fleet.start()
        fleet.server.ask("SAVE")
        fleet.server.kill()
        directory = make(str(fleet.state))
        Pending(directory).add([KILL])
        until(lambda: not live.current.fast)
        fleet.server.start()
        until(lambda: not Pending(directory).read())
        directory.close()
        until(lambda: live.snapshot.resolution.settings["APP_FAST"].origin == "fleet#k1")
        assert not live.current.fast


class TestFork:
    def test_parent_and_child_go_on(self, fleet: Fleet) -> None:
        """Both follow after a fork, each as an instance of its own, on connections of its own."""
        live = fleet.start()
        until(lambda: len(fleet.instances()) == 1)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(read)
                until(lambda: not live.current.fast)
                until(lambda: live.fleet is not None and live.fleet.freshness == "fresh")
                os.write(write, b"applied")
                until(lambda: live.current.fast)
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        try:
            until(lambda: len(fleet.instances()) == 2)
            assert {os.getpid(), child} == {record.pid for record in fleet.instances()}
            fleet.write(KILL)
            assert b"applied" == os.read(read, 100)
            until(lambda: not live.current.fast)
            until(lambda: all(r.applied.revision == 1 for r in fleet.instances()))
            fleet.write(RESTORE)
            until(lambda: live.current.fast)
        finally:
            os.close(read)
            _, status = os.waitpid(child, 0)
        assert 0 == status
        assert threading.active_count() < 20

    def test_a_child_that_ends_says_nothing(self, fleet: Fleet, tmp_path: Path) -> None:
        """A forked child that ends like any program leaves no noise and no harm to its parent."""
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(url=fleet.server.url, state=str(fleet.state)))
        done = subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=60
        )
        assert ("", "child True\nparent fresh\n") == (done.stderr, done.stdout)


class TestSuspension:
    def test_a_stopped_process_is_not_fresh(self, fleet: Fleet, tmp_path: Path) -> None:
        """Freshness is reckoned by whoever reads: a process that was stopped cannot vouch."""
        program = tmp_path / "program.py"
        program.write_text(STOPPED.format(url=fleet.server.url, state=str(fleet.state)))
        running = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert running.stdout
            assert "fresh True\n" == running.stdout.readline()
            until(fleet.instances)
            running.send_signal(signal.SIGSTOP)
            fleet.write(KILL)
            until(lambda: fleet.instances()[0].age_ms > 1000)
            running.send_signal(signal.SIGCONT)
            assert "False\n" == running.stdout.readline()
        finally:
            running.send_signal(signal.SIGCONT)
            running.communicate()


HEAD = """
import os, sys, time
from typing import Annotated
from relayconf.declare import AppliesLive, Doc, Env, Flag
from relayconf.fleet.options import FleetOptions
from relayconf.layers import Sources
from relayconf.live.snapshot import load
from relayconf.settings import Settings

class AppSettings(Settings, target="target", prefix="APP_"):
    fast: Annotated[bool, Env("APP_FAST"), AppliesLive(), Doc("Fast."),
        Flag(kind="kill-switch", kill=False, owner="app", why="permanent")] = True

options = FleetOptions("{url}", heartbeat_ms=200)
live = load(AppSettings, Sources({{}}, state_dir="{state}", fleet=options))
live.follow()
"""

PROGRAM = (
    HEAD
    + """
child = os.fork()
if child == 0:
    print("child", live.current.fast, flush=True)
    sys.exit(0)
os.waitpid(child, 0)
for _ in range(3):
    time.sleep(0.3)
    assert live._following.fleet.follower.known.is_fresh(live._following.fleet.follower._clock)
print("parent", live.fleet.freshness, flush=True)
live.close()
"""
)

STOPPED = (
    HEAD
    + """
print(live.fleet.freshness, live.current.fast, flush=True)
while live.current.fast:
    time.sleep(0.01)
print(live.current.fast, flush=True)
"""
)
