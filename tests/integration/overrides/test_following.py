"""A live process follows its overrides and its files, however they are changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.namespaces import NO_INSTANCE, inside, that_work

Change = Callable[[Path, bytes], None]


def in_place(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data)


def by_rename(path: Path, data: bytes) -> None:
    temp = path.with_name("new.json")
    temp.write_bytes(data)
    temp.rename(path)


def by_editor(path: Path, data: bytes) -> None:
    """Do as vim does: move the old one away, write a new one, remove the old one."""
    path.rename(path.with_name("overrides.json~"))
    path.write_bytes(data)
    path.with_name("overrides.json~").unlink()


def by_copy(path: Path, data: bytes) -> None:
    other = path.parent.with_name("other.json")
    other.write_bytes(data)
    subprocess.run(["cp", str(other), str(path)], check=True)


def by_move(path: Path, data: bytes) -> None:
    other = path.parent.with_name("other.json")
    other.write_bytes(data)
    subprocess.run(["mv", str(other), str(path)], check=True)


def older(path: Path, data: bytes) -> None:
    temp = path.with_name("new.json")
    temp.write_bytes(data)
    os.utime(temp, (1, 1))
    temp.rename(path)


def from_the_future(path: Path, data: bytes) -> None:
    temp = path.with_name("new.json")
    temp.write_bytes(data)
    os.utime(temp, (4_000_000_000, 4_000_000_000))
    temp.rename(path)


def by_symbolic_link(path: Path, data: bytes) -> None:
    """Do as a mounted ConfigMap does: a new directory, and a link that is swapped."""
    folder = Path(tempfile.mkdtemp(prefix="..", dir=path.parent))
    (folder / "overrides.json").write_bytes(data)
    temp = path.with_name("..new")
    temp.symlink_to(folder.name)
    temp.rename(path.with_name("..data"))
    if not path.is_symlink():
        path.unlink()
        path.symlink_to("..data/overrides.json")


def in_a_new_directory(path: Path, data: bytes) -> None:
    while path.parent.exists():
        # The process that follows it may be writing meanwhile.
        shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)


CHANGES: list[Change] = [
    in_place,
    by_rename,
    by_editor,
    by_copy,
    by_move,
    older,
    from_the_future,
    by_symbolic_link,
    in_a_new_directory,
]


class TestChanges:
    @pytest.mark.parametrize("change", CHANGES)
    def test_each_way_of_changing_it(self, place: Any, a_kill: Any, change: Change) -> None:
        """Content decides, whatever wrote it and whatever the file's time says."""
        killed = place.write(a_kill).read_bytes()
        calm = place.write().read_bytes()
        program = place.start()
        assert program.last["fast"]
        for _ in range(2):
            change(place.state / "overrides.json", killed)
            assert not program.until(fast=False)["fast"]
            change(place.state / "overrides.json", calm)
            assert program.until(fast=True)["fast"]

    def test_a_broken_one_changes_nothing(self, place: Any, a_kill: Any) -> None:
        """Truncated, empty or deleted, it leaves the kill in force; the next good one counts."""
        path = place.write(a_kill)
        program = place.start()
        assert not program.last["fast"]
        path.write_bytes(b'{"version": 1, "entr')
        place.until(lambda: place.status()["instances"][0]["generation"] == 0)
        path.write_bytes(b"")
        time.sleep(0.05)
        path.unlink()
        place.write(a_kill, {"target": "app", "name": "APP_N", "kind": "set", "value": "6"})
        assert (False, 6) == (program.until(n=6)["fast"], 6)

    def test_a_value_that_is_not_valid_is_passed_over(self, place: Any, a_kill: Any) -> None:
        """Each entry is judged alone: garbage, a value out of range, and the kill beside them."""
        program = place.start()
        far = {"target": "app", "name": "APP_N", "kind": "set", "value": "1000"}
        place.write(17, {"target": "app", "name": "APP_N"}, far, a_kill)
        assert 100 == program.until(fast=False)["n"]
        place.write({**far, "value": "junk"}, a_kill)
        assert not program.until(n=5)["fast"]

    def test_what_needs_a_restart_is_pending(self, place: Any) -> None:
        """Its value stays, and everybody is told."""
        program = place.start()
        place.write({"target": "app", "name": "APP_PORT", "kind": "set", "value": "81"})
        assert 80 == program.until(pending=["APP_PORT"])["port"]
        (instance,) = place.status()["instances"]
        assert ["APP_PORT"] == instance["pending_restart"]

    def test_other_targets_are_nobodys_business(self, place: Any, a_kill: Any) -> None:
        """An entry for another service is passed over in silence, and its generation applied."""
        program = place.start()
        place.write({**a_kill, "target": "other"})
        place.write({"target": "app", "name": "APP_N", "kind": "set", "value": "6"})
        assert program.until(n=6)["fast"]
        assert [] == place.status()["problems"] or all(
            problem["code"] == "override-damaged" for problem in place.status()["problems"]
        )


class TestFiles:
    def test_env_files_and_settings_files_are_followed(self, place: Any) -> None:
        """A change of either acts without a restart, and a bad one leaves the last good values."""
        env_file = place.folder / "app.env"
        env_file.write_text("APP_N=6\n")
        environment = {"RELAYCONF_ENV_FILE": str(env_file)}
        program = place.start(environment=environment)
        assert 6 == program.last["n"]
        env_file.write_text("APP_N=7\n")
        assert program.until(n=7)
        env_file.write_text('APP_N="8\n')
        place.until(lambda: "keeping" in str(place.status()["problems"]))
        (place.folder / "settings.toml").write_text("[default]\nAPP_FAST = false\n")
        env_file.write_text("APP_N=9\n")
        assert program.until(n=9)
        assert not program.last["fast"] or program.until(fast=False)

    def test_a_kill_beats_every_file(self, place: Any) -> None:
        """A file that switches the flag on again does not."""
        env_file = place.folder / "app.env"
        env_file.write_text("APP_FAST=true\n")
        program = place.start(environment={"RELAYCONF_ENV_FILE": str(env_file)})
        assert 0 == place.kill().code
        assert program.until(fast=False)
        env_file.write_text("APP_FAST=true\nAPP_N=9\n")
        assert not program.until(n=9)["fast"]


class TestWithoutEvents:
    @pytest.mark.parametrize("prefix", that_work(inside(NO_INSTANCE)))
    def test_the_look_underneath_finds_everything(
        self, place: Any, a_kill: Any, prefix: tuple[str, ...]
    ) -> None:
        """Where no watch can be had, a change acts all the same."""
        program = place.start(prefix=prefix)
        place.write(a_kill)
        assert program.until(fast=False)
        place.write()
        assert program.until(fast=True)


#: The state directory is mounted read-only for a command that is run so, at $PLACE.
READ_ONLY = that_work(
    inside('mount --bind "$PLACE" "$PLACE" && mount -o remount,ro,bind "$PLACE"', "--mount")
)


class TestReadOnly:
    @pytest.mark.parametrize("prefix", READ_ONLY)
    def test_a_process_obeys_and_cannot_say_so(
        self, place: Any, a_kill: Any, prefix: tuple[str, ...]
    ) -> None:
        """It goes by every change, is known by its process id, and keeps the answer at 3."""
        place.write(a_kill)
        environment = {"PLACE": str(place.state)}
        program = place.start(prefix=prefix, environment=environment)
        assert not program.last["fast"]
        place.write()
        assert program.until(fast=True)
        (seen,) = place.status()["instances"]
        assert (program.process.pid, None) == (seen["pid"], seen["generation"])
        done = place.kill("--wait", "100ms")
        assert (3, True) == (done.code, "cannot say so" in done.out)
        program.until(fast=False)
        program.kill()
        place.settle()
        assert [] == place.status()["instances"]
        assert 4 == place.kill("--wait", "100ms").code

    @pytest.mark.parametrize("prefix", READ_ONLY)
    def test_a_relay_does_not_start(self, place: Any, prefix: tuple[str, ...]) -> None:
        """It cannot lock its session, and says what to do in one line."""
        place.state.mkdir(mode=0o700)
        (tools := place.folder / "tools.toml").write_text('[tools.a]\ncommand = ["cat"]\n')
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "relay", "serve", "--dir", str(place.folder / "s")],
            env={**place.environment, "PLACE": str(place.state), "RELAY_TOOLS_FILE": str(tools)},
            capture_output=True,
            text=True,
            check=False,
        )
        line = f"relay: the state directory {place.state} cannot hold a lock: Read-only file system"
        assert (2, True) == (done.returncode, done.stderr.startswith(line)), done

    @pytest.mark.parametrize("prefix", READ_ONLY)
    def test_a_command_changes_nothing(self, place: Any, prefix: tuple[str, ...]) -> None:
        """Exit 1, and the reason in one line."""
        place.state.mkdir(mode=0o700)
        done = place.kill(prefix=prefix, environment={"PLACE": str(place.state)})
        assert (1, True) == (done.code, "Read-only file system; nothing was changed" in done.err)
        assert [] == list(place.state.iterdir())


class TestForks:
    def test_a_child_goes_on_by_itself(self, place: Any) -> None:
        """It registers, follows, acknowledges; and its parent's end ends nothing of it."""
        program = place.start()
        program.tell("fork")
        child = program.read()["pid"]
        place.settle()
        assert {program.process.pid, child} == {each["pid"] for each in place.status()["instances"]}
        done = place.kill("--wait", "20s")
        assert (0, 2) == (done.code, done.out.count(": applied"))
        program.kill()
        place.until(lambda: [child] == [each["pid"] for each in place.status()["instances"]])
        assert 0 == place.restore("--wait", "20s").code
        os.kill(child, 9)
        place.until(lambda: [] == place.status()["instances"])


class TestReading:
    def test_a_hundred_threads_never_see_half_of_a_change(self, place: Any) -> None:
        """Values that are changed together are read together, through thousands of reloads."""
        code = (
            "import threading, time\n"
            "from service import AppSettings\n"
            "from relayconf import load, Sources\n"
            "env = {'APP_N': '1', 'APP_FAST': '0'}\n"
            "live = load(AppSettings, Sources(env), strict=False)\n"
            "torn, stop, reads = [], threading.Event(), [0] * 100\n"
            "def read(number):\n"
            "    while not stop.is_set():\n"
            "        current = live.current\n"
            "        if current.fast != (current.n % 2 == 0): torn.append(current.n)\n"
            "        reads[number] += 1\n"
            "        time.sleep(0.0005)\n"
            "threads = [threading.Thread(target=read, args=(n,)) for n in range(100)]\n"
            "for thread in threads: thread.start()\n"
            "for number in range(1, 5001):\n"
            "    n = number % 99 + 1\n"
            "    env.update(APP_N=str(n), APP_FAST=str(int(n % 2 == 0)))\n"
            "    live.reload()\n"
            "stop.set()\n"
            "for thread in threads: thread.join()\n"
            "print(len(torn), live.snapshot.number > 4500, min(reads) > 0)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=place.folder,
            env=place.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ("0 True True\n", "") == (done.stdout, done.stderr)
