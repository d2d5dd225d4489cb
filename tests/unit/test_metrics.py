"""Metrics: the generation, each flag's state and where it comes from, as Prometheus reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from relayconf import Settings, Sources, load
from relayconf.declare import AppliesLive, Flag, Rollout
from relayconf.live.metrics import exposition, metrics


class AppSettings(Settings, target="app", prefix="APP_"):
    """Two flags, a restart-only setting and a secret-like string."""

    fast: Annotated[
        bool, AppliesLive(), Flag(kind="kill-switch", kill=False, owner="me", why="w")
    ] = True
    some: Annotated[
        Rollout, AppliesLive(), Flag(kind="release", kill=False, owner="me", why="w")
    ] = "25%"
    title: Annotated[str, AppliesLive()] = "a title"
    port: int = 80


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def followed(tmp_path: Path, *entries: Any) -> Any:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    live = load(AppSettings, Sources({}, state_dir=str(state)), strict=False)
    body = {"version": 1, "generation": 7, "audit": {"seq": 0, "hash": ""}, "entries": entries}
    (state / "overrides.json").write_text(json.dumps(body))
    live.poke()
    return live


class TestMetrics:
    def test_a_killed_flag(self, tmp_path: Path) -> None:
        """Its state is killed, its source the override, and the generation that of the store."""
        live = followed(tmp_path, {"target": "app", "name": "APP_FAST", "kind": "kill"})
        found = samples(metrics(live, now=live.looked + 2))
        target = 'target="app"'
        assert 7 == found[f"relayconf_generation{{{target}}}"]
        labels = f'{target},name="APP_FAST",state="killed",source="override"'
        assert 1 == found[f"relayconf_flag{{{labels}}}"]
        labels = f'{target},name="APP_SOME",state="25%",source="default"'
        assert 1 == found[f"relayconf_flag{{{labels}}}"]
        assert 2 == found[f"relayconf_look_age_seconds{{{target}}}"]

    def test_what_fails_is_counted(self, tmp_path: Path) -> None:
        """A file that cannot be read, and a change that waits for a restart."""
        env_file = tmp_path / "app.env"
        env_file.write_text("APP_PORT=80\n")
        sources = Sources({}, env_files=(str(env_file),))
        live = load(AppSettings, sources, strict=False)
        env_file.write_text("APP_PORT=81\n")
        live.poke()
        env_file.write_text('APP_PORT="\n')
        live.poke()
        live.poke()
        found = samples(metrics(live, now=live.looked))
        assert 1 == found['relayconf_reload_failures_total{target="app"}']
        assert 1 == found['relayconf_pending_restart{target="app"}']

    def test_no_other_value_appears(self, tmp_path: Path) -> None:
        """A string that may be anything is nobody's business."""
        assert "a title" not in metrics(followed(tmp_path), now=0)

    def test_labels_are_escaped(self) -> None:
        """Nothing in a label ends a line or a quote."""
        text = exposition([("m", "gauge", "help", [({"a": 'x"\\\n'}, 1.0)])])
        assert 'm{a="x\\"\\\\\\n"} 1\n' == text.splitlines(keepends=True)[-1]
