"""What an MCP server asks of its client: at most so many questions that are still to be answered.

A server that asks and does not take the answers would have them pile up here; it is given up.
"""

from __future__ import annotations

import asyncio

from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

#: Questions that wait for their answer, or for the server to take it, at one time.
_MOST = 64

#: Seconds in which the server has to take one.
_PATIENCE = 30.0


class Questions:
    """The open questions of one server."""

    def __init__(self) -> None:
        self._open = 0
        self._closed = asyncio.Event()

    async def admit(self, message: object) -> bool:
        """Wait until a message may be taken in; False where its server is to be given up."""
        if isinstance(message, JSONRPCRequest):
            self._open += 1
        elif isinstance(message, JSONRPCNotification) and message.method.endswith("/cancelled"):
            self._close()
        try:
            async with asyncio.timeout(_PATIENCE):
                while self._open >= _MOST:
                    self._closed.clear()
                    await self._closed.wait()
        except TimeoutError:
            return False
        return True

    def sent(self, message: object) -> None:
        """Note a message that the server has taken."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._close()

    def _close(self) -> None:
        self._open = max(self._open - 1, 0)
        self._closed.set()
