"""What the engine's tests share: a session directory, and a writer's hand in it.

The hand works by the protocol alone, with plain files, so that a test says exactly what is there.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay.engine.runner import Runner
from relay.protocol import Request, Response, decode_response, encode_request
from relay.settings import RelaySettings

#: Deadline of everything that is waited for; far above what it takes.
PATIENCE = 20.0


class Hand:
    """A writer's hand in one session directory."""

    def __init__(self, folder: Path, session: Path | None = None) -> None:
        self.folder = folder
        self.session = folder / "session" if session is None else session
        self.state = folder / "state"
        self.session.mkdir(mode=0o700)

    def beside(self, name: str) -> Hand:
        """Return a hand in a new directory of the root, which is made with the first."""
        (self.folder / "root").mkdir(exist_ok=True)
        return Hand(self.folder, self.folder / "root" / name)

    def runner(self, tools: Any = None, **options: Any) -> Runner:
        """Return a runner of the directory, not yet started. Settings are given by field."""
        options.setdefault("dir", None if "root" in options else self.session)
        fields = RelaySettings.model_fields.keys() - {"dir", "root"}
        given = {name: options.pop(name) for name in tuple(options) if name in fields}
        options.setdefault("settings", RelaySettings(**given))
        return Runner(tools=tools or {"echo": echo}, state=self.state, **options)

    def root_runner(self, tools: Any = None, **options: Any) -> Runner:
        """Return a runner of the root, not yet started."""
        (self.folder / "root").mkdir(exist_ok=True)
        return self.runner(tools, root=self.folder / "root", **options)

    def put(self, name: str, data: bytes) -> Path:
        """Publish a file as the protocol does."""
        temp = self.session / f"{name}.tmp.{os.urandom(6).hex()}"
        temp.write_bytes(data)
        return temp.rename(self.session / name)

    def ask(
        self, request: str, tool: str = "echo", args: Any = None, timeout_ms: int | None = None
    ) -> Path:
        """Publish a request."""
        data = encode_request(Request(tool, request, args or {}, timeout_ms))
        return self.put(f"{request}.req.json", data)

    async def answer(self, request: str) -> Response:
        """Wait for a response, and take it."""
        path = self.session / f"{request}.res.json"
        await self.until(path.is_file)
        data = path.read_bytes()
        path.unlink()
        return decode_response(data)

    async def call(self, tool: str, **args: Any) -> Response:
        """Ask and wait."""
        request = f"call-{os.urandom(6).hex()}"
        self.ask(request, tool, args)
        return await self.answer(request)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.names()
            await asyncio.sleep(0.005)

    def names(self) -> list[str]:
        """Return the names in the directory, relay.json left out."""
        return sorted(p.name for p in self.session.iterdir() if p.name != "relay.json")

    def age(self, name: str, seconds: float) -> None:
        """Make a file as old as that."""
        when = time.time() - seconds
        os.utime(self.session / name, (when, when), follow_symlinks=False)


async def echo(text: str = "") -> str:
    """Give the text back."""
    return text


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    """Give a session directory with a writer's hand in it."""
    return Hand(tmp_path)
