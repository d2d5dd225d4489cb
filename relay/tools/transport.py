"""HTTP connections of tools: through httpcore with checked addresses, within bounds.

It exists for two generations of one library, since the MCP library has a copy of its own: httpx
with httpcore, and httpx2 with httpcore2. Nothing of the environment's (a proxy) is gone by.
"""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Self

import httpx

from relay.errors import ToolError
from relay.tools.addresses import Allowed, CheckedBackend
from relay.tools.heads import Headed
from relay.tools.pace import Pace
from relay.tools.registry import Failure

#: Connections of one service at a time, and those kept open for the next call.
_MOST = 100
_KEPT = 20

#: Seconds for which an idle connection is kept. Servers close theirs after 60 and more.
_KEPT_FOR = 30.0

#: Pieces of a body between two turns of the event loop.
_PARTS = 50

#: Lines of a stream of events in a second. Each event of a flood may make a request of its own.
_EVENT_LINES = 600

#: The end of one event on a stream of events, after which counting begins anew.
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


@dataclass(frozen=True)
class Reach:
    """Where connections may lead, and who may vouch for the server at their end.

    Attributes:
        allowed: the addresses.
        ca_file: a PEM file of authorities, beside the public ones.
    """

    allowed: Allowed
    ca_file: str | None = None

    @cached_property
    def trust(self) -> ssl.SSLContext:
        """The rules by which a server has to prove its name; reading them takes 50 ms.

        The public authorities are certifi's, or those of SSL_CERT_FILE or SSL_CERT_DIR.

        Raises:
            OSError: a file of authorities cannot be read, or holds none.
        """
        context = httpx.create_ssl_context()
        if self.ca_file is not None:
            context.load_verify_locations(self.ca_file)
        return context


#: What is asked for with each request: an answer that unpacks to a thousand times its size is
#: nobody's good, so it comes as it is.
UNPACKED = {"accept-encoding": "identity"}


class Bounded:
    """A response's body, ended with an error once more than ``limit`` bytes have come.

    On a stream of events the bound is on each of them, and they are read at a pace.
    """

    def __init__(self, stream: Any, limit: int, *, events: bool, connection: object) -> None:
        self._stream = stream
        self._limit = limit
        self._events = events
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, parts, pace = 0, 0, Pace(lines=_EVENT_LINES)
        async for part in self._stream:
            size += len(part)
            parts += 1
            if parts % _PARTS == 0:
                # Pieces of a byte come by the thousand, without anybody else's having a turn.
                await asyncio.sleep(0)
            if self._events:
                last = max(part.rfind(end) for end in _EVENT_ENDS)
                size = len(part) - last if last >= 0 else size
            if size > self._limit:
                raise Failure("too_large", f"the answer is larger than {self._limit} bytes")
            yield part
            if self._events:
                await pace.keep(part)

    async def aclose(self) -> None:
        """Let the connection go; one on which more than the answer has come, for good."""
        if isinstance(self._connection, Headed) and _came_beside(self._stream):
            self._connection.spoil()
        await self._stream.aclose()


def _came_beside(stream: Any) -> bytes:
    """Return what has been read of a connection beside its answer, such as a body after a 204.

    It would be taken for the beginning of the next answer. Only the library's own parser knows.
    """
    for inner in ("_stream", "_connection", "_h11_state"):
        stream = getattr(stream, inner, None)
    beside: bytes = getattr(stream, "trailing_data", (b"", False))[0]
    return beside


def _unseen(_request: Any, _status: int) -> None:
    """Take no notice."""


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    return next((value.lower() for key, value in headers if key.lower() == name), b"")


@dataclass(frozen=True, slots=True)
class _Generation:
    """One generation of the library: its two halves, and the bounded body that it takes."""

    httpx: Any
    httpcore: Any
    body: Any


@cache
def _generation(number: str) -> _Generation:
    client = importlib.import_module(f"httpx{number}")
    core = importlib.import_module(f"httpcore{number}")
    return _Generation(client, core, type("Body", (Bounded, client.AsyncByteStream), {}))


class _Transport:
    """Hands the requests of one client to a pool of connections to allowed addresses."""

    def __init__(
        self, library: _Generation, reach: Reach, limit: int, saw: Callable[[Any, int], None]
    ) -> None:
        core = library.httpcore
        self._library = library
        self._limit = limit
        self._saw = saw
        self._backend = CheckedBackend(
            core.AnyIOBackend(),
            reach.allowed,
            unreachable=core.ConnectError,
            broken=core.RemoteProtocolError,
        )
        self._pool = core.AsyncConnectionPool(
            ssl_context=reach.trust,
            max_connections=_MOST,
            max_keepalive_connections=_KEPT,
            keepalive_expiry=_KEPT_FOR,
            network_backend=self._backend,
        )

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, and return its answer, whose body is still to come.

        Raises:
            ToolError: the body is packed, and may unpack to anything.
        """
        response = await self._pool.handle_async_request(self._core_request(request))
        connection = response.extensions.get("network_stream")
        if isinstance(connection, Headed):
            connection.body_begins()
        self._saw(request, response.status)
        if _header(response.headers, b"content-encoding") not in (b"", b"identity"):
            await response.aclose()
            raise ToolError("the service packs its answer, although it was asked not to")
        kind = _header(response.headers, b"content-type")
        events = kind.startswith(b"text/event-stream")
        return self._library.httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=self._library.body(
                response.stream, self._limit, events=events, connection=connection
            ),
            extensions=response.extensions,
        )

    def _core_request(self, request: Any) -> Any:
        core, url = self._library.httpcore, request.url
        return core.Request(
            method=request.method,
            url=core.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        self._backend.close()
        await self._pool.aclose()


def checked_client(
    reach: Reach,
    *,
    limit: int,
    timeout: float,
    headers: Mapping[str, str] | None = None,
    generation: str = "",
    saw: Callable[[Any, int], None] = _unseen,
) -> Any:
    """Return an asynchronous client of httpx, which connects to allowed addresses alone.

    Args:
        reach: the addresses, and whom it trusts.
        limit: bytes of one answer.
        timeout: seconds to connect, to write, and for each piece of an answer.
        headers: sent with each request.
        generation: "" for httpx, "2" for httpx2.
        saw: told of each request and the status of its answer.

    Raises:
        OSError: a file of authorities cannot be used.
    """
    library = _generation(generation)
    return library.httpx.AsyncClient(
        transport=_Transport(library, reach, limit, saw),
        timeout=timeout,
        headers={**UNPACKED, **(headers or {})},
        follow_redirects=False,
        trust_env=False,
    )
