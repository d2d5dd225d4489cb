"""A runner whose session lies behind a host: calls through real servers, from start to stop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from relay.engine.given import NothingToServe
from relay.engine.runner import Runner
from relay.hosts.daemon import DaemonHost
from relay.hosts.host import Denied, Unreachable
from relay.hosts.memory import MemoryHost
from relay.hosts.ssh import SshHost
from relay.protocol import Request, encode_request
from relay.settings import RelaySettings
from tests.servers.box import TOKEN, Box, MemoryBox, echo, play
from tests.servers.proxy import Proxy
from tests.servers.running import Server, available, daemon, daemon_program, free_port


def programs(folder: Path, *names: str) -> str:
    """Return a PATH on which a shell's own programs and those named are to be found."""
    for name in ("sh", "mv", "rm", "cat", "wc", *names):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(os.path.realpath(found))
    return str(folder)


def kinds() -> list[str]:
    """Return the ways in which a sandbox can be reached and drained here."""
    found = ["memory"]
    if daemon_program():
        found += ["daemon", "daemon-plain"]
        found += ["daemon-node"] if shutil.which("node") else []
    return found + (["ssh"] if "ssh" in available() else [])


@pytest.fixture(scope="session")
def plain_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a daemon whose sandbox has neither python3 nor node."""
    folder = tmp_path_factory.mktemp("plain")
    server = daemon(folder, token=TOKEN, path=programs(folder))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def node_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a daemon whose sandbox has node and no python3."""
    folder = tmp_path_factory.mktemp("node")
    server = daemon(folder, token=TOKEN, path=programs(folder, "node"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=kinds())
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    """Give a session in each kind of sandbox."""
    kind = request.param
    if kind == "memory":
        return MemoryBox(tmp_path)
    (tmp_path / "a session's").mkdir(mode=0o700)
    if kind == "ssh":
        server, keys = (request.getfixturevalue(n) for n in ("ssh_server", "ssh_folder"))
        key, known = str(keys / "client_key"), str(keys / "known_hosts")
        target = f"127.0.0.1:{server.port}"
        return Box(tmp_path, lambda: SshHost(target, key_file=key, known_hosts=known))
    fixture = {"daemon": "daemon_server", "daemon-plain": "plain_daemon"}.get(kind, "node_daemon")
    url = f"http://127.0.0.1:{request.getfixturevalue(fixture).port}"
    return Box(tmp_path, lambda: DaemonHost(url, token=TOKEN))


@pytest.fixture
def daemon_box(tmp_path: Path, daemon_server: Server) -> Box:
    """Give a session behind a daemon."""
    (tmp_path / "a session's").mkdir(mode=0o700)
    url = f"http://127.0.0.1:{daemon_server.port}"
    return Box(tmp_path, lambda: DaemonHost(url, token=TOKEN))


class TestCalls:
    def test_are_answered(self, box: Box) -> None:
        """Calls come back right, one after the other and many at once, and leave nothing behind."""

        async def story() -> None:
            async with box.serving() as runner:
                for number in range(3):
                    assert str(number) == (await box.call(str(number))).text
                many = await asyncio.gather(*(box.call(str(n)) for n in range(12)))
                assert [str(n) for n in range(12)] == [response.text for response in many]
                assert 15 == runner.counters.executed
            assert [] == box.names()

        play(story)

    def test_large_ones(self, box: Box) -> None:
        """Requests and answers of megabytes travel, whatever one request to the host can carry."""

        async def story() -> None:
            async with box.serving():
                for size in (100_000, 700_000, 2_500_000):
                    text = "é" * (size // 2)
                    assert text == (await box.call(text)).text

        play(story)

    @pytest.mark.parametrize("slots", [1, 2])
    def test_taken_back(self, box: Box, slots: int) -> None:
        """A caller that gives up ends its tool, be it the last slot's, and that is free again."""
        begun: list[str] = []
        ended: list[str] = []

        async def wait(text: str = "") -> str:
            begun.append(text)
            try:
                await asyncio.sleep(600)
            finally:
                ended.append(text)
            return "never"

        async def story() -> None:
            settings = {"remote_rescan": timedelta(seconds=0.1), "session_max_in_flight": slots}
            async with box.serving({"wait": wait, "echo": echo}, **settings) as runner:
                for _ in range(4):
                    box.ask("one", "wait")
                    await box.until(lambda: len(begun) > len(ended))
                    box.put("one.cancel", b"")
                    await box.until(lambda: len(begun) == len(ended))
                    await box.until(lambda: box.names() == [])
                assert "on" == (await box.call("on")).text
                assert runner.shared is not None
                assert {"cancelled": 4, "ok": 1} == dict(runner.shared.answers)

        play(story)

    def test_bad_ones(self, box: Box) -> None:
        """What is no request is refused with its code, and no other call notices."""

        async def story() -> None:
            async with box.serving(max_request=2000):
                box.put("bad.req.json", b"{]")
                box.put("big.req.json", b"x" * 3000)
                box.ask("unknown", "nothing")
                codes = [(await box.answer(r)).code for r in ("bad", "big", "unknown")]
                assert ["bad_request", "too_large", "unknown_tool"] == codes
                assert (await box.call("x")).ok

        play(story)

    def test_link_that_takes_the_place(self, daemon_box: Box, tmp_path: Path) -> None:
        """It is not followed, and a directory again is served; the operator's own link is."""
        box, other = daemon_box, tmp_path / "other"

        async def story() -> None:
            async with box.serving() as runner:
                assert "a" == (await box.call("a")).text
                box.session.rename(other)
                (other / "x.req.json").write_bytes(b'{"toolName": "echo"}')
                box.session.symlink_to(other)
                (session,) = runner._loop.sessions  # type: ignore[union-attr]  # it runs
                await box.until(lambda: session.waiting.gone)
                sent = runner.counters.sent["poll"]
                await box.until(lambda: runner.counters.sent["poll"] > sent + 3)
                assert ["x.req.json"] == [name for name in os.listdir(other) if name[0] == "x"]
                box.session.unlink()
                box.session.mkdir(mode=0o700)
                assert "b" == (await box.call("b")).text
            box.session.rename(tmp_path / "moved")
            box.session.symlink_to(tmp_path / "moved")
            async with box.serving():
                assert "c" == (await box.call("c")).text

        play(story)

    def test_writers_are_told(self, box: Box) -> None:
        """relay.json is there before the first request is taken."""

        async def story() -> None:
            async with box.serving():
                told = box.take("relay.json")
                assert told is not None
                said = json.loads(told)
                assert ["echo"] == [tool["name"] for tool in said["tools"]]
                # What is published in a sandbox is not signalled.
                assert ["cancel"] == said["features"]

        play(story)

    def test_expired(self, box: Box) -> None:
        """A request whose caller has given up is not run, by the sandbox's own clock."""

        async def story() -> None:
            async with box.serving(session_max_in_flight=1, tools={"slow": slow, "echo": echo}):
                box.ask("first", "slow")
                await box.until(lambda: "first.req.json" not in box.names())
                box.ask("late", timeout_ms=1000)
                box.age("late.req.json", 5)
                assert "expired" == (await box.answer("late")).code

        async def slow() -> str:
            await asyncio.sleep(0.3)
            return "done"

        play(story)

    def test_id_that_comes_again(self, box: Box) -> None:
        """One id may be used for call after call."""

        async def story() -> None:
            async with box.serving() as runner:
                for number in range(4):
                    box.ask("same", text=str(number))
                    assert str(number) == (await box.answer("same")).text
                assert 4 == runner.counters.executed

        play(story)


class TestResidue:
    def test_requests_from_before(self, box: Box) -> None:
        """Requests that no runner was there for are answered and not run."""

        async def story() -> None:
            box.ask("old")
            box.age("old.req.json", 2)
            async with box.serving() as runner:
                assert "not_executed" == (await box.answer("old")).code
                assert 0 == runner.counters.executed
                assert (await box.call("new")).ok

        play(story)

    def test_claims_of_the_unknown(self, box: Box) -> None:
        """A claim of a runner elsewhere is never run; its caller hears of it at the deadline."""

        async def story() -> None:
            box.put("old.claim.elsewhere", encode_request(Request("echo", "old", {}, 1000)))
            box.age("old.claim.elsewhere", 10)
            box.put("young.claim.elsewhere", encode_request(Request("echo", "young", {}, None)))
            async with box.serving(poll=timedelta(seconds=0.05)) as runner:
                assert "interrupted" == (await box.answer("old")).code
                assert (await box.call("x")).ok
                await box.until(lambda: ["young.claim.elsewhere"] == box.names())
                assert 1 == runner.counters.executed

        play(story)


class TestClocks:
    @pytest.mark.parametrize("hours", [-30, 30])
    def test_sandbox_of_another_time(self, tmp_path: Path, hours: int) -> None:
        """What is old, and what has expired, is judged by the sandbox's own clock."""
        box = MemoryBox(tmp_path)
        shift = hours * 3600.0
        box.memory = MemoryHost(str(box.session), clock=lambda: time.time() + shift)

        async def story() -> None:
            box.ask("old")
            box.age("old.req.json", 2 - shift)
            async with box.serving():
                assert "not_executed" == (await box.answer("old")).code
                assert (await box.call("a")).ok
            async with box.serving(tools={"slow": slow, "echo": echo}, session_max_in_flight=1):
                box.ask("first", "slow")
                await box.until(lambda: "first.req.json" not in box.names())
                box.ask("late", timeout_ms=1000)
                box.age("late.req.json", 5 - shift)
                assert "expired" == (await box.answer("late")).code
                assert (await box.call("b")).ok

        async def slow() -> str:
            await asyncio.sleep(0.3)
            return "done"

        play(story)


class TestHandOver:
    def test_next_runner(self, box: Box) -> None:
        """A runner that takes over serves; the one before stands by and claims nothing."""

        async def story() -> None:
            async with box.serving() as first:
                assert (await box.call("a")).ok
                async with box.serving() as second:
                    for number in range(4):
                        assert str(number) == (await box.call(str(number))).text
                    assert 4 == second.counters.executed
                assert 1 == first.counters.executed

        play(story)

    def test_stop_empties_the_lease(self, box: Box) -> None:
        """After a stop nothing claims for nobody: what is published stays for the next runner."""

        async def story() -> None:
            async with box.serving():
                assert (await box.call("a")).ok
            assert b"" == box.take(".relay-lease")
            box.ask("later")
            await asyncio.sleep(0.1)
            assert ["later.req.json"] == box.names()

        play(story)


if daemon_program():

    class TestDaemonBox:
        def test_two_requests_a_call(self, daemon_box: Box) -> None:
            """A call costs a drain and a publication."""

            async def story() -> None:
                async with daemon_box.serving() as runner:
                    await daemon_box.call("warm")
                    before = runner.counters.sent.copy()
                    for number in range(10):
                        await daemon_box.call("x" * 6000 * number)
                    sent = runner.counters.sent - before
                    assert {"drain": 10, "publish": 10} == sent

            play(story)

        def test_directory_that_comes_again(self, daemon_box: Box) -> None:
            """A directory that is deleted and made again is served again, its writers told."""

            async def story() -> None:
                async with daemon_box.serving():
                    assert (await daemon_box.call("a")).ok
                    shutil.rmtree(daemon_box.session)
                    await asyncio.sleep(0.2)
                    daemon_box.session.mkdir(mode=0o700)
                    assert (await daemon_box.call("b")).ok
                    await daemon_box.until((daemon_box.session / "relay.json").exists)

            play(story)

        def test_flips_while_it_waits(self, daemon_box: Box) -> None:
            """The watch is switched off and on under a parked relay; every call comes back."""

            async def story() -> None:
                async with daemon_box.serving() as runner:
                    assert (await daemon_box.call("a")).ok
                    for on in (False, True, False, True):
                        session = runner._loop.sessions[0]  # type: ignore[union-attr]  # it runs
                        session.change(session.limits._replace(watches=on))
                        await asyncio.sleep(0.05)
                        assert (await daemon_box.call("b")).ok
                        assert on == (session.waiting.flight is not None)

            play(story)

        def test_way_is_part_of_a_pickup(
            self,
            tmp_path: Path,
            daemon_server: Server,
            caplog: pytest.LogCaptureFixture,
        ) -> None:
            """The time until a pickup has the way back in it, from the first call on."""
            (tmp_path / "a session's").mkdir(mode=0o700)

            async def story() -> None:
                proxy = Proxy(daemon_server.port, delay=0.1)
                await proxy.start()
                box = Box(
                    tmp_path, lambda: DaemonHost(f"http://127.0.0.1:{proxy.port}", token=TOKEN)
                )
                async with box.serving():
                    for _ in range(3):
                        await box.call("a")
                await proxy.stop()

            with caplog.at_level("INFO", "relay"):
                play(story)
            took = re.findall(r"pickup_ms=([0-9.]+)", caplog.text)
            assert 3 == len(took)
            assert min(map(float, took)) >= 100

        def test_parent_that_is_missing(self, daemon_box: Box) -> None:
            """A directory that cannot be made is told at the start, in one sentence."""

            async def story() -> None:
                daemon_box.session = daemon_box.folder / "none" / "session"
                with pytest.raises(Exception, match="cannot be served"):
                    async with daemon_box.serving():
                        raise AssertionError("it started")

            play(story)


class TestStart:
    def test_wrong_token(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        """A refused token ends the start at once, and nothing is left running."""
        if "daemon" not in available():
            return
        server = request.getfixturevalue("daemon_server")
        box = Box(tmp_path, lambda: DaemonHost(f"http://127.0.0.1:{server.port}", token="no"))

        async def story() -> None:
            with pytest.raises(Denied):
                async with box.serving():
                    raise AssertionError("it started")

        play(story)

    def test_nobody_there(self, tmp_path: Path) -> None:
        """A host that does not answer ends the start after the file-operation timeout."""
        port = free_port()
        box = Box(tmp_path, lambda: DaemonHost(f"http://127.0.0.1:{port}"))

        async def story() -> None:
            with pytest.raises(Unreachable):
                async with box.serving(file_op_timeout=timedelta(seconds=0.3)):
                    raise AssertionError("it started")

        play(story)

    def test_local_runner(self, tmp_path: Path) -> None:
        """A runner of local directories never serves one in the sandbox's stead."""
        with pytest.raises(NothingToServe, match="RemoteRunner"):
            Runner(tmp_path, tools={"echo": echo}, settings=RelaySettings(backend="daemon"))
