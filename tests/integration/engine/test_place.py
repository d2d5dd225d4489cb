"""A session directory that goes and comes while it is served."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.protocol import Response

GONE = "is gone; waiting for it"
BACK = "is served again"


def text(said: str) -> Response:
    """Return the response with this text."""
    return Response(ok=True, text=said)


class TestAnotherDirectory:
    @pytest.mark.parametrize("watch", [True, False])
    @pytest.mark.parametrize("way", ["deleted", "moved", "replaced"])
    def test_it_is_served(
        self, hand: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str, *, watch: bool
    ) -> None:
        """What stands at the path after a change is served, by watch or poll, with two lines."""

        async def go() -> tuple[Response, Response]:
            async with hand.runner(local_watch=watch, poll=timedelta(milliseconds=50)):
                before = await hand.call("echo", text="before")
                if way == "deleted":
                    shutil.rmtree(hand.session)
                elif way == "moved":
                    hand.session.rename(tmp_path / "aside")
                if way == "replaced":
                    (tmp_path / "other").mkdir()
                    hand.session.rename(tmp_path / "aside")
                    (tmp_path / "other").rename(hand.session)
                else:
                    await asyncio.sleep(0)
                    hand.session.mkdir()
                after = [await hand.call("echo", text=str(n)) for n in range(3)]
                assert [text(str(n)) for n in range(3)] == after
                told = json.loads((hand.session / "relay.json").read_bytes())
                assert 1 == told["protocol"]
                return before, after[0]

        with caplog.at_level(logging.WARNING, logger="relay"):
            assert (text("before"), text("0")) == asyncio.run(go())
        assert [1, 1] == [sum(said in line for line in caplog.messages) for said in (GONE, BACK)]

    def test_what_was_there_before_the_runner_is_executed(self, hand: Any) -> None:
        """A directory made anew is scanned, not swept: requests in it run."""

        async def go() -> Response:
            async with hand.runner(poll=timedelta(milliseconds=50)):
                shutil.rmtree(hand.session)
                hand.session.mkdir()
                hand.ask("x", args={"text": "ran"})
                response: Response = await hand.answer("x")
                return response

        assert text("ran") == asyncio.run(go())

    def test_a_link_is_not_followed(self, hand: Any, tmp_path: Path) -> None:
        """A link that takes the directory's place is not followed; a directory again is served."""
        other = tmp_path / "other"
        other.mkdir()
        (other / "x.req.json").write_bytes(b'{"toolName": "echo"}')

        async def go() -> Response:
            async with hand.runner(poll=timedelta(milliseconds=20)) as runner:
                shutil.rmtree(hand.session)
                hand.session.symlink_to(other)
                polls = runner.counters.polls
                await hand.until(lambda: runner.counters.polls > polls + 5)
                assert ["x.req.json"] == [path.name for path in other.iterdir()]
                hand.session.unlink()
                hand.session.mkdir()
                response: Response = await hand.call("echo", text="back")
                return response

        assert text("back") == asyncio.run(go())

    def test_a_path_through_a_link_is_the_operators(self, hand: Any, tmp_path: Path) -> None:
        """A directory that is named through a link at the start is served."""
        link = tmp_path / "link"
        link.symlink_to(hand.session)

        async def go() -> Response:
            runner = hand.runner()
            runner._path = str(link)
            async with runner:
                response: Response = await hand.call("echo", text="through")
                return response

        assert text("through") == asyncio.run(go())

    def test_a_call_in_flight(self, hand: Any, tmp_path: Path) -> None:
        """A call that runs while its directory is moved is answered where the directory is."""
        inside = asyncio.Event()

        async def slow() -> str:
            inside.set()
            await asyncio.sleep(0.2)
            return "slow"

        async def go() -> bytes:
            async with hand.runner({"slow": slow}, poll=timedelta(milliseconds=20)):
                hand.ask("x", "slow")
                await inside.wait()
                hand.session.rename(tmp_path / "aside")
                path = tmp_path / "aside" / "x.res.json"
                hand.session.mkdir()
                await hand.until(path.exists)
                return path.read_bytes()

        assert b'{"ok":true,"text":"slow"}' == asyncio.run(go())


class TestStateDirectory:
    def test_it_is_made_again(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A runner whose locks were removed signs on again, and the next start sees it alive."""

        async def go() -> list[str]:
            async with hand.runner() as first:
                shutil.rmtree(hand.state)
                mark = hand.state / "locks" / "runners" / first.id
                await hand.until(mark.exists)
                hand.ask("x")
                async with hand.runner():
                    response = await hand.answer("x")
                    return [response.code]

        with caplog.at_level(logging.WARNING, logger="relay"):
            assert [""] == asyncio.run(go())
        assert 1 == sum("signing on again" in line for line in caplog.messages)


class TestWhatWritersAreTold:
    @pytest.mark.parametrize("way", ["deleted", "replaced", "written over", "locked up", "planted"])
    def test_it_comes_back(self, hand: Any, way: str) -> None:
        """A relay.json that a writer removed or changed is published again, with no call at all."""
        told = hand.session / "relay.json"

        def spoil() -> None:
            if way == "deleted":
                told.unlink()
            elif way == "replaced":
                hand.put("relay.json", b"{}")
            elif way == "written over":
                told.write_bytes(b"{}")
            elif way == "locked up":
                told.chmod(0)
            else:
                told.unlink()
                told.mkdir()

        async def go() -> tuple[bytes, bytes, int]:
            async with hand.runner(poll=timedelta(milliseconds=20), idle_grow_after=10_000):
                before = told.read_bytes()
                for _ in range(2):
                    spoil()
                    await hand.until(lambda: told.is_file() and told.read_bytes() == before)
                    await hand.until(lambda: told.stat().st_mode & 0o777 == 0o600)
                return before, told.read_bytes(), told.stat().st_mode & 0o777

        before, after, mode = asyncio.run(go())
        assert (before, 0o600) == (after, mode)

    def test_not_endlessly(self, hand: Any) -> None:
        """A writer that removes it all the time has it published ever more seldom."""
        told = hand.session / "relay.json"

        async def go() -> tuple[int, int]:
            async with hand.runner(poll=timedelta(milliseconds=10), idle_grow_after=10_000) as one:
                before, clock = 0, one.shared.clock
                end = clock() + 4
                while clock() < end:
                    if told.exists():
                        told.unlink()
                        before += 1
                    await asyncio.sleep(0.002)
                return before, one.counters.polls

        published, polls = asyncio.run(go())
        # At once, then after 0.25, 0.5, 1 and 2 seconds.
        assert published <= 6 < polls
        assert published >= 3

    def test_an_older_runner_leaves_it(self, hand: Any) -> None:
        """What a newer runner publishes is not taken for a writer's change."""
        told = hand.session / "relay.json"

        async def go() -> list[bool]:
            pace = {"poll": timedelta(milliseconds=10), "idle_grow_after": 10_000}
            async with hand.runner(**pace) as old, hand.runner(**pace) as new:
                seen = []
                polls = old.counters.polls
                while old.counters.polls < polls + 60:
                    seen.append(new.id.encode() in told.read_bytes())
                    await asyncio.sleep(0.005)
                return seen

        assert {True} == set(asyncio.run(go()))
