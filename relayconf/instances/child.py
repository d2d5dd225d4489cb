"""The entry of a command that is started with its settings and never looks at them again.

The process registers, then becomes the command: same process id, same start time. Whether the
command keeps the descriptors that it inherits is its own business, so they prove nothing.
"""

from __future__ import annotations

import fcntl
import json
import os

from relayconf.contract import fingerprint
from relayconf.instances import files
from relayconf.instances.register import (
    open_or_make,
    pid_space,
    publish_contract,
    start_time_of,
)
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM, Clock, stamp
from relayconf.state.directory import StateDirectory, make


def register_child(
    path: str,
    contract: Contract,
    generation: int,
    *,
    group: str | None = None,
    clock: Clock = SYSTEM,
) -> None:
    """Register this process as one that will apply no further change until it is started anew.

    Args:
        path: the state directory; it is made where missing.
        contract: what its settings were resolved by.
        generation: of the overrides that were taken in.
        group: the group that shares the directory.
        clock: the time.

    Raises:
        StateError: the state directory cannot be used.
        OSError: nothing can be written in it.
    """
    state = make(path, group=group)
    try:
        folder = open_or_make(state, clock)
        try:
            _write(folder, contract, generation, clock)
        finally:
            folder.close()
    finally:
        state.close()


def _write(folder: StateDirectory, contract: Contract, generation: int, clock: Clock) -> None:
    own_id = os.urandom(6).hex()
    name = fingerprint(contract)
    publish_contract(folder, contract, name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    fd = os.open(own_id + files.LOCK_SUFFIX, flags, 0o600, dir_fd=folder.fd)
    folder.own(fd)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # Left open, for the command to inherit.
    os.set_inheritable(fd, True)
    body = {
        "id": own_id,
        "kind": "restart-only",
        "target": contract.target,
        "contract": name,
        "pid": os.getpid(),
        "start_time": start_time_of(os.getpid()),
        "pid_space": pid_space(),
        "host": os.uname().nodename,
        "boot": clock.boot_id(),
        "generation": generation,
        "applied_at": stamp(clock.wall()),
        "pending_restart": [],
        "problems": [],
    }
    folder.publish(own_id + files.SUFFIX, json.dumps(body).encode())
