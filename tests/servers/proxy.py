"""A TCP proxy that counts, delays and breaks: it stands between a runner and its sandbox.

It forwards bytes unchanged, each way after ``delay`` seconds and in order. It notes when a request
line of HTTP begins. ``cut`` resets every connection, ``blackhole`` swallows what arrives without a
word, ``refuse`` takes no connection.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import NamedTuple

from tests.servers.running import free_port

_REQUEST = re.compile(rb"(GET|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")

#: More turns of the loop than a connection takes from its acceptance until it is known here.
_TURNS = 8


class Sent(NamedTuple):
    """One HTTP request: when it passed, its method and its path without the query."""

    at: float
    method: str
    path: str


class Proxy:
    """A proxy on a free port of loopback. Belongs to the event loop that it is started in."""

    def __init__(self, port: int, *, delay: float = 0.0) -> None:
        self.target = port
        self.delay = delay
        self.blackhole = False
        self.sent: list[Sent] = []
        self.opened = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = free_port()

    @property
    def open(self) -> int:
        """How many connections from the runner are open."""
        return len(self._writers) // 2

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def refuse(self) -> None:
        """Take no further connection, and cut those that are there."""
        server, self._server = self._server, None
        if server is not None:
            for listening in server.sockets:
                asyncio.get_running_loop().remove_reader(listening)
            # A connection taken just now is lost, and stays open, where its server closes first.
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            server.close()
        self.cut()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in tuple(self._writers):
            with suppress(AttributeError):
                writer.transport.abort()

    async def stop(self) -> None:
        """End everything."""
        await self.refuse()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            there = await asyncio.open_connection("127.0.0.1", self.target)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return
        self._writers |= {writer, there[1]}
        for source, sink, outward in ((reader, there[1], True), (there[0], writer, False)):
            task = asyncio.ensure_future(self._forward(source, sink, outward=outward))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, outward: bool
    ) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.ensure_future(self._send(queue, sink))
        try:
            while data := await source.read(65536):
                if outward:
                    self._note(data)
                if not self.blackhole:
                    queue.put_nowait((time.monotonic() + self.delay, data))
        except OSError:
            data = b""
        finally:
            if not self.blackhole:
                queue.put_nowait((time.monotonic() + self.delay, b""))
                with suppress(asyncio.CancelledError):
                    await sending
            sending.cancel()
            self._writers.discard(sink)
            sink.transport.abort()

    async def _send(
        self, queue: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    await sink.drain()
                    return
                sink.write(data)

    def _note(self, data: bytes) -> None:
        for found in _REQUEST.finditer(data):
            path = found[2].decode().partition("?")[0]
            self.sent.append(Sent(time.monotonic(), found[1].decode(), path))
