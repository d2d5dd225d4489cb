"""Silent ones: found by the locks that they hold, exactly, whoever asks at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from relayconf.instances.listing import Listing
from relayconf.instances.silent import hold, silent_ones
from relayconf.state.directory import make

#: Holds its lock until its standard input ends.
HOLDER = """
import sys
from relayconf.instances.silent import hold
hold(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_each_is_named_by_its_process_id(tmp_path: Path) -> None:
    """However many hold one, none is left out, and asking takes none away."""
    path = str(tmp_path / "state")
    directory = make(path)
    assert [] == silent_ones(directory)
    command = [sys.executable, "-c", HOLDER, path]
    holders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(5)
    ]
    own = hold(path)
    for holder in holders:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
    wanted = sorted([os.getpid(), *(holder.pid for holder in holders)])
    assert wanted == silent_ones(directory) == silent_ones(directory)
    assert wanted == sorted(seen.pid for seen in Listing(directory).live())
    for holder in holders:
        holder.communicate()
    assert [os.getpid()] == silent_ones(directory)
    os.close(own)
    assert [] == silent_ones(directory)
    directory.close()


def test_a_directory_that_is_not_there_is_held_by_nobody(tmp_path: Path) -> None:
    """There is nothing to say then, and nothing fails."""
    assert -1 == hold(str(tmp_path / "state"))


def test_one_concerns_every_setting(tmp_path: Path) -> None:
    """What it goes by is not known, so that no change is proven for it."""
    path = str(tmp_path / "state")
    directory = make(path)
    own = hold(path)
    (seen,) = Listing(directory).live()
    assert (True, False) == (seen.declares("app", "APP_FAST"), seen.has_applied(0, "APP_FAST"))
    os.close(own)
    directory.close()
