"""The TypeScript original on the other side: its files, byte for byte, are taken and given.

Its writer publishes what ``JSON.stringify`` makes of ``{toolName, toolCallId, args}``, polls for
the response, reads it and unlinks it. Its runner lists, reads and unlinks a request without
claiming it, and answers errors without a code.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from relay.client import Writer
from relay.errors import Paused, ToolFailed

#: Texts, and what JSON.stringify makes of them.
STRINGIFIED = {
    "plain": '"plain"',
    'quote " slash / back \\': '"quote \\" slash / back \\\\"',
    "\b\f\n\r\t\x00\x1f\x7f": '"\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"',
    "zürich 東京 \u2028 \U0001f600": '"zürich 東京 \u2028 \U0001f600"',
    "<script>&": '"<script>&"',
    "": '""',
}


class TestItsWriter:
    @pytest.mark.parametrize("text", STRINGIFIED)
    def test_what_it_writes_and_reads(self, hand: Any, text: str) -> None:
        """A request as it writes it is answered with the very bytes that it would write."""
        body = f'{{"toolName":"echo","toolCallId":"call_1","args":{{"text":{STRINGIFIED[text]}}}}}'

        async def go() -> str:
            async with hand.runner():
                hand.put("call_1.req.json", body.encode())
                path = hand.session / "call_1.res.json"
                await hand.until(path.exists)
                answer: str = path.read_text()
                return answer

        assert f'{{"ok":true,"text":{STRINGIFIED[text]}}}' == asyncio.run(go())

    @pytest.mark.parametrize(
        "body",
        [
            b'{"toolName":"echo","toolCallId":"c"}',
            b'{"toolName":"echo","toolCallId":"c","args":null}',
            b'{"toolName":"echo","toolCallId":"c","args":{},"sessionId":"s","v":[1,{"a":null}]}',
            b'{\n  "toolName": "echo",\n  "toolCallId": "c",\n  "args": {}\n}\n',
            b'{"args":{},"toolCallId":"c","toolName":"echo"}',
        ],
    )
    def test_what_it_may_leave_out_or_add(self, hand: Any, body: bytes) -> None:
        """Arguments default to none, fields that nobody knows are passed over, order is free."""

        async def go() -> str:
            async with hand.runner():
                hand.put("c.req.json", body)
                await hand.until((hand.session / "c.res.json").exists)
                answer: str = (hand.session / "c.res.json").read_text()
                return answer

        assert '{"ok":true,"text":""}' == asyncio.run(go())

    def test_an_id_that_comes_again(self, hand: Any) -> None:
        """It uses the call's id as it is; the same id after its answer is another call."""

        async def go() -> list[str]:
            async with hand.runner():
                said = []
                for number in range(3):
                    hand.ask("toolu_01AbC", args={"text": str(number)})
                    said.append((await hand.answer("toolu_01AbC")).text)
                return said

        assert ["0", "1", "2"] == asyncio.run(go())

    def test_errors_and_pauses_have_its_fields(self, hand: Any) -> None:
        """An error keeps ``ok`` and ``error`` first; a pause is what it looks for."""
        from relay import PAUSED  # noqa: PLC0415 - as a tool's author imports it

        async def go() -> list[str]:
            async with hand.runner({"parked": lambda: PAUSED}):
                said = []
                for name in ("nothing", "parked"):
                    hand.ask(name, name)
                    await hand.until((hand.session / f"{name}.res.json").exists)
                    said.append((hand.session / f"{name}.res.json").read_text())
                return said

        error, paused = asyncio.run(go())
        assert ["ok", "error", "code"] == list(json.loads(error))
        assert '{"ok":true,"paused":true}' == paused

    def test_half_a_pair(self, hand: Any) -> None:
        """A string that JavaScript has cut between two halves is refused, and says so."""

        async def go() -> str:
            async with hand.runner():
                hand.put("c.req.json", b'{"toolName":"echo","args":{"text":"\\ud83d"}}')
                response = await hand.answer("c")
                return f"{response.code}: {response.error}"

        assert asyncio.run(go()).startswith("bad_request: the request is refused: a string holds")


@contextmanager
def its_runner(session: Path, answer: Callable[[dict[str, Any]], str]) -> Iterator[list[bytes]]:
    """Serve as the original does: no claim, no relay.json, a list every few milliseconds."""
    seen: list[bytes] = []
    stop = threading.Event()

    def serve() -> None:
        while not stop.wait(0.002):
            for path in session.glob("*.req.json"):
                seen.append(path.read_bytes())
                path.unlink()
                name = path.name.replace(".req.json", ".res.json")
                temp = session / f"{name}.tmp.4711.{time.monotonic_ns()}"
                temp.write_text(answer(json.loads(seen[-1])))
                temp.rename(session / name)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


class TestItsRunner:
    @pytest.mark.parametrize("text", STRINGIFIED)
    def test_what_it_reads_and_writes(self, hand: Any, text: str) -> None:
        """A call through it gives its text; the request is what it would have been from its own."""
        with its_runner(
            hand.session, lambda _: f'{{"ok":true,"text":{STRINGIFIED[text]}}}'
        ) as seen:
            said = Writer(hand.session, environ={}).call(
                "echo", {"text": text}, call_id="call_1", timeout=20
            )
        assert text == said
        (request,) = seen
        expected = (
            f'{{"toolName":"echo","toolCallId":"call_1","args":{{"text":{STRINGIFIED[text]}}},'
        )
        assert expected == request.decode()[: len(expected)]

    def test_an_error_without_a_code(self, hand: Any) -> None:
        """What it calls an error is the tool's."""
        with (
            its_runner(hand.session, lambda _: '{"ok":false,"error":"boom"}'),
            pytest.raises(ToolFailed, match="boom"),
        ):
            Writer(hand.session, environ={}).call("echo", timeout=20)

    def test_a_pause(self, hand: Any) -> None:
        """A pause comes before anything else that its answer says."""
        with (
            its_runner(hand.session, lambda _: '{"ok":false,"paused":true,"error":"x"}'),
            pytest.raises(Paused),
        ):
            Writer(hand.session, environ={}).call("echo", timeout=20)
