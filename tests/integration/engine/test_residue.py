"""What lies in the directory when a runner starts, and what it does with it, then and later."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from typing import Any

import pytest

from relay.protocol import Response, decode_response


async def started(hand: Any, **options: Any) -> list[str]:
    """Start a runner and stop it; return what is there while it is ready."""
    async with hand.runner(**options):
        names: list[str] = hand.names()
        return names


class TestAtTheStart:
    def test_requests_are_not_executed(self, hand: Any) -> None:
        """Requests that came before any runner are answered so, and do not run."""
        ran = []
        for request in ("a", "b"):
            hand.ask(request, "t")

        async def go() -> list[Response]:
            async with hand.runner({"t": lambda: ran.append(1)}):
                assert ["a.res.json", "b.res.json"] == hand.names()
                return [await hand.answer(request) for request in ("a", "b")]

        assert ["not_executed", "not_executed"] == [response.code for response in asyncio.run(go())]
        assert [] == ran

    def test_claims_of_the_dead(self, hand: Any) -> None:
        """A claim without a response is interrupted; one with a response is only removed."""
        for request in ("silent", "answered"):
            hand.put(f"{request}.claim.dead", b"{}")
        hand.put("answered.res.json", b'{"ok": true, "text": "said"}')

        async def go() -> tuple[Response, Response]:
            async with hand.runner():
                assert ["answered.res.json", "silent.res.json"] == hand.names()
                return await hand.answer("silent"), await hand.answer("answered")

        silent, answered = asyncio.run(go())
        assert ("interrupted", Response(ok=True, text="said")) == (silent.code, answered)

    def test_two_claims_of_one_id(self, hand: Any) -> None:
        """However many runners died over one id, it is answered once and all claims go."""
        for runner in ("dead-1", "dead-2", "dead-3"):
            hand.put(f"x.claim.{runner}", b"{}")
        assert ["x.res.json"] == asyncio.run(started(hand))

    @pytest.mark.parametrize(
        ("name", "age", "stays"),
        [
            ("x.res.json", 59, True),
            ("x.res.json", 61, False),
            ("x.req.json.tmp.0a", 59, True),
            ("x.req.json.tmp.0a", 61, False),
            ("x.res.json.tmp.0a", 61, False),
            ("relay.json.tmp.0a", 61, False),
            ("x.txt.tmp.0a", 9999, True),
        ],
    )
    def test_what_is_old_goes(self, hand: Any, name: str, age: float, *, stays: bool) -> None:
        """Responses stay for RELAY_TIMEOUT_MS, unfinished files for a minute."""
        hand.put("prepared", b"{}").rename(hand.session / name)
        hand.age(name, age)
        assert ([name] if stays else []) == asyncio.run(started(hand))

    def test_much_of_it(self, hand: Any) -> None:
        """Hundreds of leftovers are all answered before the runner is ready."""
        for number in range(300):
            hand.put(f"r{number}.req.json", b"{}")
            hand.put(f"c{number}.claim.dead", b"{}")
        names = asyncio.run(started(hand))
        assert {".res.json"} == {name[name.index(".") :] for name in names}
        assert 600 == len(names)


class TestLater:
    def test_a_response_that_nobody_fetched(self, hand: Any) -> None:
        """In a long-lived runner too, a response goes when its caller's deadline is over."""

        async def go() -> list[str]:
            async with hand.runner(timeout=timedelta(milliseconds=300)):
                hand.ask("usual")
                hand.ask("patient", timeout_ms=60_000)
                both = ["patient.res.json", "usual.res.json"]
                await hand.until(lambda: hand.names() == both)
                await hand.until(lambda: hand.names() != both)
                names: list[str] = hand.names()
                return names

        assert ["patient.res.json"] == asyncio.run(go())

    def test_a_claim_of_nobody(self, hand: Any) -> None:
        """A claim that appears from nowhere, of a runner that is not alive, is answered."""

        async def go() -> Response:
            async with hand.runner(timeout=timedelta(seconds=4)):
                hand.put("x.claim.nobody", b"{}")
                response: Response = await hand.answer("x")
                return response

        assert "interrupted" == asyncio.run(go()).code

    def test_a_response_in_use_is_complete(self, hand: Any) -> None:
        """Whoever finds a response at any moment finds all of it."""
        seen: list[int] = []

        async def go() -> None:
            async with hand.runner({"big": lambda: "x" * 300_000}):
                for number in range(20):
                    hand.ask(f"n{number}", "big")
                deadline = time.monotonic() + 20
                while len(seen) < 20 and time.monotonic() < deadline:
                    for name in os.listdir(hand.session):
                        if name.endswith(".res.json"):
                            path = hand.session / name
                            seen.append(len(decode_response(path.read_bytes()).text))
                            path.unlink()
                    await asyncio.sleep(0)

        asyncio.run(go())
        assert [300_000] * 20 == seen
