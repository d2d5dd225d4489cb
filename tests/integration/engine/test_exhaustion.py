"""A runner that has run out of something: descriptors, threads, time. It goes on when it has some.

Descriptors run out by the process's own limit, so that nothing but the runner has to do with it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from relay.protocol import Request, Response, encode_request


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    """Let nothing be opened for a while; what is open stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class TestDescriptors:
    def test_peers_cannot_be_looked_at(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """That another runner cannot be seen is one line, and ends nothing."""

        async def go() -> Response:
            async with hand.runner():
                await hand.call("echo")
                with no_free_descriptor():
                    (hand.state / "locks" / "changed").mkdir()
                    await hand.until(lambda: "the other runners cannot be looked at" in caplog.text)
                response: Response = await hand.call("echo")
                return response

        assert asyncio.run(go()).ok
        assert 1 == caplog.text.count("the other runners cannot be looked at")

    def test_a_request_cannot_be_opened(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """What the runner lacks is not the request's fault: its caller hears that it is busy."""
        caplog.set_level("INFO", "relay")

        async def go() -> Response:
            async with hand.runner():
                await hand.call("echo")
                temp = hand.put("waiting", encode_request(Request("echo", "", {}, None)))
                with no_free_descriptor():
                    temp.rename(hand.session / "one.req.json")
                    await hand.until(lambda: "stage=relay_refused id=one" in caplog.text)
                response: Response = await hand.answer("one")
                return response

        refused = asyncio.run(go())
        assert ("busy", True) == (refused.code, os.strerror(24) in refused.error)


class TestThreads:
    def test_a_queued_call_does_not_run_late(self, hand: Any) -> None:
        """A call whose time ended while it waited for a thread, and its runner stood still."""
        release = threading.Event()
        held: list[bool] = []
        ran: list[bool] = []

        def hold() -> None:
            held.append(True)
            release.wait(60)
            held.pop()

        def stand_still() -> None:
            # The loop, past the deadline; the threads go on.
            time.sleep(0.6)
            release.set()
            while held:
                time.sleep(0.01)
            time.sleep(0.05)

        async def go() -> Response:
            tools = {"hold": hold, "late": lambda: ran.append(True)}
            async with hand.runner(tools, session_max_in_flight=100):
                for number in range(64):
                    hand.ask(f"hold-{number}", "hold")
                await hand.until(lambda: len(held) == 64)
                request = hand.ask("late", "late", timeout_ms=500)
                await hand.until(lambda: not request.exists())
                stand_still()
                response: Response = await hand.answer("late")
                return response

        assert "timeout" == asyncio.run(go()).code
        assert [] == ran
