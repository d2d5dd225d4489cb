"""Whole MCP servers as tools: connected at the start, watched, and connected again.

One task holds each connection and begins a new one when it ends, after a pause that grows and is
drawn at random. A call while there is none fails at once. What a server says of its tools is passed
on under a prefix, within bounds; what it says in an answer is bounded and free of our credentials.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import mcp_types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from relay.engine.telemetry import escaped
from relay.errors import ToolError
from relay.tools.command import ALLOWED, environment
from relay.tools.credentials import Credentials, Template
from relay.tools.libraries import mask_logs, reason
from relay.tools.listing import Listing
from relay.tools.pipes import TOO_LARGE, Pipes
from relay.tools.registry import TOOL_NAME, Call, Failure, Tool, ToolsError
from relay.tools.results import text_of
from relay.tools.transport import Reach, checked_client

_log = logging.getLogger("relay.tools")

#: Seconds to connect and to list the tools; to wait for a first connection at the start.
_TO_CONNECT = 30.0
_AT_START = 10.0

#: Seconds in which a connection is taken leave of: over HTTP the server is told, and may be silent.
_TO_LEAVE = 5.0
_TO_SAY_GOODBYE = 2.0

#: Seconds between attempts: the first, the longest, and the share that chance takes off.
_PAUSE_FIRST = 0.5
_PAUSE_LONGEST = 30.0
_JITTER = 0.2

#: A connection that held so many seconds was good: the next pause is the first again.
_GOOD = 30.0

#: What one server may offer: tools, pages of them, and bytes of JSON in all. The tools of all have
#: to fit into one relay.json, of which a writer reads 1 MiB.
_MOST_TOOLS = 512
_MOST_PAGES = 100
_MOST_BYTES = 400_000

#: How much of a server's own words about an error its caller is shown.
_SHOWN = 2000

#: Seconds between two listings of a server's tools.
_BETWEEN_LISTS = 0.5

#: Since 2.3 the library has a bound of its own on events, 1 MiB unless it is told; before, none.
_EVENT_BOUND = "max_sse_event_size"
_HTTP_OPTIONS = inspect.signature(streamable_http_client).parameters

#: The status by which a server says that it does not know a session, and the codes that servers
#: put beside it.
_NOT_FOUND = 404
_MAY_BE_FORGOTTEN = (mcp_types.INVALID_REQUEST, -32001)

#: Seconds that a call waits for a session to be made anew that its server has forgotten.
_FOR_A_SESSION = 5.0

#: How the library begins to say that a redirect was not followed, and where it leads; and that
#: it cannot read an answer, and a piece of it.
_ELSEWHERE = "Redirect to "
_UNREADABLE = "Failed to parse "

#: Calls that were given up at one time while their server does not take that. The library tries to
#: tell it for 5 s.
_MOST_LEAVING = 256

#: What the library raises for an answer that it cannot use; the connection is as good as before.
_UNUSABLE = (ValueError, RuntimeError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Server:
    """One MCP server, by its command or by its url.

    Attributes:
        name: stands before its tools' names.
        command: the program and its arguments.
        folder: where it is started.
        env: variables that it gets beside those that every command gets.
        pass_env: variables that it gets from the runner's environment.
        url: where it is reached over HTTP.
        headers: sent with each request.
        timeout: seconds for one of its tools.
        limit: bytes of one message from it.
    """

    name: str
    command: Sequence[str]
    folder: str
    env: Mapping[str, Template]
    pass_env: Sequence[str]
    url: Template | None
    headers: Mapping[str, Template]
    timeout: float | None
    limit: int


class Upstream:
    """The connection to one MCP server.

    Args:
        server: which.
        credentials: fill its variables and headers.
        reach: where its url may lead.
        changed: called when ``tools`` has changed.
        draw: a random number from 0 to 1.
    """

    def __init__(
        self,
        server: Server,
        *,
        credentials: Credentials,
        reach: Reach,
        changed: Callable[[], None],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.server = server
        self.tools: tuple[Tool, ...] = ()
        self._credentials = credentials
        self._reach = reach
        self._changed = changed
        self._draw = draw
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._settled = asyncio.Event()
        self._lost = asyncio.Event()
        self._stale = asyncio.Event()
        #: Whether the server has said that it does not know the session.
        self._forgotten = False
        self._stopping = False
        #: Calls that were given up, of which the server is still to be told.
        self._leaving: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Connect; return once that has been done, has failed, or takes too long to wait for."""
        self._task = asyncio.create_task(self._supervise(), name=f"mcp-{self.server.name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(_AT_START):
                await self._settled.wait()

    async def stop(self) -> None:
        """Disconnect, and end the server's process."""
        task, self._task = self._task, None
        self._stopping = True
        while task is not None and not task.done():
            # Again where a library has made something else of it, or waits for its peer.
            task.cancel()
            await asyncio.wait([task], timeout=_TO_LEAVE)

    async def _supervise(self) -> None:
        failures = 0
        while not self._stopping:
            begun = time.monotonic()
            try:
                # Every other time the older way to connect: a server that ends at a question that
                # it does not know is met by it.
                await self._hold("auto" if failures % 2 == 0 else "legacy")
                ended = "the connection has ended"
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - tried again
                ended = reason(error)
            finally:
                self._client = None
                self._connected.clear()
            self._settled.set()
            failures = 0 if time.monotonic() - begun > _GOOD else failures + 1
            pause = min(_PAUSE_FIRST * 2 ** min(max(failures - 1, 0), 10), _PAUSE_LONGEST)
            pause *= 1 - _JITTER * self._draw()
            said = escaped(self._credentials.masked(ended))
            _log.warning("mcp %s: %s; again in %.1f s", self.server.name, said, pause)
            await asyncio.sleep(pause)

    async def _hold(self, mode: str) -> None:
        """Connect, and keep the connection until it is lost."""
        self._lost.clear()
        self._forgotten = False
        async with asyncio.timeout(_TO_CONNECT) as connecting:
            async with self._client_of(mode) as client:
                await self._take_tools(client)
                connecting.reschedule(None)
                self._client = client
                self._connected.set()
                self._settled.set()
                _log.info("mcp %s: %d tools", self.server.name, len(self.tools))
                listening = asyncio.create_task(self._listen(client))
                try:
                    await self._follow(client)
                finally:
                    self._client = None
                    listening.cancel()
                    await asyncio.wait([listening])

    def _client_of(self, mode: str) -> Client:
        transport = Listing(self._transport(), self._left_out)
        return Client(transport, mode=mode, message_handler=self._heard, cache=None)

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        server = self.server
        mask_logs(self._credentials)
        if server.url is None:
            own = environment((*ALLOWED, *server.pass_env))
            own.update((name, value.fill()) for name, value in server.env.items())
            self._credentials.never_show_variables(server.pass_env)
            return Pipes(
                server.command,
                own,
                folder=server.folder,
                limit=server.limit,
                ended=self._lost.set,
                said=self._said,
            ).connect()
        headers = {name: value.fill() for name, value in server.headers.items()}
        client = checked_client(
            self._reach,
            limit=server.limit,
            timeout=_TO_CONNECT,
            headers=headers,
            generation="2",
            saw=self._saw,
        )
        bound: dict[str, Any] = (
            {_EVENT_BOUND: server.limit} if _EVENT_BOUND in _HTTP_OPTIONS else {}
        )
        return _Closing(
            client, streamable_http_client(server.url.fill(), http_client=client, **bound)
        )

    def _saw(self, request: Any, status: int) -> None:
        if status == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._forgotten = True

    async def _follow(self, client: Client) -> None:
        """List the tools anew whenever they have changed, until the connection is lost."""
        while not self._lost.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (self._lost, self._stale)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self._stale.is_set() and not self._lost.is_set():
                self._stale.clear()
                async with asyncio.timeout(_TO_CONNECT):
                    await self._take_tools(client)
                # A server that announces changes without end is not listed without end.
                await asyncio.sleep(_BETWEEN_LISTS)

    async def _listen(self, client: Client) -> None:
        """Hear of changed tools in the era in which a client has to ask for that."""
        capability = client.server_capabilities.tools
        if client.session.initialize_result is not None or not getattr(
            capability, "list_changed", False
        ):
            return
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._stale.set()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - it does without
            _log.info("mcp %s: not told of changes: %s", self.server.name, reason(error))

    async def _heard(self, message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._stale.set()

    def _left_out(self, text: str) -> None:
        said = escaped(self._credentials.masked(text))
        _log.warning("mcp %s: %s", self.server.name, said)

    def _said(self, text: str) -> None:
        said = self._credentials.masked(text)
        for at in range(0, len(said), _SHOWN):
            piece = escaped(said[at : at + _SHOWN], limit=_SHOWN)
            _log.info("mcp %s wrote to stderr: %s", self.server.name, piece)

    async def _take_tools(self, client: Client) -> None:
        found: list[mcp_types.Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            found.extend(page.tools)
            cursor = page.next_cursor
            if cursor is None or len(found) > _MOST_TOOLS:
                break
        made = self._made(found[:_MOST_TOOLS])
        if [tool.described() for tool in made] != [tool.described() for tool in self.tools]:
            self.tools = tuple(made)
            self._changed()

    def _made(self, found: Sequence[mcp_types.Tool]) -> list[Tool]:
        made: dict[str, Tool] = {}
        size = 0
        for each in found:
            tool = self._tool(each)
            if tool is None or tool.name in made:
                continue
            size += len(json.dumps(tool.described()))
            if size > _MOST_BYTES:
                _log.warning(
                    "mcp %s: its tools need too much room; some are left out", self.server.name
                )
                break
            made[tool.name] = tool
        return list(made.values())

    def _tool(self, found: mcp_types.Tool) -> Tool | None:
        # A name that holds a credential is none that can be used: a mask is no part of names.
        name = f"{self.server.name}_{self._credentials.masked(found.name)}"
        if not TOOL_NAME.fullmatch(name):
            _log.warning(
                "mcp %s: a tool's name cannot be used: %s", self.server.name, escaped(name)
            )
            return None

        async def handler(args: dict[str, Any], call: Call) -> str:
            return await self._call(found.name, args, call)

        description = self._credentials.masked(found.description or found.title or "")
        try:
            return Tool(
                name,
                description,
                self._credentials.masked_within(found.input_schema),
                handler,
                blocking=False,
                timeout=self.server.timeout,
            )
        except ToolsError as error:
            _log.warning("mcp %s: left out: %s", self.server.name, escaped(str(error)))
            return None

    async def _call(self, tool: str, args: dict[str, Any], call: Call) -> str:
        try:
            text = await self._answer(tool, args, again=True)
        except MCPError as error:
            if error.data == TOO_LARGE:
                raise Failure("too_large", str(error)) from None
            said = self._credentials.masked(str(error))[:_SHOWN]
            if said.startswith(_ELSEWHERE):
                # The library's words; where it leads is for the log alone.
                _log.warning("mcp %s: %s", self.server.name, escaped(said))
                said = "it leads elsewhere"
            elif said.startswith(_UNREADABLE):
                # Likewise; and a piece from the middle of what was sent, which is no use masking.
                said = "its answer cannot be used"
            raise ToolError(f"the MCP server {self.server.name}: {said}") from None
        if len(text) > call.max_bytes:
            raise Failure("too_large", f"the answer is larger than {call.max_bytes} bytes")
        return text

    async def _answer(self, tool: str, args: dict[str, Any], *, again: bool) -> str:
        client = self._client
        if client is None:
            raise ToolError(f"the MCP server {self.server.name} is not connected")
        if len(self._leaving) >= _MOST_LEAVING:
            self._lost.set()
            raise ToolError(f"the MCP server {self.server.name} does not take what it is sent")
        try:
            result = await self._apart(client.call_tool(tool, args))
        except MCPError as error:
            if again and self._forgotten and error.code in _MAY_BE_FORGOTTEN:
                # The server knows nothing of the session, so it has not run the tool.
                await self._renew()
                return await self._answer(tool, args, again=False)
            if error.code == mcp_types.CONNECTION_CLOSED:
                self._lost.set()
            raise
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - told and logged below
            if not isinstance(error, _UNUSABLE):
                self._lost.set()
            said = escaped(self._credentials.masked(reason(error)))
            _log.warning("mcp %s: %s: %s", self.server.name, escaped(tool), said)
            text = f"the MCP server {self.server.name} gave no usable answer"
            raise ToolError(text) from None
        text = self._credentials.masked(text_of(result))
        if result.is_error:
            raise ToolError(text[:_SHOWN] or "the tool failed and said nothing")
        return text

    async def _apart(self, calling: Coroutine[Any, Any, T]) -> T:
        """Await a call of the library's; cancelled, leave it to tell a server that may be deaf."""
        task = asyncio.create_task(calling)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            self._leaving.add(task)
            task.add_done_callback(self._left)
            raise

    def _left(self, task: asyncio.Task[Any]) -> None:
        self._leaving.discard(task)
        if not task.cancelled():
            task.exception()

    async def _renew(self) -> None:
        """Have the session made anew, and wait for that."""
        self._client = None
        self._connected.clear()
        self._lost.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FOR_A_SESSION):
                await self._connected.wait()


class _Closing(AbstractAsyncContextManager[Any]):
    """A transport, and the client of HTTP that it uses, closed after it."""

    def __init__(self, client: Any, transport: AbstractAsyncContextManager[Any]) -> None:
        self._client = client
        self._transport = transport

    async def __aenter__(self) -> Any:
        return await self._transport.__aenter__()

    async def __aexit__(self, *error: object) -> bool | None:
        try:
            # What it raised would take the place of a cancel that is on its way.
            with suppress(TimeoutError):
                async with asyncio.timeout(_TO_SAY_GOODBYE):
                    return await self._transport.__aexit__(*cast("Any", error))
            return None
        finally:
            await self._client.aclose()
