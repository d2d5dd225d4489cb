"""Connections to one HTTP server that are kept, and that are dropped together once one is dead.

After a cut or a black hole every kept connection is suspect: a request sent on one would wait for
nothing. ``renew`` lets what is under way go on and sends nothing more there.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import httpx

#: A connection that was idle for so long is not used again: well below the 60 seconds after which
#: common proxies close theirs, and above the pause between two safety polls.
_KEEPALIVE = 40.0

#: Idle connections kept.
_KEPT = 4

#: A peer that vanishes without a word is noticed by the kernel after about 15 s.
_PROBING = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2))

#: Connections younger than this, in seconds, were made after the trouble that one hears of.
_YOUNG = 0.5


class _Line:
    """One client, since when there is one, and how many use it."""

    __slots__ = ("began", "client", "retired", "users")

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.began = monotonic()
        self.users = 0
        self.retired = False


class Connections:
    """The connections to one server.

    Args:
        headers: sent with every request.
        secure: whether certificates are going to be verified; reading them all takes a while.
    """

    def __init__(self, headers: Mapping[str, str], *, secure: bool) -> None:
        self._headers = dict(headers)
        self._tls = (
            httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        self._line: _Line | None = None
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()
        self._streams: list[Any] = []

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[_Line]:
        """Give a client for one request."""
        if self._closed:
            raise httpx.ConnectError("the connections were closed")
        if self._line is None:
            self._line = _Line(self._client())
        line = self._line
        line.users += 1
        try:
            yield line
        finally:
            line.users -= 1
            self._drop_if_unused(line)

    @asynccontextmanager
    async def noting(self) -> AsyncIterator[dict[str, Any]]:
        """Give the extensions of one request, which note the connection that it opens.

        One that is given up in the middle of its TLS handshake is closed here: the library leaves
        it open.
        """
        raw: list[Any] = []

        async def note(event: str, facts: Mapping[str, Any]) -> None:
            if event == "connection.connect_tcp.complete":
                raw.append(facts["return_value"])
                self._streams = [*self._alive(), facts["return_value"]]
            elif event == "connection.start_tls.complete":
                raw.clear()

        try:
            yield {"trace": note}
        except BaseException:
            for stream in raw:
                self._close_later(stream.aclose())
            raise

    def _close_later(self, closing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @property
    def open(self) -> int:
        """How many connections are open."""
        return len(self._alive())

    def _alive(self) -> list[Any]:
        return [s for s in self._streams if s.get_extra_info("socket").fileno() >= 0]

    def _client(self) -> httpx.AsyncClient:
        # The environment's proxies are for the world outside; a sandbox is reached directly.
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=_KEPT, keepalive_expiry=_KEEPALIVE
        )
        transport = httpx.AsyncHTTPTransport(
            verify=self._tls, limits=limits, socket_options=_socket_options()
        )
        return httpx.AsyncClient(transport=transport, headers=self._headers, trust_env=False)

    def renew(self) -> None:
        """Use none of the connections that are there for anything new."""
        if self._line is not None and monotonic() - self._line.began >= _YOUNG:
            self._retire()

    def _retire(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.retired = True
            self._drop_if_unused(line)

    def _drop_if_unused(self, line: _Line) -> None:
        if line.retired and line.users == 0:
            line.retired = False
            self._close_later(line.client.aclose())

    async def close(self) -> None:
        """Close what is idle; what is under way closes when it ends."""
        self._closed = True
        self._retire()
        if self._closing:
            await asyncio.wait(self._closing)


def _socket_options() -> list[tuple[int, int, int]]:
    options = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    ]
    for name, value in _PROBING:
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
