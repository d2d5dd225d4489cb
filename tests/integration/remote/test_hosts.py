"""Every host keeps what ``Host`` promises, and refuses what it must, against real servers."""

from __future__ import annotations

import asyncio
import gc
import getpass
import os
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from relay.hosts import conformance
from relay.hosts.daemon import DaemonHost
from relay.hosts.host import Denied, Host, HostError, TimedOut, Unreachable
from relay.hosts.ssh import SshHost
from relay.hosts.standing import Standing, StandingError
from tests.servers.running import Server, available, free_port

Opening = Callable[[Path], AbstractAsyncContextManager[Host]]


class TestConformance:
    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_host_keeps_its_promises(
        self, check: conformance.Check, opening: Opening, tmp_path: Path
    ) -> None:
        """A relay can rely on every sentence of the host protocol."""
        directory = tmp_path / "a directory's"
        directory.mkdir()

        async def run() -> None:
            async with opening(directory) as host:
                await check(host, str(directory))

        asyncio.run(run())


class TestContinuousIntegration:
    def test_has_every_server(self) -> None:
        """A green run in continuous integration stands for a real daemon and a real sshd."""
        wanted = ["memory", "daemon", "ssh"] if os.environ.get("CI") else ["memory"]
        assert set(wanted) <= set(available())


def refusal(host: Host) -> HostError:
    """Return what a listing of ``/`` is refused with."""

    async def look() -> HostError:
        try:
            await host.entries("/")
        except HostError as error:
            return error
        finally:
            await host.close()
        raise AssertionError("it was not refused")

    return asyncio.run(look())


if "daemon" in available():

    class TestDaemon:
        def test_wrong_token(self, daemon_server: Server) -> None:
            """A wrong token is told at once, and is not shown."""
            url = f"http://127.0.0.1:{daemon_server.port}"
            error = refusal(DaemonHost(url, token="wr0ng"))
            assert isinstance(error, Denied)
            assert "wr0ng" not in str(error)

        def test_nobody_there(self) -> None:
            """A daemon that does not run is unreachable, with its address in the message."""
            url = f"http://127.0.0.1:{free_port()}"
            error = refusal(DaemonHost(url))
            assert isinstance(error, Unreachable)
            assert url in str(error)


class TestStall:
    def test_answer_that_stops_half_way(self) -> None:
        """Where nothing more of it comes, it is given up, however long the command may run."""

        async def stalling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"exit')
            await reader.read(-1)
            writer.transport.abort()

        async def story() -> None:
            listening = await asyncio.start_server(stalling, "127.0.0.1", 0)
            port = listening.sockets[0].getsockname()[1]
            host = DaemonHost(f"http://127.0.0.1:{port}", timeout=0.2)
            async with asyncio.timeout(20):
                with pytest.raises(TimedOut, match="stopped half-way"):
                    await host.run(["true"], seconds=600, max_output=100)
            await host.close()
            listening.close()

        asyncio.run(story())


class TestStanding:
    def test_connection_that_is_lost(self) -> None:
        """The shell that publishes ends with its connection, and nothing is said of it."""
        reported: list[Any] = []

        class Lost:
            """A process on a connection that breaks."""

            stdout = stdin = property(lambda self: self)

            async def readline(self) -> bytes:
                raise asyncssh.ConnectionLost("Connection lost")

            def write(self, data: bytes) -> None:
                """Swallow it."""

            def close(self) -> None:
                """Do nothing."""

        async def story() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, told: reported.append(told))
            standing = Standing(Lost())
            with pytest.raises(StandingError):
                await standing.publish("/a", b"", None)
            await asyncio.sleep(0)
            assert standing.broken
            del standing
            gc.collect()

        asyncio.run(story())
        assert [] == reported


class TestUrl:
    @pytest.mark.parametrize(
        "url", ["", "127.0.0.1:80", "ftp://host", "http://", "http://u:pa55@host", "http://h:x"]
    )
    def test_unusable(self, url: str) -> None:
        """A url that cannot be used is refused before anything is sent, without its secrets."""
        with pytest.raises(HostError) as caught:
            DaemonHost(url)
        assert "pa55" not in str(caught.value)


if "ssh" in available():

    class TestSsh:
        def test_unknown_host_key(self, ssh_server: Server, ssh_folder: Path) -> None:
            """A server with another key than the known one is never logged in to."""
            host = SshHost(
                f"{getpass.getuser()}@127.0.0.1:{ssh_server.port}",
                key_file=str(ssh_folder / "client_key"),
                known_hosts=str(ssh_folder / "strangers"),
            )
            assert isinstance(refusal(host), Denied)

        def test_unknown_client_key(self, ssh_server: Server, ssh_folder: Path) -> None:
            """A key that the server does not know is told as a refused login."""
            host = SshHost(
                f"{getpass.getuser()}@127.0.0.1:{ssh_server.port}",
                key_file=str(ssh_folder / "host_key"),
                known_hosts=str(ssh_folder / "known_hosts"),
            )
            assert isinstance(refusal(host), Denied)

        @pytest.mark.parametrize(
            ("given", "named"),
            [
                ({"key_file": "nowhere"}, "RELAY_SSH_KEY_FILE: nowhere: No such file"),
                ({"key_file": "known_hosts"}, "RELAY_SSH_KEY_FILE: .*: Invalid private key"),
                ({"known_hosts": "nowhere"}, "RELAY_SSH_KNOWN_HOSTS: nowhere: No such file"),
            ],
        )
        def test_unusable_files(
            self, ssh_server: Server, ssh_folder: Path, given: dict[str, str], named: str
        ) -> None:
            """A key or known hosts that cannot be read are named, each time that it is tried."""
            known = {name: str(ssh_folder / file) for name, file in given.items()}
            chosen = {n: v if "nowhere" not in v else "nowhere" for n, v in known.items()}
            options: dict[str, Any] = {
                "key_file": str(ssh_folder / "client_key"),
                "known_hosts": str(ssh_folder / "known_hosts"),
                **chosen,
            }
            error = refusal(SshHost(f"127.0.0.1:{ssh_server.port}", **options))
            assert isinstance(error, Denied)
            assert re.search(named, str(error))

        def test_why_there_is_no_connection(self) -> None:
            """While the next attempt waits, operations fail at once and say why the last did."""

            async def run() -> list[str]:
                host = SshHost(f"127.0.0.1:{free_port()}")
                told = []
                for _ in range(2):
                    with pytest.raises(Unreachable) as caught:
                        await host.stat("/")
                    told.append(str(caught.value))
                await host.close()
                return told

            assert all("Connect call failed" in text for text in asyncio.run(run()))

        def test_more_commands_than_one_connection_allows(
            self, ssh_server: Server, ssh_folder: Path
        ) -> None:
            """Commands that find no channel open a connection, which goes when it is not needed."""

            async def run() -> tuple[int, int]:
                host = SshHost(
                    f"{getpass.getuser()}@127.0.0.1:{ssh_server.port}",
                    key_file=str(ssh_folder / "client_key"),
                    known_hosts=str(ssh_folder / "known_hosts"),
                )
                await host.entries("/")
                argv = ["sh", "-c", "sleep 0.5; echo x"]
                running = [host.run(argv, seconds=20, max_output=9) for _ in range(20)]
                tasks = [asyncio.ensure_future(one) for one in running]
                while not all(task.done() for task in tasks):
                    most = host.sockets
                    await asyncio.sleep(0.05)
                assert {"x\n"} == {task.result().stdout for task in tasks}
                await host.entries("/")
                left = host.sockets
                await host.close()
                return most, left

            most, left = asyncio.run(run())
            assert 2 <= most <= 5
            assert 1 == left

        def test_one_connection(self, ssh_server: Server, ssh_folder: Path) -> None:
            """However much is asked at once, there is one connection."""

            async def run() -> int:
                host = SshHost(
                    f"{getpass.getuser()}@127.0.0.1:{ssh_server.port}",
                    key_file=str(ssh_folder / "client_key"),
                    known_hosts=str(ssh_folder / "known_hosts"),
                )
                await asyncio.gather(*(host.entries("/") for _ in range(12)))
                sockets = host.sockets
                await host.close()
                return sockets

            assert 1 == asyncio.run(run())


class TestTarget:
    @pytest.mark.parametrize("target", ["", "@host", "user@", "u@h:0", "u@h:99999", "u@h -o x"])
    def test_unusable(self, target: str) -> None:
        """A target that is none is refused before anything is sent."""
        with pytest.raises(HostError):
            SshHost(target)
