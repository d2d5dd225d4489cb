"""Who lives: the instances in a state directory, and what each has applied.

Liveness is no guess: an instance lives while the kernel holds its lock for it. A command that was
started with its settings may drop its descriptors, so it is known by its process id and start time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from relayconf.contract import reading as contracts
from relayconf.errors import ContractError
from relayconf.instances import files
from relayconf.instances.register import now_ms, pid_space, start_time_of
from relayconf.instances.silent import silent_ones
from relayconf.overrides.document import HIGHEST
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM, Clock
from relayconf.state.directory import StateDirectory

#: For so long after the folder was made, instances may not have come back yet, in milliseconds
#: (they look every second).
SETTLING_MS = 2000

_LARGEST = 1024 * 1024

#: Without waiting for whoever would write into what stands there.
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Seen:
    """One live instance.

    Attributes:
        generation: what it has applied; ``None`` for nothing yet.
        contract: what it goes by; ``None`` where that cannot be read.
        restart_only: it took its settings at its start and never looks again.
        pending_restart: settings that changed and wait for its next start.
        refused: settings that it cannot go by; what was in force before still is.
        silent: it goes by the directory and cannot write there; what it is, and what it has
            applied, is not known.
        frozen: settings that stand in its environment as they were overridden at its start, so that
            it goes on with that once nothing overrides them any more.
        flags: its flags by name, each with ``value``, ``layer`` and ``status``.
        age_ms: how long ago it last looked.
        fleet: what it has applied of the fleet: ``epoch``, ``revision``, ``head``, ``freshness``,
            and ``pending``, the ids of changes that wait for the server.
    """

    id: str
    target: str
    pid: int
    host: str
    generation: int | None
    contract: Contract | None
    restart_only: bool
    pending_restart: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    flags: dict[str, Any] = field(default_factory=dict)
    age_ms: int = 0
    silent: bool = False
    fleet: dict[str, Any] = field(default_factory=dict)

    def declares(self, target: str, name: str) -> bool:
        """Whether a setting is its business; in doubt it is."""
        if self.silent:
            return True
        if target != self.target:
            return False
        return self.contract is None or name in self.contract.settings

    def has_applied(self, generation: int, name: str) -> bool:
        """Whether it goes by a generation, for one setting."""
        applied = self.generation is not None and self.generation >= generation
        return applied and name not in self.pending_restart and name not in self.refused


class Listing:
    """Looks at the instances of one state directory, again and again.

    Args:
        state: the state directory; it stays the caller's to close.
    """

    def __init__(self, state: StateDirectory, *, clock: Clock = SYSTEM) -> None:
        self._state = state
        self._clock = clock
        self._contracts: dict[str, Contract | None] = {}

    def live(self) -> list[Seen]:
        """Return the live instances, by target and process id."""
        found = [*self._registered(), *map(_silent, silent_ones(self._state))]
        return sorted(found, key=lambda seen: (seen.target, seen.host, seen.pid, seen.id))

    def _registered(self) -> list[Seen]:
        folder = self._folder()
        if folder is None:
            return []
        try:
            bodies = list(self._bodies(folder))
            found = [(body, seen) for body in bodies if (seen := self._judge(folder, body))]
        finally:
            folder.close()
        return list(_each_process_once(found))

    def dead(self) -> list[str]:
        """Return the ids of the instances that have an entry here and are dead."""
        folder = self._folder()
        if folder is None:
            return []
        try:
            bodies = self._bodies(folder)
            return [body["id"] for body in bodies if self._judge(folder, body) is None]
        finally:
            folder.close()

    def ended(self, places: Mapping[str, str]) -> list[str]:
        """Return those of some instances that had an entry here and have none any more.

        Whoever lives and is registered has one: these have signed off, or were found dead.

        Args:
            places: the place of each one's entry, as it has said itself, by id.
        """
        folder = self._folder()
        if folder is None:
            return []
        try:
            here = files.place_of(folder)
            there = {files.instance_of(name) for name in os.listdir(folder.fd)}
            return [i for i, place in places.items() if place == here and i not in there]
        except OSError:
            return []
        finally:
            folder.close()

    def highest(self) -> int:
        """Return the highest generation that any entry names, also a dead one's."""
        folder = self._folder()
        if folder is None:
            return 0
        try:
            named = [_applied(folder, body) for body in self._bodies(folder)]
        finally:
            folder.close()
        return max((generation for generation in named if generation is not None), default=0)

    def is_settling(self) -> bool:
        """Whether the folder was made so lately that instances may still be missing."""
        folder = self._folder()
        if folder is None:
            return True
        try:
            born = json.loads(folder.read(files.BORN) or b"")
            age_ms = self._clock.boot_ms() - int(born["boot_ms"])
            return born["boot"] == self._clock.boot_id() and age_ms < SETTLING_MS
        except (OSError, ValueError, TypeError, KeyError):
            return False
        finally:
            folder.close()

    def bury(self) -> None:
        """Remove the entries of dead instances."""
        folder = self._folder()
        if folder is None:
            return
        try:
            for body in self._bodies(folder):
                if self._judge(folder, body) is None:
                    _remove(folder, body["id"])
        finally:
            folder.close()

    def _folder(self) -> StateDirectory | None:
        with suppress(OSError):
            return files.open_folder(self._state, make=False)
        return None

    def _bodies(self, folder: StateDirectory) -> Iterator[dict[str, Any]]:
        try:
            names = os.listdir(folder.fd)
        except OSError:
            return
        for name in names:
            if files.instance_of(name) is None:
                continue
            with suppress(OSError, ValueError, RecursionError):
                # RACE: one that signs off meanwhile is not there any more, and counts for nothing.
                body = json.loads(folder.read(name, limit=_LARGEST) or b"")
                if isinstance(body, dict) and body.get("id") == files.instance_of(name):
                    yield body

    def _judge(self, folder: StateDirectory, body: dict[str, Any]) -> Seen | None:
        restart_only = body.get("kind") == "restart-only"
        held = _is_held(folder, body["id"] + files.LOCK_SUFFIX)
        lives = self._child_lives(body, held=held) if restart_only else held
        if not lives:
            return None
        contract = self._contract(folder, str(body.get("contract", "")))
        return Seen(
            body["id"],
            str(body.get("target", "")),
            _number(body.get("pid")),
            str(body.get("host", "")),
            _applied(folder, body),
            contract,
            restart_only,
            _texts(body.get("pending_restart")),
            _texts(body.get("refused")),
            _texts(body.get("frozen")),
            _texts(body.get("problems")),
            body["flags"] if isinstance(body.get("flags"), dict) else {},
            _age_ms(folder, body["id"]),
            fleet=body["fleet"] if isinstance(body.get("fleet"), dict) else {},
        )

    def _child_lives(self, body: dict[str, Any], *, held: bool) -> bool:
        if body.get("boot") != self._clock.boot_id():
            return False
        if body.get("pid_space") != pid_space():
            # Another container's process ids mean nothing here; its descriptor, if it has kept it,
            # is all there is.
            return held
        return start_time_of(_number(body.get("pid"))) == body.get("start_time")

    def _contract(self, folder: StateDirectory, name: str) -> Contract | None:
        if name not in self._contracts:
            self._contracts[name] = _read_contract(folder, name)
        return self._contracts[name]


def _silent(pid: int) -> Seen:
    why = "it can read the state directory and not write it; it obeys, and cannot say so"
    host = os.uname().nodename
    return Seen(
        f"silent-{pid}", "unknown", pid, host, None, None, False, problems=(why,), silent=True
    )


def _each_process_once(found: Iterable[tuple[dict[str, Any], Seen]]) -> Iterator[Seen]:
    """Yield the instances, without the entry that ``run`` has made for one that follows by itself.

    What that entry knows of its environment goes along: it is the same process's.
    """
    found = list(found)
    started = {_process(body): seen for body, seen in found if seen.restart_only}
    follows = {_process(body) for body, seen in found if not seen.restart_only}
    for body, seen in found:
        process = _process(body)
        if seen.restart_only and body.get("start_time") is not None and process in follows:
            continue
        start = None if seen.restart_only else started.get(process)
        yield seen if start is None else replace(seen, frozen=start.frozen)


def _process(body: dict[str, Any]) -> tuple[str, ...]:
    """Return what tells a process from all others, whatever stands there."""
    names = ("start_time", "pid", "pid_space", "boot", "target")
    return tuple(repr(body.get(name)) for name in names)


def _read_contract(folder: StateDirectory, name: str) -> Contract | None:
    if not name.isalnum():
        return None
    try:
        data = folder.read(name + files.CONTRACT_SUFFIX)
        return None if data is None else contracts.read(data, origin=name)
    except (OSError, ContractError):
        return None


def _is_held(folder: StateDirectory, name: str) -> bool:
    """Whether somebody holds a lock. One that cannot be judged counts as held."""
    try:
        fd = os.open(name, _LOOK, dir_fd=folder.fd)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Shared, so that two that look at once do not take each other for the instance.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _applied(folder: StateDirectory, body: dict[str, Any]) -> int | None:
    """Return the generation that an instance goes by."""
    generation = body.get("generation")
    if body.get("kind") != "restart-only":
        generation = _in_lock(folder, body["id"] + files.LOCK_SUFFIX)
    return generation if type(generation) is int and generation <= HIGHEST else None


def _in_lock(folder: StateDirectory, name: str) -> int | None:
    with suppress(OSError):
        fd = os.open(name, _LOOK, dir_fd=folder.fd)
        try:
            return files.read_generation(fd)
        finally:
            os.close(fd)
    return None


def _age_ms(folder: StateDirectory, instance: str) -> int:
    try:
        found = os.stat(instance + files.LOCK_SUFFIX, dir_fd=folder.fd)
    except OSError:
        return 0
    return max(0, round(now_ms() - found.st_mtime_ns / 1e6))


def _remove(folder: StateDirectory, instance: str) -> None:
    folder.remove(instance + files.SUFFIX)
    folder.remove(instance + files.LOCK_SUFFIX)


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
