"""What Prometheus is told of the fleet: reckoned when it is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

from relayconf import Settings, Sources, load
from relayconf.declare import AppliesLive, Flag
from relayconf.fleet.options import FleetOptions
from relayconf.live.metrics import metrics
from tests.integration.overrides.conftest import PATIENCE
from tests.servers.fleetserver import PASSWORD, USER


class AppSettings(Settings, target="app", prefix="APP_"):
    """A flag."""

    fast: Annotated[
        bool, AppliesLive(), Flag(kind="kill-switch", kill=False, owner="me", why="w")
    ] = True


def samples(live: Any) -> dict[str, float]:
    """Return the metrics of the fleet, without the target."""
    text = metrics(live, now=time.monotonic())
    found = {}
    for line in text.splitlines():
        if line.startswith("relayconf_fleet_"):
            name, _, value = line.removeprefix("relayconf_fleet_").rpartition(" ")
            found[name.replace('{target="app"}', "").replace('target="app",', "")] = float(value)
    return found


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestMetrics:
    def test_of_a_fleet(self, fleet: Any) -> None:
        """Fresh with its revision; with the server away stale and ageing; reconnects counted."""
        options = FleetOptions(
            fleet.server.url,
            USER,
            PASSWORD,
            heartbeat_ms=100,
            blind_after_ms=1000,
            timeout_ms=300,
        )
        a = fleet.host("a")
        live = load(AppSettings, Sources({}, state_dir=str(a.state), fleet=options), strict=False)
        assert {} == samples(live)
        live.follow()
        try:
            until(lambda: samples(live)['state{state="fresh"}'] == 1)
            assert (0, 0, 0) == tuple(samples(live)[n] for n in ("revision", "pending", "held"))
            assert 0 == a.kill("--wait", "20s").code
            assert 1 == samples(live)["revision"]
            fleet.server.kill()
            until(lambda: samples(live)['state{state="stale"}'] == 1)
            until(lambda: samples(live)['state{state="blind"}'] == 1)
            assert samples(live)["behind_seconds"] > 1
            assert 3 == a.restore().code
            until(lambda: samples(live)["pending"] == 1)
            fleet.server.start()
            until(lambda: samples(live)['state{state="fresh"}'] == 1)
            until(lambda: samples(live)["pending"] == 0)
            assert samples(live)["reconnects_total"] >= 1
        finally:
            live.close()
        assert PASSWORD not in metrics(live, now=0)
