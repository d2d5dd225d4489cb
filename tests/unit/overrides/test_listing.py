"""The list of instances: junk in their folder is nobody, and stands in nobody's way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relayconf.instances.listing import Listing
from relayconf.instances.register import open_or_make
from relayconf.state.clock import SYSTEM
from relayconf.state.directory import StateDirectory, make

NAME = "00000000000a"
ENTRY: dict[str, Any] = {"id": NAME, "kind": "live", "target": "app", "pid": 1}
JUNK: dict[str, Any] = {
    "flags": 5,
    "pid": "x",
    "host": None,
    "target": ["app"],
    "pending_restart": 7,
    "problems": [None, 1],
    "contract": [1],
    "fleet": 3,
    "start_time": {},
}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    """Return a state directory with a folder of instances."""
    directory = make(str(tmp_path / "state"))
    open_or_make(directory, SYSTEM).close()
    yield directory
    directory.close()


@pytest.fixture
def folder(state: StateDirectory) -> Path:
    """Return the folder of instances."""
    return Path(state.path) / "instances"


@pytest.mark.parametrize("kind", ["file", "directory", "fifo", "link", "nothing"])
def test_anything_in_the_place_of_a_lock(state: StateDirectory, folder: Path, kind: str) -> None:
    """Listing, burying and counting go on, whatever a lock's name leads to."""
    (folder / f"{NAME}.json").write_text(json.dumps(ENTRY | JUNK))
    lock = folder / f"{NAME}.lock"
    makers: dict[str, Callable[[], object]] = {
        "file": lambda: lock.write_text("junk"),
        "directory": lock.mkdir,
        "fifo": lambda: os.mkfifo(lock),
        "link": lambda: lock.symlink_to("/dev/zero"),
        "nothing": lambda: None,
    }
    makers[kind]()
    listing = Listing(state)
    assert {None} >= {seen.generation for seen in listing.live()}
    assert 0 == listing.highest()
    listing.bury()


def test_no_entry_raises_the_count_beyond_what_can_be_counted(
    state: StateDirectory, folder: Path
) -> None:
    """A number that nothing could follow is none, in a lock as in an entry."""
    (folder / f"{NAME}.json").write_text(json.dumps(ENTRY))
    (folder / f"{NAME}.lock").write_text(f"{10**19} {10**19}\n")
    other = ENTRY | {"id": "00000000000b", "kind": "restart-only", "generation": 1 << 62}
    (folder / "00000000000b.json").write_text(json.dumps(other))
    assert 0 == Listing(state).highest()
