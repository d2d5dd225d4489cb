"""What a runner signals, and what its writers wait for then."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from relay import inotify
from relay.client.loop import loop_wakes
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
                exchange = writer.exchange("echo")
                heard = loop_wakes(asyncio.get_running_loop()).listen(exchange.waiter)
                return [*seen, exchange.waiter.signals, heard]

        assert ["1", "2", True, True] == asyncio.run(go())
