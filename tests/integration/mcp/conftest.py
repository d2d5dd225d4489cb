"""A session with a runner, and MCP clients that start ``relay mcp`` on it as an agent would."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relay import PAUSED, ToolError
from relay.engine.runner import Runner
from relay.protocol import Request
from relay.settings import RelaySettings

#: A generous bound on anything that a test waits for; nothing comes near it.
PATIENCE = 30.0


async def echo(text: str) -> str:
    """Give it back."""
    return text


async def fail(why: str) -> str:
    """Fail for a reason."""
    raise ToolError(why)


async def burst() -> str:
    """Break, with something in the exception that is nobody's business."""
    raise ValueError("the password is hunter2")


async def wait(seconds: float) -> str:
    """Take so long."""
    await asyncio.sleep(seconds)
    return "waited"


def park() -> object:
    """Park the call."""
    return PAUSED


TOOLS = {"echo": echo, "fail": fail, "burst": burst, "wait": wait, "park": park}


def guard(request: Request) -> str | None:
    """Refuse one word."""
    return "that word is not allowed" if request.args.get("text") == "forbidden" else None


#: 16 MiB either way, and no patience with what a test leaves behind.
LIMITS = {"max_request": 16 << 20, "max_response": 16 << 20, "drain_timeout": timedelta(0)}


class Served:
    """A session directory with a runner in a thread."""

    def __init__(self, folder: Path, tools: Any, **settings: Any) -> None:
        self.session = folder / "session"
        self._folder = folder
        self._tools = tools
        self._settings = settings
        self._started, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))

    def start(self) -> None:
        """Serve, and return when requests are taken."""
        self._thread.start()
        assert self._started.wait(PATIENCE)

    def stop(self) -> None:
        """Stop serving."""
        self._stop.set()
        self._thread.join()

    async def _serve(self) -> None:
        runner = Runner(
            self.session,
            tools=self._tools,
            guard=guard,
            settings=RelaySettings(**self._settings),
            state=self._folder / "state",
        )
        async with runner:
            self._started.set()
            await asyncio.to_thread(self._stop.wait)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a session directory that a runner serves: 16 MiB either way."""
    served = Served(tmp_path_factory.mktemp("mcp"), TOOLS, **LIMITS)
    served.start()
    yield served.session
    served.stop()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Return a function that serves a session in a folder, with these tools; all are stopped."""
    started: list[Served] = []

    def start(folder: Path, *names: str) -> Served:
        tools = {name: TOOLS[name] for name in names or TOOLS}
        served = Served(folder, tools, **LIMITS)
        started.append(served)
        served.start()
        return served

    yield start
    for served in started:
        served.stop()


@pytest.fixture
def unserved(tmp_path: Path) -> Path:
    """Return a session directory whose runner has said what it offers, and is gone."""
    folder = tmp_path / "session"
    folder.mkdir(mode=0o700)
    offer(folder, "echo")
    return folder


def offer(session: Path, *names: str, **settings: Any) -> None:
    """Publish a relay.json."""
    body = {
        "protocol": 1,
        "runner": "test",
        "generation": 0,
        "settings": {name: {"value": value, "layer": "option"} for name, value in settings.items()},
        "tools": [{"name": n, "description": "", "input": {"type": "object"}} for n in names],
    }
    temp = session / "relay.json.tmp.0123456789ab"
    temp.write_text(json.dumps(body))
    temp.rename(session / "relay.json")


@pytest.fixture
def announce() -> Callable[..., None]:
    """Return a function that publishes a relay.json with these tools."""
    return offer


class Raw:
    """A client that writes what a test says, line by line, and nothing else."""

    def __init__(self, *command: str) -> None:
        clean = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
        self.process = subprocess.Popen(
            command,
            env=clean,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._answers = b""

    def send(self, *messages: Any) -> None:
        """Send messages: bytes as they are, anything else as JSON."""
        assert self.process.stdin is not None
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            view = memoryview(line + b"\n")
            while view:
                view = view[self.process.stdin.write(view) :]

    def ask(self, id_: Any, method: str, params: Any = None) -> None:
        """Send a request."""
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}})

    def answer(self) -> Any:
        """Return the next message from the server; ``None`` at its end."""
        assert self.process.stdout is not None
        while b"\n" not in self._answers:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self._answers += data
        line, _, self._answers = self._answers.partition(b"\n")
        return json.loads(line)

    def end(self) -> int:
        """Close stdin and return the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def command(session: Path) -> list[str]:
    """Return the command that an agent's configuration has."""
    return [sys.executable, "-m", "relay", "mcp", "--dir", str(session)]


@pytest.fixture
def raw() -> Iterator[Callable[..., Raw]]:
    """Return a function that starts a server on a session; all are ended."""
    started: list[Raw] = []

    def start(session: Path, *words: str, program: str = "") -> Raw:
        run = [sys.executable, "-c", program] if program else [*command(session), *words]
        client = Raw(*run)
        started.append(client)
        return client

    yield start
    for client in started:
        client.process.kill()
        client.process.wait()
        for stream in (client.process.stdin, client.process.stdout, client.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition holds."""

    def wait_for(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.005)

    return wait_for
