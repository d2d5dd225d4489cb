"""Tools that cannot be ended: who leaves many behind is refused, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from relay.engine import behind


@pytest.mark.parametrize("kind", ["blocking", "stubborn"])
def test_a_session_that_leaves_many_behind(
    hand: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It hears *busy* until some have ended; its neighbour's calls run all the time."""
    monkeypatch.setattr(behind, "MOST_OF_ONE", 3)
    monkeypatch.setattr(behind, "MOST", 6)
    release = threading.Event()

    def blocking() -> None:
        release.wait(60)

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    one, other = hand.beside("one"), hand.beside("other")
    tools = {"hang": {"blocking": blocking, "stubborn": stubborn}[kind], "fine": lambda: "fine"}

    async def go() -> list[str]:
        said = []
        async with hand.root_runner(tools) as runner:
            for number in range(10):
                one.ask(f"r{number}", "hang", timeout_ms=60)
                said.append((await one.answer(f"r{number}")).code)
                assert "fine" == (await other.call("fine")).text
            release.set()
            await hand.until(lambda: runner.left_behind == 0)
            await until_taken(one)
        return said

    assert [*["timeout"] * 3, *["busy"] * 7] == asyncio.run(go())


async def until_taken(hand: Any) -> None:
    """Call until the session is served again."""
    for _ in range(1000):
        response = await hand.call("fine")
        if response.text == "fine":
            return
        assert "busy" == response.code
    pytest.fail("it was never served again")
