"""What a program goes by from its load to its first look at the fleet, where no server answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from relayconf.declare import AppliesLive, Doc, Env, Flag
from relayconf.fleet.conformance import kill
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pending import Pending
from relayconf.layers import Sources
from relayconf.live.snapshot import load
from relayconf.settings import Settings
from relayconf.state.directory import make


class AppSettings(Settings, target="target", prefix="APP_"):
    """A service with a flag."""

    fast: Annotated[
        bool,
        Env("APP_FAST"),
        Flag(kind="kill-switch", kill=False, owner="app", why="permanent"),
        AppliesLive(),
        Doc("Fast."),
    ] = True


class TestBeginning:
    def test_a_kill_that_leaves_the_queue_between(self, tmp_path: Path) -> None:
        """Whoever merged it, it stays in force until the server has been heard."""
        directory = make(str(tmp_path / "state"))
        pending = Pending(directory)
        change = kill("APP_FAST", "k1")
        pending.add([change])
        # Nobody listens there.
        fleet = FleetOptions("redis://127.0.0.1:1", heartbeat_ms=200, timeout_ms=100)
        live = load(AppSettings, Sources({}, state_dir=directory.path, fleet=fleet))
        seen = [live.current.fast]
        pending.remove([change.id])
        live.follow()
        seen.append(live.current.fast)
        live.close()
        directory.close()
        assert [False, False] == seen
