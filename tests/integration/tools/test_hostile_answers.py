"""Answers that are cut, misshapen or too many: no half of a secret, no wrong answer, no flood."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

SECRET = "tok-en-0815-canary"

#: What is left of the secret where it was cut, from either end.
HALVES = (SECRET[:8], SECRET[-8:])

LOCAL = '[http]\nallow_private = ["127.0.0.0/8"]\n'

SERVER = """
    import json, os, sys

    secret = os.environ.get("TOKEN", "")

    def send(**body):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **body}) + "\\n")
        sys.stdout.flush()

    def act(id, mode):
        if mode == "stderr":
            for length in (1990, 1995, 3990):
                sys.stderr.write("x" * length + secret + "\\n")
                sys.stderr.flush()
        if mode == "nonsense":
            for _ in range(5000):
                send(method="notifications/progress", params={"progressToken": {"a": secret}})
        if mode == "list":
            return send(id=id, result=[secret])
        if mode == "bytes":
            said = b'{"jsonrpc": "2.0", "id": %d, "result": {"a": "\\xff"}}\\n'
            sys.stdout.buffer.write(said % id)
            return sys.stdout.flush()
        if mode == "number":
            return send(id=id, result={"content": 5})
        if mode in ("slow", "far"):
            return send(id=id, result={"content": [], "structuredContent": {"a": "a" * 40 + "!"}})
        if mode == "schema":
            return send(id=id, result={"content": [], "structuredContent": {"sum": secret}})
        send(id=id, result={"content": [{"type": "text", "text": "done"}]})

    def tool(name, **more):
        return {"name": name, "inputSchema": {"type": "object"}, **more}

    out = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    tools = [tool(name) for name in ("stderr", "nonsense", "list", "bytes", "number", "ok")]
    tools.append(tool("schema", outputSchema=out))
    slow = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    tools.append(tool("slow", outputSchema=slow))
    if len(sys.argv) > 1:
        tools.append(tool("far", outputSchema={"type": "object", "$ref": sys.argv[1]}))
    tools += [tool(5), None, {"name": "shapeless", "inputSchema": {}}, tool("x", description=5)]
    tools.append({"name": "text", "inputSchema": {"type": "string"}})

    while line := sys.stdin.readline():
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            said = {"capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
            send(id=id, result={**said, "protocolVersion": version})
        elif method == "tools/list":
            send(id=id, result={"tools": tools})
        elif method == "tools/call":
            act(id, message["params"]["name"])
        elif id is not None:
            send(id=id, error={"code": -32601, "message": "Method not found"})
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a tools file with the server, which is given the secret."""
    monkeypatch.setenv("BAD_TOKEN", SECRET)
    program = tmp_path / "server.py"
    program.write_text(textwrap.dedent(SERVER))
    command = json.dumps([sys.executable, str(program)])
    return (
        f'[mcp.bad]\ncommand = {command}\nenv = {{ TOKEN = "${{BAD_TOKEN}}" }}\ntimeout = "20s"\n'
    )


def holds_a_half(text: str) -> bool:
    """Tell whether a text holds the secret, or what a cut has left of it."""
    return any(half in text for half in HALVES)


class TestCuts:
    def test_of_an_error(self, offer: Any, service: Any, http: Any, monkeypatch: Any) -> None:
        """A secret that lies across the end of what is shown is masked as a whole."""
        monkeypatch.setenv("ASK_TOKEN", SECRET)

        async def behave(request: Any, writer: Any) -> None:
            length = json.loads(request.body)["length"]
            writer.write(http(500, b"x" * length + SECRET.encode() + b"y" * 500))

        async def run() -> None:
            async with service(behave) as served:
                url = f"http://127.0.0.1:{served.port}/"
                http_table = (
                    f'[tools.ask.http]\nurl = "{url}"\nheaders = {{ A = "${{ASK_TOKEN}}" }}\n'
                )
                async with offer(LOCAL + http_table) as session:
                    for length in (0, 1985, 1990, 1999):
                        error = await session.failure("ask", length=length)
                        assert not holds_a_half(str(error))

        asyncio.run(run())

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_of_a_command(
        self, offer: Any, stream: str, monkeypatch: Any, log: pytest.LogCaptureFixture
    ) -> None:
        """Also in what a command prints that fails, for its caller and for the log."""
        monkeypatch.setenv("SHELL_TOKEN", SECRET)
        program = (
            "import json, os, sys; lengths = json.load(sys.stdin)['lengths'];"
            "said = 'x' * lengths[0] + os.environ['SHELL_TOKEN'] + 'x' * lengths[1];"
            f"sys.{stream}.write(said); sys.exit(1)"
        )
        command = json.dumps([sys.executable, "-c", program])

        async def run() -> None:
            table = f'[tools.ask]\ncommand = {command}\npass_env = ["SHELL_TOKEN"]\n'
            async with offer(table) as session:
                for lengths in ((0, 0), (1990, 3000), (3000, 1990)):
                    error = await session.failure("ask", lengths=lengths)
                    assert not holds_a_half(str(error))

        asyncio.run(run())
        assert not holds_a_half(log.text)

    def test_of_a_servers_stderr(
        self, offer: Any, server: str, log: pytest.LogCaptureFixture
    ) -> None:
        """Also between two pieces of what a server writes to its stderr."""

        async def run() -> None:
            async with offer(server) as session:
                assert "done" == await session.call("bad_stderr")
                assert "done" == await session.call("bad_ok")

        asyncio.run(run())
        assert 3 <= log.text.count("wrote to stderr")
        assert not holds_a_half(log.text)


class TestMisshapen:
    @pytest.mark.parametrize("mode", ["list", "bytes", "number"])
    def test_answers(
        self, offer: Any, server: str, mode: str, log: pytest.LogCaptureFixture
    ) -> None:
        """They fail their own call at once, and the connection stays."""

        async def run() -> None:
            async with offer(server) as session:
                for _ in range(3):
                    error = await session.failure(f"bad_{mode}")
                    assert "tool_error" == error.code
                    assert not holds_a_half(str(error))
                    assert "done" == await session.call("bad_ok")

        asyncio.run(run())
        assert not holds_a_half(log.text)
        assert "again in" not in log.text

    def test_lists(self, offer: Any, server: str, log: pytest.LogCaptureFixture) -> None:
        """A tool that is none is left out, and said to be; the others are there."""

        async def run() -> None:
            async with offer(server) as session:
                names = {name.removeprefix("bad_") for name in session.tools()}
                assert {"ok", "shapeless"} <= names
                assert not names & {"5", "x", "text"}
                assert "done" == await session.call("bad_shapeless")

        asyncio.run(run())
        assert 4 <= log.text.count("left out")

    def test_by_its_own_output_schema(
        self, offer: Any, server: str, service: Any, http: Any
    ) -> None:
        """An answer is not judged by it: not for ever, and not by what is far away."""

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(200, b"{}"))

        async def run() -> None:
            async with service(behave) as served:
                far = f'server.py", "http://127.0.0.1:{served.port}/"]'
                async with offer(server.replace('server.py"]', far)) as session:
                    for name in ("schema", "far", "slow"):
                        assert await session.call(f"bad_{name}")
                assert 0 == served.connections

        asyncio.run(run())

    def test_over_http(
        self, offer: Any, service: Any, http: Any, log: pytest.LogCaptureFixture
    ) -> None:
        """What the library says of one that it cannot read is not its caller's to see."""

        async def behave(request: Any, writer: Any) -> None:
            asked = json.loads(request.body or b"{}")
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
            if asked.get("method") == "initialize":
                said = {"capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
                version = asked["params"]["protocolVersion"]
                answer["result"] = {**said, "protocolVersion": version}
            elif asked.get("method") == "tools/list":
                tool = {"name": "act", "inputSchema": {"type": "object"}}
                answer["result"] = {"tools": [tool]}
            elif asked.get("method") == "tools/call":
                answer = {"jsonrpc": "3.0", "result": f"{SECRET} and more of the same"}
            else:
                answer["error"] = {"code": -32601, "message": "Method not found"}
            writer.write(http(200, json.dumps(answer).encode(), content_type="application/json"))

        async def run() -> None:
            async with service(behave) as served:
                table = f'[mcp.web]\nurl = "http://127.0.0.1:{served.port}/"\n'
                async with offer(LOCAL + table) as session:
                    error = await session.failure("web_act")
                    assert "the MCP server web: its answer cannot be used" == str(error)

        asyncio.run(run())
        assert not holds_a_half(log.text)

    @pytest.mark.parametrize("charset", ["idna", "punycode", "zlib_codec", "undefined"])
    def test_charsets(self, offer: Any, service: Any, http: Any, charset: str) -> None:
        """A charset that is none for texts is taken for UTF-8."""

        async def behave(_: Any, writer: Any) -> None:
            content_type = f"text/plain; charset={charset}"
            writer.write(http(200, "café".encode(), content_type=content_type))

        async def run() -> None:
            async with service(behave) as served:
                table = f'[tools.ask.http]\nurl = "http://127.0.0.1:{served.port}/"\n'
                async with offer(LOCAL + table) as session:
                    assert "café" == await session.call("ask")

        asyncio.run(run())

    @pytest.mark.parametrize("sent", [b"HTTP/1.1 204 N\r\n\r\nHTTP/1.1 200 O", b""])
    def test_more_than_the_answer(self, offer: Any, service: Any, http: Any, sent: bytes) -> None:
        """What comes behind an answer is no part of the next one: its connection is closed."""
        beside = sent or http(200, b"first") + http(200, b"of nobody")

        async def behave(request: Any, writer: Any) -> None:
            writer.write(beside if b"beside" in request.body else http(200, b"mine"))

        async def run() -> None:
            async with service(behave) as served:
                table = f'[tools.ask.http]\nurl = "http://127.0.0.1:{served.port}/"\n'
                async with offer(LOCAL + table) as session:
                    assert await session.call("ask", beside=1) in ("", "first")
                    assert "mine" == await session.call("ask")
                    assert "mine" == await session.call("ask")
                    assert 2 == served.connections

        asyncio.run(run())


class TestTooMany:
    def test_messages_that_the_library_logs(
        self, offer: Any, server: str, log: pytest.LogCaptureFixture
    ) -> None:
        """Nonsense without end fills no log, and no piece of it is in there."""

        async def run() -> None:
            async with offer(server) as session:
                assert "done" == await session.call("bad_nonsense")

        asyncio.run(run())
        theirs = [each for each in log.records if not each.name.startswith("relay")]
        assert len([each for each in theirs if each.levelno >= logging.WARNING]) <= 30
        assert not holds_a_half("".join(logging.Formatter().format(each) for each in theirs))


def test_a_server_that_does_not_say_goodbye(offer: Any, service: Any, http: Any) -> None:
    """A stop waits a moment for it, and not for as long as for an answer."""
    asked = []

    async def behave(request: Any, writer: Any) -> None:
        asked.append(request.method)
        message = json.loads(request.body or b"{}")
        if request.method != "POST":
            await asyncio.sleep(1000)
        said: dict[str, Any] = {
            "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"},
        }
        if message.get("method") == "initialize":
            said["protocolVersion"] = message["params"]["protocolVersion"]
        elif message.get("method") == "tools/list":
            said = {"tools": []}
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id"), "result": said}
        if message.get("method") == "server/discover":
            body = {**body, "error": {"code": -32601, "message": "Method not found"}}
            del body["result"]
        headers = {"content_type": "application/json", "mcp_session_id": "one"}
        writer.write(http(200, json.dumps(body).encode(), **headers))

    async def run() -> None:
        async with service(behave) as served:
            table = f'[mcp.web]\nurl = "http://127.0.0.1:{served.port}/"\n'
            # The library would wait for half a minute.
            async with asyncio.timeout(20), offer(LOCAL + table):
                pass

    asyncio.run(run())
    assert "DELETE" in asked
