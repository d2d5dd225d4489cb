"""``relay serve`` as a program: its lines, its exit codes, its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from relay.client import Writer
from tests.namespaces import NO_INSTANCE, NO_WATCH, inside, that_work

TOOLS = """
[tools.echo]
python = "serve_tools:echo"
[tools.hang]
python = "serve_tools:hang"
[tools.stubborn]
python = "serve_tools:stubborn"
[tools.pause]
python = "serve_tools:pause"
[tools.upper]
command = ["tr", "a-z", "A-Z"]
"""

MODULE = '''
import asyncio, time

async def echo(text: str = "") -> str:
    """Give the text back."""
    return text

def hang() -> None:
    time.sleep(3600)

async def pause(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"

async def stubborn() -> None:
    while True:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            pass
'''

PATIENCE = 30.0


#: A directory ``session`` of the working directory is read-only in there.
READ_ONLY_SESSION = that_work(
    inside("mkdir -p session && mount -t tmpfs -o ro none session", "--mount")
)

#: There is no inotify instance, or no watch, in there.
NO_INOTIFY = that_work(
    inside(NO_INSTANCE),
    inside(NO_WATCH),
)


class Program:
    """One ``relay serve``."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.session = folder / "session"
        command = (sys.executable, "-m", "relay", "serve", *arguments)
        own = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
        self.process = subprocess.Popen(
            [*prefix, *command],
            env={**own, "RELAYCONF_STATE_DIR": str(folder / "state"), **(environment or {})},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    @property
    def stderr(self) -> IO[str]:
        """The log."""
        assert self.process.stderr is not None
        return self.process.stderr

    def ready(self) -> str:
        """Read the log until the program is ready, and return that line."""
        for line in self.stderr:
            self.lines.append(line.rstrip("\n"))
            if "relay_ready" in line:
                return self.lines[-1]
        raise AssertionError("\n".join(self.lines))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, read the rest of the log, and return the exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end and return the exit code."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert "" == out
        self.lines += err.splitlines()
        return self.process.returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a tools file."""
    (tmp_path / "tools.toml").write_text(TOOLS)
    (tmp_path / "serve_tools.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Collect programs, and end those that a failing test leaves."""
    made: list[Program] = []
    yield made
    for program in made:
        if program.process.poll() is None:
            program.process.kill()
        program.process.communicate()


def serve(programs: list[Program], folder: Path, *arguments: str, **more: object) -> Program:
    """Serve the folder's session with its tools file."""
    given = ("--dir", str(folder / "session"), "--tools", str(folder / "tools.toml"), *arguments)
    program = Program(folder, *given, **more)  # type: ignore[arg-type]  # passed on by name
    programs.append(program)
    return program


#: There are fewer watches than sessions in there.
FEW_WATCHES = that_work(inside("echo 6 > /proc/sys/user/max_inotify_watches"))


class TestServing:
    def test_its_lines(self, programs: list[Program], folder: Path) -> None:
        """One line when it is ready, one for each executed request, counters at the end."""
        program = serve(programs, folder)
        ready = program.ready()
        runner = json.loads((program.session / "relay.json").read_text())["runner"]
        assert f"stage=relay_ready dir={program.session} runner={runner}" == ready
        writer = Writer(program.session, environ={})
        assert "hi" == writer.call("echo", {"text": "hi"}, call_id="my call")
        assert '{"TEXT": "HI"}' == writer.call("upper", {"text": "hi"})
        assert 0 == program.stop()
        pickups = [line for line in program.lines if "relay_pickup" in line]
        pattern = r"stage=relay_pickup id=\S+ pickup_ms=\d+\.\d+ wake=(activity|timeout|poll)"
        assert [True, True] == [re.fullmatch(pattern, line) is not None for line in pickups]
        assert "id=my_call-" in pickups[0]
        assert re.search(r"stage=relay_stopped .* requests=2 executed=2 ", program.lines[-1])

    def test_without_stderr(self, programs: list[Program], folder: Path) -> None:
        """A runner whose stderr is closed serves, and says nothing."""
        program = serve(programs, folder, prefix=("sh", "-c", 'exec "$@" 2>&-', "sh"))
        program.session.mkdir()
        assert "hi" == Writer(program.session, environ={}).call("echo", {"text": "hi"})
        assert 0 == program.stop()
        assert [] == program.lines

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_it_makes_the_last_component(
        self, programs: list[Program], folder: Path, number: signal.Signals
    ) -> None:
        """A missing directory is made, for its owner alone; a signal ends the program with 0."""
        program = serve(programs, folder)
        program.ready()
        assert 0o700 == program.session.stat().st_mode & 0o777
        assert 0 == program.stop(number)

    @pytest.mark.parametrize("tool", ["hang", "stubborn"])
    def test_a_hung_tool_does_not_hold_up_the_exit(
        self, programs: list[Program], folder: Path, tool: str
    ) -> None:
        """A tool that cannot be ended is left behind; the program ends, its caller is answered."""
        program = serve(programs, folder, "--set", "RELAY_DRAIN_TIMEOUT_MS=50")
        program.ready()
        temp = program.session / "x.req.json.tmp.0"
        temp.write_text(json.dumps({"toolName": tool}))
        temp.rename(program.session / "x.req.json")
        while "relay_pickup" not in "".join(program.lines[-1:]):
            program.lines.append(program.stderr.readline())
        assert 0 == program.stop()
        answer = json.loads((program.session / "x.res.json").read_text())
        assert "interrupted" == answer["code"]

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_it_drains_when_it_is_told_to_stop(
        self, programs: list[Program], folder: Path, number: signal.Signals
    ) -> None:
        """Each signal that means the end lets what is in flight finish first, and exits 0."""
        program = serve(programs, folder)
        program.ready()
        writer = Writer(program.session, environ={})
        with ThreadPoolExecutor() as pool:
            call = pool.submit(writer.call, "pause", {"seconds": 0.5}, timeout=PATIENCE)
            while not any("claim" in name for name in os.listdir(program.session)):
                time.sleep(0.005)
            assert 0 == program.stop(number)
            assert "rested" == call.result()
        assert any("stage=relay_stopped" in line for line in program.lines)

    def test_nohup(self, programs: list[Program], folder: Path) -> None:
        """A runner that is started by nohup outlives its terminal."""
        program = serve(programs, folder, prefix=("nohup",))
        program.ready()
        program.process.send_signal(signal.SIGHUP)
        writer = Writer(program.session, environ={})
        assert ["still", "here"] == [writer.call("echo", {"text": t}) for t in ("still", "here")]
        assert 0 == program.stop()

    def test_a_log_that_nobody_reads(self, programs: list[Program], folder: Path) -> None:
        """A full pipe at stderr stops no call."""
        program = serve(programs, folder)
        program.ready()
        writer = Writer(program.session, environ={})
        for number in range(800):
            assert str(number) == writer.call("echo", {"text": str(number)}, call_id="x" * 100)
        assert 0 == program.stop()

    def test_log_lines_in_json(self, programs: list[Program], folder: Path) -> None:
        """RELAY_LOG_FORMAT=json makes each line an object, an event's words its members."""
        program = serve(programs, folder, environment={"RELAY_LOG_FORMAT": "json"})
        ready = json.loads(program.ready())
        assert ("info", "relay_ready", str(program.session)) == (
            ready["level"],
            ready["stage"],
            ready["dir"],
        )
        assert 0 == program.stop()

    def test_a_tool_that_logs_or_prints(self, programs: list[Program], folder: Path) -> None:
        """What a failing tool raises is in the runner's log, indented, and nowhere else."""
        (folder / "serve_tools.py").write_text(
            MODULE + "def broken():\n    raise ValueError('secret\\x1b[2J\\nstage=relay_ready')\n"
        )
        with (folder / "tools.toml").open("a") as file:
            file.write('[tools.broken]\npython = "serve_tools:broken"\n')
        program = serve(programs, folder)
        program.ready()
        temp = program.session / "x.req.json.tmp.0"
        temp.write_text(json.dumps({"toolName": "broken"}))
        temp.rename(program.session / "x.req.json")
        deadline = time.monotonic() + PATIENCE
        while not (program.session / "x.res.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert 0 == program.stop()
        assert "secret" not in (program.session / "x.res.json").read_text()
        assert 1 == sum(line.startswith("stage=relay_ready") for line in program.lines)
        assert any("ValueError: secret" in line for line in program.lines)
        assert all(line.isprintable() for line in program.lines)


class TestManySessions:
    def test_a_root(self, programs: list[Program], folder: Path) -> None:
        """--root serves each sub-directory, also one that comes later, past a RELAY_DIR."""
        (folder / "root" / "one").mkdir(parents=True)
        given = ("--root", str(folder / "root"), "--tools", str(folder / "tools.toml"))
        program = Program(folder, *given, environment={"RELAY_DIR": "/nowhere/at/all"})
        programs.append(program)
        assert program.ready().endswith(" sessions=1")
        (folder / "root" / "two").mkdir()
        said = [
            Writer(folder / "root" / name, environ={}).call("echo", {"text": name})
            for name in ("one", "two")
        ]
        assert ["one", "two"] == said
        assert 0 == program.stop()
        assert f"stage=relay_session dir={folder / 'root' / 'two'}" in program.lines

    def test_the_root_of_the_environment(self, programs: list[Program], folder: Path) -> None:
        """RELAY_ROOT names the root where no option does; it is made, for its owner alone."""
        environment = {"RELAY_ROOT": str(folder / "root")}
        program = Program(folder, "--tools", "tools.toml", environment=environment)
        programs.append(program)
        program.ready()
        assert 0o700 == (folder / "root").stat().st_mode & 0o777
        assert 0 == program.stop()

    def test_both(self, programs: list[Program], folder: Path) -> None:
        """A directory and a root at once are refused; exit 2."""
        environment = {"RELAY_ROOT": "root", "RELAY_DIR": "session"}
        program = Program(folder, "--tools", "tools.toml", environment=environment)
        programs.append(program)
        assert 2 == program.ended()
        assert "RELAY_DIR and RELAY_ROOT are both set" in program.lines[-1]
        program = Program(folder, "--tools", "tools.toml", "--dir", "a", "--root", "b")
        programs.append(program)
        assert 2 == program.ended()

    def test_the_limit_of_open_files_is_raised(self, programs: list[Program], folder: Path) -> None:
        """The soft limit of open files does not bound the sessions; the hard one does."""
        for number in range(100):
            (folder / "root" / f"s{number}").mkdir(parents=True)
        given = ("--root", str(folder / "root"), "--tools", str(folder / "tools.toml"))
        program = Program(folder, *given, prefix=("sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh"))
        programs.append(program)
        assert program.ready().endswith(" sessions=100")
        assert 0 == program.stop()


class TestRefusingToStart:
    def message(self, program: Program, code: int) -> str:
        """Return what it says; it ends with this code, and shows no traceback."""
        assert code == program.ended()
        said = "\n".join(program.lines)
        assert "Traceback" not in said
        assert said.startswith("relay: ")
        return said

    def test_a_missing_parent(self, programs: list[Program], folder: Path) -> None:
        """A directory whose parent is missing is not made; exit 2."""
        program = Program(folder, "--dir", "no/session", "--tools", "tools.toml")
        programs.append(program)
        assert "does not exist" in self.message(program, 2)

    def test_a_file(self, programs: list[Program], folder: Path) -> None:
        """A path that is a file; exit 2."""
        (folder / "session").touch()
        assert "is not a directory" in self.message(serve(programs, folder), 2)

    def test_a_directory_that_cannot_be_written(
        self, programs: list[Program], folder: Path
    ) -> None:
        """A directory in which no request could be taken; exit 2."""
        (folder / "session").mkdir()
        (folder / "session").chmod(0o500)
        # Root is not stopped by permissions, but by a file system that is mounted read-only.
        for prefix in READ_ONLY_SESSION if os.geteuid() == 0 else [()]:
            program = serve(programs, folder, prefix=prefix)
            assert "cannot be written" in self.message(program, 2)

    def test_nothing_to_serve(self, programs: list[Program], folder: Path) -> None:
        """No directory, or no tools; exit 2, and what to set."""
        for arguments, wanted in (
            (("--tools", "tools.toml"), "RELAY_DIR"),
            (("--dir", "session"), "RELAY_TOOLS_FILE"),
        ):
            program = Program(folder, *arguments)
            programs.append(program)
            assert wanted in self.message(program, 2)

    def test_a_tools_file_with_faults(self, programs: list[Program], folder: Path) -> None:
        """Every fault of a tools file is named with its line; exit 2."""
        (folder / "tools.toml").write_text('[tools.a]\nnope = 1\n\n[tools.b]\npython = "no"\n')
        said = self.message(serve(programs, folder), 2).splitlines()
        assert 2 == len(said)
        assert ["tools.toml:1: tool a", "tools.toml:5: tool b"] == [
            line[line.index("tools.toml") :][:20] for line in said
        ]

    def test_no_tools_file(self, programs: list[Program], folder: Path) -> None:
        """A tools file that is not there; exit 2."""
        (folder / "tools.toml").unlink()
        assert "cannot be read" in self.message(serve(programs, folder), 2)

    def test_a_state_directory_that_cannot_be(self, programs: list[Program], folder: Path) -> None:
        """A state directory that cannot be used; exit 2, one message that says what to set."""
        (folder / "state").mkdir()
        (folder / "state" / "locks").write_text("")
        said = self.message(serve(programs, folder), 2)
        assert "RELAYCONF_STATE_DIR" in said
        assert 1 == len(said.splitlines())

    def test_strict(self, programs: list[Program], folder: Path) -> None:
        """--strict names every value that would not be used as written; exit 78."""
        given = ("--strict", "--set", "RELAY_POLL_MS=1s1h", "--set", "RELAY_TIMEOUT_MS=1ms")
        said = self.message(serve(programs, folder, *given), 78)
        assert [True, True] == [name in said for name in ("RELAY_POLL_MS", "RELAY_TIMEOUT_MS")]

    def test_unknown_settings(self, programs: list[Program], folder: Path) -> None:
        """A --set of a name that is none; exit 2, with the nearest."""
        said = self.message(serve(programs, folder, "--set", "RELAY_POL_MS=1"), 2)
        assert "RELAY_POLL_MS" in said


class TestWithoutWatches:
    def test_calls_are_polled(self, programs: list[Program], folder: Path) -> None:
        """Where no watch is to be had, one line says so, and calls are polled."""
        for prefix in [(), *NO_INOTIFY]:
            environment = {"RELAY_POLL_MS": "20"}
            if not prefix:
                environment["RELAY_LOCAL_WATCH_ENABLED"] = "false"
            program = serve(programs, folder, environment=environment, prefix=prefix)
            program.ready()
            writer = Writer(program.session, environ={})
            said = [writer.call("echo", {"text": str(n)}) for n in range(5)]
            assert [str(n) for n in range(5)] == said
            assert 0 == program.stop()
            warnings = [line for line in program.lines if line.startswith("warning: ")]
            assert len(warnings) == (1 if prefix else 0)
            assert all("polling" in line for line in warnings)

    def test_mode_watch_refuses(self, programs: list[Program], folder: Path) -> None:
        """RELAY_MODE=watch does not start where its watch cannot be armed; exit 2."""
        for prefix in NO_INOTIFY:
            program = serve(programs, folder, "--set", "RELAY_MODE=watch", prefix=prefix)
            assert 2 == program.ended()
            assert "RELAY_MODE is watch" in program.lines[-1]

    @pytest.mark.parametrize("prefix", FEW_WATCHES)
    def test_more_sessions_than_watches(
        self, programs: list[Program], folder: Path, prefix: tuple[str, ...]
    ) -> None:
        """Those that get no watch are polled, which is said once, and all are served."""
        sessions = [folder / "root" / f"s{number}" for number in range(12)]
        for session in sessions:
            session.mkdir(parents=True)
        given = ("--root", "root", "--tools", "tools.toml", "--set", "RELAY_POLL_MS=20")
        program = Program(folder, *given, prefix=prefix)
        programs.append(program)
        program.ready()
        for session in sessions:
            assert session.name == Writer(session, environ={}).call("echo", {"text": session.name})
        assert 0 == program.stop()
        assert 1 == sum("no inotify watch is left" in line for line in program.lines)
