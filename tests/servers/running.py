"""Real servers for tests of the remote hop: a sandbox daemon and an sshd, on loopback.

They are found on PATH, or by ``SANDBOX_AGENT_FOR_TESTS`` and ``SSHD_FOR_TESTS``; the daemon is
installed where it is missing and npm is there. Each server takes a free port and keeps it, so that
one that was killed comes back where it was.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

PATIENCE = 20.0


def _draw() -> Iterator[int]:
    """Yield ports in any order, each once, and none that a run's other workers draw.

    They lie below those that Linux gives to outgoing connections, one of which would otherwise take
    the port of a server that is down for a moment.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ports = range(10_240 + worker, 32_768, workers)
    yield from random.sample(ports, len(ports))


_ports = _draw()
_HERE = Path(__file__).resolve().parent


@cache
def daemon_program() -> str | None:
    """Return the daemon's program, ``None`` where it is not to be had."""
    named = os.environ.get("SANDBOX_AGENT_FOR_TESTS") or shutil.which("sandbox-agent")
    if named:
        return named
    done = subprocess.run([_HERE / "install"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def sshd_program() -> str | None:
    """Return the program of OpenSSH's server, ``None`` where it is not installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    return os.environ.get("SSHD_FOR_TESTS") or shutil.which("sshd", path=path)


def available() -> list[str]:
    """Return which hosts can be tested here; continuous integration has to have all of them."""
    found = ["memory"]
    if daemon_program():
        found.append("daemon")
    if sshd_program():
        found.append("ssh")
    return found


def free_port() -> int:
    """Return a port of loopback that nobody listens on, another one each time."""
    for port in _ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is left")


class Server:
    """A server process on one port."""

    def __init__(self, argv: Sequence[str], port: int, log: Path, path: str | None = None) -> None:
        self._argv = list(argv)
        self._log = log
        self._environ = {
            **{n: v for n, v in os.environ.items() if n in {"HOME", "LANG", "TMPDIR"}},
            "PATH": path or _plain_path(),
        }
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environ
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """End it without a word."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Stop it where it is."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


def _plain_path() -> str:
    """Return a PATH without wrappers that choose an interpreter at each start."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(f for f in folders if Path(f).name != "shims")


def daemon(folder: Path, *, token: str = "", path: str | None = None) -> Server:
    """Return a sandbox daemon, not yet started.

    Args:
        folder: where its log goes.
        token: what it asks for; without it, nothing.
        path: the PATH of what it runs.
    """
    program, port = daemon_program(), free_port()
    assert program is not None
    asked = ["--token", token] if token else ["--no-token"]
    argv = [program, "server", *asked, "--no-telemetry", "--host", "127.0.0.1"]
    return Server([*argv, "--port", str(port)], port, folder / "daemon.log", path)


def sshd(folder: Path) -> Server:
    """Return an OpenSSH server with keys and configuration of its own, not yet started.

    ``folder`` then holds ``client_key``, ``known_hosts`` and ``strangers``, which lacks its key.
    """
    program, port = sshd_program(), free_port()
    assert program is not None
    for name in ("host_key", "client_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    public = (folder / "host_key.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    other = (folder / "client_key.pub").read_text().split()[:2]
    (folder / "strangers").write_text(f"[127.0.0.1]:{port} {' '.join(other)}\n")
    (folder / "authorized_keys").write_text((folder / "client_key.pub").read_text())
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n"
        f"PidFile none\nAuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\n"
        "UsePAM no\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        # No start-up file of whoever runs the tests is read at each command.
        f"SetEnv HOME={folder}\n"
    )
    if os.geteuid() == 0:
        # The server of a packaged OpenSSH, run as root, wants this folder to be there.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    argv = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
    return Server(argv, port, folder / "sshd.log")
