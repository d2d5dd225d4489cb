"""Arguments that take long to judge: a bound in time, and nobody else waits."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Any

import pytest

from relay.protocol import Response
from relay.tools.judges import BOUND
from relay.tools.registry import python_tool
from relay.tools.validate import Validator


def text(said: str) -> Response:
    """Return the response with this text."""
    return Response(ok=True, text=said)


async def echo(text: str = "") -> str:
    """Give the text back."""
    return text


#: Each takes longer on BOMB than anybody will wait.
WILD = (r"^(a+)+$", r"^(a|aa)+$", r"^(?:a?){40}a{40}$")
BOMB = "a" * 39 + "!"


def schema(pattern: str) -> dict[str, Any]:
    """Return the schema of one text that must match."""
    return {"type": "object", "properties": {"text": {"type": "string", "pattern": pattern}}}


class TestPatterns:
    @pytest.mark.parametrize("pattern", WILD)
    def test_one_that_takes_for_ever(self, hand: Any, pattern: str) -> None:
        """A text that a pattern cannot be done with is refused; meanwhile others are answered."""
        tools = [
            python_tool("wild", echo, schema=schema(pattern)),
            python_tool("echo", echo),
        ]

        async def go() -> tuple[Response, list[Response], bool]:
            async with hand.runner(tools):
                hand.ask("bomb", "wild", {"text": BOMB})
                await hand.until(lambda: "bomb.req.json" not in hand.names())
                others = [await hand.call("echo", text=str(n)) for n in range(5)]
                early = "bomb.res.json" not in hand.names()
                return await hand.answer("bomb"), others, early

        bomb, others, early = asyncio.run(go())
        assert ("invalid_args", True) == (bomb.code, early)
        assert f"more than {BOUND:g} s" in bomb.error
        assert [text(str(n)) for n in range(5)] == others

    def test_it_still_judges(self, hand: Any) -> None:
        """What such a pattern can be done with is judged by it, also after a bomb."""
        tools = [python_tool("wild", echo, schema=schema(WILD[0]))]

        async def go() -> list[str]:
            async with hand.runner(tools):
                texts = ["aaa", "aab", BOMB, "aaaa", "ab"]
                said = [await hand.call("wild", text=each) for each in texts]
                return [response.code or response.text for response in said]

        expected = ["aaa", "invalid_args", "invalid_args", "aaaa", "invalid_args"]
        assert expected == asyncio.run(go())

    def test_with_a_guard(self, hand: Any) -> None:
        """A guard is asked first, and the bound is the same."""
        tools = [python_tool("wild", echo, schema=schema(WILD[0]))]

        async def go() -> list[str]:
            async with hand.runner(tools, guard=lambda _: None):
                said = [await hand.call("wild", text=each) for each in (BOMB, "a")]
                return [response.code or response.text for response in said]

        assert ["invalid_args", "a"] == asyncio.run(go())

    def test_the_callers_deadline(self, hand: Any) -> None:
        """A caller who waits for less than the bound hears of its own deadline."""
        tools = [python_tool("wild", echo, schema=schema(WILD[0]))]

        async def go() -> str:
            async with hand.runner(tools):
                await hand.call("wild", text="a")
                hand.ask("bomb", "wild", {"text": BOMB}, timeout_ms=200)
                response: Response = await hand.answer("bomb")
                return response.code

        assert "timeout" == asyncio.run(go())

    def test_one_session_cannot_keep_the_others_out(self, hand: Any) -> None:
        """However many bombs one session throws, another's call is judged without waiting."""
        tools = [python_tool("wild", echo, schema=schema(WILD[0]))]
        hostile, honest = hand.beside("hostile"), hand.beside("honest")

        async def go() -> tuple[Response, int]:
            async with hand.root_runner(tools) as runner:
                await honest.call("wild", text="a")
                for number in range(30):
                    hostile.ask(f"b{number}", "wild", {"text": BOMB})
                await hand.until(lambda: runner.counters.executed > 1)
                said = await honest.call("wild", text="aa")
                return said, len([n for n in hostile.names() if "res" in n])

        said, answered = asyncio.run(go())
        assert text("aa") == said
        assert answered < 30

    def test_nothing_stays_behind(self, hand: Any) -> None:
        """A runner that stops ends its processes, whatever they are doing."""
        tools = [python_tool("wild", echo, schema=schema(WILD[0]))]

        async def go() -> list[int]:
            async with hand.runner(tools, drain_timeout=timedelta(milliseconds=50)) as runner:
                await hand.call("wild", text="a")
                hand.ask("bomb", "wild", {"text": BOMB})
                await hand.until(lambda: "bomb.req.json" not in hand.names())
                judges = runner._loop.engine.judges
                return [judge._process.pid for judge in judges._all]

        pids = asyncio.run(go())
        assert pids
        assert [] == [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


class TestLargeArguments:
    def test_they_hold_nobody_up(self, hand: Any) -> None:
        """Arguments that take long by their size are judged beside the loop, and judged right."""
        numbers = {
            "type": "object",
            "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}},
        }

        def total(numbers: list[int]) -> int:
            return sum(numbers)

        tools = [python_tool("total", total, schema=numbers)]

        async def go() -> list[str]:
            async with hand.runner(tools):
                good, bad = [1] * 50_000, [1] * 50_000 + ["x"]
                said = [
                    await hand.call("total", numbers=each) for each in (good, bad, [1, 2], ["x"])
                ]
                return [response.code or response.text for response in said]

        assert ["50000", "invalid_args", "3", "invalid_args"] == asyncio.run(go())


class TestWhatIsQuick:
    @pytest.mark.parametrize(
        "pattern",
        [r"^[a-z]+$", r"^\d{4}-\d{2}-\d{2}$", r"^[a-z0-9-]{1,64}$", "^https?://", ".*", ""],
    )
    def test_usual_patterns(self, pattern: str) -> None:
        """A pattern with one choice at most is applied in the loop, to short arguments."""
        validator = Validator(schema(pattern))
        assert validator.is_quick({"text": "x"}, 200)
        assert not validator.is_quick({"text": "x"}, 1 << 20)

    @pytest.mark.parametrize("pattern", [*WILD, "a*a*b", "a?a?b", "a|b", r"(x)\1", "a" * 501])
    def test_wild_patterns(self, pattern: str) -> None:
        """Any other is not, wherever it stands in the schema."""
        inners: tuple[dict[str, object], ...] = (
            {"pattern": pattern},
            {"patternProperties": {pattern: {}}},
            {"items": {"anyOf": [{"pattern": pattern}]}},
            {"propertyNames": {"pattern": pattern}},
        )
        for inner in inners:
            validator = Validator({"type": "object", "properties": {"text": inner}})
            assert not validator.is_quick({"text": "x"}, 20)

    def test_plain_types_of_any_size(self) -> None:
        """Arguments of plain types are judged at once, however long."""
        validator = Validator({"type": "object", "properties": {"text": {"type": "string"}}})
        assert validator.is_quick({"text": "x" * (1 << 20)}, 1 << 20)
