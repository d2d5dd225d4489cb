"""This process's own entry among the instances, and the lock that dies with it.

The lock has its name only once it is held, so that at no instant does a living instance look dead;
the kernel drops it with the process, however that ends. What the instance says of itself is
replaced as a whole and never made durable: it means nothing once the machine has stopped.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any

from relayconf.contract.document import to_document
from relayconf.contract.reading import fingerprint
from relayconf.errors import StateError
from relayconf.instances import applied, files
from relayconf.instances.silent import hold
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM, Clock, stamp
from relayconf.state.directory import StateDirectory, make

_LOCK = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Instance:
    """One live process, for one contract. Not safe across threads: its owner has a lock.

    Args:
        path: the state directory; it is made where missing.
        contract: what the process goes by.
        group: the group that shares the directory.
        clock: the time.

    Attributes:
        id: its name.
        place: of the folder that holds its entry (``files.place_of``); empty before there is one.
    """

    def __init__(
        self, path: str, contract: Contract, *, group: str | None = None, clock: Clock = SYSTEM
    ) -> None:
        self.id = os.urandom(6).hex()
        self.place = ""
        self._path = path
        self._group = group
        self._contract = contract
        self._hash = fingerprint(contract)
        self._clock = clock
        self._process = process_facts()
        self._folder: StateDirectory | None = None
        self._lock = self._silent = -1
        self._said: dict[str, Any] = {}
        self._unsaid: dict[str, Any] = {}
        self._applied: int | None = None

    @property
    def registered(self) -> bool:
        """Whether it has an entry, as far as it knows."""
        return self._folder is not None

    def sign_on(self) -> None:
        """Register: nothing has been applied yet. Where that fails, be known as a silent one.

        Raises:
            StateError: the state directory cannot be used.
        """
        state = make(self._path, group=self._group)
        try:
            folder = open_or_make(state, self._clock)
            try:
                self._lock = self._locked(folder)
                self._publish_contract(folder)
                self._folder = folder
                self.place = files.place_of(folder)
                self._applied = None
                self.say(pending_restart=[], problems=[], refused=[])
            except BaseException:
                self._folder = None
                folder.close()
                raise
        except OSError as error:
            self.abandon()
            self._silent = hold(self._path)
            raise StateError(
                f"the state directory {self._path} cannot hold this process's registration: "
                f"{error.strerror or error}; kills are obeyed where they can be read, and not "
                "acknowledged"
            ) from None
        finally:
            state.close()

    def say(self, **facts: Any) -> None:
        """Publish what has changed about it.

        Raises:
            OSError: it cannot be written.
        """
        if self._folder is None:
            return
        said = {**self._said, **self._unsaid, **facts}
        self._unsaid = {}
        if said == self._said:
            return
        body = {
            "id": self.id,
            "kind": "live",
            "target": self._contract.target,
            "contract": self._hash,
            **self._process,
            "host": os.uname().nodename,
            "boot": self._clock.boot_id(),
            **said,
        }
        self._folder.publish(self.id + files.SUFFIX, json.dumps(body).encode())
        self._said = said

    def acknowledge(
        self, generation: int, written: tuple[str, int] | None, *, flags: Any, **facts: Any
    ) -> None:
        """Say that a generation is applied, for those who wait and for the history.

        Args:
            generation: of the overrides.
            written: when their document was, for the time that it took.
            flags: their values, which may as well be said a second later.
            facts: what whoever waits has to know along with it.

        Raises:
            OSError: it cannot be written.
        """
        if self._folder is None:
            return
        before = self._applied
        if before is None or any(self._said.get(name) != fact for name, fact in facts.items()):
            self.say(flags=flags, **facts)
        else:
            self._unsaid = {"flags": flags}
        if generation == before:
            return
        files.write_generation(self._lock, generation)
        self._applied = generation
        line = {
            "generation": generation,
            "at": stamp(self._clock.wall()),
            "took_ms": None if before is None else applied.took_ms(written, self._clock),
            "instance": self.id,
            "target": self._contract.target,
            "pid": os.getpid(),
            "host": os.uname().nodename,
        }
        if before is None:
            line["started"] = True
        applied.append(self._folder, line)

    def touch(self) -> None:
        """Show that it still looks at its overrides, and say what was left for later.

        Raises:
            OSError: it cannot be written.
        """
        if self._lock >= 0:
            os.utime(self._lock)
            self.say()

    def is_lost(self) -> bool:
        """Whether others cannot find its entry any more."""
        if self._folder is None or self._lock < 0:
            return True
        return not self._folder.is_there() or os.fstat(self._lock).st_nlink == 0

    def sign_off(self) -> None:
        """Leave: its entry first, then its lock."""
        if self._folder is not None:
            self._folder.remove(self.id + files.SUFFIX)
            self._folder.remove(self.id + files.LOCK_SUFFIX)
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptors and leave the entry as it is: a forked child's are its parent's."""
        for fd in (self._lock, self._silent):
            if fd >= 0:
                os.close(fd)
        self._lock = self._silent = -1
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()
        self._said = {}

    def _locked(self, folder: StateDirectory) -> int:
        name = self.id + files.LOCK_SUFFIX
        temp = name + ".new"
        fd = os.open(temp, _LOCK, 0o600, dir_fd=folder.fd)
        try:
            folder.own(fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.rename(temp, name)
        except BaseException:
            os.close(fd)
            folder.remove(temp)
            raise
        return fd

    def _publish_contract(self, folder: StateDirectory) -> None:
        publish_contract(folder, self._contract, self._hash)


def open_or_make(state: StateDirectory, clock: Clock) -> StateDirectory:
    """Open the folder of instances; one that is made notes when that was.

    Raises:
        OSError: it cannot be made or opened.
    """
    folder = files.open_folder(state, make=True)
    if folder is None:
        raise FileNotFoundError(files.FOLDER)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(files.BORN, flags, 0o600, dir_fd=folder.fd)
    except FileExistsError:
        return folder
    except OSError:
        folder.close()
        raise
    try:
        folder.own(fd)
        os.write(fd, json.dumps({"boot": clock.boot_id(), "boot_ms": clock.boot_ms()}).encode())
    finally:
        os.close(fd)
    return folder


def publish_contract(folder: StateDirectory, contract: Contract, name: str) -> None:
    """Lay down a contract for those who look for the name of a setting."""
    file = name + files.CONTRACT_SUFFIX
    try:
        os.stat(file, dir_fd=folder.fd)
    except FileNotFoundError:
        folder.publish(file, json.dumps(to_document(contract)).encode())


def start_time_of(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; ``None`` where it does not live."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # proc(5): the state is the third field, the start time the twenty-second.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def pid_space() -> str:
    """Return the name of the space in which this process's ids mean something."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def process_facts() -> dict[str, Any]:
    """Return what tells this process from every other one, in an entry."""
    pid = os.getpid()
    return {"pid": pid, "start_time": start_time_of(pid), "pid_space": pid_space()}


def now_ms() -> float:
    """Return wall milliseconds, for ages of files."""
    return time.time() * 1000
