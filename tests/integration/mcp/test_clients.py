"""The MCP server as clients of others see it: Python's library in both eras, and two of npm's."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters

from tests.servers import node

MODES = ("auto", "legacy", "2026-07-28")


@asynccontextmanager
async def connected(session: Path, mode: str, **options: Any) -> AsyncIterator[Client]:
    """Connect Python's client as an agent's configuration would."""
    arguments = ["-m", "relay", "mcp", "--dir", str(session)]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with Client(server, mode=mode, **options) as client:
        yield client


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0.005)


async def text_of(call: Awaitable[Any]) -> tuple[bool, str]:
    """Return whether a call failed, and its text."""
    result = await call
    return result.is_error, result.content[0].text


def requests(session: Path) -> list[str]:
    """Return the requests that lie in a session."""
    return [name for name in os.listdir(session) if name.endswith(".req.json")]


def claims(session: Path) -> list[str]:
    """Return the requests of a session that a runner has."""
    return [name for name in os.listdir(session) if ".claim." in name]


class TestPython:
    @pytest.mark.parametrize("mode", MODES)
    def test_what_an_agent_does(self, session: Path, mode: str) -> None:
        """It lists the tools, calls them, and hears of each way in which a call may end."""

        async def talk() -> None:
            async with connected(session, mode) as client:
                assert ("2025-11-25" if mode == "legacy" else "2026-07-28") == (
                    client.protocol_version
                )
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                assert ["echo", "fail", "burst", "wait", "park"] == list(tools)
                assert "Give it back." == tools["echo"].description
                assert ["text"] == tools["echo"].input_schema["required"]
                said = client.call_tool("echo", {"text": "grüße"})
                assert (False, "grüße") == await text_of(said)
                said = client.call_tool("fail", {"why": "no such order"})
                assert (True, "no such order") == await text_of(said)
                said = client.call_tool("echo", {"text": "forbidden"})
                assert (True, "refused: that word is not allowed") == await text_of(said)
                with pytest.raises(MCPError, match="Unknown tool: nope"):
                    await client.call_tool("nope", {})

        asyncio.run(talk())

    @pytest.mark.parametrize("mode", MODES)
    def test_five_megabytes(self, session: Path, mode: str) -> None:
        """Large arguments and results pass whole."""

        async def talk() -> None:
            async with connected(session, mode) as client:
                text = "0123456789" * 500_000
                assert (False, text) == await text_of(client.call_tool("echo", {"text": text}))

        asyncio.run(talk())

    def test_too_large(self, session: Path) -> None:
        """Arguments over the runner's bound are refused with the bound."""

        async def talk() -> None:
            async with connected(session, "auto") as client:
                text = "x" * (17 << 20)
                failed, said = await text_of(client.call_tool("echo", {"text": text}))
                assert failed
                assert "too_large: " in said

        asyncio.run(talk())

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("size", [5_000_000, 20_000_000])
    def test_over_the_default_bound(
        self, unserved: Path, announce: Callable[..., None], mode: str, size: int
    ) -> None:
        """What the runner would refuse is never published; the reason names what to raise."""
        announce(unserved, "echo", RELAY_MAX_REQUEST_BYTES=4 << 20)

        async def talk() -> None:
            async with connected(unserved, mode) as client:
                result = await client.call_tool("echo", {"text": "x" * size})
                said: Any = result.content[0]
                assert result.is_error
                assert said.text.startswith("too_large: the ")
                assert said.text.endswith(f"RELAY_MAX_REQUEST_BYTES is {4 << 20}")
                assert {"relay/code": "too_large", "relay/mayHaveRun": False}.items() <= (
                    (result.meta or {}).items()
                )
                assert ["relay.json"] == os.listdir(unserved)

        asyncio.run(talk())

    def test_a_bound_that_is_raised(self, unserved: Path, announce: Callable[..., None]) -> None:
        """A runner that is told to take more is taken at its word, while the server goes on."""

        async def talk() -> None:
            async with connected(unserved, "auto") as client:
                announce(unserved, "echo", RELAY_MAX_REQUEST_BYTES=1 << 20)
                large = {"text": "x" * (2 << 20)}
                assert (await text_of(client.call_tool("echo", large)))[0]
                announce(unserved, "echo", RELAY_MAX_REQUEST_BYTES=4 << 20)
                call = asyncio.create_task(client.call_tool("echo", large))
                await until(lambda: requests(unserved))
                call.cancel()
                await until(lambda: not requests(unserved))

        asyncio.run(talk())

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_cancelling(self, unserved: Path, mode: str) -> None:
        """A call that the client gives up is taken back, and the connection goes on."""

        async def talk() -> None:
            async with connected(unserved, mode) as client:
                call = asyncio.create_task(client.call_tool("echo", {}))
                await until(lambda: requests(unserved))
                call.cancel()
                await asyncio.wait([call])
                await until(lambda: not requests(unserved))
                assert 1 == len((await client.list_tools()).tools)

        asyncio.run(talk())

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_cancelling_what_runs(
        self, tmp_path: Path, serve: Callable[..., Any], mode: str
    ) -> None:
        """A call that a runner has already is stopped there, and nothing of it is left."""
        served = serve(tmp_path, "wait", "echo")

        async def talk() -> None:
            async with connected(served.session, mode) as client:
                call = asyncio.create_task(client.call_tool("wait", {"seconds": 600}))
                await until(lambda: claims(served.session))
                call.cancel()
                await asyncio.wait([call])
                await until(lambda: os.listdir(served.session) == ["relay.json"])
                assert (False, "on") == await text_of(client.call_tool("echo", {"text": "on"}))

        asyncio.run(talk())

    def test_leaving(self, unserved: Path) -> None:
        """A client that goes with calls in flight leaves no request behind."""

        async def talk() -> None:
            async with connected(unserved, "auto") as client:
                call = asyncio.create_task(client.call_tool("echo", {}))
                await until(lambda: requests(unserved))
            await asyncio.wait([call])
            assert call.exception() is not None

        asyncio.run(talk())
        assert [] == requests(unserved)

    def test_changed_tools_in_the_era_of_connections(
        self, unserved: Path, announce: Callable[..., None]
    ) -> None:
        """A client hears that the tools have changed, and finds the new ones."""

        async def talk() -> None:
            heard: list[str] = []

            async def hear(message: Any) -> None:
                heard.append(message.method)

            async with connected(unserved, "legacy", message_handler=hear) as client:
                assert ["echo"] == [tool.name for tool in (await client.list_tools()).tools]
                announce(unserved, "echo", "more")
                await until(lambda: heard)
                tools = (await client.list_tools()).tools
                assert ["echo", "more"] == [tool.name for tool in tools]
                announce(unserved, "echo", "more")
                announce(unserved)
                await until(lambda: len(heard) == 2)
                assert [] == (await client.list_tools()).tools
            assert ["notifications/tools/list_changed"] * 2 == heard

        asyncio.run(talk())

    def test_changed_tools_in_the_era_of_envelopes(
        self, unserved: Path, announce: Callable[..., None]
    ) -> None:
        """A client that subscribes hears that the tools have changed."""

        async def talk() -> None:
            async with connected(unserved, "2026-07-28") as client:
                async with client.listen(tools_list_changed=True) as events:
                    announce(unserved, "echo", "more")
                    assert "ToolsListChanged" == type(await anext(events)).__name__
                tools = (await client.list_tools()).tools
                assert ["echo", "more"] == [tool.name for tool in tools]

        asyncio.run(talk())


class TestNode:
    __test__ = any(map(node.is_wanted, node.CLIENTS))

    @pytest.mark.parametrize(("package", "mode"), node.clients())
    def test_what_an_agent_does(
        self, tmp_path: Path, serve: Callable[..., Any], package: str, mode: str
    ) -> None:
        """A client that shares no code with Python's goes through the same."""
        served = serve(tmp_path)
        command = ["node", str(Path(__file__).with_name("client.mjs")), str(node.MODULES)]
        server = [sys.executable, "-m", "relay", "mcp", "--dir", str(served.session)]
        with subprocess.Popen(
            [*command, package, mode, *server], stdout=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout is not None
            assert "change\n" == client.stdout.readline()
            served.stop()
            served = serve(tmp_path, "echo")
            seen = json.loads(client.stdout.readline())
            assert 0 == client.wait(30)
        assert {
            "server": {"name": "relay", "version": "1"},
            "tools": ["echo", "fail", "burst", "wait", "park"],
            "echo": {"isError": False, "text": "grüße"},
            "fail": {"isError": True, "text": "no such order"},
            "unknown": {"thrown": -32602},
            "big": True,
            "cancelled": seen["cancelled"],
            "after": {"isError": False, "text": "still there"},
            "changed": ["echo"],
        } == seen
        assert "thrown" in seen["cancelled"]
