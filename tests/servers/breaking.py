"""An HTTP proxy that answers as broken things between a runner and its daemon do.

Each request is read whole and put to ``fault``, which names what is to happen to it; ``""`` passes
it on. Every request that is passed on has a connection of its own to the daemon, so that what is
broken is the way to the runner alone.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

#: What can happen to a request; the status codes of refusals are faults as well ("503").
FAULTS = (
    "unanswered",  # taken, never passed on, never answered
    "unheard",  # passed on, done, and the answer never comes
    "half",  # half of the answer, then silence
    "cut",  # half of the answer, then the end
    "closed",  # the connection is closed on the request, before anything is done
    "done-closed",  # the same once it was done
    "last",  # the answer is right, and the connection closes with no word of it
    "trickled",  # byte after byte
    "twice",  # answered twice on one connection; and done twice, unless it publishes an answer
    "swapped",  # the answer of the request before it
    "html",  # a page of somebody in between, with status 200
    "huge",  # far more than anybody asked for
    *("401", "403", "404", "408", "413", "429", "500", "502", "503", "504", "302"),
)

_HUGE = 200
_MEGABYTE = b"x" * (1 << 20)


class Asked(NamedTuple):
    """One request: its method, its target, and its body."""

    method: str
    target: str
    body: bytes

    @property
    def args(self) -> list[str]:
        """The arguments of the command that it runs; empty where it runs none."""
        if not self.target.endswith("/processes/run"):
            return []
        return [str(word) for word in json.loads(self.body)["args"]]

    @property
    def waits(self) -> bool:
        """Whether it is a window."""
        return any(w.startswith("window=") and float(w[7:]) > 0 for w in self.args)

    @property
    def publishes(self) -> bool:
        """Whether it publishes a response."""
        return any(word.endswith(".res.json") for word in self.args)


class Breaking:
    """A proxy on a free port of loopback. Belongs to the event loop that it is started in.

    Args:
        port: the daemon's.
        fault: names what happens to a request.
        tls: speak TLS to the runner, as this says.
    """

    def __init__(
        self,
        port: int,
        fault: Callable[[Asked], str] = lambda _asked: "",
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.target = port
        self.fault = fault
        self.tls = tls
        self.done: Counter[str] = Counter()
        self.asked: list[Asked] = []
        self.port = 0
        self._before = b""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        # What was aborted is closed in the next turn of the loop.
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self._one(reader, writer):
                    pass
        finally:
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; True where the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(_length(head))
        method, target = head.split(b" ", 2)[:2]
        asked = Asked(method.decode(), target.decode().partition("?")[0], body)
        self.asked.append(asked)
        fault = self.fault(asked)
        self.done[fault] += 1
        if fault == "unanswered":
            await reader.read()
            return False
        if fault == "closed":
            return False
        if fault.isdigit():
            writer.write(_refusal(int(fault)))
            return True
        if fault in {"html", "huge"}:
            await self._invent(writer, huge=fault == "huge")
            return fault == "html"
        if fault == "twice" and not asked.publishes:
            await self._pass_on(head, body)
        answer = await self._pass_on(head, body)
        return await self._hand_over(reader, writer, answer, fault)

    async def _invent(self, writer: asyncio.StreamWriter, *, huge: bool) -> None:
        page = b"<html>Sign in to the network</html>"
        size = _HUGE * len(_MEGABYTE) if huge else len(page)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % size
        )
        if not huge:
            writer.write(page)
            return
        for _ in range(_HUGE):
            writer.write(_MEGABYTE)
            await writer.drain()

    async def _hand_over(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: bytes,
        fault: str,
    ) -> bool:
        before, self._before = self._before, answer
        if fault == "done-closed":
            return False
        if fault in {"unheard", "half"}:
            writer.write(answer[: len(answer) // 2 if fault == "half" else 0])
            await reader.read()
            return False
        if fault == "cut":
            writer.write(answer[: len(answer) * 3 // 4])
            await writer.drain()
            return False
        if fault == "trickled":
            for at in range(0, len(answer), 7):
                writer.write(answer[at : at + 7])
                await asyncio.sleep(0.001)
            return True
        writer.write((before or answer) if fault == "swapped" else answer)
        if fault == "twice":
            writer.write(answer)
        await writer.drain()
        return fault != "last"

    async def _pass_on(self, head: bytes, body: bytes) -> bytes:
        """Put a request to the daemon; return its whole answer, less its end of the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            lines = [x for x in head.split(b"\r\n") if not x.lower().startswith(b"connection:")]
            writer.write(b"\r\n".join([*lines[:-2], b"Connection: close", b"", b""]) + body)
            answer = await reader.read()
        finally:
            writer.transport.abort()
        return b"\r\n".join(
            line for line in answer.split(b"\r\n") if not line.lower().startswith(b"connection:")
        )


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _refusal(status: int) -> bytes:
    said = b'{"title":"No","status":%d,"detail":"not now"}' % status
    return (
        b"HTTP/1.1 %d No\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
        b"Location: http://127.0.0.1:1/\r\nContent-Length: %d\r\n\r\n" % (status, len(said))
    ) + said
