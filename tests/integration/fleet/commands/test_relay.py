"""Relays on two hosts obey the fleet: their engines, and the writers that they tell."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers.running import free_port

TOOLS = """
[tools.echo]
command = ["cat"]
"""

FLAG = "RELAY_RESPONSE_WATCH_ENABLED"


def serve(host: Any, port: int) -> Path:
    """Start a relay on a host, and return its session's directory."""
    (host.folder / "tools.toml").write_text(TOOLS)
    session: Path = host.folder / "session"
    code = (
        "import os, sys; print('{}', flush=True); "
        "os.execv(sys.executable, [sys.executable, '-m', 'relay', 'serve', "
        f"'--dir', {str(session)!r}, '--tools', 'tools.toml'])"
    )
    address = f"127.0.0.1:{port}"
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    host.start("-c", code, environment={**environment, "RELAY_METRICS_ADDR": address})
    host.until((session / "relay.json").is_file)
    return session


def told(session: Path) -> Any:
    """Return what the writer in a sandbox is told of the flag."""
    return json.loads((session / "relay.json").read_text())["settings"][FLAG]


class TestRelay:
    def test_one_kill_for_all_engines_and_writers(self, fleet: Any) -> None:
        """Exit 0 once both engines obey; the sandboxes are told; the restore undoes all of it."""
        a, b = fleet.host("a"), fleet.host("b")
        port = free_port()
        sessions = [serve(a, port), serve(b, free_port())]
        fleet.until_fresh(a, b)
        done = a.run("kill", FLAG, "--reason", "r", "--wait", "20s", "--json")
        assert (0, 2) == (done.code, len(done.answer["instances"]))
        for session in sessions:
            assert {"value": False, "layer": "fleet"} == told(session)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            metrics = answer.read().decode()
        assert 'relayconf_fleet_state{target="relay",state="fresh"} 1' in metrics
        assert f'name="{FLAG}",state="killed",source="fleet"' in metrics
        assert 0 == b.run("restore", FLAG, "--reason", "r", "--wait", "20s").code
        assert [True, True] == [told(session)["value"] for session in sessions]
