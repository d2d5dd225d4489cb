"""HTTP connections of tools: through httpcore with checked addresses, within bounds.

It exists for two generations of one library, since the MCP library has a copy of its own: httpx
with httpcore, and httpx2 with httpcore2. Nothing of the environment's (a proxy) is gone by.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from relay.tools.addresses import Allowed, CheckedBackend
from relay.tools.registry import Failure

#: Connections of one service at a time, and those kept open for the next call.
_MOST = 100
_KEPT = 20

#: Seconds for which an idle connection is kept. Servers close theirs after 60 and more.
_KEPT_FOR = 30.0

#: The end of one event on a stream of events, after which counting begins anew.
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Bounded:
    """A response's body, ended with an error once more than ``limit`` bytes have come.

    On a stream of events the bound is on each of them.
    """

    def __init__(self, stream: Any, limit: int, *, events: bool) -> None:
        self._stream = stream
        self._limit = limit
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if self._events:
                last = max(part.rfind(end) for end in _EVENT_ENDS)
                size = len(part) - last if last >= 0 else size
            if size > self._limit:
                raise Failure("too_large", f"the answer is larger than {self._limit} bytes")
            yield part

    async def aclose(self) -> None:
        """Let the connection go."""
        await self._stream.aclose()


def _unseen(_request: Any, _status: int) -> None:
    """Take no notice."""


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    return next((value for key, value in headers if key.lower() == name), b"")


def checked_client(
    allowed: Allowed,
    *,
    limit: int,
    timeout: float,
    headers: Any = None,
    generation: str = "",
    saw: Callable[[Any, int], None] = _unseen,
) -> Any:
    """Return an asynchronous client of httpx, which connects to allowed addresses alone.

    Args:
        allowed: the addresses.
        limit: bytes of one answer.
        timeout: seconds to connect, to write, and for each piece of an answer.
        headers: sent with each request.
        generation: "" for httpx, "2" for httpx2.
        saw: told of each request and the status of its answer.
    """
    httpx: Any = importlib.import_module(f"httpx{generation}")
    httpcore: Any = importlib.import_module(f"httpcore{generation}")
    backend = CheckedBackend(httpcore.AnyIOBackend(), allowed, httpcore.ConnectError)
    pool = httpcore.AsyncConnectionPool(
        ssl_context=httpx.create_ssl_context(),
        max_connections=_MOST,
        max_keepalive_connections=_KEPT,
        keepalive_expiry=_KEPT_FOR,
        network_backend=backend,
    )

    class Body(Bounded, httpx.AsyncByteStream):  # type: ignore[misc]  # its kind is chosen at run time
        """The body as the client takes it."""

    class Transport(httpx.AsyncBaseTransport):  # type: ignore[misc]  # likewise
        """Hands a request of httpx to httpcore."""

        async def handle_async_request(self, request: Any) -> Any:
            url = request.url
            response = await pool.handle_async_request(
                httpcore.Request(
                    method=request.method,
                    url=httpcore.URL(
                        scheme=url.raw_scheme,
                        host=url.raw_host,
                        port=url.port,
                        target=url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
            saw(request, response.status)
            kind = _header(response.headers, b"content-type")
            return httpx.Response(
                status_code=response.status,
                headers=response.headers,
                stream=Body(response.stream, limit, events=kind.startswith(b"text/event-stream")),
                extensions=response.extensions,
            )

        async def aclose(self) -> None:
            backend.close()
            await pool.aclose()

    return httpx.AsyncClient(
        transport=Transport(),
        timeout=timeout,
        headers=headers,
        follow_redirects=False,
        trust_env=False,
    )
