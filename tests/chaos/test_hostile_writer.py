"""A hostile writer against a real runner, from outside: its neighbour is answered all the same.

One ``relay serve --root`` process serves two sessions. In one, an attack is carried out with plain
file operations; then the other one's calls, and the attacker's own next call, must be answered, the
log must hold no traceback, and the process no more descriptors than before.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from relay.client import Writer
from relay.protocol import Response, decode_response, new_id

TOOLS = """
[tools.echo]
python = "hostile_tools:echo"
[tools.nap]
python = "hostile_tools:nap"
[tools.big]
command = ["cat", "/dev/zero"]
timeout = "10s"
"""
MODULE = """
import asyncio

async def nap() -> None:
    await asyncio.sleep(50)

async def echo(text: str = "") -> str:
    return text
"""

PATIENCE = 60.0
GOOD = b'{"toolName":"echo","args":{"text":"hi"}}'


class Hostile:
    """A runner of two sessions, one of them the attacker's."""

    def __init__(self, folder: Path) -> None:
        (folder / "tools.toml").write_text(TOOLS)
        (folder / "hostile_tools.py").write_text(MODULE)
        self.folder = folder
        self.log = folder / "log"
        self.root = folder / "root"
        self.mine = self.root / "hostile"
        for path in (self.mine, self.root / "honest"):
            path.mkdir(parents=True)
        own = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
        with self.log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "relay", "serve", "--root", "root", "--tools", "tools.toml"],
                env={**own, "RELAYCONF_STATE_DIR": str(folder / "state")},
                cwd=folder,
                stderr=stderr,
            )
        self.until(lambda: "relay_ready" in self.log.read_text())
        self.call("honest", "warm")
        self.call("hostile", "warm")
        self.descriptors = self.open_files()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < deadline, self.log.read_text()[-2000:]
            time.sleep(0.005)

    def call(self, session: str, text: str) -> None:
        """Call through one of the sessions, and see that the answer is right."""
        writer = Writer(self.root / session, environ={})
        assert text == writer.call("echo", {"text": text}, timeout=PATIENCE)

    def open_files(self) -> int:
        """Return how many descriptors the runner holds."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident(self) -> int:
        """Return how many bytes of memory the runner has held at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def put(self, name: str, data: bytes) -> None:
        """Publish a file as the protocol does."""
        temp = self.mine / f"{name}.tmp.{os.urandom(6).hex()}"
        temp.write_bytes(data)
        temp.rename(self.mine / name)

    def answer(self, request: str) -> Response:
        """Wait for a response, and take it."""
        path = self.mine / f"{request}.res.json"
        said: list[bytes] = []

        def come() -> bool:
            if path.is_symlink() or not path.is_file():
                return False
            # Taken first: a later answer under the same id must not be lost with this one.
            taken = path.rename(self.mine / f"taken-{request}")
            data = taken.read_bytes()
            taken.unlink()
            if data.startswith(b'{"ok":'):
                said.append(data)
            return bool(said)

        self.until(come)
        return decode_response(said[0])

    def survive(self) -> None:
        """See that both sessions are served, and that nothing has been left behind."""
        self.call("honest", "still here")
        self.call("hostile", "even here")
        self.until(lambda: self.open_files() <= self.descriptors)
        assert "Traceback" not in self.log.read_text()

    def stop(self) -> str:
        """End the runner in peace, and return its log."""
        self.process.terminate()
        assert 0 == self.process.wait(PATIENCE)
        return self.log.read_text()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Hostile]:
    """Give a runner with an attacker."""
    hostile = Hostile(tmp_path)
    yield hostile
    if hostile.process.poll() is None:
        hostile.process.kill()
        hostile.process.wait()


def flood_of_requests(scene: Hostile) -> None:
    """Thousands of requests at once."""
    for number in range(3000):
        scene.put(f"r{number}.req.json", GOOD)


def flood_of_temps(scene: Hostile) -> None:
    """Thousands of unfinished files under the relay's own names."""
    for number in range(5000):
        (scene.mine / f"r{number}.req.json.tmp.{number}").touch()
        (scene.mine / f"r{number}.res.json.tmp.{number}").touch()


def flood_of_responses(scene: Hostile) -> None:
    """Thousands of responses that nobody asked for, and claims of runners that never were."""
    for number in range(2000):
        (scene.mine / f"r{number}.res.json").write_bytes(b'{"ok":true,"text":"forged"}')
        (scene.mine / f"c{number}.claim.nobody").write_bytes(GOOD)


def flood_of_names(scene: Hostile) -> None:
    """Names of every kind: as long as may be, not UTF-8, with newlines and escapes."""
    mine = os.fsencode(scene.mine)
    for number in range(500):
        for name in (
            b"x" * 240 + b"%d" % number,
            b"\xff\xfe%d.req.json" % number,
            b"a\nstage=relay_ready %d.req.json" % number,
            b"\x1b[2J%d.req.json" % number,
            b"x" * 201 + b"%d.req.json" % number,
            b"..%d.req.json" % number,
        ):
            with open(mine + b"/" + name, "wb") as file:
                file.write(GOOD)


def storm_of_events(scene: Hostile) -> None:
    """Renames back and forth, of names that are requests and of names that are not."""
    (scene.mine / "a.txt").touch()
    (scene.mine / "a b.req.json").touch()
    for _ in range(20_000):
        os.rename(scene.mine / "a.txt", scene.mine / "b.txt")
        os.rename(scene.mine / "b.txt", scene.mine / "a.txt")
        os.rename(scene.mine / "a b.req.json", scene.mine / "b a.req.json")
        os.rename(scene.mine / "b a.req.json", scene.mine / "a b.req.json")


def storm_of_withdrawals(scene: Hostile) -> None:
    """Requests that are gone as soon as they have come."""
    for number in range(5000):
        scene.put(f"w{number}.req.json", GOOD)
        (scene.mine / f"w{number}.req.json").unlink(missing_ok=True)


def sparse_files(scene: Hostile) -> None:
    """Requests of ten gigabytes that take no space."""
    for number in range(20):
        temp = scene.mine / f"s{number}.req.json.tmp.1"
        with temp.open("wb") as file:
            file.truncate(10 * 1024**3)
        temp.rename(scene.mine / f"s{number}.req.json")
    for number in range(20):
        assert "too_large" == scene.answer(f"s{number}").code


def files_that_grow(scene: Hostile) -> None:
    """Requests that are written to while they are read."""
    stop = threading.Event()

    def grow(number: int) -> None:
        path = scene.mine / f"g{number}.req.json.tmp.1"
        with path.open("wb", buffering=0) as file:
            file.write(b'{"toolName":"echo","args":{"text":"')
            path.rename(scene.mine / f"g{number}.req.json")
            while not stop.is_set() and file.tell() < 64 * 1024 * 1024:
                file.write(b"x" * 65536)

    threads = [threading.Thread(target=grow, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    codes = {scene.answer(f"g{number}").code for number in range(4)}
    stop.set()
    for thread in threads:
        thread.join()
    assert codes <= {"bad_request", "too_large"}


def planted_kinds(scene: Hostile) -> None:
    """Pipes, sockets, devices where they can be had, links, directories: at each of the names."""
    for name in ("k.req.json", "k.res.json", "relay.json"):
        for kind in range(7):
            path = scene.mine / f"planted-{kind}"
            if kind == 0:
                os.mkfifo(path)
            elif kind == 1:
                # By a short way: the name of a socket has room for 107 bytes.
                folder = os.open(scene.mine, os.O_PATH)
                with socket.socket(socket.AF_UNIX) as unix:
                    unix.bind(f"/proc/self/fd/{folder}/{path.name}")
                os.close(folder)
            elif kind == 2:
                path.symlink_to("/etc/passwd")
            elif kind == 3:
                path.symlink_to(path)
            elif kind == 4:
                path.mkdir()
                (path / "inner").mkdir()
            elif kind == 5:
                (scene.folder / "other").write_bytes(GOOD)
                path.hardlink_to(scene.folder / "other")
            else:
                path.write_bytes(GOOD)
                path.chmod(0)
            target = scene.mine / name
            if target.is_dir() and not target.is_symlink():
                target.rename(scene.mine / f"old-{name}-{kind}")
            else:
                target.unlink(missing_ok=True)
            path.rename(target)
            if name == "k.req.json":
                scene.answer("k")
            elif name == "k.res.json":
                scene.put("k.req.json", GOOD)
                assert "hi" == scene.answer("k").text


def swaps(scene: Hostile) -> None:
    """Claims that are swapped for something else while they are read."""
    stop = threading.Event()

    def swap() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for name in os.listdir(scene.mine):
                if ".claim." not in name:
                    continue
                link = scene.mine / f"swap{number}"
                try:
                    link.symlink_to("/etc/passwd")
                    link.rename(scene.mine / name)
                except OSError:
                    link.unlink(missing_ok=True)

    thread = threading.Thread(target=swap)
    thread.start()
    codes = set()
    for number in range(200):
        scene.put(f"x{number}.req.json", GOOD)
        codes.add(scene.answer(f"x{number}").code)
    stop.set()
    thread.join()
    assert codes <= {"", "bad_request"}


def bombs(scene: Hostile) -> None:
    """JSON that is deep, wide, repeated, without end or half a character: refused, all of it."""
    wrapped = b'{"toolName":"echo","args":{"text":%s}}'
    for number, inner in enumerate(
        (
            b"[" * 1_000_000,
            b"[" * 500_000 + b"]" * 500_000,
            b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
            b"[" + b"1," * 1_000_000 + b"1]",
            b"[" + b"{}," * 500_000 + b"{}]",
            b'{"a":1,"a":2}',
            b"NaN",
            b"-Infinity",
            b"1e400",
            b"9" * 400,
            b'"\\ud800"',
            b'"\xff"',
            b'"' + b"x" * (5 << 20) + b'"',
            b'"' + b"\\u0041" * 600_000,
            b"\x00" * 100_000,
        )
    ):
        scene.put(f"b{number}.req.json", wrapped % inner)
        assert scene.answer(f"b{number}").code in {"bad_request", "too_large"}, inner[:20]


def odd_times(scene: Hostile) -> None:
    """Requests from long ago and from the far future: too old, or as good as any other."""
    for number, (when, code) in enumerate(
        ((0, "expired"), (-(2**31), "expired"), (2**33, ""), (2**31, ""))
    ):
        temp = scene.mine / f"t{number}.req.json.tmp.1"
        temp.write_bytes(GOOD)
        os.utime(temp, (when, when))
        temp.rename(scene.mine / f"t{number}.req.json")
        assert code == scene.answer(f"t{number}").code


def odd_timeouts(scene: Hostile) -> None:
    """Deadlines that are none, or that no clock can count to."""
    for number, (said, code) in enumerate(
        {
            "0": "expired",
            "-1": "bad_request",
            "0.5": "bad_request",
            '"5"': "bad_request",
            "true": "bad_request",
            "[]": "bad_request",
            "1e400": "bad_request",
            "null": "",
            "1e4": "",
            "1e308": "",
            "1" + "0" * 300: "",
        }.items()
    ):
        body = b'{"toolName":"echo","args":{},"timeoutMs":%s}' % said.encode()
        scene.put(f"t{number}.req.json", body)
        assert code == scene.answer(f"t{number}").code, said


def planted_cancels(scene: Hostile) -> None:
    """Cancels of nothing, and directories, links and pipes where a cancel belongs."""
    for number in range(2000):
        (scene.mine / f"c{number}.cancel").touch()
    for kind in ("directory", "pipe", "link"):
        scene.put(f"{kind}.req.json", b'{"toolName":"nap"}')
        while (scene.mine / f"{kind}.req.json").exists():
            time.sleep(0.005)
        cancel = scene.mine / f"{kind}.cancel"
        if kind == "directory":
            cancel.mkdir()
        elif kind == "pipe":
            os.mkfifo(cancel)
        else:
            cancel.symlink_to("/dev/zero")
    scene.until(lambda: not any(".claim." in name for name in os.listdir(scene.mine)))


def spoilt_announcements(scene: Hostile) -> None:
    """A relay.json that is removed, replaced and stood in for without end."""
    told = scene.mine / "relay.json"
    end = time.monotonic() + 2
    while time.monotonic() < end:
        with suppress(OSError):
            told.unlink()
        with suppress(OSError):
            told.mkdir()
        with suppress(OSError):
            told.rmdir()
            told.symlink_to("/etc/passwd")
    scene.until(lambda: told.is_file() and not told.is_symlink())


def large_answers(scene: Hostile) -> None:
    """Calls of a tool that never stops printing."""
    for number in range(6):
        scene.put(f"l{number}.req.json", b'{"toolName":"big"}')
    for number in range(6):
        assert "too_large" == scene.answer(f"l{number}").code


ATTACKS = [
    flood_of_requests,
    flood_of_temps,
    flood_of_responses,
    flood_of_names,
    storm_of_events,
    storm_of_withdrawals,
    sparse_files,
    files_that_grow,
    planted_kinds,
    swaps,
    bombs,
    odd_times,
    odd_timeouts,
    planted_cancels,
    spoilt_announcements,
    large_answers,
]


class TestAttacks:
    @pytest.mark.parametrize("attack", ATTACKS)
    def test_the_neighbour_is_answered(
        self, scene: Hostile, attack: Callable[[Hostile], None]
    ) -> None:
        """Whatever one writer does, both sessions are served afterwards, and nothing leaks."""
        attack(scene)
        scene.survive()
        log = scene.stop()
        assert 1 == sum(line.startswith("stage=relay_ready") for line in log.split("\n"))
        assert [] == [line for line in log.splitlines() if not line.isprintable()]

    def test_meanwhile_too(self, scene: Hostile) -> None:
        """While one writer floods with everything at once, its neighbour is answered."""
        stop = threading.Event()

        def flood(attack: Callable[[Hostile], None]) -> None:
            while not stop.is_set():
                try:
                    attack(scene)
                except OSError:
                    continue

        attacks = (flood_of_requests, storm_of_withdrawals, storm_of_events, flood_of_temps)
        threads = [threading.Thread(target=flood, args=(each,), daemon=True) for each in attacks]
        for thread in threads:
            thread.start()
        for number in range(100):
            scene.call("honest", str(number))
        stop.set()
        for thread in threads:
            thread.join()
        scene.call("honest", "after")

    def test_memory_is_bounded(self, scene: Hostile) -> None:
        """A session that sends as much as it may at once costs the runner no more than a bound."""
        before = scene.resident()
        body = b'{"toolName":"echo","args":{"text":"' + b"x" * (3 << 20) + b'"}}'
        for number in range(100):
            scene.put(f"m{number}.req.json", body)
        for number in range(100):
            assert 3 << 20 == len(scene.answer(f"m{number}").text)
        assert scene.resident() - before < 512 << 20


class TestIds:
    def test_none_collide(self, scene: Hostile) -> None:
        """Calls whose ids are one and the same after cleaning each get their own answer."""
        writer = Writer(scene.mine, environ={})
        ids = ["a b", "a/b", "a_b", "a\nb", "../../a_b", "é" * 300, "é" * 300, "", ""]
        said: dict[int, str] = {}

        def call(number: int) -> None:
            text = f"text {number}"
            said[number] = writer.call("echo", {"text": text}, call_id=ids[number])

        threads = [threading.Thread(target=call, args=(number,)) for number in range(len(ids))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {number: f"text {number}" for number in range(len(ids))} == said
        assert len({new_id("a b") for _ in range(1000)}) == 1000

    def test_one_id_at_a_time(self, scene: Hostile) -> None:
        """Of a hundred requests under one id the last is answered last; none is lost between."""
        for number in range(100):
            body = {"toolName": "echo", "args": {"text": str(number)}}
            scene.put("same.req.json", json.dumps(body).encode())
        said = [""]
        while said[-1] != "99":
            said.append(scene.answer("same").text)
        assert sorted(said[1:], key=int) == said[1:]
        scene.survive()
