"""MCP servers as tools over HTTP: restarted, forgetful, elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay.tools import upstream
from tests.servers.running import free_port


class Web:
    """A stock server over HTTP, in a process of its own."""

    def __init__(self, program: Path) -> None:
        self.port = free_port()
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [sys.executable, str(self._program), str(self.port)]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(ConnectionError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def table(self, more: str = "") -> str:
        """Return its table in a tools file."""
        return f'[mcp.web]\nurl = "http://127.0.0.1:{self.port}/mcp"\n{more}\n'


@pytest.fixture
def web(stock: Path) -> Iterator[Web]:
    """Return a stock server over HTTP, which is not started."""
    server = Web(stock)
    yield server
    server.kill()


LOCAL = '[http]\nallow_private = ["127.0.0.0/8"]\n'


class TestOverHttp:
    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_a_server_that_is_restarted(
        self, offer: Any, web: Web, mode: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While it is away calls fail at once; when it is back they run, in a new session."""
        if mode == "legacy":
            hold = upstream.Upstream._hold
            monkeypatch.setattr(upstream.Upstream, "_hold", lambda self, _: hold(self, "legacy"))
        web.start()

        async def run() -> None:
            async with offer(LOCAL + web.table()) as session:
                assert "3" == await session.call("web_add", a=1, b=2)
                await asyncio.to_thread(web.kill)
                assert "tool_error" == (await session.failure("web_add", a=1, b=2)).code
                assert "web is not connected" in str(await session.failure("web_add", a=1, b=2))
                await asyncio.to_thread(web.start)
                for _ in range(300):
                    with contextlib.suppress(Exception):
                        assert "3" == await session.call("web_add", a=1, b=2)
                        return
                    await asyncio.sleep(0.05)
                pytest.fail("it never came back")

        asyncio.run(run())

    def test_a_session_that_is_forgotten(
        self, offer: Any, web: Web, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server that was restarted in between is met in a new session, within the same call."""
        hold = upstream.Upstream._hold
        monkeypatch.setattr(upstream.Upstream, "_hold", lambda self, _: hold(self, "legacy"))
        web.start()

        async def run() -> None:
            async with offer(LOCAL + web.table()) as session:
                assert "3" == await session.call("web_add", a=1, b=2)
                await asyncio.to_thread(web.kill)
                await asyncio.to_thread(web.start)
                assert "3" == await session.call("web_add", a=1, b=2)

        asyncio.run(run())

    def test_an_address_that_is_not_allowed(
        self, offer: Any, service: Any, http: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A private address is not connected to unless it was allowed."""
        monkeypatch.setattr(upstream, "_AT_START", 5.0)

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(404))

        async def run() -> None:
            async with service(behave) as served:
                table = f'[mcp.web]\nurl = "http://127.0.0.1:{served.port}/"\n'
                async with offer(table) as session:
                    assert [] == session.tools()
                    assert 0 == served.connections

        asyncio.run(run())

    def test_a_redirect(self, offer: Any, service: Any, http: Any) -> None:
        """A redirect to another origin is not followed, so that no header gets there."""

        async def elsewhere(_: Any, writer: Any) -> None:
            writer.write(http(200, b"{}", content_type="application/json"))

        async def run() -> None:
            async with service(elsewhere) as other:

                async def behave(_: Any, writer: Any) -> None:
                    writer.write(http(307, location=f"http://127.0.0.1:{other.port}/"))

                async with service(behave) as served:
                    table = f'[mcp.web]\nurl = "http://127.0.0.1:{served.port}/"\n'
                    async with offer(f"{LOCAL}{table}headers = {{ K = 'v' }}\n") as session:
                        assert [] == session.tools()
                        assert 0 == other.connections
                        assert served.requests

        asyncio.run(run())
