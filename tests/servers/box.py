"""A session directory in a sandbox, a host that reaches it, and a writer's hand in it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from relay.hosts.host import Host
from relay.hosts.memory import MemoryHost
from relay.protocol import Request, Response, decode_response, encode_request
from relay.remote.runner import RemoteRunner
from relay.settings import RelaySettings

#: Deadline of everything that is waited for; far above what it takes.
PATIENCE = 30.0

#: What the tests' daemons ask for.
TOKEN = "s3cret-token"


async def echo(text: str = "") -> str:
    """Give the text back."""
    return text


class Box:
    """A session directory in a sandbox, a host that reaches it, and a writer's hand in it."""

    def __init__(self, folder: Path, open_host: Callable[[], Host]) -> None:
        self.folder = folder
        self.session = folder / "a session's"
        self.open_host = open_host
        self.calls = 0

    @asynccontextmanager
    async def serving(self, tools: Any = None, **settings: Any) -> AsyncIterator[RemoteRunner]:
        """Run a runner."""
        given = RelaySettings(
            **{"remote_watch": True, "poll_max": timedelta(seconds=0.3), **settings}
        )
        async with RemoteRunner(
            self.session,
            host=self.open_host(),
            tools=tools or {"echo": echo},
            settings=given,
            state=self.folder / "state",
        ) as runner:
            yield runner

    def put(self, name: str, data: bytes) -> None:
        """Publish a file."""
        temp = self.session / f"{name}.tmp.0123456789ab"
        temp.write_bytes(data)
        temp.rename(self.session / name)

    def take(self, name: str) -> bytes | None:
        """Fetch a file, once it is there."""
        path = self.session / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        path.unlink()
        return data

    def names(self) -> list[str]:
        """Return what is there, but for what always is."""
        return [n for n in self._names() if n not in {"relay.json", ".relay-lease"}]

    def _names(self) -> list[str]:
        return sorted(os.listdir(self.session))

    def age(self, name: str, seconds: float) -> None:
        """Make a file as old as that."""
        when = time.time() - seconds
        os.utime(self.session / name, (when, when))

    def ask(
        self, request: str, tool: str = "echo", timeout_ms: int | None = None, **args: Any
    ) -> None:
        """Publish a request."""
        data = encode_request(Request(tool, request, args, timeout_ms))
        self.put(f"{request}.req.json", data)

    async def answer(self, request: str) -> Response:
        """Wait for an answer, and fetch it."""
        found: list[bytes] = []

        def look() -> bool:
            data = self.take(f"{request}.res.json")
            found.extend([] if data is None else [data])
            return bool(found)

        await self.until(look)
        return decode_response(found[0])

    async def call(self, text: str, tool: str = "echo") -> Response:
        """Ask and wait."""
        self.calls += 1
        request = f"call-{self.calls}-{os.urandom(3).hex()}"
        self.ask(request, tool, text=text)
        return await self.answer(request)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.names()
            await asyncio.sleep(0.005)


class MemoryBox(Box):
    """The same in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._open)
        self.memory = MemoryHost(str(self.session))

    def _open(self) -> Host:
        return self.memory

    def put(self, name: str, data: bytes) -> None:
        """See ``Box.put``."""
        self.memory.put(f"{self.session}/{name}", data)

    def take(self, name: str) -> bytes | None:
        """See ``Box.take``."""
        found = self.memory.files.pop(f"{self.session}/{name}", None)
        return None if found is None else found[0]

    def _names(self) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.memory.files)

    def age(self, name: str, seconds: float) -> None:
        """See ``Box.age``."""
        path = f"{self.session}/{name}"
        self.memory.files[path] = (self.memory.files[path][0], time.time() - seconds)


def play(story: Callable[[], Awaitable[None]]) -> None:
    """Run a story."""

    async def main() -> None:
        await story()

    asyncio.run(main())
