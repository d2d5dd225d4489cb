"""Real sandbox daemons and SSH servers on loopback, and hosts that reach them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from relay.hosts.daemon import DaemonHost
from relay.hosts.host import Host
from relay.hosts.memory import MemoryHost
from relay.hosts.ssh import SshHost
from tests.servers.box import TOKEN
from tests.servers.running import Server, available, daemon, sshd

#: Opens a host for a directory and closes it again.
Opening = Callable[[Path], AbstractAsyncContextManager[Host]]


@pytest.fixture(scope="session")
def daemon_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a sandbox daemon that asks for a token."""
    server = daemon(tmp_path_factory.mktemp("daemon"), token=TOKEN)
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def ssh_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the SSH server's keys are."""
    return tmp_path_factory.mktemp("ssh")


@pytest.fixture(scope="session")
def ssh_server(ssh_folder: Path) -> Iterator[Server]:
    """Run an SSH server that knows one key."""
    server = sshd(ssh_folder)
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=available())
def opening(request: pytest.FixtureRequest) -> Opening:
    """Return how each host at hand is opened."""
    kind = request.param
    if kind == "memory":
        return _memory
    server = request.getfixturevalue("daemon_server" if kind == "daemon" else "ssh_server")
    folder = request.getfixturevalue("ssh_folder") if kind == "ssh" else Path()

    @asynccontextmanager
    async def opened(_directory: Path) -> AsyncIterator[Host]:
        host: Host
        if kind == "daemon":
            host = DaemonHost(f"http://127.0.0.1:{server.port}", token=TOKEN)
        else:
            host = SshHost(
                f"{_user()}@127.0.0.1:{server.port}",
                key_file=str(folder / "client_key"),
                known_hosts=str(folder / "known_hosts"),
            )
        try:
            yield host
        finally:
            await host.close()

    return opened


@asynccontextmanager
async def _memory(directory: Path) -> AsyncIterator[Host]:
    host = MemoryHost(str(directory))
    yield host
    await host.close()


def _user() -> str:
    import getpass  # noqa: PLC0415 - reads the password database, for one fixture

    return getpass.getuser()
