"""The entry of a command that is started with its settings and never looks at them again.

The process registers, reads, then becomes the command: same process id, same start time. Whether
the command keeps the descriptor that it inherits is its own business, so that proves nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from typing import Any

from relayconf.contract.reading import fingerprint
from relayconf.errors import StateError
from relayconf.instances import files
from relayconf.instances.register import open_or_make, process_facts, publish_contract
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM, Clock, stamp
from relayconf.state.directory import StateDirectory, make


class Child:
    """This process as one that will apply no further change until it is started anew.

    Args:
        path: the state directory; it is made where missing.
        contract: what its settings are resolved by.
        group: the group that shares the directory.
        clock: the time.

    Raises:
        StateError: the state directory cannot be used.
    """

    def __init__(
        self, path: str, contract: Contract, *, group: str | None = None, clock: Clock = SYSTEM
    ) -> None:
        self._id = os.urandom(6).hex()
        self._contract = contract
        self._clock = clock
        state = make(path, group=group)
        try:
            self._folder = open_or_make(state, clock)
            self._lock = self._locked(self._folder)
            self._hash = fingerprint(contract)
            publish_contract(self._folder, contract, self._hash)
            self._publish(None)
        except OSError as error:
            raise StateError(
                f"the state directory {path} cannot hold the command's registration: "
                f"{error.strerror or error}"
            ) from None
        finally:
            state.close()

    def goes_by(self, generation: int, frozen: Sequence[str] = ()) -> None:
        """Say which overrides it was started with.

        Args:
            generation: of the overrides.
            frozen: names whose value in its environment comes from one of them.

        Raises:
            OSError: it cannot be written.
        """
        self._publish(generation, frozen)

    def sign_off(self) -> None:
        """Take the entry back, since there is no command after all."""
        self._folder.remove(self._id + files.SUFFIX)
        self._folder.remove(self._id + files.LOCK_SUFFIX)
        os.close(self._lock)

    def _locked(self, folder: StateDirectory) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        fd = os.open(self._id + files.LOCK_SUFFIX, flags, 0o600, dir_fd=folder.fd)
        folder.own(fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Left open, for the command to inherit.
        os.set_inheritable(fd, True)
        return fd

    def _publish(self, generation: int | None, frozen: Sequence[str] = ()) -> None:
        body: dict[str, Any] = {
            "id": self._id,
            "kind": "restart-only",
            "target": self._contract.target,
            "contract": self._hash,
            **process_facts(),
            "host": os.uname().nodename,
            "boot": self._clock.boot_id(),
            "generation": generation,
            "applied_at": stamp(self._clock.wall()),
            "frozen": list(frozen),
            "pending_restart": [],
            "problems": [],
        }
        self._folder.publish(self._id + files.SUFFIX, json.dumps(body).encode())
