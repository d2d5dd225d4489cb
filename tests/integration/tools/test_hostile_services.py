"""HTTP services that flood, trickle, pack and lie in their heads; each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LOCAL = '[http]\nallow_private = ["127.0.0.1/32"]\n'
SECRET = "tok-en-1729-canary"

SERVICE = """
    import asyncio, gzip, json, sys

    mode = sys.argv[1]
    OK = b"HTTP/1.1 200 OK\\r\\n"
    JSON = b"content-type: application/json\\r\\n"
    EVENTS = b"content-type: text/event-stream\\r\\n\\r\\n"
    CHUNKED = b"transfer-encoding: chunked\\r\\n\\r\\n"

    def sized(data, *, more=b""):
        return OK + JSON + more + b"content-length: %d\\r\\n\\r\\n" % len(data) + data

    def result(id, **body):
        return sized(json.dumps({"jsonrpc": "2.0", "id": id, "result": body}).encode())

    async def without_end(writer, begin, piece):
        writer.write(begin)
        while True:
            writer.write(piece)
            await writer.drain()

    async def behave(writer):
        if mode == "interim":
            await without_end(writer, b"", b"HTTP/1.1 100 Continue\\r\\n\\r\\n" * 1000)
        if mode == "hints":
            await without_end(writer, b"", b"HTTP/1.1 103 E\\r\\nlink: x\\r\\n\\r\\n" * 1000)
        if mode == "head":
            await without_end(writer, OK, b"x-header: " + b"y" * 1000 + b"\\r\\n")
        if mode == "chunks":
            await without_end(writer, OK + CHUNKED, b"1\\r\\na\\r\\n" * 1000)
        if mode == "event":
            await without_end(writer, OK + EVENTS + b"data: ", b"x" * 65536)
        if mode == "events":
            ping = b'data: {"jsonrpc": "2.0", "id": "p", "method": "ping"}\\n\\n'
            await without_end(writer, OK + EVENTS, ping * 100)
        if mode == "packed":
            bomb = gzip.compress(b"a" * (1 << 28), 1)
            writer.write(sized(bomb, more=b"content-encoding: gzip\\r\\n"))
        if mode == "port":
            writer.write(b"HTTP/1.1 302 Go\\r\\nlocation: http://127.0.0.1:99999/\\r\\n")
            writer.write(b"content-length: 0\\r\\n\\r\\n")
        if mode == "elsewhere":
            writer.write(b"HTTP/1.1 307 Go\\r\\nlocation: http://inside.test/secret\\r\\n")
            writer.write(b"content-length: 0\\r\\n\\r\\n")

    async def serve(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\\r\\n\\r\\n")
                lines = head.lower().split(b"\\r\\n")
                sizes = [int(l[15:]) for l in lines if l.startswith(b"content-length:")]
                body = await reader.readexactly(sum(sizes))
                asked = json.loads(body or b"{}")
                method, id = asked.get("method"), asked.get("id")
                if method == "initialize":
                    version = asked["params"]["protocolVersion"]
                    about = {"name": "x", "version": "1"}
                    said = {"capabilities": {"tools": {}}, "serverInfo": about}
                    writer.write(result(id, **said, protocolVersion=version))
                elif method == "tools/list":
                    tool = {"name": "act", "inputSchema": {"type": "object"}}
                    writer.write(result(id, tools=[tool]))
                elif id is None and method or method == "server/discover" or not body:
                    writer.write(b"HTTP/1.1 405 No\\r\\ncontent-length: 0\\r\\n\\r\\n")
                else:
                    await behave(writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Return a function that starts the service in a mode, and gives its port."""
    program = tmp_path / "hostile.py"
    program.write_text(textwrap.dedent(SERVICE))
    started = []

    def start(mode: str) -> int:
        command = [sys.executable, str(program), mode]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        started.append(process)
        assert process.stdout is not None
        return int(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.communicate()


class TestServices:
    @pytest.mark.parametrize("mode", ["interim", "hints", "head", "port"])
    def test_heads(self, offer: Any, hostile: Callable[[str], int], mode: str) -> None:
        """Interim answers without end, an endless head, an impossible port: no answer, at once."""

        async def run() -> None:
            more = f'[tools.ask.http]\nurl = "http://127.0.0.1:{hostile(mode)}/"\n'
            async with offer(LOCAL + more) as session:
                for _ in range(2):
                    error = await session.failure("ask")
                    assert ("tool_error", "the service cannot be reached") == (
                        error.code,
                        str(error),
                    )

        asyncio.run(run())

    def test_pieces_of_a_byte(self, offer: Any, hostile: Callable[[str], int]) -> None:
        """A body in pieces of a byte lets everybody else have a turn, up to the bound of it."""

        async def run() -> None:
            more = f'[tools.ask.http]\nurl = "http://127.0.0.1:{hostile("chunks")}/"\n'
            async with offer(LOCAL + more, max_response=1024) as session:
                assert "too_large" == (await session.failure("ask")).code

        asyncio.run(run())


class TestMcpServers:
    def table(self, port: int, timeout: str = "25s") -> str:
        """Return a tools file with an MCP server at a port, and a tool beside it."""
        beside = '[tools.beside]\ncommand = ["echo", "here"]\n'
        return (
            f'{LOCAL}{beside}[mcp.bad]\ntimeout = "{timeout}"\nurl = "http://127.0.0.1:{port}/"\n'
        )

    @pytest.mark.parametrize(
        ("mode", "says"),
        [
            ("packed", "the MCP server bad: "),
            ("events", "the tool ran out of time"),
            ("event", "the MCP server bad: "),
            ("interim", ""),
            ("elsewhere", "the MCP server bad: it leads elsewhere"),
        ],
    )
    def test_answers(self, offer: Any, hostile: Callable[[str], int], mode: str, says: str) -> None:
        """They cost their own call alone, and no memory beyond the bound of a message."""

        async def run() -> None:
            timeout = "2s" if mode in ("events", "interim") else "25s"
            async with offer(self.table(hostile(mode), timeout)) as session:
                assert ["beside", "bad_act"] == session.tools()
                error = await session.failure("bad_act")
                assert error.code in ("tool_error", "timeout")
                assert str(error).startswith(says)
                assert "inside.test" not in str(error)
                assert "here\n" == await session.call("beside")

        asyncio.run(run())

    def test_a_packed_answer_is_not_unpacked(
        self, offer: Any, hostile: Callable[[str], int], log: pytest.LogCaptureFixture
    ) -> None:
        """A megabyte that unpacks to a quarter of a gigabyte is refused unread."""

        async def run() -> None:
            async with offer(self.table(hostile("packed"))) as session:
                await session.failure("bad_act")

        asyncio.run(run())
        assert "packs its answer, although it was asked not to" in log.text


class TestCanary:
    def test_in_a_url(
        self,
        offer: Any,
        service: Any,
        http: Any,
        monkeypatch: pytest.MonkeyPatch,
        log: pytest.LogCaptureFixture,
    ) -> None:
        """A credential in an address is in no log at any level, also of the libraries below."""
        monkeypatch.setenv("ASK_KEY", SECRET)

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(200, json.dumps({"you": "are welcome"}).encode()))

        async def run() -> None:
            async with service(behave) as served:
                where = f"http://127.0.0.1:{served.port}/${{ASK_KEY}}/ask?key=${{ASK_KEY}}"
                tools = f'[tools.ask.http]\nurl = "{where}"\n[mcp.web]\nurl = "{where}"\n'
                async with offer(LOCAL + tools) as session:
                    await session.call("ask")
                    assert SECRET in served.requests[0].target
                    assert SECRET not in session.everything()

        asyncio.run(run())
        assert SECRET not in log.text
