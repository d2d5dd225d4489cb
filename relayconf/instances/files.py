"""The names in ``instances/``, and the folder itself.

``ID.json`` is what an instance says of itself. ``ID.lock`` is locked for as long as it lives, and
holds the generation that it has applied: written in place, so that acknowledging costs next to
nothing where fifty do it at once. ``HASH.contract.json`` is a contract that one of them goes by,
``applied.jsonl`` is what they have applied when.
"""

from __future__ import annotations

import hashlib
import os
import re

from relayconf.state.directory import StateDirectory

FOLDER = "instances"

SUFFIX = ".json"
LOCK_SUFFIX = ".lock"
CONTRACT_SUFFIX = ".contract.json"

APPLIED = "applied.jsonl"
APPLIED_BEFORE = "applied.old.jsonl"

#: When the folder was made, on the boot clock.
BORN = "born"

_ID = re.compile(r"[0-9a-f]{12}", re.ASCII)


def instance_of(name: str) -> str | None:
    """Return the id of the instance that a file tells of, or ``None``."""
    return name[:12] if name[12:] == SUFFIX and _ID.fullmatch(name[:12]) else None


def open_folder(state: StateDirectory, *, make: bool) -> StateDirectory | None:
    """Open the folder of instances; ``None`` where there is none.

    Raises:
        OSError: it cannot be made or opened.
    """
    return state.folder(FOLDER, make=make)


def place_of(folder: StateDirectory) -> str:
    """Return the name of this very folder, which no other one has, on no host.

    It says when the folder was made, and in which boot of which machine.

    Raises:
        OSError: that cannot be read.
    """
    text = f"{folder.identity} {(folder.read(BORN) or b'').decode('utf-8', 'replace')}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_generation(fd: int, generation: int) -> None:
    """Write what is applied into a lock's file.

    Raises:
        OSError: it cannot be written.
    """
    digits = f"{generation:020d}"
    os.pwrite(fd, f"{digits} {digits}\n".encode(), 0)


def read_generation(fd: int) -> int | None:
    """Return what is applied, from a lock's file; ``None`` for nothing yet."""
    for _ in range(100):
        # RACE: a write may be seen in part; both halves are the same only in a whole one.
        first, _, second = os.pread(fd, 64, 0).partition(b" ")
        if first == second.strip() and first.isdigit():
            return int(first)
        if not first:
            return None
    return None
