"""The examples, run as their pages say: the sandbox is a network namespace without an interface."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from relay import Paused, Runner, Writer
from relay.bundle import bundle
from relay.settings import RelaySettings
from tests.servers import node

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"
AGENT = EXAMPLES / "agent"

TOKEN = "tok-en-2342-canary"

#: What a shell in the sandbox finds out about the network that it has.
NO_WAY_OUT = """
import socket, sys
for address in (("127.0.0.1", int(sys.argv[1])), ("10.0.0.1", 80), ("192.0.2.1", 80)):
    try:
        socket.create_connection(address, timeout=2)
    except OSError as error:
        print(type(error).__name__)
    else:
        print("connected")
"""


def clean(**more: str) -> dict[str, str]:
    """Return an environment without anything of a relay's, in which ``python3`` is this one."""
    own = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "PYTHON", "WEATHER"))}
    path = os.pathsep.join([os.path.dirname(sys.executable), own.get("PATH", "")])
    return {**own, "PATH": path, **more}


def sandboxed(*command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command where there is no network at all."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    return subprocess.run(
        [*alone, *map(str, command)],
        env={**clean(), **environ},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@contextmanager
def running(*command: str | Path, ready: str, log: Path, **environ: str) -> Iterator[str]:
    """Run a program beside the test; give its output once a line of it says that it is ready."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [*map(str, command)], env=clean(**environ), stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + 60
        while re.search(ready, log.read_text(), re.MULTILINE) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the one file of the sandbox."""
    path = tmp_path_factory.mktemp("pyz") / "relay.pyz"
    path.write_bytes(bundle(pythons=[sys.executable]))
    return path


class Served:
    """The agent's example, outside: its service and its runner."""

    def __init__(self, folder: Path, port: str, pyz: Path) -> None:
        self.session = folder / "session"
        self.runner_log = folder / "runner.log"
        self.port = port
        self.environ = {"RELAY_DIR": str(self.session), "RELAY_PYZ": str(pyz)}

    def secrets(self) -> list[str]:
        """Return every place that a sandbox or an operator reads and that holds the token."""
        files = [p for p in self.session.rglob("*") if p.is_file()]
        return [str(p) for p in (*files, self.runner_log) if TOKEN in p.read_text(errors="replace")]


@pytest.fixture
def served(tmp_path: Path, pyz: Path) -> Iterator[Served]:
    """Run what the compose file runs beside the sandbox."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "weather_token").write_text(TOKEN + "\n")
    service = (sys.executable, AGENT / "service" / "weather.py", "127.0.0.1", "0")
    log = tmp_path / "weather.log"
    with running(*service, ready=r"^\d+$", log=log, WEATHER_TOKEN=TOKEN) as said:
        port = said.split()[0]
        found = Served(tmp_path, port, pyz)
        environ = {
            "RELAY_DIR": str(found.session),
            "RELAY_TOOLS_FILE": str(AGENT / "tools" / "tools.toml"),
            "RELAYCONF_STATE_DIR": str(tmp_path / "state"),
            "RELAYCONF_SECRETS_DIR": str(tmp_path / "secrets"),
            "FILES_ROOT": str(AGENT / "data"),
            "WEATHER_URL": f"http://127.0.0.1:{port}",
        }
        command = (sys.executable, "-m", "relay", "serve")
        with running(*command, ready="stage=relay_ready", log=found.runner_log, **environ):
            yield found


def shown(page: Path, command: str) -> list[str]:
    """Return what a page shows below a command."""
    below = page.read_text().partition(f"{command}\n")[2]
    return below.partition("```")[0].splitlines()


class TestAgent:
    def test_with_an_mcp_client(self, served: Served) -> None:
        """A stock client without a network uses an MCP server and a service, as the page shows."""
        done = sandboxed(sys.executable, AGENT / "sandbox" / "agent.py", **served.environ)
        wanted = shown(AGENT / "README.md", "python3 /opt/agent/agent.py")
        assert ("", wanted) == (done.stderr, done.stdout.splitlines())
        assert [] == served.secrets()
        assert TOKEN not in done.stdout

    def test_with_the_command_line(self, served: Served) -> None:
        """The same from a shell script, which needs a bare Python and one file."""
        environ = {**served.environ, "PYTHON": f"{sys.executable} -I -S"}
        done = sandboxed("sh", AGENT / "sandbox" / "agent.sh", **environ)
        assert [
            "files_list: greeting.txt",
            "files_read: Hello from outside.",
            "files_write: failed: relay.pyz call: the files are for reading",
            'weather: {"town": "Oslo",  "sky": "clear",  "celsius": 7}',
        ] == done.stdout.splitlines()
        assert [] == served.secrets()

    def test_the_sandbox_has_no_way_out(self, served: Served) -> None:
        """What the agent reaches, it reaches through the relay alone."""
        done = sandboxed(sys.executable, "-c", NO_WAY_OUT, served.port)
        assert ("", ["OSError"] * 3) == (done.stderr, done.stdout.splitlines())

    def test_the_tools_file_is_right(self, tmp_path: Path) -> None:
        """``relay tools --check`` has nothing to say of it."""
        environ = {
            "RELAY_TOOLS_FILE": str(AGENT / "tools" / "tools.toml"),
            "RELAYCONF_STATE_DIR": str(tmp_path / "state"),
            "WEATHER_URL": "http://weather:8080",
            "WEATHER_TOKEN": TOKEN,
        }
        command = [sys.executable, "-m", "relay", "tools", "--check"]
        done = subprocess.run(
            command, env=clean(**environ), capture_output=True, text=True, check=False
        )
        assert (0, "") == (done.returncode, done.stderr)


AGENT_OF_FILES = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters

async def main():
    server = StdioServerParameters(command=sys.executable, args=sys.argv[2:])
    async with Client(server, mode=sys.argv[1]) as relay:
        names = {tool.name for tool in (await relay.list_tools()).tools}
        assert {"fs_read_text_file", "fs_write_file", "fs_list_directory"} <= names, names
        folder = "__FOLDER__"
        for tool, more in (
            ("fs_write_file", {"path": folder + "/a.txt", "content": "x" * 3_000_000}),
            ("fs_read_text_file", {"path": folder + "/a.txt"}),
            ("fs_read_text_file", {"path": "/etc/hostname"}),
        ):
            said = await relay.call_tool(tool, more)
            print(json.dumps([said.is_error, len(said.content[0].text)]))

asyncio.run(main())
"""


class TestStockServer:
    __test__ = node.is_wanted(node.SERVER)

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_of_npm(self, tmp_path: Path, pyz: Path, mode: str) -> None:
        """A stock client and a stock server that know nothing of a relay meet through one."""
        data = tmp_path / "data"
        data.mkdir()
        tools = tmp_path / "tools.toml"
        server = json.dumps(["node", str(node.entry_of_server()), str(data)])
        tools.write_text(f"[mcp.fs]\ncommand = {server}\n")
        session, log = tmp_path / "session", tmp_path / "runner.log"
        command = (sys.executable, "-m", "relay", "serve", "--dir", session, "--tools", tools)
        state = str(tmp_path / "state")
        agent = AGENT_OF_FILES.replace("__FOLDER__", str(data))
        with running(*command, ready="stage=relay_ready", log=log, RELAYCONF_STATE_DIR=state):
            relay = (pyz, "mcp", "--dir", session)
            done = sandboxed(sys.executable, "-c", agent, mode, *relay)
        assert "" == done.stderr
        wrote, read, outside = map(json.loads, done.stdout.splitlines())
        assert (False, [False, 3_000_000], True) == (wrote[0], read, outside[0])


class TestApproval:
    def approve(self, place: Path, *words: str) -> str:
        """Run the operator's command."""
        command = [sys.executable, str(EXAMPLES / "approval" / "approval.py"), *words]
        environ = clean(APPROVALS_DIR=str(place), PYTHONPATH=str(ROOT))
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    def test_a_call_runs_once_when_it_is_approved(
        self, offer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is parked, approved outside, and run by exactly one of many calls."""
        place = tmp_path / "approvals"
        monkeypatch.setenv("APPROVALS_DIR", str(place))
        monkeypatch.syspath_prepend(str(EXAMPLES / "approval"))

        async def run() -> None:
            text = (EXAMPLES / "approval" / "tools.toml").read_text()
            async with offer(text) as session:
                for _ in range(2):
                    assert "paused" == (await session.failure("deploy", version="1.2")).code
                key, _, question = (await asyncio.to_thread(self.approve, place, "list")).partition(
                    " "
                )
                asked = {"session": "session", "tool": "deploy", "version": "1.2"}
                assert asked == json.loads(question)
                await asyncio.to_thread(self.approve, place, "approve", key)
                calls = (session.call("deploy", version="1.2") for _ in range(8))
                said = await asyncio.gather(*calls, return_exceptions=True)
                assert ["deployed 1.2"] == [each for each in said if isinstance(each, str)]
                assert ["Paused"] * 7 == [
                    type(each).__name__ for each in said if not isinstance(each, str)
                ]
                await asyncio.to_thread(self.approve, place, "deny", key)
                error = await session.failure("deploy", version="1.2")
                assert ("tool_error", "deploying 1.2 was denied") == (error.code, str(error))

        asyncio.run(run())
        assert "1.2\n" == (place / "deployed.log").read_text()

    def test_an_approval_is_one_sessions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was approved for one session does not run for another."""
        place = tmp_path / "approvals"
        monkeypatch.setenv("APPROVALS_DIR", str(place))
        root = tmp_path / "root"
        for name in ("one", "two"):
            (root / name).mkdir(mode=0o700, parents=True)
        settings = RelaySettings(tools_file=EXAMPLES / "approval" / "tools.toml")

        async def run() -> None:
            async with Runner(root=root, settings=settings, state=tmp_path / "state"):
                one, two = (Writer(root / name, environ={}) for name in ("one", "two"))
                for writer in (one, two):
                    with pytest.raises(Paused):
                        await writer.acall("deploy", {"version": "1.2"}, timeout=25)
                waiting = (await asyncio.to_thread(self.approve, place, "list")).splitlines()
                (key,) = (line.split()[0] for line in waiting if '"session": "one"' in line)
                await asyncio.to_thread(self.approve, place, "approve", key)
                with pytest.raises(Paused):
                    await two.acall("deploy", {"version": "1.2"}, timeout=25)
                said = await one.acall("deploy", {"version": "1.2"}, timeout=25)
                assert "deployed 1.2" == said

        asyncio.run(run())

    def test_the_page_shows_the_right_key(self) -> None:
        """The key on the page is the one that its commands print."""
        import hashlib  # noqa: PLC0415 - for this one

        asked = {"session": "session", "tool": "deploy", "version": "1.2"}
        question = json.dumps(asked, sort_keys=True)
        key = hashlib.sha256(question.encode()).hexdigest()[:12]
        assert f"approve {key}\n" in (EXAMPLES / "approval" / "README.md").read_text()
