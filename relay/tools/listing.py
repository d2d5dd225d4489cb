"""A server's messages on their way to the MCP library: of its list of tools, what is usable alone.

The library refuses a whole list for one tool that is none, and judges answers by a server's output
schema itself: within the event loop, without a bound, and with whatever addresses that refers to.
Nobody here needs those schemas, so it does not get them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, cast

from mcp_types import JSONRPCResponse, Tool
from pydantic import ValidationError

from relay.tools.libraries import reason


class Listing(AbstractAsyncContextManager[Any]):
    """A transport of the library's, whose lists of tools hold usable ones.

    Args:
        transport: gives the streams.
        left_out: takes a line for each tool that is left out.
    """

    def __init__(
        self, transport: AbstractAsyncContextManager[Any], left_out: Callable[[str], None]
    ) -> None:
        self._transport = transport
        self._left_out = left_out

    async def __aenter__(self) -> Any:
        read, write = await self._transport.__aenter__()
        return _Read(read, self._left_out), write

    async def __aexit__(self, *error: object) -> bool | None:
        return await self._transport.__aexit__(*cast("Any", error))


class _Read:
    """The library's stream of what a server sends."""

    def __init__(self, stream: Any, left_out: Callable[[str], None]) -> None:
        self._stream = stream
        self._left_out = left_out

    async def receive(self) -> Any:
        """Return the next message."""
        return self._usable(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._usable(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._stream.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _usable(self, item: Any) -> Any:
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse):
            listed = message.result.get("tools")
            if isinstance(listed, list):
                message.result["tools"] = [each for each in listed if self._is_usable(each)]
        return item

    def _is_usable(self, tool: Any) -> bool:
        try:
            name = Tool.model_validate(tool, by_name=False).name
        except ValidationError as error:
            self._left_out(f"a tool is left out: {reason(error)}")
            return False
        tool.pop("outputSchema", None)
        # Arguments are an object, whether a schema says so or not.
        if tool["inputSchema"].setdefault("type", "object") != "object":
            self._left_out(f"{name} is left out: its arguments are no object")
            return False
        return True
