"""What a hostile writer may put into its directory: it is refused, or left alone; others go on."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.protocol import Request, Response, encode_request

ECHO = encode_request(Request("echo", "x", {"text": "hi"}, None))


def fifo(path: Path, folder: Path) -> None:
    """A pipe that nobody writes to."""
    del folder
    os.mkfifo(path)


def symlink(path: Path, folder: Path) -> None:
    """A link to a well-formed request elsewhere."""
    (folder / "elsewhere").write_bytes(ECHO)
    path.symlink_to(folder / "elsewhere")


def hard_link(path: Path, folder: Path) -> None:
    """A second name of a file."""
    (folder / "first").write_bytes(ECHO)
    path.hardlink_to(folder / "first")


def empty_directory(path: Path, folder: Path) -> None:
    """A directory."""
    del folder
    path.mkdir()


def full_directory(path: Path, folder: Path) -> None:
    """A directory with something in it."""
    del folder
    path.mkdir()
    (path / "inner").mkdir()


def device_of_zeros(path: Path, folder: Path) -> None:
    """A file that reads as ten gigabytes."""
    del folder
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)


PLANTED = [fifo, symlink, hard_link, empty_directory, full_directory, device_of_zeros]


class TestPlantedRequests:
    @pytest.mark.parametrize("plant", PLANTED)
    @pytest.mark.parametrize("watch", [True, False])
    def test_it_is_refused_and_the_next_one_runs(
        self, hand: Any, tmp_path: Path, plant: Callable[[Path, Path], None], *, watch: bool
    ) -> None:
        """Whatever stands at a request's name is answered or removed, and blocks nobody."""

        async def go() -> tuple[Response, Response]:
            async with hand.runner(local_watch=watch):
                plant(tmp_path / "planted", tmp_path)
                (tmp_path / "planted").rename(hand.session / "bad.req.json")
                return await hand.answer("bad"), await hand.call("echo", text="good")

        bad, good = asyncio.run(go())
        expected = "too_large" if plant is device_of_zeros else "bad_request"
        assert (expected, Response(ok=True, text="good")) == (bad.code, good)
        assert [] == [name for name in hand.names() if "aside" not in name]


class TestPlantedElsewhere:
    @pytest.mark.parametrize("plant", PLANTED)
    @pytest.mark.parametrize("name", ["x.res.json", "x.claim.{runner}", "relay.json"])
    def test_at_a_name_of_the_runner(
        self, hand: Any, tmp_path: Path, plant: Callable[[Path, Path], None], name: str
    ) -> None:
        """Something planted where the runner writes keeps no other call from its answer."""

        async def go() -> Response:
            async with hand.runner() as runner:
                planted = hand.session / name.format(runner=runner.id)
                planted.unlink(missing_ok=True)
                plant(planted, tmp_path)
                hand.ask("x", args={"text": "x"})
                response: Response = await hand.call("echo", text="good")
                return response

        assert Response(ok=True, text="good") == asyncio.run(go())

    def test_a_directory_at_the_responses_name(self, hand: Any) -> None:
        """A directory in the way of a response is moved aside, and the answer comes."""

        async def go() -> Response:
            async with hand.runner():
                (hand.session / "x.res.json").mkdir()
                (hand.session / "x.res.json" / "inner").mkdir()
                hand.ask("x", args={"text": "x"})
                response: Response = await hand.answer("x")
                return response

        assert Response(ok=True, text="x") == asyncio.run(go())

    def test_a_link_at_the_responses_name(self, hand: Any, tmp_path: Path) -> None:
        """A link in the way of a response is replaced; what it led to is untouched."""
        victim = tmp_path / "victim"
        victim.write_text("precious")

        async def go() -> Response:
            async with hand.runner():
                (hand.session / "x.res.json").symlink_to(victim)
                hand.ask("x", args={"text": "x"})
                await hand.until(lambda: not (hand.session / "x.res.json").is_symlink())
                response: Response = await hand.answer("x")
                return response

        assert (Response(ok=True, text="x"), "precious") == (asyncio.run(go()), victim.read_text())

    def test_at_the_place_of_relay_json_before_the_start(self, hand: Any) -> None:
        """A directory planted at relay.json's name is moved aside at the start."""
        (hand.session / "relay.json").mkdir()
        (hand.session / "relay.json" / "inner").mkdir()

        async def go() -> Any:
            async with hand.runner():
                return json.loads((hand.session / "relay.json").read_bytes())

        assert 1 == asyncio.run(go())["protocol"]


class TestForeignNames:
    def test_they_are_left_alone(self, hand: Any) -> None:
        """Names that are not the relay's stay, whatever they look like."""
        foreign = [
            b"notes.txt",
            b"a b.req.json",
            b"x.req.json.swp",
            b"\xff\xfe.req.json",
            b"new\nline.req.json",
            b"x" * 201 + b".req.json",
            b"x.claim.no such runner",
            b"x.tmp.12",
            b".req.json",
        ]
        session = os.fsencode(hand.session)
        for name in foreign:
            with open(session + b"/" + name, "wb") as file:
                file.write(ECHO)
            os.utime(session + b"/" + name, (1, 1))

        async def go() -> Response:
            async with hand.runner():
                response: Response = await hand.call("echo", text="good")
                return response

        assert Response(ok=True, text="good") == asyncio.run(go())
        left = [name for name in os.listdir(session) if name != b"relay.json"]
        assert sorted(foreign) == sorted(left)


class TestLog:
    def test_a_writer_cannot_forge_a_line(
        self, hand: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Names and texts of a writer's choosing reach the log only as one harmless word."""
        name = "x\nstage=relay_ready dir=/ \x1b[31m\u202e"

        async def go() -> None:
            def guard(request: Request) -> str | None:
                raise ValueError(request.tool)

            async with hand.runner(guard=guard):
                await hand.call(name)

        with caplog.at_level(logging.DEBUG, logger="relay"):
            asyncio.run(go())
        lines = [line for line in caplog.messages if "31m" in line]
        assert lines
        assert [] == [line for line in lines if not line.isprintable()]


class TestModes:
    def test_files_are_the_owners_alone(self, hand: Any) -> None:
        """Responses and relay.json can be read by nobody else."""
        assert {0o600} == asyncio.run(self.modes(hand))

    def test_a_setgid_directory_is_shared_with_its_group(self, hand: Any) -> None:
        """In a setgid directory, files are the group's too: writer and runner may differ."""
        hand.session.chmod(0o2770)
        assert {0o660} == asyncio.run(self.modes(hand))

    async def modes(self, hand: Any) -> set[int]:
        """Return the permissions of what a runner publishes."""
        async with hand.runner():
            hand.ask("x")
            path = hand.session / "x.res.json"
            await hand.until(path.exists)
            return {stat.S_IMODE(p.stat().st_mode) for p in (path, hand.session / "relay.json")}


class TestFloods:
    def test_events_without_end(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """Events that lead nowhere cost a session its watch until it is quiet; calls go on."""

        async def go() -> list[str]:
            said = []
            async with hand.runner(poll=timedelta(milliseconds=20)) as runner:
                place = runner._loop.sessions[0].place
                one, two = hand.session / "a.txt", hand.session / "b.txt"
                one.touch()
                while place.watch is not None:
                    for _ in range(500):
                        one.rename(two)
                        two.rename(one)
                    await asyncio.sleep(0)
                said.append((await hand.call("echo", text="polled")).text)
                await hand.until(lambda: place.watch is not None)
                said.append((await hand.call("echo", text="watched")).text)
            return said

        with caplog.at_level(logging.WARNING, logger="relay"):
            assert ["polled", "watched"] == asyncio.run(go())
        assert 1 == len(caplog.messages)

    def test_what_queued_up_while_it_stood_still(
        self, hand: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A runner that was stopped and goes on takes what its peers did meanwhile for no flood."""

        def stand_still_while_peers_work(runner: Any) -> None:
            one, two = hand.session / "a.claim.peer", hand.session / "a.res.json"
            one.touch()
            until = runner.shared.clock() + 2
            for _ in range(7000):
                one.rename(two)
                two.rename(one)
            one.unlink()
            while runner.shared.clock() < until:
                pass

        async def go() -> str:
            async with hand.runner() as runner:
                await hand.call("echo")
                stand_still_while_peers_work(runner)
                polls = runner.counters.polls
                await hand.until(lambda: runner.counters.polls > polls + 2)
                said: str = (await hand.call("echo", text="watched")).text
                assert runner._loop.sessions[0].place.watch is not None
                return said

        with caplog.at_level(logging.WARNING, logger="relay"):
            assert "watched" == asyncio.run(go())
        assert [] == caplog.messages

    def test_many_requests_at_once(self, hand: Any) -> None:
        """A burst of honest requests, however large, costs no session its watch."""

        async def go() -> bool:
            async with hand.runner() as runner:
                place = runner._loop.sessions[0].place
                for number in range(3000):
                    hand.ask(f"n{number}")
                await hand.until(lambda: runner.counters.executed == 3000)
                return place.watch is not None

        assert asyncio.run(go())

    def test_foreign_files_hold_nobody_up(self, hand: Any) -> None:
        """Among thousands of foreign files a poll still finds what came without an event."""
        for number in range(5000):
            (hand.session / f"foreign-{number}").touch()

        async def go() -> int:
            async with hand.runner(local_watch=False) as runner:
                said = [await hand.call("echo", text=str(n)) for n in range(3)]
                assert [str(n) for n in range(3)] == [response.text for response in said]
                scans: int = runner.counters.scans
                return scans

        assert asyncio.run(go()) > 0

    def test_saturation_leaves_every_timer_alive(self, hand: Any) -> None:
        """While requests come faster than they can be served, timers of the loop still fire."""

        async def go() -> tuple[int, int]:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.001)
                    ticks += 1

            async with hand.runner() as runner:
                ticking = asyncio.create_task(tick())
                published = 0
                while ticks < 20 or published < 2000:
                    hand.ask(f"n{published}")
                    published += 1
                    if published % 50 == 0:
                        await asyncio.sleep(0)
                await hand.until(lambda: runner.counters.executed == published)
                ticking.cancel()
            return published, len(list(hand.session.glob("*.res.json")))

        published, answered = asyncio.run(go())
        assert published == answered
