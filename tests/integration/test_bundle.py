"""The writer as one file: run by bare Pythons, the same bytes each time, the same command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.bundle import CannotBundle, bundle
from relay.engine.runner import Runner
from relay.settings import RelaySettings


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with the bytecode of this Python, away from the checkout."""
    path = tmp_path_factory.mktemp("bundle") / "relay.pyz"
    path.write_bytes(bundle(pythons=[sys.executable]))
    return path


def run(python: str, *words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a bundle in a bare interpreter, which finds nothing that is installed."""
    return subprocess.run(
        [python, "-I", "-S", *map(str, words)],
        env=environ,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a session directory that a runner in another thread serves."""
    folder = tmp_path_factory.mktemp("served")
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async def echo(text: str) -> str:
            """Give it back."""
            return text

        runner = Runner(
            folder / "session",
            tools={"echo": echo},
            settings=RelaySettings(),
            state=folder / "state",
        )
        async with runner:
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(30)
    yield folder / "session"
    stop.set()
    thread.join()


class TestArchive:
    def test_is_deterministic(self, archive: Path) -> None:
        """Built again, it is the same to the byte, so that a hash of it can be pinned."""
        assert archive.read_bytes() == bundle(pythons=[sys.executable])

    def test_holds_no_place_of_the_machine(self, root: Path, archive: Path) -> None:
        """Nothing in it says where, by whom or when it was made."""
        data = archive.read_bytes()
        assert [] == [t for t in (str(root), sys.prefix, str(Path.home())) if t.encode() in data]
        with zipfile.ZipFile(archive) as opened:
            assert {(1980, 1, 1, 0, 0, 0)} == {entry.date_time for entry in opened.infolist()}

    def test_holds_the_ground_floor_alone(self, archive: Path) -> None:
        """No part of the runner, and nothing that would need a library, is in it."""
        with zipfile.ZipFile(archive) as opened:
            names = [n for n in opened.namelist() if not n.startswith("bytecode/")]
        assert [] == [n for n in names if n.startswith(("relay/engine", "relay/tools"))]
        assert {"__main__.py", "relay", "relayconf"} == {n.partition("/")[0] for n in names}

    def test_bytecode_of_a_program_that_is_no_python(self) -> None:
        """Asked for the bytecode of something else, it says so in one line."""
        with pytest.raises(CannotBundle, match="false is no Python that can compile"):
            bundle(pythons=["false"])
        with pytest.raises(CannotBundle, match="no-such-python cannot be run"):
            bundle(pythons=["no-such-python"])


class TestCommand:
    def test_writes_an_executable_file(self, tmp_path: Path) -> None:
        """``relay bundle -o FILE`` writes it whole, and it runs as it stands."""
        path = tmp_path / "relay.pyz"
        command = [sys.executable, "-m", "relay", "bundle", "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ("", f"{path}: {path.stat().st_size} bytes\n") == (done.stdout, done.stderr)
        assert ["relay.pyz"] == os.listdir(tmp_path)
        assert os.access(path, os.X_OK)
        helped = run(sys.executable, path, "--help")
        assert (0, "") == (helped.returncode, helped.stderr)

    def test_a_place_that_is_not_there(self, tmp_path: Path) -> None:
        """A folder that is missing is one line, and status 2."""
        output = str(tmp_path / "no" / "relay.pyz")
        command = [sys.executable, "-m", "relay", "bundle", "-o", output]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (2, "") == (done.returncode, done.stdout)
        assert f"relay: {output} cannot be written: No such file or directory\n" == done.stderr


class TestBarePython:
    def test_calls_a_tool(self, sandbox_python: str, archive: Path, session: Path) -> None:
        """A bare Python calls a tool with it, and lists them."""
        words = ("call", "echo", json.dumps({"text": "grüße"}), "--dir", session)
        done = run(sandbox_python, archive, *words)
        assert (0, "grüße\n", "") == (done.returncode, done.stdout, done.stderr)
        listed = run(sandbox_python, archive, "tools", "--dir", session)
        assert ["echo  Give it back.", "      text: string"] == listed.stdout.splitlines()

    def test_is_an_mcp_server(self, sandbox_python: str, archive: Path, session: Path) -> None:
        """A bare Python serves MCP with it: the tools, and a call of one."""
        arguments = {"name": "echo", "arguments": {"text": "grüße"}}
        asked = (
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments},
        )
        done = subprocess.run(
            [sandbox_python, "-I", "-S", str(archive), "mcp", "--dir", str(session)],
            input="".join(json.dumps(each) + "\n" for each in asked),
            env={},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (0, "") == (done.returncode, done.stderr)
        listed, called = map(json.loads, done.stdout.splitlines())
        assert ["echo"] == [tool["name"] for tool in listed["result"]["tools"]]
        assert "grüße" == called["result"]["content"][0]["text"]

    def test_reads_its_own_contract(
        self, sandbox_python: str, archive: Path, session: Path
    ) -> None:
        """A setting in the sandbox's environment is judged by the contract inside the archive."""
        words = ("call", "echo", '{"text": "x"}', "--dir", session)
        done = run(sandbox_python, archive, *words, RELAY_POLL_MS="5ms")
        assert (0, "x\n") == (done.returncode, done.stdout)
        assert "RELAY_POLL_MS: 5ms is below the minimum 10ms" in done.stderr

    @pytest.mark.parametrize("command", ["call", "tools", "mcp"])
    def test_without_its_directory(
        self, sandbox_python: str, archive: Path, command: str, tmp_path: Path
    ) -> None:
        """One line names the directory that is missing, and the status is 2."""
        tool = ("echo",) if command == "call" else ()
        done = run(sandbox_python, archive, command, *tool, "--dir", tmp_path / "no")
        assert (2, "") == (done.returncode, done.stdout)
        said = f"relay.pyz {command}: the session directory '{tmp_path}/no' cannot be opened: "
        assert f"{said}No such file or directory\n" == done.stderr

    @pytest.mark.parametrize("command", ["call", "tools", "mcp"])
    def test_wrong_usage(self, sandbox_python: str, archive: Path, command: str) -> None:
        """It speaks of itself by its own name, and of options as a shell has them."""
        done = run(sandbox_python, archive, command, "--nope")
        said = f"relay.pyz {command}: there is no option '--nope'; see relay.pyz {command} --help\n"
        assert (2, said) == (done.returncode, done.stderr)
        helped = run(sandbox_python, archive, command, "--help")
        assert helped.stdout.startswith(f"usage: relay.pyz {command} ")
        tool = ("echo",) if command == "call" else ()
        done = run(sandbox_python, archive, command, *tool)
        assert (2, 1) == (done.returncode, done.stderr.count("--dir DIR"))

    @pytest.mark.parametrize("words", [("serve",), ()], ids=" ".join)
    def test_a_command_that_it_has_not(
        self, sandbox_python: str, archive: Path, words: tuple[str, ...]
    ) -> None:
        """What is not in the file is refused with a list of what is."""
        done = run(sandbox_python, archive, *words)
        assert (2, "") == (done.returncode, done.stdout)
        assert "call, tools, mcp" in done.stderr
        assert done.stderr.startswith("relay.pyz: ")
        assert 1 == len(done.stderr.splitlines())

    def test_is_a_library(self, sandbox_python: str, archive: Path, session: Path) -> None:
        """A program of the sandbox imports it: sync, and in an event loop."""
        program = (
            f"import sys; sys.path.insert(0, {str(archive)!r})\n"
            "import asyncio, relay\n"
            f"print(relay.call('echo', {{'text': 'a'}}, dir={str(session)!r}))\n"
            f"print(asyncio.run(relay.acall('echo', {{'text': 'b'}}, dir={str(session)!r})))\n"
        )
        done = run(sandbox_python, "-c", program)
        assert ("a\nb\n", "") == (done.stdout, done.stderr)
