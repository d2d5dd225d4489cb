"""One call through a real runner: what each kind of tool, and each fault, sounds like."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import pytest

from relay.errors import ToolError
from relay.protocol import Request, Response
from relay.tools import PAUSED, python_tool


def failed(code: str, error: str) -> Response:
    """Return the response that says so."""
    return Response(ok=False, error=error, code=code)


def text(said: str) -> Response:
    """Return the response with this text."""
    return Response(ok=True, text=said)


def run(
    hand: Any, tools: Any, *calls: tuple[str, dict[str, Any]], **options: Any
) -> list[Response]:
    """Make these calls one after another through one runner."""

    async def go() -> list[Response]:
        async with hand.runner(tools, **options):
            return [await hand.call(tool, **args) for tool, args in calls]

    return asyncio.run(go())


class TestResults:
    def test_functions_of_both_kinds(self, hand: Any) -> None:
        """A tool may be a plain or an asynchronous function; its result is the text."""

        async def later(n: int) -> str:
            await asyncio.sleep(0)
            return f"later {n}"

        def at_once(n: int) -> str:
            return f"at once {n}"

        said = run(hand, {"a": later, "b": at_once}, ("a", {"n": 1}), ("b", {"n": 2}))
        assert [text("later 1"), text("at once 2")] == said

    def test_everything_but_text_is_json(self, hand: Any) -> None:
        """A result that is no text comes as JSON."""

        def given() -> Any:
            return {"a": [1, None, True, "é"]}

        assert [text('{"a":[1,null,true,"é"]}')] == run(hand, {"t": given}, ("t", {}))

    def test_paused(self, hand: Any) -> None:
        """A tool may park its call; the writer hears that it is paused."""
        paused = Response(ok=True, paused=True)
        assert [paused] == run(hand, {"t": lambda: PAUSED}, ("t", {}))

    def test_a_function_that_gives_a_coroutine(self, hand: Any) -> None:
        """A plain callable whose result must be awaited is awaited."""

        async def inner() -> str:
            return "inner"

        def outer() -> Any:
            return inner()

        assert [text("inner")] == run(hand, {"t": outer}, ("t", {}))

    def test_blocking_tools_run_beside_each_other(self, hand: Any) -> None:
        """Two plain functions that wait for each other both end."""
        both = threading.Barrier(2)

        def meet() -> str:
            both.wait(20)
            return "met"

        async def go() -> list[Response]:
            async with hand.runner({"meet": meet}):
                return list(await asyncio.gather(hand.call("meet"), hand.call("meet")))

        assert [text("met"), text("met")] == asyncio.run(go())

    def test_what_a_coroutine_asks_of_its_task(self, hand: Any) -> None:
        """Timeouts and task groups work from an asynchronous tool's first step on."""

        async def grouped() -> str:
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                first = group.create_task(asyncio.sleep(0, "first"))
            return first.result()

        assert [text("first")] == run(hand, {"t": grouped}, ("t", {}))


class TestFailures:
    @pytest.mark.parametrize("blocking", [True, False])
    def test_a_tool_error_is_told(self, hand: Any, *, blocking: bool) -> None:
        """The text of a ToolError is what the caller hears."""

        def plain() -> str:
            raise ToolError("no such account")

        async def asynchronous() -> str:
            raise ToolError("no such account")

        said = run(hand, {"t": plain if blocking else asynchronous}, ("t", {}))
        assert [failed("tool_error", "no such account")] == said

    @pytest.mark.parametrize("error", [ValueError("password=hunter2"), SystemExit(3)])
    def test_other_exceptions_are_only_named(self, hand: Any, error: BaseException) -> None:
        """The caller hears the kind of any other exception and none of its text; others go on."""

        async def broken() -> str:
            raise error

        tools = {"broken": broken, "fine": lambda: "fine"}
        said = run(hand, tools, ("broken", {}), ("fine", {}))
        kind = type(error).__name__
        assert [failed("tool_error", f"the tool failed with {kind}"), text("fine")] == said

    @pytest.mark.parametrize("at_once", [True, False])
    @pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, BaseException])
    def test_exceptions_that_end_programs(
        self, hand: Any, kind: type[BaseException], *, at_once: bool
    ) -> None:
        """What would end a program ends the call that raised it, at once, and no other one."""

        async def broken() -> str:
            if not at_once:
                await asyncio.sleep(0)
            raise kind

        tools = {"broken": broken, "fine": lambda: "fine"}
        said = run(hand, tools, ("broken", {}), ("fine", {}))
        name = kind.__name__
        assert [failed("tool_error", f"the tool failed with {name}"), text("fine")] == said

    def test_an_error_without_a_text(self, hand: Any) -> None:
        """A ToolError that cannot say what it is is named."""

        class Mute(ToolError):
            def __str__(self) -> str:
                raise RuntimeError

        def broken() -> str:
            raise Mute

        said = run(hand, {"t": broken}, ("t", {}))
        assert [failed("tool_error", "the tool failed with Mute")] == said

    def test_a_blocking_tool_that_exits(self, hand: Any) -> None:
        """A plain function that calls sys.exit ends its call, not the runner."""

        def leave() -> str:
            raise SystemExit(1)

        said = run(hand, {"leave": leave, "fine": lambda: "fine"}, ("leave", {}), ("fine", {}))
        assert ["tool_error", ""] == [response.code for response in said]

    def test_a_result_that_json_cannot_hold(self, hand: Any) -> None:
        """A tool that gives something else than text or JSON has failed."""
        said = run(hand, {"t": lambda: {1, 2}}, ("t", {}))
        assert [failed("tool_error", "the tool failed with TypeError")] == said

    def test_too_much(self, hand: Any) -> None:
        """An answer over RELAY_MAX_RESPONSE_BYTES is not published."""
        said = run(hand, {"t": lambda: "x" * 2000}, ("t", {}), max_response=1024)
        assert [failed("too_large", "the answer is larger than 1024 bytes")] == said


class TestRefusals:
    def test_unknown_tool(self, hand: Any) -> None:
        """A tool that is not there is named, with nothing in it that moves a cursor."""
        said = run(hand, None, ("no\x1b[2Jsuch", {}))
        assert [failed("unknown_tool", 'there is no tool "no\\x1b[2Jsuch"')] == said

    def test_invalid_arguments(self, hand: Any) -> None:
        """Arguments that do not fit the schema are refused, with the one that is wrong."""

        def add(a: int, b: int = 2) -> int:
            return a + b

        said = run(hand, {"add": add}, ("add", {"a": "1"}), ("add", {"a": 1, "c": 3}), ("add", {}))
        assert [
            failed("invalid_args", "add: a: '1' is not of type 'integer'"),
            failed(
                "invalid_args",
                "add: Additional properties are not allowed ('c' was unexpected)",
            ),
            failed("invalid_args", "add: 'a' is a required property"),
        ] == said

    @pytest.mark.parametrize(
        "data",
        [b"", b"{", b"[]", b"\xff", b'{"toolName": 1}', b'{"toolName": "echo", "args": []}'],
    )
    def test_malformed(self, hand: Any, data: bytes) -> None:
        """Bytes that are no request are answered as such, and the next request runs."""

        async def go() -> tuple[Response, Response]:
            async with hand.runner():
                hand.put("bad.req.json", data)
                return await hand.answer("bad"), await hand.call("echo", text="good")

        bad, good = asyncio.run(go())
        assert ("bad_request", text("good")) == (bad.code, good)

    def test_too_large(self, hand: Any) -> None:
        """A request over RELAY_MAX_REQUEST_BYTES is not read."""
        said = run(hand, None, ("echo", {"text": "x" * 2000}), max_request=1024)
        assert [failed("too_large", "the request is larger than 1024 bytes")] == said

    @pytest.mark.parametrize(("own", "age"), [(None, 70.0), (2000, 3.0)])
    def test_expired(self, hand: Any, own: int | None, age: float) -> None:
        """A request at or past its own or the usual deadline is answered, and does not run."""
        ran = []

        async def go() -> Response:
            path = hand.session / "old.req.json"
            async with hand.runner({"t": lambda: ran.append(1)}):
                hand.ask("waiting.tmp", "t", timeout_ms=own).rename(hand.session / "prepared")
                hand.age("prepared", age)
                (hand.session / "prepared").rename(path)
                response: Response = await hand.answer("old")
                return response

        assert ("expired", []) == (asyncio.run(go()).code, ran)

    def test_a_clock_in_the_future_buys_no_time(self, hand: Any) -> None:
        """A request dated into the future runs, and its pickup time counts as unknown."""

        async def go() -> Response:
            async with hand.runner():
                hand.ask("waiting.tmp", args={"text": "hi"}).rename(hand.session / "prepared")
                hand.age("prepared", -3600)
                (hand.session / "prepared").rename(hand.session / "new.req.json")
                response: Response = await hand.answer("new")
                return response

        assert text("hi") == asyncio.run(go())


class TestGuard:
    def test_it_refuses_with_its_text(self, hand: Any) -> None:
        """What the guard returns is the refusal; what it lets pass runs."""

        def guard(request: Request) -> str | None:
            return "not today" if request.args.get("text") == "no" else None

        said = run(hand, None, ("echo", {"text": "no"}), ("echo", {"text": "yes"}), guard=guard)
        assert [failed("refused", "not today"), text("yes")] == said

    def test_an_asynchronous_one(self, hand: Any) -> None:
        """A guard may be asynchronous."""

        async def guard(request: Request) -> str | None:
            await asyncio.sleep(0)
            return f"{request.tool} is closed"

        assert [failed("refused", "echo is closed")] == run(hand, None, ("echo", {}), guard=guard)

    def test_one_that_fails_refuses(self, hand: Any) -> None:
        """A guard that raises has not agreed, and its exception is not shown."""

        def guard(request: Request) -> str | None:
            raise RuntimeError(request.tool)

        said = run(hand, None, ("echo", {}), guard=guard)
        assert [failed("refused", "the call was refused: its guard failed")] == said


class TestTimeouts:
    @pytest.mark.parametrize("kind", ["obedient", "stubborn", "blocking"])
    def test_a_tool_that_hangs(self, hand: Any, kind: str) -> None:
        """A tool that hangs is answered for at its deadline, whatever it does; others go on."""
        release = threading.Event()

        async def obedient() -> None:
            await asyncio.sleep(3600)

        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue

        def blocking() -> None:
            release.wait(60)

        hang = {"obedient": obedient, "stubborn": stubborn, "blocking": blocking}[kind]

        async def go() -> tuple[Response, Response, int]:
            tools = [python_tool("hang", hang, timeout=0.1), python_tool("fine", lambda: "fine")]
            async with hand.runner(tools) as runner:
                said = await hand.call("hang"), await hand.call("fine"), runner.left_behind
            release.set()
            return said

        hung, fine, left = asyncio.run(go())
        assert ("timeout", text("fine")) == (hung.code, fine)
        assert (0 if kind == "obedient" else 1) == left

    def test_nobody_works_past_the_callers_deadline(self, hand: Any) -> None:
        """A call's own deadline ends its tool, also where the tool might take longer."""

        async def go() -> Response:
            async with hand.runner({"hang": lambda: asyncio.sleep(3600)}):
                hand.ask("short", "hang", timeout_ms=150)
                response: Response = await hand.answer("short")
                return response

        assert "timeout" == asyncio.run(go()).code


class TestRelayJson:
    def test_what_a_writer_is_told(self, hand: Any) -> None:
        """relay.json is there before the runner is ready: settings with layers, and the tools."""

        async def go() -> Any:
            async with hand.runner(poll=timedelta(milliseconds=50)) as runner:
                told = json.loads((hand.session / "relay.json").read_bytes())
                return told, runner.id

        told, runner = asyncio.run(go())
        assert (1, runner) == (told["protocol"], told["runner"])
        assert {"value": 50, "layer": "option"} == told["settings"]["RELAY_POLL_MS"]
        assert {"value": 60_000, "layer": "default"} == told["settings"]["RELAY_TIMEOUT_MS"]
        assert [
            {
                "name": "echo",
                "description": "Give the text back.",
                "input": {
                    "type": "object",
                    "properties": {"text": {"type": "string", "default": ""}},
                    "additionalProperties": False,
                },
            }
        ] == told["tools"]
