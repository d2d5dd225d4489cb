"""What a runner signals, and what its writers wait for then."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay import inotify
from relay.client.writer import Writer


async def echo(text: str) -> str:
    """Give it back."""
    return text


class TestRunner:
    @pytest.mark.parametrize("mode", [0o700, 0o2770])
    def test_an_answer_is_the_only_signal_of_a_call(self, hand: Any, mode: int) -> None:
        """Of request, claim and answer, only the answer is signalled, and that once."""
        hand.session.chmod(mode)

        async def go() -> tuple[list[str], list[bytes]]:
            async with hand.runner({"echo": echo}):
                told = json.loads((hand.session / "relay.json").read_bytes())
                fd = inotify.init()
                inotify.add_watch(fd, str(hand.session), inotify.IN_ATTRIB)
                hand.ask("r", "echo", {"text": "x"})
                await hand.answer("r")
                seen = [name for _, _, name in inotify.read_events(fd)]
                os.close(fd)
            return told["features"], seen

        features, seen = asyncio.run(go())
        assert "signal" in features
        assert [b"r.res.json"] == [name for name in seen if b".tmp." not in name]


class TestWriter:
    def test_it_waits_for_signals_once_it_is_told(self, hand: Any) -> None:
        """A call that began before its runner hears the answer; the next one waits for signals."""

        async def go() -> list[Any]:
            writer = Writer(hand.session)
            call = asyncio.create_task(writer.acall("echo", {"text": "1"}))
            await hand.until(lambda: any(n.endswith(".req.json") for n in hand.names()))
            async with hand.runner({"echo": echo}):
                seen = [await call, await writer.acall("echo", {"text": "2"})]
                return [*seen, writer.exchange("echo").waiter.signals]

        assert ["1", "2", True] == asyncio.run(go())


MODES_CANNOT_BE_SET = """
import asyncio, errno, json, os, sys
sys.path.insert(0, sys.argv[1])
from relay import Runner, acall

def refuse(event, arguments):
    # As vfat does, all of whose files have one mode.
    if event == "os.chmod" and "/session/" in os.readlink(f"/proc/self/fd/{arguments[0]}"):
        raise PermissionError(errno.EPERM, "Operation not permitted")

async def echo(text):
    return text

async def go():
    sys.addaudithook(refuse)
    async with Runner("session", tools={"echo": echo}, state="state"):
        with open("session/relay.json") as file:
            print(json.load(file)["features"])
        print(await acall("echo", {"text": "heard"}, dir="session", environ={}))
asyncio.run(go())
"""


class TestWhereModesCannotBeSet:
    def test_nothing_is_said_to_be_signalled(self, tmp_path: Path, root: Path) -> None:
        """Writers are told to wait for renames, where a file's mode cannot be set."""
        done = subprocess.run(
            [sys.executable, "-c", MODES_CANNOT_BE_SET, str(root)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (["['cancel']", "heard"], "") == (done.stdout.splitlines(), done.stderr)
