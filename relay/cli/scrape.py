"""Where metrics are scraped: a few lines of HTTP/1.1, on loopback unless told otherwise.

One request a connection, read in full or dropped after a few seconds; nothing that a client sends
decides more than which of two answers it gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from relay.errors import RelayError

_LONGEST_HEAD = 16 * 1024
_PATIENCE = 5.0
_MOST_CLIENTS = 32


class ScrapeError(RelayError):
    """RELAY_METRICS_ADDR cannot be served."""

    code = "metrics"


def address(text: str) -> tuple[str, int]:
    """Return host and port of RELAY_METRICS_ADDR; a port alone means loopback.

    Raises:
        ScrapeError: it is no address.
    """
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (port.isascii() and port.isdigit() and int(port[:6]) < 1 << 16) or (colon and not host):
        raise ScrapeError(
            f"RELAY_METRICS_ADDR {text[:60]!a} is no address; write 127.0.0.1:9464, or a port alone"
        )
    return host or "127.0.0.1", int(port)


class Scrape:
    """Serves one text. Belongs to the event loop in which it is started.

    Args:
        where: RELAY_METRICS_ADDR.
        text: called for each request.
    """

    def __init__(self, where: str, text: Callable[[], str]) -> None:
        self._host, self._port = address(where)
        self._where = where
        self._text = text
        self._server: asyncio.Server | None = None
        self._clients = 0

    @property
    def port(self) -> int:
        """The port that it is served on; of use where 0 was asked for."""
        return 0 if self._server is None else int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            ScrapeError: the address is in use, or is none of this machine's.
        """
        try:
            self._server = await asyncio.start_server(
                self._answer, self._host, self._port, limit=_LONGEST_HEAD
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ScrapeError(
                f"RELAY_METRICS_ADDR {self._where}: metrics cannot be served there: {reason}; "
                "choose another port, or unset it"
            ) from None

    def stop(self) -> None:
        """Serve no longer."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= _MOST_CLIENTS:
                await asyncio.wait_for(self._serve(reader, writer), _PATIENCE)
        except (OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            # Whoever does not finish its request gets no answer.
            return
        finally:
            self._clients -= 1
            with suppress(OSError):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            status, body = "405 Method Not Allowed", b"only GET\n"
        elif path not in (b"/", b"/metrics"):
            status, body = "404 Not Found", b"try /metrics\n"
        else:
            status, body = "200 OK", self._text().encode()
        kind = "text/plain; version=0.0.4; charset=utf-8"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        if method != b"HEAD":
            writer.write(body)
        await writer.drain()
