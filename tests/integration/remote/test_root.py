"""A root of many remote sessions in one runner: found, served, dropped, shared out, and tripped."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.engine.given import NothingToServe
from relay.engine.metrics import runner_metrics
from relay.hosts.daemon import DaemonHost
from relay.hosts.host import Done, Entry
from relay.hosts.memory import MemoryHost
from relay.hosts.ssh import SshHost
from relay.remote.runner import RemoteRunner
from relay.settings import RelaySettings
from tests.servers.box import PATIENCE, TOKEN, Box, echo, play
from tests.servers.breaking import Asked, Breaking
from tests.servers.running import Server, available


class Root:
    """A root in a sandbox, and a writer's hand in each of its sessions."""

    def __init__(self, folder: Path, open_host: Any) -> None:
        self.folder = folder
        self.path = folder / "a root's"
        self.path.mkdir()
        self.open_host = open_host

    def beside(self, name: str) -> Box:
        """Return a session; its directory is made where it is missing."""
        box = Box(self.folder, self.open_host)
        box.session = self.path / name
        box.session.mkdir(exist_ok=True, mode=0o700)
        return box

    @asynccontextmanager
    async def serving(self, **settings: Any) -> AsyncIterator[RemoteRunner]:
        """Run a runner."""
        given = RelaySettings(
            **{"remote_watch": True, "poll_max": timedelta(seconds=0.3), **settings}
        )
        async with RemoteRunner(
            root=self.path,
            host=self.open_host(),
            tools={"echo": echo},
            settings=given,
            state=self.folder / "state",
        ) as runner:
            yield runner


@pytest.fixture(params=[kind for kind in available() if kind != "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    """Give a root in each kind of sandbox."""
    if request.param == "ssh":
        server, keys = (request.getfixturevalue(n) for n in ("ssh_server", "ssh_folder"))
        key, known = str(keys / "client_key"), str(keys / "known_hosts")
        target = f"127.0.0.1:{server.port}"
        return Root(tmp_path, lambda: SshHost(target, key_file=key, known_hosts=known))
    url = f"http://127.0.0.1:{request.getfixturevalue('daemon_server').port}"
    return Root(tmp_path, lambda: DaemonHost(url, token=TOKEN))


class TestFinding:
    def test_sessions_come_and_go(self, root: Root) -> None:
        """What is there, what appears and what appears again is served; what goes is dropped."""

        async def story() -> None:
            first = root.beside("first")
            async with root.serving() as runner:
                assert "a" == (await first.call("a")).text
                later = root.beside("later's")
                assert "b" == (await later.call("b")).text
                shutil.rmtree(later.session)
                await first.until(lambda: runner.sessions == (str(first.session),))
                assert "c" == (await root.beside("later's").call("c")).text
                assert "d" == (await first.call("d")).text

        play(story)

    def test_residue_and_what_comes_with_its_requests(self, root: Root) -> None:
        """What lay there at the start is not executed; what comes in with a request is."""

        async def story() -> None:
            old = root.beside("old")
            old.ask("x")
            old.age("x.req.json", 2)
            made = root.folder / "made"
            made.mkdir(mode=0o700)
            box = Box(root.folder, root.open_host)
            box.session = made
            box.ask("y", text="ran")
            box.age("y.req.json", 2)
            async with root.serving():
                assert "not_executed" == (await old.answer("x")).code
                made.rename(root.path / "moved")
                box.session = root.path / "moved"
                assert "ran" == (await box.answer("y")).text

        play(story)

    def test_what_is_no_session(self, root: Root, tmp_path: Path) -> None:
        """Links, files and names with a leading dot are none; nothing is written to any."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (root.path / "link").symlink_to(elsewhere)
        (root.path / "file").write_text("x")
        (root.path / ".hidden").mkdir()

        async def story() -> None:
            box = root.beside("one")
            async with root.serving() as runner:
                assert (await box.call("a")).ok
                assert (str(box.session),) == runner.sessions
            assert [] == [*os.listdir(elsewhere), *os.listdir(root.path / ".hidden")]

        play(story)

    def test_session_that_becomes_a_link(self, root: Root, tmp_path: Path) -> None:
        """It is a session no more; what the link leads to is left alone."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "x.req.json").write_bytes(b'{"toolName": "echo"}')

        async def story() -> None:
            box, other = root.beside("one"), root.beside("two")
            async with root.serving() as runner:
                assert (await box.call("a")).ok
                (tmp_path / "link").symlink_to(elsewhere)
                box.session.rename(tmp_path / "moved")
                (tmp_path / "link").rename(box.session)
                await box.until(lambda: (str(other.session),) == runner.sessions)
                assert (await other.call("b")).ok
            assert ["x.req.json"] == os.listdir(elsewhere)

        play(story)

    def test_odd_names(self, root: Root) -> None:
        """A session may be called what it likes."""

        async def story() -> None:
            names = ["-rf", "a b", "it's", '"', "*", "new\nline", "é", "$HOME", "a;b"]
            boxes = [root.beside(name) for name in names]
            async with root.serving() as runner:
                assert len(names) == len(runner.sessions)
                answers = await asyncio.gather(*(box.call(str(box.session)) for box in boxes))
                assert [str(box.session) for box in boxes] == [a.text for a in answers]

        play(story)

    def test_root_that_comes_and_goes(self, root: Root) -> None:
        """A root is made where it is missing, and found again after it was deleted."""
        root.path.rmdir()

        async def story() -> None:
            async with root.serving() as runner:
                box = root.beside("one")
                assert (await box.call("a")).ok
                shutil.rmtree(root.path)
                await box.until(lambda: not box.session.exists())
                root.path.mkdir()
                box = root.beside("one")
                assert (await box.call("b")).ok
                assert 2 == runner.counters.executed

        play(story)

    def test_without_a_watch(self, root: Root) -> None:
        """With the flag off, sessions are found and served by listings."""

        async def story() -> None:
            async with root.serving(remote_watch=False, safety_poll=timedelta(seconds=6)) as runner:
                assert (await root.beside("one").call("a")).ok
                assert 0 == runner.counters.windows

        play(story)

    def test_many_at_once(self, root: Root) -> None:
        """Twenty sessions share their host and few slots: none starves, connections stay few."""

        async def story() -> None:
            boxes = [root.beside(f"s{number:02}") for number in range(20)]
            patient = {
                "remote_watch_window": timedelta(seconds=120),
                "safety_poll": timedelta(seconds=200),
            }
            async with root.serving(session_max_in_flight=4, max_in_flight=8, **patient) as runner:
                for _ in range(2):
                    said = await asyncio.gather(
                        *(box.call(f"{box.session}") for box in boxes for _ in range(3))
                    )
                    assert all(answer.ok for answer in said)
                assert 120 == runner.counters.executed
                await boxes[0].until(lambda: runner.counters.windows >= 20)
                # A connection for each window and some for what is short; over SSH six windows
                # share one.
                assert 3 <= runner.sockets <= 20 + 16 + 4
                assert f"relay_open_sockets {runner.sockets}" in runner_metrics(runner)
                assert "relay_sessions 20" in runner_metrics(runner)
            assert 0 == runner.sockets

        play(story)

    def test_leaves_nobody_waiting(self, root: Root) -> None:
        """After a stop no program waits in the root or in a session, and nothing is left there."""

        async def story() -> None:
            box = root.beside("one")
            async with root.serving():
                assert (await box.call("a")).ok
                await box.until(lambda: len(programs_in(root.path)) >= 2)
            await box.until(lambda: not programs_in(root.path))
            assert ["one"] == os.listdir(root.path)

        play(story)


class TestRefusals:
    def test_root_and_directory(self, tmp_path: Path) -> None:
        """A runner serves one session or a root of many."""
        with pytest.raises(NothingToServe, match="both set"):
            RemoteRunner("/a", root="/b", host=MemoryHost(), tools={"echo": echo}, state=tmp_path)


if "daemon" in available():

    class TestRaces:
        def test_session_that_went_since_the_listing(
            self, tmp_path: Path, daemon_server: Server
        ) -> None:
            """A directory that is removed while it is found is not made again."""

            class Ghosts(DaemonHost):
                """Lists a directory that is not there any more."""

                async def entries(self, path: str, *, kind: str = "list") -> list[Entry]:
                    found = await super().entries(path, kind=kind)
                    ghost = Entry("ghost", directory=True, size=0, modified=0.0)
                    return [*found, ghost] if kind == "root" else found

            async def story() -> None:
                url = f"http://127.0.0.1:{daemon_server.port}"
                root = Root(tmp_path, lambda: Ghosts(url, token=TOKEN))
                box = root.beside("one")
                async with root.serving() as runner:
                    assert (await box.call("a")).ok
                    assert (str(box.session),) == runner.sessions
                    assert ["one"] == os.listdir(root.path)

            play(story)

        def test_watch_that_ends_at_once(self, tmp_path: Path, daemon_server: Server) -> None:
            """A root whose watch ends again and again is listed at leisure; sessions are found."""

            class Hasty(DaemonHost):
                """Says at once that nothing has happened."""

                async def run(
                    self, argv: Sequence[str], *, seconds: float, max_output: int, kind: str = "run"
                ) -> Done:
                    if kind == "census":
                        self.requests[kind] += 1
                        return Done(0, '{"status":"expired","now":0,"mtime":1}\n', "")
                    return await super().run(
                        argv, seconds=seconds, max_output=max_output, kind=kind
                    )

            async def story() -> None:
                url = f"http://127.0.0.1:{daemon_server.port}"
                root = Root(tmp_path, lambda: Hasty(url, token=TOKEN))
                async with root.serving() as runner:
                    assert (await root.beside("one").call("a")).ok
                    await asyncio.sleep(1)
                    assert runner.counters.sent["census"] <= 3

            play(story)

    class TestShare:
        def test_share_of_the_sessions(self, tmp_path: Path, daemon_server: Server) -> None:
            """Half of the sessions are waited in, by their names; the others are polled."""

            async def story() -> None:
                proxy = Breaking(daemon_server.port)
                await proxy.start()
                url = f"http://127.0.0.1:{proxy.port}"
                root = Root(tmp_path, lambda: DaemonHost(url, token=TOKEN))
                boxes = [root.beside(f"relay-{number}") for number in range(8)]
                async with root.serving(remote_watch="50%") as runner:
                    for box in boxes:
                        assert (await box.call("a")).ok
                    watched = {
                        str(box.session)
                        for box in boxes
                        if runner._loop.limits(str(box.session)).watches  # type: ignore[union-attr]  # it runs
                    }
                    waited = {
                        word[4:]
                        for asked in proxy.asked
                        for word in asked.args
                        if asked.waits and word.startswith(f"dir={root.path}/")
                    }
                    assert watched == waited
                    assert 0 < len(watched) < 8
                await proxy.stop()

            play(story)

    class TestBreaker:
        def test_trips_under_relay_serve(self, tmp_path: Path, daemon_server: Server) -> None:
            """Windows that fail in too many sessions of one process kill the flag for all of it."""

            async def story() -> None:
                proxy = Breaking(daemon_server.port, lambda a: "500" if broken(a) else "")
                await proxy.start()
                root = Root(tmp_path, MemoryHost)
                boxes = [root.beside(f"s{number}") for number in range(4)]
                runner = serve(root, proxy.port)
                try:
                    overrides = tmp_path / "state" / "overrides.json"
                    await boxes[0].until(overrides.exists)
                    (entry,) = json.loads(overrides.read_text())["entries"]
                    assert "RELAY_REMOTE_WATCH_ENABLED" == entry["name"]
                    assert ("kill", "auto") == (entry["kind"], entry["actor"])
                    assert entry["expires_at"]
                    for box in boxes:
                        assert (await box.call("polled", "shout")).ok
                    sent = len(windows(proxy.asked))
                    for box in boxes:
                        assert (await box.call("polled", "shout")).ok
                    assert sent == len(windows(proxy.asked))
                finally:
                    runner.send_signal(signal.SIGTERM)
                    _, said = await asyncio.to_thread(runner.communicate, timeout=PATIENCE)
                    await proxy.stop()
                assert 0 == runner.returncode, said
                assert said.count(b"stage=relay_demoted") >= 3
                assert b"trips=1" in said

            play(story)


def programs_in(path: Path) -> list[str]:
    """Return the arguments of the programs that wait in a root or in one of its sessions."""
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            words = Path(f"/proc/{name}/cmdline").read_bytes() if name.isdigit() else b""
            if f"dir={path}".encode() in words and words.startswith(b"/") and b"\0window=" in words:
                found.append(name)
    return found


def broken(asked: Asked) -> bool:
    """Whether a request is a window of a session."""
    return asked.waits and any(word.startswith("generation=") for word in asked.args)


def windows(asked: list[Asked]) -> list[Asked]:
    """Return the windows among requests."""
    return [one for one in asked if broken(one)]


def serve(root: Root, port: int) -> subprocess.Popen[bytes]:
    """Start a runner of a root as a program."""
    tools = root.folder / "tools.toml"
    tools.write_text('[tools.shout]\ncommand = ["cat"]\n')
    own = {n: v for n, v in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    environ = {
        **own,
        "RELAY_BACKEND": "daemon",
        "RELAY_DAEMON_URL": f"http://127.0.0.1:{port}",
        "RELAY_DAEMON_TOKEN": TOKEN,
        "RELAY_REMOTE_WATCH_ENABLED": "true",
        "RELAY_POLL_MAX_MS": "300ms",
        "RELAY_BACKOFF_BASE_MS": "50ms",
        "RELAYCONF_STATE_DIR": str(root.folder / "state"),
    }
    argv = [sys.executable, "-m", "relay", "serve", "--root", str(root.path)]
    return subprocess.Popen([*argv, "--tools", str(tools)], env=environ, stderr=subprocess.PIPE)
