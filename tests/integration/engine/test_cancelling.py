"""A caller that gives up: its tool is told to stop, and nothing is left of the call."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from relay.client import Writer
from relay.tools import command_tool

#: A command that says when it has begun, and what ended it.
WITNESS = """
import os, signal, sys, time
place = sys.argv[1]
def stop(number, frame):
    os.rename(place + "/begun", place + "/stopped")
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)
open(place + "/begun", "w").close()
time.sleep(600)
"""


class Tool:
    """An asynchronous tool that waits until it is stopped."""

    def __init__(self) -> None:
        self.begun = self.stopped = False

    async def wait(self) -> str:
        """Wait without end."""
        self.begun = True
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.stopped = True
            raise
        return "never"


class TestRunner:
    def test_it_stops_an_asynchronous_tool(self, hand: Any) -> None:
        """A call that is cancelled ends its tool, and leaves no file and no answer."""
        tool = Tool()

        async def go() -> dict[str, int]:
            async with hand.runner({"wait": tool.wait}) as runner:
                call = asyncio.create_task(Writer(hand.session, environ={}).acall("wait"))
                await hand.until(lambda: tool.begun)
                call.cancel()
                await hand.until(lambda: tool.stopped)
                assert [] == hand.names()
                assert 0 == runner.left_behind
                return dict(runner.shared.answers)

        assert {"cancelled": 1} == asyncio.run(go())

    def test_it_stops_a_command(self, hand: Any, tmp_path: Path) -> None:
        """A command gets SIGTERM, as at its deadline."""
        argv = [sys.executable, "-c", WITNESS, str(tmp_path)]
        tool = command_tool("wait", argv, description="", schema={"type": "object"})

        async def go() -> None:
            async with hand.runner([tool]):
                call = asyncio.create_task(Writer(hand.session, environ={}).acall("wait"))
                await hand.until((tmp_path / "begun").exists)
                call.cancel()
                await hand.until((tmp_path / "stopped").exists)
                await hand.until(lambda: hand.names() == [])

        asyncio.run(go())

    def test_it_forgets_a_thread(self, hand: Any) -> None:
        """A blocking function cannot be stopped; its slot is free again all the same."""
        begun, release = threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            release.wait(60)

        async def go() -> None:
            tools = {"wait": wait, "fine": lambda: "fine"}
            async with hand.runner(tools, session_max_in_flight=1) as runner:
                writer = Writer(hand.session, environ={})
                call = asyncio.create_task(writer.acall("wait"))
                await hand.until(begun.is_set)
                call.cancel()
                assert "fine" == await writer.acall("fine", timeout=20)
                assert 1 == runner.left_behind
                release.set()
                await hand.until(lambda: runner.left_behind == 0)
                assert [] == hand.names()

        asyncio.run(go())

    def test_it_looks_at_one_call_only(self, hand: Any) -> None:
        """The other calls of the session go on."""
        tool = Tool()

        async def go() -> str:
            gate = asyncio.Event()

            async def other() -> str:
                await gate.wait()
                return "went on"

            async with hand.runner({"wait": tool.wait, "other": other}):
                writer = Writer(hand.session, environ={})
                first = asyncio.create_task(writer.acall("wait"))
                second = asyncio.create_task(writer.acall("other"))
                await hand.until(lambda: tool.begun)
                first.cancel()
                await hand.until(lambda: tool.stopped)
                gate.set()
                return await second

        assert "went on" == asyncio.run(go())

    @pytest.mark.parametrize("kind", ["file", "directory", "link"])
    def test_whatever_stands_at_the_name(self, hand: Any, kind: str) -> None:
        """A hostile writer's cancel is a cancel, whatever it made of it, and is cleared away."""
        tool = Tool()

        async def go() -> None:
            async with hand.runner({"wait": tool.wait}):
                hand.ask("one", "wait")
                await hand.until(lambda: tool.begun)
                path = hand.session / "one.cancel"
                if kind == "directory":
                    path.mkdir()
                elif kind == "link":
                    path.symlink_to("/etc/passwd")
                else:
                    path.write_text("anything")
                await hand.until(lambda: tool.stopped)
                await hand.until(lambda: hand.names() == [])

        asyncio.run(go())

    def test_one_that_came_too_late_goes(self, hand: Any) -> None:
        """A cancel of a call that is over is cleared at a start, once it is a minute old."""
        for name in ("old", "young"):
            hand.put(f"{name}.cancel", b"")
        hand.put("not.one.cancel", b"")
        hand.age("old.cancel", 61)
        hand.age("not.one.cancel", 61)

        async def go() -> None:
            async with hand.runner():
                assert ["not.one.cancel", "young.cancel"] == hand.names()

        asyncio.run(go())


class TestWriter:
    def claimed(self, hand: Any, features: list[str]) -> Any:
        """Announce a runner that claims, and does nothing more."""
        body = {"protocol": 1, "runner": "r", "settings": {}, "tools": [], "features": features}
        hand.put("relay.json", json.dumps(body).encode())
        return Writer(hand.session, environ={})

    @pytest.mark.parametrize("features", [[], ["cancel"]])
    def test_it_asks_only_a_runner_that_obeys(self, hand: Any, features: list[str]) -> None:
        """A runner of others would leave the file there for good."""
        writer = self.claimed(hand, features)

        async def go() -> list[str]:
            call = asyncio.create_task(writer.acall("wait", call_id="c"))
            await hand.until(lambda: any(n.endswith(".req.json") for n in hand.names()))
            (request,) = hand.names()
            id_ = request.removesuffix(".req.json")
            (hand.session / request).rename(hand.session / f"{id_}.claim.r")
            call.cancel()
            await asyncio.wait([call])
            return [name.replace(id_, "ID") for name in hand.names()]

        assert [*(["ID.cancel"] if features else []), "ID.claim.r"] == asyncio.run(go())

    def test_it_takes_an_answer_that_has_come(self, hand: Any) -> None:
        """Where the answer lies there already, there is nothing to stop and nothing is left."""
        writer = self.claimed(hand, ["cancel"])
        exchange = writer.exchange("wait", call_id="c")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        (request,) = hand.names()
        (hand.session / request).unlink()
        hand.put(request.replace(".req.", ".res."), b'{"ok": true, "text": ""}')
        steps.close()
        assert ([], "answered") == (hand.names(), exchange.state)

    def test_the_command_line(self, hand: Any) -> None:
        """Ctrl-C in ``relay call`` stops the tool, too."""
        tool = Tool()

        async def go() -> str:
            async with hand.runner({"wait": tool.wait}):
                environ = {n: t for n, t in os.environ.items() if not n.startswith("RELAY")}
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "relay", "call", "wait", "--dir", str(hand.session)),
                    stderr=subprocess.PIPE,
                    env=environ,
                )
                await hand.until(lambda: tool.begun)
                process.send_signal(signal.SIGINT)
                _, said = await process.communicate()
                assert 130 == process.returncode
                await hand.until(lambda: tool.stopped)
                return said.decode()

        assert "a runner had the request; it may have run" in asyncio.run(go())
