"""A runner that does what a test tells it: the protocol with real files, nothing of the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from relay import protocol
from relay.protocol import Request, Response

#: What a runner says to a request; ``None`` keeps the claim and says nothing.
Answer = Callable[[Request], Response | None]

#: A generous bound on anything that a test waits for; nothing comes near it.
PATIENCE = 30.0


def echo(request: Request) -> Response:
    """Answer with the text that was sent."""
    return Response(ok=True, text=str(request.args.get("text", "")))


class ScriptedRunner:
    """Claims, answers by ``answer`` and cleans up, in a thread, until it is stopped."""

    def __init__(self, directory: Path, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[bytes] = []
        self.ids: list[str] = []
        self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and let go of the directory."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            os.close(self._fd)

    def _run(self) -> None:
        while not self._stopping.wait(0.001):
            for name in os.listdir(self._fd):
                id_ = protocol.request_id(name)
                if id_ is not None:
                    self._serve(id_, name)

    def _serve(self, id_: str, name: str) -> None:
        claim = protocol.claim_name(id_, "scripted")
        try:
            os.rename(name, claim, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileNotFoundError:
            return
        fd = os.open(claim, os.O_RDONLY, dir_fd=self._fd)
        with open(fd, "rb") as file:
            body = file.read()
        self.bodies.append(body)
        self.ids.append(id_)
        response = self.answer(protocol.decode_request(body))
        if response is not None:
            data = protocol.encode_response(response)
            protocol.publish(self._fd, id_ + protocol.RESPONSE_SUFFIX, data)
            os.unlink(claim, dir_fd=self._fd)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Return an empty session directory."""
    directory = tmp_path / "session"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedRunner]]:
    """Return a function that starts a scripted runner; all are stopped in the end."""
    started: list[ScriptedRunner] = []

    def start(directory: Path, answer: Answer = echo) -> ScriptedRunner:
        runner = ScriptedRunner(directory, answer)
        started.append(runner)
        return runner

    yield start
    for runner in started:
        runner.stop()


@pytest.fixture
def appear() -> Callable[[Path, str, bytes], None]:
    """Return a function that lets a file appear as any peer does: complete, by rename."""

    def publish(directory: Path, name: str, body: bytes) -> None:
        fd = os.open(directory, os.O_RDONLY)
        try:
            protocol.publish(fd, name, body)
        finally:
            os.close(fd)

    return publish


@pytest.fixture
def tell(session: Path, appear: Callable[[Path, str, bytes], None]) -> Callable[..., None]:
    """Return a function that publishes a relay.json, as a runner does that does not signal."""

    def publish(features: Sequence[str] = (), **settings: tuple[object, str]) -> None:
        entries = {name: {"value": v, "layer": layer} for name, (v, layer) in settings.items()}
        body = {"protocol": 1, "runner": "r", "settings": entries, "features": features}
        appear(session, protocol.RELAY_JSON, json.dumps(body).encode())

    return publish


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition holds."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.002)

    return wait


@pytest.fixture
def python(root: Path) -> Callable[..., str]:
    """Return a function that runs a program in a fresh interpreter and returns what it printed."""

    def run(program: str, *arguments: object, executable: str = sys.executable) -> str:
        prelude = f"import sys; sys.path.insert(0, {str(root)!r})\n"
        command = [executable, "-c", prelude + program, *map(str, arguments)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("RELAY")}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=clean
        )
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    return run


@pytest.fixture(autouse=True)
def no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests out of them."""
    for name in list(os.environ):
        if name.startswith(("RELAY", "AGENTA_AGENT_TOOLS_RELAY")):
            monkeypatch.delenv(name)
