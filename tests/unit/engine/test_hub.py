"""The runner's activity source: each line of its contract, over a real inotify instance."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from relay import inotify
from relay.engine.eventloop import ServingLoop
from relay.engine.hub import MANY, Hub, Watch


class Ears:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_request(self, request: str) -> None:
        """Remember a hint."""
        self.heard.append(request)

    def on_many(self, events: int) -> None:
        """Remember a flood."""
        self.heard.append(f"{events} events")

    def on_doubt(self) -> None:
        """Remember that events were lost."""
        self.heard.append("?")

    def on_gone(self) -> None:
        """Remember that the directory went."""
        self.heard.append("gone")

    def on_unwatched(self) -> None:
        """Remember that the watch is over."""
        self.heard.append("unwatched")


class Scene:
    """A directory that is watched through a hub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hub = Hub()
        self.ears = Ears()
        self.fd = os.open(folder, os.O_RDONLY)
        self.watch: Watch = self.hub.watch(self.fd, self.ears)

    def appear(self, name: str) -> None:
        """Rename a file into place."""
        (self.folder / "temp").touch()
        (self.folder / "temp").rename(self.folder / name)

    def close(self) -> None:
        """Give everything back."""
        self.hub.close()
        os.close(self.fd)


#: What ``play`` makes its loop with.
_make: list[Callable[[], asyncio.AbstractEventLoop]] = []


@pytest.fixture(autouse=True, params=[asyncio.new_event_loop, ServingLoop])
def loop_of_a_kind(request: pytest.FixtureRequest) -> None:
    """Have each test run in a usual loop, and in the one of a process that is all a runner's."""
    _make[:] = [request.param]


def play(folder: Path, act: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a test's steps with a watched directory."""

    async def go() -> None:
        scene = Scene(folder)
        try:
            await asyncio.wait_for(act(scene), 30)
        finally:
            scene.close()

    with asyncio.Runner(loop_factory=_make[0]) as runner:
        runner.run(go())


class TestWaiting:
    def test_an_event_wakes(self, tmp_path: Path) -> None:
        """A request that appears during a wait ends it, and its id is a hint."""

        async def act(scene: Scene) -> None:
            waiting = asyncio.create_task(scene.hub.wait(30))
            await asyncio.sleep(0)
            scene.appear("a.req.json")
            assert "activity" == await waiting
            assert ["a"] == scene.ears.heard

        play(tmp_path, act)

    def test_two_for_one_directory(self, tmp_path: Path) -> None:
        """The end of an older watch leaves a newer one of the same directory as it is."""

        async def act(scene: Scene) -> None:
            newer = Ears()
            scene.hub.watch(scene.fd, newer)
            scene.hub.unwatch(scene.watch)
            scene.appear("a.req.json")
            assert "activity" == await scene.hub.wait(30)
            assert ["a"] == newer.heard

        play(tmp_path, act)

    def test_an_event_between_two_waits_is_kept(self, tmp_path: Path) -> None:
        """What happens while nobody waits ends the next wait, and only that one."""

        async def act(scene: Scene) -> None:
            assert "timeout" == await scene.hub.wait(0.001)
            for name in ("a.req.json", "b.req.json", "c.req.json"):
                scene.appear(name)
            assert "activity" == await scene.hub.wait(30)
            assert ["a", "b", "c"] == scene.ears.heard
            assert "timeout" == await scene.hub.wait(0.001)

        play(tmp_path, act)

    def test_an_event_at_every_moment(self, tmp_path: Path) -> None:
        """Whenever an event comes between two waits, before or during, it is not lost."""

        async def act(scene: Scene) -> None:
            for moment in range(40):
                waiting = asyncio.create_task(scene.hub.wait(30))
                for _ in range(moment % 4):
                    await asyncio.sleep(0)
                scene.appear(f"n{moment}.req.json")
                assert "activity" == await waiting
                assert f"n{moment}" == scene.ears.heard[-1]

        play(tmp_path, act)

    def test_a_wake_of_ones_own(self, tmp_path: Path) -> None:
        """A wake that no file stands for is sticky too, and many are one."""

        async def act(scene: Scene) -> None:
            scene.hub.wake()
            scene.hub.wake()
            assert "activity" == await scene.hub.wait(30)
            assert "timeout" == await scene.hub.wait(0)

        play(tmp_path, act)

    def test_a_pending_wake_yields(self, tmp_path: Path) -> None:
        """A waiter that is always woken at once still lets the rest of the loop run."""

        async def act(scene: Scene) -> None:
            ran = asyncio.Event()
            asyncio.get_running_loop().call_soon(ran.set)
            scene.hub.wake()
            await scene.hub.wait(30)
            assert ran.is_set()

        play(tmp_path, act)

    def test_thousands_of_timeouts(self, tmp_path: Path) -> None:
        """Thousands of timeouts leave no descriptor, task or timer behind."""

        async def act(scene: Scene) -> None:
            async def many() -> tuple[int, int, int]:
                for _ in range(1000):
                    assert "timeout" == await scene.hub.wait(0.00001)
                loop = asyncio.get_running_loop()
                timers = len(loop._scheduled)  # type: ignore[attr-defined]  # not in the stubs
                return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), timers

            assert await many() == await many()

        play(tmp_path, act)

    def test_a_shorter_wait_after_a_longer(self, tmp_path: Path) -> None:
        """A wait that ended early does not stretch or cut the next one."""

        async def act(scene: Scene) -> None:
            loop = asyncio.get_running_loop()
            scene.hub.wake()
            for first, second in ((60.0, 0.02), (0.02, 0.06)):
                loop.call_soon(scene.hub.wake)
                assert "activity" == await scene.hub.wait(first)
                started = loop.time()
                assert "timeout" == await scene.hub.wait(second)
                assert loop.time() - started > second - 0.01

        play(tmp_path, act)

    def test_closing_wakes_the_waiter(self, tmp_path: Path) -> None:
        """close() ends a wait, every later one at once, and refuses new watches."""

        async def act(scene: Scene) -> None:
            asyncio.get_running_loop().call_soon(scene.hub.close)
            assert "closed" == await scene.hub.wait(30)
            assert "closed" == await scene.hub.wait(30)
            scene.hub.close()
            with pytest.raises(OSError, match="closed"):
                scene.hub.watch(scene.fd, scene.ears)

        play(tmp_path, act)

    def test_acting_where_it_is_noticed(self, tmp_path: Path) -> None:
        """With somebody who acts on events, the waiter is woken only where something is left."""

        async def act(scene: Scene) -> None:
            left = [False, True]
            scene.hub.serve(lambda: left.pop(0))
            waiting = asyncio.create_task(scene.hub.wait(30))
            await asyncio.sleep(0)
            scene.appear("a.req.json")
            for _ in range(5):
                await asyncio.sleep(0.005)
            assert ([True], False) == (left, waiting.done())
            scene.appear("b.req.json")
            assert "activity" == await waiting

        play(tmp_path, act)


class TestEvents:
    def test_foreign_names_wake_nobody(self, tmp_path: Path) -> None:
        """Files that are no requests, odd names among them, are no activity."""

        async def act(scene: Scene) -> None:
            for name in ("a.res.json", "a.claim.x", "relay.json", "x y.req.json", "n.txt"):
                scene.appear(name)
            odd = os.fsencode(tmp_path) + b"/\xff\n.req.json"
            (tmp_path / "temp").touch()
            os.rename(os.fsencode(tmp_path / "temp"), odd)
            assert "timeout" == await scene.hub.wait(0.05)
            assert [] == scene.ears.heard

        play(tmp_path, act)

    def test_a_directory_that_goes(self, tmp_path: Path) -> None:
        """A directory that is moved away is reported."""
        folder = tmp_path / "folder"
        folder.mkdir()

        async def act(scene: Scene) -> None:
            folder.rename(tmp_path / "elsewhere")
            assert "activity" == await scene.hub.wait(30)
            assert ["gone"] == scene.ears.heard

        play(folder, act)

    def test_after_unwatch(self, tmp_path: Path) -> None:
        """What happens after a watch was ended is nobody's, and ending it twice does nothing."""

        async def act(scene: Scene) -> None:
            scene.hub.unwatch(scene.watch)
            scene.hub.unwatch(scene.watch)
            scene.appear("a.req.json")
            assert "timeout" == await scene.hub.wait(0.05)
            scene.watch = scene.hub.watch(scene.fd, scene.ears)
            scene.appear("b.req.json")
            assert "activity" == await scene.hub.wait(30)
            assert ["b"] == scene.ears.heard

        play(tmp_path, act)

    def test_many_events(self, tmp_path: Path) -> None:
        """A listener is told when thousands of events came, foreign ones too."""

        async def act(scene: Scene) -> None:
            a, b = tmp_path / "a", tmp_path / "b"
            a.touch()
            for _ in range(MANY // 2):
                a.rename(b)
                b.rename(a)
            for _ in range(1000):
                await scene.hub.wait(0.001)
            assert [f"{MANY} events"] == scene.ears.heard

        play(tmp_path, act)

    def test_overflow(self, tmp_path: Path) -> None:
        """When the kernel's queue overflows, every listener is told that only a scan can tell."""
        limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())

        async def act(scene: Scene) -> None:
            a, b = tmp_path / "a.req.json", tmp_path / "b.req.json"
            a.touch()
            for _ in range(limit // 2 + 10):
                a.rename(b)
                b.rename(a)
            while "?" not in scene.ears.heard:
                assert "activity" == await scene.hub.wait(30)

        play(tmp_path, act)

    def test_an_instance_that_fails(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """When events can no longer be read, the listeners are told, with one line in the log."""

        async def act(scene: Scene) -> None:
            null = os.open("/", os.O_RDONLY)
            os.dup2(null, scene.hub._fd)
            os.close(null)
            scene.hub._readable()
            assert "activity" == await scene.hub.wait(30)
            assert ["unwatched"] == scene.ears.heard

        play(tmp_path, act)
        assert 1 == len(caplog.messages)

    def test_what_a_file_system_reports(self, tmp_path: Path) -> None:
        """A probe tells whether a rename is seen at all, and keeps no hint from its listener."""

        async def act(scene: Scene) -> None:
            def appear() -> None:
                scene.appear("a.req.json")
                scene.appear("relay.json")

            assert scene.hub.sees(scene.watch, "relay.json", appear)
            assert not scene.hub.sees(scene.watch, "relay.json", lambda: None)
            assert "activity" == await scene.hub.wait(30)
            assert ["a"] == scene.ears.heard

        play(tmp_path, act)


def test_inotify_is_there() -> None:
    """These tests need what they test."""
    assert inotify.available()
