"""What breaks between a runner and its sandbox, done for real: all calls end, none runs twice.

A daemon of the test's own runs behind a proxy that cuts and swallows; it is stopped, continued and
killed, its directory goes away, its disk fills up, its answers come cut and twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.hosts.daemon import DaemonHost
from relay.hosts.host import Done, Host
from relay.remote.runner import RemoteRunner
from tests.servers.box import PATIENCE, Box, play
from tests.servers.proxy import Proxy
from tests.servers.running import Server, available, daemon, sshd

#: Fast failures: what takes seconds by default takes tenths here.
QUICK = {
    "file_op_timeout": timedelta(seconds=1),
    "backoff_base": timedelta(seconds=0.1),
    "backoff_max": timedelta(seconds=0.5),
    "poll": timedelta(seconds=0.05),
    "remote_watch_window": timedelta(seconds=5),
    "remote_rescan": timedelta(seconds=1),
    "remote_watch_grace": timedelta(seconds=0.5),
    "safety_poll": timedelta(seconds=6),
}


class Broken:
    """A runner behind a proxy, and a count of what it executed."""

    def __init__(self, box: Box, server: Server) -> None:
        self.box = box
        self.server = server
        self.proxy = Proxy(server.port)
        self.ran: Counter[str] = Counter()
        self.asked = 0

    async def count(self, text: str) -> str:
        """Run a call."""
        self.ran[text] += 1
        return text

    async def story(self, tell: Callable[[RemoteRunner], Awaitable[None]], **settings: Any) -> None:
        """Serve, tell, and look that nothing ran twice."""
        await self.proxy.start()
        try:
            self.box.open_host = lambda: self.host(f"http://127.0.0.1:{self.proxy.port}")
            tools = {"echo": self.count}
            async with self.box.serving(tools, **{**QUICK, **settings}) as runner:
                await self.right(2)
                await tell(runner)
                await self.right(2)
            assert 1 == max(self.ran.values())
        finally:
            await self.proxy.stop()

    def host(self, url: str) -> Host:
        """Open the host."""
        return DaemonHost(url)

    async def right(self, calls: int) -> None:
        """Make calls, one after the other; all must come back right."""
        for _ in range(calls):
            self.asked += 1
            assert str(self.asked) == (await self.box.call(str(self.asked))).text

    def soon(self, calls: int = 1) -> asyncio.Task[None]:
        """Make calls meanwhile."""
        return asyncio.ensure_future(self.right(calls))


if "daemon" in available():

    @pytest.fixture
    def broken(tmp_path: Path) -> Iterator[Broken]:
        """Give a session behind a daemon of its own."""
        (tmp_path / "a session's").mkdir(mode=0o700)
        server = daemon(tmp_path)
        server.start()
        yield Broken(Box(tmp_path, lambda: DaemonHost("http://127.0.0.1:1")), server)
        server.kill()

    class TestDaemonFaults:
        def test_stopped_and_continued(self, broken: Broken) -> None:
            """A daemon that stands still loses no call; it goes on where it was."""

            async def tell(_runner: RemoteRunner) -> None:
                broken.server.freeze()
                calls = broken.soon()
                await asyncio.sleep(1.5)
                broken.server.thaw()
                await calls

            play(lambda: broken.story(tell))

        def test_killed_and_restarted(self, broken: Broken) -> None:
            """A daemon that is killed under a window and comes back loses no call."""

            async def tell(_runner: RemoteRunner) -> None:
                broken.server.kill()
                calls = broken.soon()
                await asyncio.sleep(0.5)
                broken.server.start()
                await calls

            play(lambda: broken.story(tell))

        def test_connections_cut(self, broken: Broken) -> None:
            """Connections that are reset again and again lose no call."""

            async def tell(_runner: RemoteRunner) -> None:
                moments = random.Random(8)
                for _ in range(12):
                    call = broken.soon()
                    # One cut in each call, wherever it is by then; a machine that is too busy to
                    # answer at all between two cuts would be no fault of the runner's.
                    await asyncio.wait([call], timeout=moments.uniform(0.0, 0.15))
                    broken.proxy.cut()
                    await call

            play(lambda: broken.story(tell, demote_after=100))

        def test_refused(self, broken: Broken) -> None:
            """A host that refuses for a while is served again as soon as it takes connections."""

            async def tell(_runner: RemoteRunner) -> None:
                await broken.proxy.refuse()
                calls = broken.soon()
                await asyncio.sleep(0.7)
                await broken.proxy.start()
                await calls

            play(lambda: broken.story(tell))

        def test_black_hole(self, broken: Broken) -> None:
            """What is swallowed without a word is sent again once its time is over."""

            async def tell(runner: RemoteRunner) -> None:
                broken.proxy.blackhole = True
                calls = broken.soon()
                await asyncio.sleep(1.5)
                broken.proxy.blackhole = False
                runner._loop.sessions[0].waiting.suspect()  # type: ignore[union-attr]  # it runs
                await calls

            play(lambda: broken.story(tell))

        def test_directory_replaced(self, broken: Broken) -> None:
            """A directory that is deleted and made again, again and again, is found each time."""

            async def tell(_runner: RemoteRunner) -> None:
                for _ in range(3):
                    shutil.rmtree(broken.box.session)
                    await asyncio.sleep(0.1)
                    broken.box.session.mkdir(mode=0o700)
                    await broken.right(1)

            play(lambda: broken.story(tell))

        def test_full_disk(self, broken: Broken) -> None:
            """An answer that cannot be written is written once there is room again."""

            class Full(DaemonHost):
                """Runs commands that cannot write a byte, while it is full."""

                full = False

                async def _run(self, argv: Sequence[str], *more: Any, **options: Any) -> Done:
                    if Full.full:
                        argv = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *argv]
                    return await super()._run(argv, *more, **options)

            broken.host = Full  # type: ignore[method-assign]  # the test's own host

            async def tell(runner: RemoteRunner) -> None:
                Full.full = True
                call = broken.soon()
                await broken.box.until(lambda: runner.counters.executed > 2)
                await asyncio.sleep(0.5)
                assert not call.done()
                Full.full = False
                await call

            play(lambda: broken.story(tell))

        def test_answers_cut_and_repeated(self, broken: Broken) -> None:
            """Output that comes cut, empty, twice or late makes nothing run twice."""

            class Mangling(DaemonHost):
                """Mangles what drains say."""

                drains = 0
                before = Done(0, "", "")

                async def run(
                    self, argv: Sequence[str], *, seconds: float, max_output: int, kind: str = "run"
                ) -> Done:
                    done = await super().run(
                        argv, seconds=seconds, max_output=max_output, kind=kind
                    )
                    if kind != "drain":
                        return done
                    self.drains += 1
                    before, Mangling.before = Mangling.before, done
                    half = done._replace(stdout=done.stdout[: len(done.stdout) // 2])
                    return (done, half, done._replace(stdout=""), before)[self.drains % 4]

            broken.host = Mangling  # type: ignore[method-assign]  # the test's own host

            async def tell(_runner: RemoteRunner) -> None:
                await broken.right(12)

            play(lambda: broken.story(tell, demote_after=100))

        def test_watch_that_is_broken(
            self, broken: Broken, caplog: pytest.LogCaptureFixture
        ) -> None:
            """Where no drain can wait, the relay is demoted in one line, and polls."""

            class Deaf(DaemonHost):
                """Ends each window as a failure."""

                async def run(
                    self, argv: Sequence[str], *, seconds: float, max_output: int, kind: str = "run"
                ) -> Done:
                    if kind == "drain":
                        return Done(1, "", "no")
                    return await super().run(
                        argv, seconds=seconds, max_output=max_output, kind=kind
                    )

            broken.host = Deaf  # type: ignore[method-assign]  # the test's own host

            async def tell(runner: RemoteRunner) -> None:
                await broken.box.until(lambda: runner.counters.demotions)
                await broken.right(5)

            play(lambda: broken.story(tell))
            lines = [r.getMessage() for r in caplog.records if "relay_demoted" in r.getMessage()]
            assert 1 == len(lines)

    class TestOrphans:
        def test_none_after_a_kill(self, broken: Broken) -> None:
            """A runner that is killed under a window leaves a process that its successor ends."""
            box = broken.box
            (box.folder / "tools.toml").write_text('[tools.echo]\ncommand = ["cat"]\n')
            first = serve(box, broken.server.port)
            second = None
            try:
                wait_for(lambda: drains_of(box.session), first)
                (old,) = drains_of(box.session)
                first.send_signal(signal.SIGKILL)
                first.wait()
                assert os.path.exists(f"/proc/{old}")
                second = serve(box, broken.server.port)
                wait_for(lambda: not os.path.exists(f"/proc/{old}"), second)
                wait_for(lambda: drains_of(box.session), second)
                second.terminate()
                second.wait(PATIENCE)
                wait_for(lambda: not drains_of(box.session), None)
                assert b"" == box.take(".relay-lease")
            finally:
                for runner in (first, second):
                    if runner is not None:
                        runner.kill()
                        runner.communicate()


if "ssh" in available():

    class TestSshFaults:
        def test_server_that_comes_again(self, tmp_path: Path) -> None:
            """A connection that dies under a window is made anew, and no call is lost."""
            from relay.hosts.ssh import SshHost  # noqa: PLC0415 - only where there is a server

            (tmp_path / "a session's").mkdir(mode=0o700)
            server = sshd(tmp_path)
            server.start()
            proxy = Proxy(server.port)

            def connect() -> Host:
                (tmp_path / "known_hosts").write_text(
                    f"[127.0.0.1]:{proxy.port} "
                    + " ".join((tmp_path / "host_key.pub").read_text().split()[:2])
                )
                return SshHost(
                    f"127.0.0.1:{proxy.port}",
                    key_file=str(tmp_path / "client_key"),
                    known_hosts=str(tmp_path / "known_hosts"),
                )

            box = Box(tmp_path, connect)

            async def story() -> None:
                await proxy.start()
                async with box.serving(**QUICK) as runner:
                    assert (await box.call("a")).ok
                    for number in range(3):
                        proxy.cut()
                        assert str(number) == (await box.call(str(number))).text
                    assert 4 == runner.counters.executed
                await proxy.stop()

            try:
                play(story)
            finally:
                server.kill()


def serve(box: Box, port: int) -> subprocess.Popen[bytes]:
    """Start a runner as a program."""
    own = {n: v for n, v in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    environ = {
        **own,
        "RELAY_BACKEND": "daemon",
        "RELAY_DAEMON_URL": f"http://127.0.0.1:{port}",
        "RELAY_REMOTE_WATCH_ENABLED": "true",
        "RELAY_DIR": str(box.session),
        "RELAY_TOOLS_FILE": str(box.folder / "tools.toml"),
        "RELAYCONF_STATE_DIR": str(box.folder / "state"),
    }
    argv = [sys.executable, "-m", "relay", "serve"]
    return subprocess.Popen(argv, env=environ, stderr=subprocess.PIPE)


def drains_of(session: Path) -> list[int]:
    """Return the processes that wait in a session; those that only look are not among them."""
    asked = f"dir={session}".encode()
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            words = Path(f"/proc/{name}/cmdline").read_bytes() if name.isdigit() else b""
            if asked in words and b"\0window=0." not in words and b"\0window=" in words:
                found.append(int(name))
    return found


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes] | None) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
