"""Commands that die, full disks, crowds that write at once: no kill and no line is lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relayconf.overrides import audit, changes
from relayconf.overrides.document import Document, parse
from relayconf.overrides.reading import Reader, audit_lines
from relayconf.overrides.store import Store
from relayconf.state.directory import find, make
from tests.namespaces import inside, that_work


class State:
    """A state directory, looked at from outside."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def document(self) -> Document | None:
        """Return what stands there; it always can be read."""
        try:
            return parse((self.path / "overrides.json").read_bytes())
        except FileNotFoundError:
            return None

    def killed(self) -> set[str]:
        """Return the names of the flags that are killed."""
        document = self.document()
        return set() if document is None else {o.name for o in document.overrides}

    def faults(self) -> list[str]:
        """Return what is wrong with the audit."""
        directory = find(str(self.path))
        assert directory is not None
        document = self.document()
        pin = parse(b'{"entries": []}').audit if document is None else document.audit
        texts = list(audit_lines(directory))
        directory.close()
        return audit.verify(texts, pin)

    def kill(self, name: str) -> None:
        """Kill a flag, in this process."""
        directory = make(str(self.path))
        because = changes.Because("a reason", "me")
        Store(directory).change(changes.kill([changes.Assignment("app", name, "false")], because))
        directory.close()


@pytest.fixture
def state(tmp_path: Path) -> State:
    """Return a state directory of the test's own, not yet made."""
    return State(tmp_path / "state")


@pytest.fixture
def dying(state: State) -> Iterator[Any]:
    """Return a function that makes a change which dies at its k-th operation."""
    script = Path(__file__).with_name("dying_writer.py")
    forks = subprocess.Popen(
        [sys.executable, str(script), str(state.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert forks.stdin is not None
    assert forks.stdout is not None

    def die(at: int, action: str, name: str) -> bool:
        assert forks.stdin is not None
        assert forks.stdout is not None
        forks.stdin.write(f"{at} {action} {name}\n")
        forks.stdin.flush()
        return forks.stdout.readline() == "killed\n"

    yield die
    forks.stdin.close()
    forks.wait()
    forks.stdout.close()


class TestCrashes:
    @pytest.mark.parametrize("action", ["kill", "restore"])
    def test_at_every_operation_of_a_change(self, state: State, dying: Any, action: str) -> None:
        """The document is the old one or the new one, the chain is whole, and work goes on."""
        outcomes = set()
        for at in range(1000):
            state.kill("APP_OTHER")
            if action == "restore":
                state.kill("APP_FAST")
            before = state.killed()
            reader = Reader(str(state.path))
            reader.read()
            if not dying(at, action, "APP_FAST"):
                break
            wanted = before | {"APP_FAST"} if action == "kill" else before - {"APP_FAST"}
            assert state.killed() in (before, wanted)
            outcomes.add(state.killed() == wanted)
            assert reader.read().problems == ()
            assert [] == state.faults()
            # The next change goes through, on top of what is there.
            there = state.killed()
            state.kill("APP_NEXT")
            assert (there | {"APP_NEXT"}, []) == (state.killed(), state.faults())
            directory = make(str(state.path))
            because = changes.Because("a reason", "me")
            Store(directory).change(changes.restore(lambda *_: True, because))
            directory.close()
        assert ({True, False}, True) == (outcomes, at > 60)

    def test_at_every_operation_of_the_first_change(self, tmp_path: Path) -> None:
        """Dying in an empty place leaves nothing that the next one stumbles over."""
        script = Path(__file__).with_name("dying_writer.py")
        for at in range(0, 1000, 3):
            state = State(tmp_path / str(at))
            done = subprocess.run(
                [sys.executable, str(script), str(state.path)],
                input=f"{at} kill APP_FAST\n",
                capture_output=True,
                text=True,
                check=True,
            )
            state.kill("APP_NEXT")
            assert {"APP_NEXT"} <= state.killed() <= {"APP_FAST", "APP_NEXT"}
            assert [] == state.faults()
            if "survived" in done.stdout:
                break
        assert at > 60

    @pytest.mark.parametrize("damage", [b"", b"{"])
    def test_while_rebuilding(self, state: State, dying: Any, damage: bytes) -> None:
        """A command that dies while it rebuilds a broken document forgets no kill either."""
        for at in range(0, 1000, 5):
            state.kill("APP_OTHER")
            (state.path / "overrides.json").write_bytes(damage)
            survived = not dying(at, "kill", "APP_FAST")
            found = Reader(str(state.path)).read()
            assert "APP_OTHER" in {o.name for o in found.document.overrides}
            state.kill("APP_NEXT")
            assert {"APP_OTHER", "APP_NEXT"} <= state.killed()
            if survived:
                break
        assert at > 60


#: System calls of a change that are made to fail or to be the last, where strace is installed.
CALLS = ("openat", "write", "fsync", "renameat", "renameat2", "fchmod", "flock", "ftruncate")
STRACE = shutil.which("strace")


def traced() -> list[Any]:
    """Return the prefix that runs a command with a fault, where this machine can."""
    if STRACE is None:
        return []
    command = [STRACE, "-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"]
    done = subprocess.run(command, capture_output=True, check=False)
    return [pytest.param(STRACE, id="strace")] if done.returncode == 0 else []


WRITER = """
import sys
from relayconf.overrides import changes
from relayconf.overrides.store import Store
from relayconf.state.directory import make
from relayconf.errors import RelayconfError
directory = make(sys.argv[1])
flags = [changes.Assignment("app", "APP_FAST", "false")]
try:
    Store(directory).change(changes.kill(flags, changes.Because("r", "me")))
except RelayconfError as error:
    print(error)
    sys.exit(1)
"""


class TestFaults:
    @pytest.mark.parametrize("strace", traced())
    @pytest.mark.parametrize("fault", ["error=EIO", "error=ENOSPC", "signal=KILL"])
    @pytest.mark.parametrize("call", ["fsync", "rename", "write"])
    def test_a_call_that_fails(self, state: State, strace: str, call: str, fault: str) -> None:
        """The kernel refuses one call: the kill lands, or exit 1 and nothing changed."""
        state.kill("APP_OTHER")
        calls = {"rename": "rename,renameat,renameat2", "write": "pwrite64,ftruncate"}.get(
            call, call
        )
        for when in range(1, 6):
            before = state.killed()
            done = subprocess.run(
                [
                    *(strace, "-f", "-o", "/dev/null", "-e", f"trace={calls}"),
                    *("-e", f"inject={calls}:{fault}:when={when}"),
                    *(sys.executable, "-c", WRITER, str(state.path)),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            after = state.killed()
            if done.returncode == 1:
                assert (before, True) == (after, "nothing was changed" in done.stdout)
            elif done.returncode == 0:
                assert "APP_FAST" in after
            assert after in (before, before | {"APP_FAST"})
            state.kill("APP_NEXT")
            assert "APP_NEXT" in state.killed()


#: A disk of 1 MiB, at $PLACE.
SMALL_DISK = that_work(inside('mount -t tmpfs -o size=1m none "$PLACE"', "--mount"))

FULL = """
import json, os, subprocess, sys
disk = os.environ["PLACE"]
os.environ["RELAYCONF_STATE_DIR"] = disk + "/state"
def run(*words):
    done = subprocess.run(
        [sys.executable, "-m", "relayconf", *words], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr
def fill():
    with open(disk + "/filler", "ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True: file.write(b"x" * size)
            except OSError: pass
reason = ("--reason", "a test")
answers = [run("kill", "RELAY_LOCAL_WATCH_ENABLED", *reason)]
fill()
answers.append(run("set", "RELAY_POLL_MS=50", *reason))
answers.append(run("kill", "RELAY_RESPONSE_WATCH_ENABLED", *reason))
answers.append(run("kill", "RELAY_REMOTE_WATCH_ENABLED", *reason))
fill()
os.unlink(disk + "/state/locks/reserve") if os.path.exists(disk + "/state/locks/reserve") else None
fill()
answers.append(run("kill", "RELAY_LOCAL_WATCH_ENABLED", *reason))
answers.append(run("status", "--json"))
os.unlink(disk + "/filler")
answers.append(run("restore", "--all", *reason))
answers.append(run("history", "--verify"))
print(json.dumps(answers))
"""


class TestFullDisk:
    @pytest.mark.parametrize("prefix", SMALL_DISK)
    def test_a_kill_still_fits(self, tmp_path: Path, prefix: tuple[str, ...]) -> None:
        """The reserve is for kills; without it, exit 1, nothing changed, and the disk is named."""
        done = subprocess.run(
            [*prefix, sys.executable, "-c", FULL],
            env={**os.environ, "PLACE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        first, value, second, third, last, status, restored, verified = json.loads(done.stdout)
        assert (0, 1, 0, 0) == (first[0], value[0], second[0], third[0]), (value, second, third)
        assert (1, True) == (last[0], "nothing was changed" in last[1])
        assert re.search(r"No space left on device; free some space on the disk", last[1])
        flags = json.loads(status[1])["flags"]
        assert [True] * 3 == [flag["kind"] == "kill" for flag in flags]
        assert (0, 0) == (restored[0], verified[0]), (restored, verified)


class TestCrowds:
    def test_two_hundred_commands_at_once(self, state: State) -> None:
        """No change is lost, no line is lost, and the chain is whole."""
        state.kill("APP_OTHER")
        code = WRITER.replace('"APP_FAST"', "sys.argv[2]")
        # A few interpreters that fork, so that the crowd is there at the same time.
        crowd = (
            "import os, sys\n"
            "from relayconf.overrides import changes, store\n"
            "from relayconf.state import directory\n"
            "first, count = int(sys.argv[2]), int(sys.argv[3])\n"
            "children = []\n"
            "for number in range(first, first + count):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        sys.argv = ['', sys.argv[1], f'APP_{number}']\n"
            f"        exec({code!r})\n"
            "        os._exit(0)\n"
            "    children.append(child)\n"
            "sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))\n"
        )
        crowds = [
            subprocess.Popen([sys.executable, "-c", crowd, str(state.path), str(first), "50"])
            for first in range(0, 200, 50)
        ]
        assert [0] * 4 == [each.wait() for each in crowds]
        document = state.document()
        assert document is not None
        assert {"APP_OTHER", *(f"APP_{number}" for number in range(200))} == state.killed()
        assert (201, []) == (document.audit.seq, state.faults())

    def test_commands_that_undo_each_other(self, state: State) -> None:
        """Kills and restores of one flag, all at once: the last line of the audit is what holds."""
        words = [
            [
                sys.executable,
                "-m",
                "relayconf",
                action,
                "RELAY_LOCAL_WATCH_ENABLED",
                "--reason",
                "r",
            ]
            for action in ("kill", "restore") * 10
        ]
        environment = {**os.environ, "RELAYCONF_STATE_DIR": str(state.path)}
        commands = [
            subprocess.Popen(
                each, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            for each in words
        ]
        assert [0] * 20 == [command.wait() for command in commands]
        for command in commands:
            assert command.stderr is not None
            command.stderr.close()
        directory = find(str(state.path))
        assert directory is not None
        last = audit.parse(list(audit_lines(directory))[-1])
        directory.close()
        assert last is not None
        assert ([], last["action"] == "kill") == (state.faults(), bool(state.killed()))
