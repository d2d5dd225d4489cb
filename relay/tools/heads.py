"""The head of an answer, bounded: interim answers without end, and heads of any size, are cut off.

The HTTP library bounds one head, and takes any number of interim ones before it, in one go. So the
stream below it gives little at a time, and not much at all, until the head is there.
"""

from __future__ import annotations

from typing import Any

#: Bytes of everything before an answer's body. The library allows one head 100 KiB.
_MOST = 256 * 1024

#: Bytes given to the library at once before the body: what takes it a few milliseconds.
_PIECE = 4096


class Headed:
    """A connection of httpcore's, which it asks for an answer after each request.

    Args:
        stream: the connection.
        error: raised where a head is too large; httpcore's own error for it.
    """

    def __init__(self, stream: Any, error: type[Exception]) -> None:
        self._stream = stream
        self._error = error
        self._left = _MOST
        self._in_head = True
        self._is_spoilt = False

    def body_begins(self) -> None:
        """Bound nothing until the next request."""
        self._in_head = False

    def spoil(self) -> None:
        """Have the connection closed instead of used again: more has come than was asked for."""
        self._is_spoilt = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        """Return the next bytes."""
        if not self._in_head:
            data: bytes = await self._stream.read(max_bytes, timeout)
            return data
        data = await self._stream.read(min(max_bytes, _PIECE), timeout)
        self._left -= len(data)
        if self._left < 0:
            raise self._error(f"the head of the answer is larger than {_MOST} bytes")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - likewise
        """Send a piece of a request, to which a head will come."""
        self._in_head, self._left = True, _MOST
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(self, *args: Any, **options: Any) -> Headed:
        """Return the connection, encrypted from here on."""
        return Headed(await self._stream.start_tls(*args, **options), self._error)

    def get_extra_info(self, info: str) -> Any:
        """Return what is known of the connection."""
        if info == "is_readable" and self._is_spoilt:
            # The library's sign, between two requests, of a connection that is of no more use.
            return True
        return self._stream.get_extra_info(info)
