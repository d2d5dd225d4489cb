"""A runner of a tools file and a writer in its session; and services that do as a test says."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.client import Writer
from relay.engine.runner import Runner
from relay.errors import CallError
from relay.settings import RelaySettings

#: A server made with the library that most are made with.
STOCK = """
    import os, sys
    from mcp.server import MCPServer

    app = MCPServer("stock")

    @app.tool()
    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    @app.tool()
    def size(text: str) -> str:
        return text * 2 if len(text) > 100 else str(len(text))

    @app.tool()
    def fail() -> str:
        raise ValueError("internal detail")

    @app.tool()
    def variables() -> list[str]:
        return sorted(os.environ)

    if len(sys.argv) > 1:
        app.run("streamable-http", port=int(sys.argv[1]))
    else:
        app.run("stdio")
"""

#: What a service does with a connection, once it has the head and the body of a request.
Behaviour = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


class Request:
    """A request as a service got it."""

    def __init__(self, head: bytes, body: bytes) -> None:
        lines = head.decode().split("\r\n")
        self.method, self.target, _ = lines[0].split(" ")
        fields = (line.partition(": ") for line in lines[1:])
        self.headers = {name.lower(): value for name, _, value in fields if name}
        self.body = body


class Service:
    """An HTTP service on this machine."""

    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave
        self.requests: list[Request] = []
        self.connections = 0
        self.port = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                request = Request(head[:-4], await reader.readexactly(length))
                self.requests.append(request)
                await self._behave(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    def cancel(self) -> None:
        """End whatever is going on."""
        for task in self._tasks:
            task.cancel()


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return a whole answer."""
    named = {n.replace("_", "-"): v for n, v in headers.items()}
    fields = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    head = f"HTTP/1.1 {status} Said\r\ncontent-length: {len(body)}\r\n{fields}\r\n"
    return head.encode() + body


@asynccontextmanager
async def serving(
    behave: Behaviour, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Service]:
    """Run a service."""
    service = Service(behave)
    server = await asyncio.start_server(service.serve, host, 0, ssl=tls)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        service.cancel()


class Session:
    """A session with a runner of a tools file."""

    def __init__(self, folder: Path, runner: Runner) -> None:
        self.folder = folder
        self.path = folder / "session"
        self.runner = runner
        self.writer = Writer(self.path, environ={})

    async def call(self, tool: str, **args: Any) -> str:
        """Call a tool."""
        return await self.writer.acall(tool, args, timeout=25)

    async def failure(self, tool: str, **args: Any) -> CallError:
        """Call a tool that fails, and return how."""
        with pytest.raises(CallError) as raised:
            await self.call(tool, **args)
        return raised.value

    def tools(self) -> list[str]:
        """Return the tools that relay.json names."""
        body = json.loads((self.path / "relay.json").read_text())
        return [tool["name"] for tool in body["tools"]]

    def everything(self) -> str:
        """Return the content of every file in the session."""
        files = [path for path in self.path.rglob("*") if path.is_file()]
        return "".join(path.read_text(errors="replace") for path in files)


@asynccontextmanager
async def offered(folder: Path, tools: str, **settings: Any) -> AsyncIterator[Session]:
    """Run a tools file's tools for a session."""
    file = folder / "tools.toml"
    file.write_text(tools)
    runner = Runner(
        folder / "session",
        settings=RelaySettings(tools_file=file, drain_timeout=timedelta(0), **settings),
        state=folder / "state",
    )
    async with runner:
        yield Session(folder, runner)


@pytest.fixture
def offer(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Session]]:
    """Return a function that runs a tools file."""

    def run(tools: str, **settings: Any) -> AbstractAsyncContextManager[Session]:
        return offered(tmp_path, tools, **settings)

    return run


@pytest.fixture
def service() -> Callable[..., AbstractAsyncContextManager[Service]]:
    """Return a function that runs a service."""
    return serving


@pytest.fixture
def http() -> Callable[..., bytes]:
    """Return a function that makes an HTTP answer."""
    return answer


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Return the log, with everything in it."""
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """Return the program of a stock server."""
    program = tmp_path / "stock.py"
    program.write_text(textwrap.dedent(STOCK))
    return program
