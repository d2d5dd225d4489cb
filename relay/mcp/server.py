"""The MCP server's one thread: it waits for stdin, for responses and for relay.json at once.

It ends when stdin does, or when nobody reads stdout any more; what is in flight then is taken
back, so that nothing goes on for nobody. It reads no further while a client leaves what it was
sent, so that neither side can fill its memory. Ground floor.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any, Dict, Optional, Union

from relay.client.exchange import LONGEST_WAIT, Exchange
from relay.client.writer import Writer, directory_of
from relay.mcp import messages
from relay.mcp.calls import Calls, Ready
from relay.mcp.messages import Lines, TooLong
from relay.mcp.protocol import Connection
from relay.mcp.tools import Offer

#: Seconds between signs of life for a call. Clients give up after 30 or 60 s without any.
PROGRESS = 5.0

#: Seconds that calls in flight have once stdin has ended: a pipe may carry questions alone, but
#: whoever closes it to end the server waits about 2 s before it kills.
_LAST_ANSWERS = 1.0

#: Bytes of a message beside the arguments, and how much longer these may be as the client writes
#: them: ``\\u00e9`` takes 6 bytes, and 2 in a request.
_BESIDE = 65_536
_LONGER = 3

#: Bytes that wait to be read by the client before nothing more is read from it.
_MOST_UNREAD = 1 << 20

#: A pipe that can be written takes so many bytes without blocking (PIPE_BUF on Linux).
_PIECE = 4096

_READ = 1 << 16

#: What tells of the end of stdin alone: of a socket's; of a pipe's the kernel tells unasked.
_ITS_END = getattr(select, "POLLRDHUP", 0)


class Server:
    """Serves one client on two descriptors.

    Args:
        path: the session directory.
        stdin, stdout: the descriptors.
        timeout: seconds for each call. Default: ``RELAY_TIMEOUT_MS``.
        progress: seconds between two signs of life for a call.

    Raises:
        NoDirectory: there is no such directory.
    """

    def __init__(
        self,
        path: str,
        *,
        stdin: int = 0,
        stdout: int = 1,
        timeout: Optional[float] = None,
        progress: float = PROGRESS,
    ) -> None:
        path = directory_of({}, path)
        self._writer = Writer(path)
        self._offer = Offer(path)
        self._wakes = Ready()
        self._calls = Calls(self._wakes, time.monotonic, progress=progress)
        self._connection = Connection(self._offer, self._calls, ask=self._ask, send=self._send)
        self._timeout = timeout
        self._stdin, self._stdout = stdin, stdout
        self._lines = Lines(_LONGER * self._offer.max_request + _BESIDE)
        self._out = bytearray()
        self._look_at = 0.0
        self._ends_at: Optional[float] = None

    def run(self) -> None:
        """Serve until stdin ends, or nobody reads stdout."""
        try:
            self._serve()
        finally:
            self._calls.close()
            self._wakes.close()

    def _serve(self) -> None:
        while not self._is_over():
            self._look()
            ready = self._wait()
            if self._stdout in ready and not self._write(ready[self._stdout]):
                return
            if self._stdin in ready and not self._read():
                self._ends_at = time.monotonic() + _LAST_ANSWERS
                self._connection.close()
            self._wakes.collect()
            for done in self._calls.advance():
                self._connection.ended(done)
            for sign in self._calls.progress():
                self._send(_progress(sign.token, sign.seconds))

    def _is_over(self) -> bool:
        if self._ends_at is None:
            return False
        nothing_left = not self._out and not len(self._calls)
        return nothing_left or time.monotonic() >= self._ends_at

    def _look(self) -> None:
        """See whether the tools have changed, where something says so or it is time to."""
        waiter = self._offer.waiter
        if self._wakes.rouse(waiter) or time.monotonic() >= self._look_at:
            if self._offer.look():
                self._connection.tools_changed()
            self._lines.limit = _LONGER * self._offer.max_request + _BESIDE
            self._look_at = time.monotonic() + LONGEST_WAIT

    def _wait(self) -> Dict[int, int]:
        """Wait for whatever comes first, and return the descriptors that are ready."""
        poll = select.poll()
        if self._ends_at is None:
            # Who leaves answers unread is not read from; the end of stdin is heard all the same.
            full = len(self._out) >= _MOST_UNREAD
            poll.register(self._stdin, _ITS_END if full else select.POLLIN)
        # Also without anything to write: that nobody reads any more shows as an error.
        poll.register(self._stdout, select.POLLOUT if self._out else 0)
        if self._wakes.fileno() >= 0:
            poll.register(self._wakes.fileno(), select.POLLIN)
        times = (self._look_at, self._calls.next_due(), self._ends_at)
        left = min(at for at in times if at is not None) - time.monotonic()
        return dict(poll.poll(max(left, 0.0) * 1000))

    def _read(self) -> bool:
        """Take in what has arrived; False at the end of stdin."""
        try:
            data = os.read(self._stdin, _READ)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for line in self._lines.feed(data):
            self._take(line)
        return bool(data)

    def _take(self, line: Union[bytes, TooLong]) -> None:
        if isinstance(line, TooLong):
            self._connection.take_too_long(line)
            return
        for each in messages.read(line):
            if isinstance(each, messages.Message):
                self._connection.take(each)
            else:
                self._send(each)

    def _ask(self, tool: str, args: Dict[str, Any], call_id: str) -> Exchange:
        return self._writer.exchange(tool, args, timeout=self._timeout, call_id=call_id)

    def _send(self, body: Dict[str, Any]) -> None:
        self._out += messages.line(body)
        # Most answers fit: written at once, they need no further turn of the loop.
        while self._out and len(self._out) <= _PIECE and self._can_write():
            if not self._write(select.POLLOUT):
                return

    def _can_write(self) -> bool:
        poll = select.poll()
        poll.register(self._stdout, select.POLLOUT)
        return poll.poll(0) == [(self._stdout, select.POLLOUT)]

    def _write(self, event: int) -> bool:
        """Write what fits; False where nobody reads any more."""
        if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            return False
        if event & select.POLLOUT:
            try:
                del self._out[: os.write(self._stdout, self._out[:_PIECE])]
            except BlockingIOError:
                return True
            except OSError:
                return False
        return True


def _progress(token: messages.Id, seconds: float) -> Dict[str, Any]:
    params = {"progressToken": token, "progress": seconds, "message": "waiting for the tool"}
    return messages.notification("notifications/progress", params)
