"""Live settings that look again: last good values, subscribers in order, waiters that are woken."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import model_validator

from relayconf import Live, Settings, Sources, load
from relayconf.declare import AppliesLive, Flag


class AppSettings(Settings, target="app", prefix="APP_"):
    """A flag and two numbers that must not be equal."""

    fast: Annotated[
        bool, AppliesLive(), Flag(kind="kill-switch", kill=False, owner="m", why="w")
    ] = True
    low: Annotated[int, AppliesLive()] = 1
    high: Annotated[int, AppliesLive()] = 9

    @model_validator(mode="after")
    def _differ(self) -> AppSettings:
        if self.low == self.high:
            raise ValueError("low and high must differ")
        return self


class Scene:
    """Live settings with an env file and a state directory."""

    def __init__(self, folder: Path) -> None:
        self.env_file = folder / "app.env"
        self.env_file.write_text("")
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)
        sources = Sources({}, env_files=(str(self.env_file),), state_dir=str(self.state))
        self.live: Live[AppSettings] = load(AppSettings, sources, strict=False)
        self.generation = 0

    def override(self, *entries: Any) -> None:
        """Write a document."""
        self.generation += 1
        body = {"version": 1, "generation": self.generation, "entries": entries}
        (self.state / "overrides.json").write_text(json.dumps(body))


KILL = {"target": "app", "name": "APP_FAST", "kind": "kill"}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return live settings of the test's own."""
    return Scene(tmp_path)


class TestLooking:
    def test_only_a_change_swaps(self, scene: Scene) -> None:
        """Looking is free where nothing happened."""
        for _ in range(3):
            scene.live.poke()
        assert 1 == scene.live.snapshot.number
        scene.env_file.write_text("APP_LOW=2\n")
        scene.live.poke()
        assert (2, 2) == (scene.live.snapshot.number, scene.live.current.low)

    def test_a_bad_file_keeps_the_last_good_values(self, scene: Scene) -> None:
        """A kill acts all the same, and once the file is right again it counts."""
        scene.env_file.write_text("APP_LOW=2\n")
        scene.live.poke()
        scene.env_file.write_text('APP_LOW="3\n')
        scene.override(KILL)
        scene.live.poke()
        assert (2, False) == (scene.live.current.low, scene.live.current.fast)
        assert "source-unreadable" in [problem.code for problem in scene.live.problems]
        scene.env_file.write_text("APP_LOW=4\n")
        scene.live.poke()
        assert (4, []) == (
            scene.live.current.low,
            [p.code for p in scene.live.problems if p.code == "source-unreadable"],
        )

    def test_one_alarm_for_one_fault(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        """However often the bad file is looked at, it is said once."""
        scene.env_file.write_text('APP_LOW="unique to this test\n')
        with caplog.at_level(logging.WARNING, "relayconf"):
            for _ in range(5):
                scene.live.poke()
        assert 1 == len([r for r in caplog.records if "source-unreadable" in r.getMessage()])

    def test_a_refusing_validator_holds_up_no_kill(self, scene: Scene) -> None:
        """What the class itself refuses stays away; the kill that came along with it does not."""
        scene.env_file.write_text("APP_LOW=9\n")
        scene.override(KILL)
        scene.live.poke()
        assert (1, False) == (scene.live.current.low, scene.live.current.fast)
        assert (1, 1) == (scene.live.generation, scene.live.reload_failures)

    def test_nor_does_an_override_that_it_refuses(self, scene: Scene) -> None:
        """The kill acts, and the generation does not count as applied."""
        scene.override({**KILL, "name": "APP_LOW", "kind": "set", "value": "9"}, KILL)
        scene.live.poke()
        assert (1, False, 0) == (
            scene.live.current.low,
            scene.live.current.fast,
            scene.live.generation,
        )
        assert "settings-refused" in [problem.code for problem in scene.live.problems]


class TestSubscribers:
    def test_one_that_raises_holds_up_no_other(self, scene: Scene) -> None:
        """It is logged and named as deaf until it is told without failing."""
        told: list[str] = []
        fails = [True]

        def first(_old: Any, _new: Any) -> None:
            if fails[0]:
                raise RuntimeError("broken")

        scene.live.subscribe(first)
        scene.live.subscribe(lambda _, new: told.append(str(new.settings.low)))
        for low in (2, 3):
            scene.env_file.write_text(f"APP_LOW={low}\n")
            scene.live.poke()
        assert (["2", "3"], {first}) == (told, scene.live.subscribers.deaf)
        fails[0] = False
        scene.env_file.write_text("APP_LOW=4\n")
        scene.live.poke()
        assert set() == scene.live.subscribers.deaf

    def test_one_that_reloads_is_told_in_order(self, scene: Scene) -> None:
        """Everybody hears of the first swap before anybody hears of the second."""
        told: list[tuple[str, int, int]] = []

        def first(old: Any, new: Any) -> None:
            told.append(("first", old.number, new.number))
            if new.settings.low == 2:
                scene.env_file.write_text("APP_LOW=3\n")
                scene.live.reload()

        scene.live.subscribe(first)
        scene.live.subscribe(lambda old, new: told.append(("second", old.number, new.number)))
        scene.env_file.write_text("APP_LOW=2\n")
        scene.live.reload()
        assert [("first", 1, 2), ("second", 1, 2), ("first", 2, 3), ("second", 2, 3)] == told


class TestWaiters:
    def test_a_thread_is_woken(self, scene: Scene) -> None:
        """It waits for the next snapshot, not for a time."""
        seen: list[int] = []
        waiter = threading.Thread(
            target=lambda: seen.append(scene.live.wait_past(1, 30).settings.low)
        )
        waiter.start()
        scene.env_file.write_text("APP_LOW=2\n")
        scene.live.poke()
        waiter.join(30)
        assert [2] == seen
        assert 2 == scene.live.wait_past(1).number
        assert 2 == scene.live.wait_past(2, 0.01).number

    def test_a_coroutine_is_woken(self, scene: Scene) -> None:
        """Also by another thread, and also where the change came first."""

        async def go() -> list[int]:
            waiting = asyncio.create_task(scene.live.past(1))
            await asyncio.sleep(0)
            scene.env_file.write_text("APP_LOW=2\n")
            await asyncio.to_thread(scene.live.poke)
            return [(await waiting).settings.low, (await scene.live.past(1)).settings.low]

        assert [2, 2] == asyncio.run(go())

    def test_a_blocked_loop_does_not_stop_the_others(self, scene: Scene) -> None:
        """Readers in threads see the change while somebody's event loop is busy."""
        scene.live.follow(events=False)
        try:

            async def busy() -> int:
                task = asyncio.create_task(scene.live.past(1))
                await asyncio.sleep(0)
                scene.override(KILL)
                number = scene.live.wait_past(1, 30).number  # blocks this very loop
                assert not scene.live.current.fast
                await task
                return number

            assert 2 == asyncio.run(busy())
        finally:
            scene.live.close()
