"""MCP servers as tools: a stock one, over pipes and HTTP, and some that mean harm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay.tools import ToolsError, upstream

SECRET = "tok-en-0815-canary"

#: A server without a library, which does what its tools are called. What it hears goes to a file.
ODD = """
    import json, os, subprocess, sys, time

    heard = open(sys.argv[1], "a", buffering=1)
    names = sys.argv[2].split(",")
    secret = os.environ.get("TOKEN", "")

    def send(**body):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **body}) + "\\n")
        sys.stdout.flush()

    def tool(name):
        schema = {"type": "object", "properties": {"key": {"enum": ["a", secret + "!"]}}}
        return {"name": name, "description": "does " + secret, "inputSchema": schema}

    def call(id, name):
        if name == "die":
            os._exit(3)
        if name == "hang":
            return
        if name == "huge":
            text = "x" * (1 << 20)
            sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"text": "' % id)
            for _ in range(80):
                sys.stdout.write(text)
            sys.stdout.write('"}]}}\\n')
            sys.stdout.flush()
            return
        if name == "garbage":
            for line in ("nonsense", "[" * 5000, '{"id": 1}'):
                print(line, flush=True)
            send(id=99, result={})
        if name == "wrong":
            send(id=id, result={"content": "this is no list"})
            return
        if name == "error":
            send(id=id, error={"code": -32000, "message": "no: " + secret})
            return
        if name == "grow":
            names.append("grown")
            send(method="notifications/tools/list_changed")
        if name == "child":
            child = subprocess.Popen(["sleep", "1000"], start_new_session=False)
            heard.write(json.dumps({"method": "child", "pid": child.pid}) + "\\n")
        if name == "leak":
            sys.stderr.write("connecting with " + secret + "\\n")
            sys.stderr.flush()
        content = [{"type": "text", "text": "done " + secret}]
        if name == "picture":
            content.append({"type": "image", "data": "AAAA", "mimeType": "image/png"})
        send(id=id, result={"content": content, "isError": name == "fails"})

    if "silent" in names:
        time.sleep(1000)
    for line in sys.stdin:
        message = json.loads(line)
        heard.write(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            said = {"capabilities": {"tools": {"listChanged": True}}}
            said["protocolVersion"] = message["params"]["protocolVersion"]
            said["serverInfo"] = {"name": "odd", "version": "1"}
            send(id=id, result=said)
        elif method == "tools/list":
            listed = [tool(name) for name in names]
            if "strange" in names:
                listed += [tool("white space"), tool("grow"), tool("grow"), tool("x" * 200)]
                far = {"type": "object", "$ref": "http://example.com/schema"}
                none = {"type": "object", "properties": {"x": {"type": "nonsense"}}}
                listed.append({"name": "far", "inputSchema": far})
                listed.append({"name": "none", "inputSchema": none})
            send(id=id, result={"tools": listed})
        elif method == "tools/call":
            call(id, message["params"]["name"])
        elif id is not None:
            send(id=id, error={"code": -32601, "message": "Method not found"})
"""


class Odd:
    """The odd server's program, and what it has heard."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "odd.py"
        self.program.write_text(textwrap.dedent(ODD))
        self._heard = folder / "heard.jsonl"

    def table(self, *names: str, name: str = "odd", more: str = "") -> str:
        """Return its table in a tools file; its tools are called like this."""
        command = [sys.executable, str(self.program), str(self._heard), ",".join(names)]
        return f"[mcp.{name}]\ncommand = {json.dumps(command)}\n{more}\n"

    def heard(self, method: str) -> list[dict[str, Any]]:
        """Return the messages of one kind."""
        lines = self._heard.read_text().splitlines() if self._heard.exists() else []
        messages = [json.loads(line) for line in lines]
        return [message for message in messages if message.get("method") == method]


@pytest.fixture
def odd(tmp_path: Path) -> Odd:
    """Return the odd server."""
    return Odd(tmp_path)


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestStockServer:
    def test_its_tools(self, offer: Any, stock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """They appear under the prefix with their schemas, run, fail, and carry 5 MB both ways."""
        monkeypatch.setenv("RUNNERS_OWN", SECRET)
        monkeypatch.setenv("PASSED_ON", "yes")

        async def run() -> None:
            table = f'command = ["{sys.executable}", "{stock}"]\npass_env = ["PASSED_ON"]\n'
            limits = {"max_request": 16 << 20, "max_response": 16 << 20}
            async with offer(f"[mcp.stock]\n{table}timeout = '20s'\n", **limits) as session:
                names = ["stock_add", "stock_size", "stock_fail", "stock_variables"]
                assert names == session.tools()
                told = session.writer.told().tools[0]
                assert "Add two numbers." == told["description"]
                assert ["a", "b"] == told["input"]["required"]
                assert "3" == await session.call("stock_add", a=1, b=2)
                assert "invalid_args" == (await session.failure("stock_add", a="x", b=2)).code
                text = "0123456789" * 250_000
                assert text * 2 == await session.call("stock_size", text=text)
                error = await session.failure("stock_fail")
                assert "tool_error" == error.code
                assert "internal detail" not in str(error)
                variables = await session.call("stock_variables")
                assert "PASSED_ON" in variables
                assert "RUNNERS_OWN" not in variables

        asyncio.run(run())


class TestConnection:
    def test_that_is_lost(self, offer: Any, odd: Odd) -> None:
        """A server that dies is an error at once, also for the next call; then it is back."""

        async def run() -> None:
            async with offer(odd.table("die", "ok")) as session:
                assert "the MCP server odd: Connection closed" == str(
                    await session.failure("odd_die")
                )
                assert "the MCP server odd is not connected" == str(await session.failure("odd_ok"))
                assert ["odd_die", "odd_ok"] == session.tools()
                await until(lambda: len(odd.heard("tools/list")) >= 2)
                for _ in range(200):
                    with contextlib.suppress(Exception):
                        assert "done " == await session.call("odd_ok")
                        return
                    await asyncio.sleep(0.02)
                pytest.fail("it never came back")

        asyncio.run(run())

    def test_that_never_comes(self, offer: Any, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server that is silent, or ends at once, holds up no start and no other tool."""
        monkeypatch.setattr(upstream, "_AT_START", 0.3)
        other = '[tools.other]\ncommand = ["echo", "here"]\n[mcp.none]\ncommand = ["false"]\n'

        async def run() -> None:
            async with offer(odd.table("silent") + other) as session:
                assert ["other"] == session.tools()
                assert "here\n" == await session.call("other")

        asyncio.run(run())

    def test_ends_with_the_runner(self, offer: Any, odd: Odd) -> None:
        """The server and whatever it has started are gone when the runner has stopped."""

        async def run() -> int:
            async with offer(odd.table("child")) as session:
                await session.call("odd_child")
                (child,) = odd.heard("child")
                pid: int = child["pid"]
                assert is_alive(pid)
            return pid

        pid = asyncio.run(run())
        deadline = time.monotonic() + 20
        while is_alive(pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)


class TestCalls:
    def test_a_deadline_is_passed_on(self, offer: Any, odd: Odd) -> None:
        """A call over its time is cancelled at the server, which goes on with the next."""

        async def run() -> None:
            async with offer(odd.table("hang", "ok", more="timeout = '200ms'")) as session:
                assert "timeout" == (await session.failure("odd_hang")).code
                await until(lambda: odd.heard("notifications/cancelled"))
                (call,), (cancelled,) = (
                    odd.heard("tools/call"),
                    odd.heard("notifications/cancelled"),
                )
                assert call["id"] == cancelled["params"]["requestId"]
                assert "done " == await session.call("odd_ok")

        asyncio.run(run())

    def test_a_cancel_is_passed_on(self, offer: Any, odd: Odd) -> None:
        """A call that its caller takes back is cancelled at the server, long before its time."""

        async def run() -> None:
            async with offer(odd.table("hang", "ok")) as session:
                call = asyncio.create_task(session.call("odd_hang"))
                await until(lambda: odd.heard("tools/call"))
                call.cancel()
                await until(lambda: odd.heard("notifications/cancelled"))
                (asked,), (cancelled,) = (
                    odd.heard("tools/call"),
                    odd.heard("notifications/cancelled"),
                )
                assert asked["id"] == cancelled["params"]["requestId"]
                assert "done " == await session.call("odd_ok")
                assert ["relay.json"] == os.listdir(session.path)

        asyncio.run(run())

    def test_what_is_wrong_with_an_answer(self, offer: Any, odd: Odd) -> None:
        """Too much, something else, or noise around it: an error with its reason, or the answer."""

        async def run() -> None:
            names = ("huge", "garbage", "fails", "picture", "wrong")
            async with offer(odd.table(*names)) as session:
                assert "too_large" == (await session.failure("odd_huge")).code
                assert "done " == await session.call("odd_garbage")
                assert "done " == str(await session.failure("odd_fails"))
                text, _, rest = (await session.call("odd_picture")).partition("\n")
                assert ("done ", "image/png") == (text, json.loads(rest)["mimeType"])
                error = await session.failure("odd_wrong")
                assert "the MCP server odd gave no usable answer" == str(error)

        asyncio.run(run())

    def test_credentials_never_come_back(
        self,
        offer: Any,
        odd: Odd,
        monkeypatch: pytest.MonkeyPatch,
        log: pytest.LogCaptureFixture,
    ) -> None:
        """Not in a description, an answer, an error or the log, though the server repeats them."""
        monkeypatch.setenv("ODD_TOKEN", SECRET)

        async def run() -> None:
            more = 'env = { TOKEN = "${ODD_TOKEN}" }'
            async with offer(odd.table("leak", "error", more=more)) as session:
                assert "done ********" == await session.call("odd_leak")
                said = str(await session.failure("odd_error"))
                assert "the MCP server odd: no: ********" == said
                await until(lambda: "connecting with ********" in log.text)
                assert "does ********" in session.everything()
                assert '["a","********!"]' in session.everything()
                assert SECRET not in session.everything()

        asyncio.run(run())
        ours = [r.getMessage() for r in log.records if r.name.startswith("relay")]
        assert [] == [line for line in ours if SECRET in line]


class TestTools:
    def test_that_change(self, offer: Any, odd: Odd) -> None:
        """A tool that a server gains later is announced, and can be called."""

        async def run() -> None:
            async with offer(odd.table("grow")) as session:
                assert "done " == await session.call("odd_grow")
                await until(lambda: session.tools() == ["odd_grow", "odd_grown"])
                assert "done " == await session.call("odd_grown")

        asyncio.run(run())

    def test_that_cannot_be_offered(self, offer: Any, odd: Odd) -> None:
        """A name or a schema that is none is left out, and the others are there."""

        async def run() -> None:
            async with offer(odd.table("strange")) as session:
                assert ["odd_strange", "odd_grow"] == session.tools()

        asyncio.run(run())

    def test_of_one_name(self, offer: Any, odd: Odd) -> None:
        """Two tools of one name are refused at the start, and nothing is left running."""

        async def run() -> None:
            same = '[tools.odd_child]\ncommand = ["true"]\n'
            with pytest.raises(ToolsError, match="tool odd_child: the name is taken twice"):
                async with offer(odd.table("child") + same):
                    pytest.fail("it started")
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            assert [] == [task for task in tasks if not task.done()]

        asyncio.run(run())


def test_no_server_is_left(odd: Odd) -> None:
    """After all that, no process of these tests runs any more."""
    mine = str(odd.program)
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline") as file:
                assert mine not in file.read()
