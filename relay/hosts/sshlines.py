"""Connections to one SSH server: as few as the commands at once need, and all of them verified.

A server allows some channels on a connection, ten with OpenSSH's defaults. What is short travels on
the first one; a command that finds no room opens another connection. After a failure the next
attempt waits for a growing, jittered pause, in which operations fail at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import asyncssh

from relay.hosts.host import Denied, Unreachable
from relay.hosts.sshtarget import SshTarget
from relay.hosts.standing import Standing

#: Commands at once on one connection: of ten channels one is for files, one for the shell that
#: publishes, and some may still be closing.
COMMANDS = 6

#: Seconds between two signs of life on an idle connection, and how many may be missed.
_ALIVE_EVERY = 10
_ALIVE_MISSED = 2

#: Pauses after a failed connection, in seconds: the first, the longest; each is cut by up to 20 %.
_PAUSE_FIRST = 0.1
_PAUSE_LONGEST = 1.0
_JITTER = 0.2

#: A connection that is younger than this, in seconds, was made after the trouble that one hears of.
_YOUNG = 0.5


class Line:
    """One connection, how many use it, and what stays open on it once it was needed."""

    __slots__ = ("began", "commands", "connection", "most", "retired", "sftp", "standing", "users")

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self.connection = connection
        self.began = monotonic()
        self.users = 0
        self.commands = 0
        self.most = COMMANDS
        self.retired = False
        self.sftp: asyncssh.SFTPClient | None = None
        self.standing: Standing | None = None

    def is_full(self) -> None:
        """Note that the server allowed no further channel here."""
        self.most = max(1, min(self.most, self.commands - 1))

    def drop(self) -> None:
        """Close it at once."""
        if self.standing is not None:
            self.standing.close()
        self.connection.abort()


class Lines:
    """The connections of one host.

    Args:
        target: where, and as whom.
        name: what the host is called.
        key_file: the private key; without it, those in the user's ``.ssh``.
        known_hosts: the file of accepted host keys; without it, the user's ``.ssh/known_hosts``.
        rand: a source of jitter.
    """

    def __init__(
        self,
        target: SshTarget,
        name: str,
        *,
        key_file: str | None,
        known_hosts: str | None,
        rand: Callable[[], float],
    ) -> None:
        self._target = target
        self._name = name
        self._key_file = key_file
        self._known_hosts = known_hosts
        self._random = rand
        self._lines: list[Line] = []
        self._connecting = asyncio.Lock()
        self._pause = 0.0
        self._not_before = 0.0
        self._why = ""
        self._closed = False
        self.open = 0

    @asynccontextmanager
    async def borrow(self, seconds: float, *, command: bool = False) -> AsyncIterator[Line]:
        """Give a connection for one operation, with room for a command where it is one.

        Args:
            seconds: how long a connection may take to be made.
            command: whether the operation is a command, with a channel of its own.

        Raises:
            Unreachable: there is none, and it is too soon for another attempt.
            Denied: a key or the known hosts cannot be read.
            OSError, asyncssh.Error: none can be made.
        """
        line = self._find(command=command)
        if line is None:
            async with self._connecting:
                line = self._find(command=command) or await self._connected(seconds)
                line.users += 1
        else:
            line.users += 1
        line.commands += command
        try:
            yield line
        finally:
            line.users -= 1
            line.commands -= command
            self._drop_where_spare(line)

    def _find(self, *, command: bool) -> Line | None:
        self._lines = [line for line in self._lines if not line.connection.is_closed()]
        for line in self._lines:
            if not command or line.commands < line.most:
                return line
        return None

    def _drop_where_spare(self, line: Line) -> None:
        if line.users:
            return
        if line.retired:
            line.drop()
        elif line in self._lines[1:]:
            self._lines.remove(line)
            line.drop()

    def renew(self) -> None:
        """Use none of the connections that are there for anything new."""
        now = monotonic()
        retired = [line for line in self._lines if now - line.began >= _YOUNG]
        self._lines = [line for line in self._lines if line not in retired]
        for line in retired:
            line.retired = True
            self._drop_where_spare(line)

    async def close(self) -> None:
        """Close all of them."""
        self._closed = True
        lines, self._lines = self._lines, []
        for line in lines:
            line.retired = True
            line.drop()
        for line in lines:
            await line.connection.wait_closed()

    async def _connected(self, seconds: float) -> Line:
        if self._closed:
            raise Unreachable(f"{self._name}: the connection was closed")
        if monotonic() < self._not_before:
            raise Unreachable(f"{self._name}: not connected ({self._why}); tried again in a moment")
        try:
            line = Line(await self._connect(seconds, self._proofs()))
        except BaseException as error:
            self._why = str(error) or type(error).__name__
            self._pause = min(max(self._pause * 2, _PAUSE_FIRST), _PAUSE_LONGEST)
            cut = 1 - _JITTER * self._random()
            self._not_before = monotonic() + self._pause * cut
            raise
        self._pause = 0.0
        self._lines.append(line)
        return line

    def _proofs(self) -> dict[str, Any]:
        """Return who this is, and which servers are believed; read anew for each connection.

        Raises:
            Denied: a file cannot be used.
        """
        proofs: dict[str, Any] = {}
        name, path = "RELAY_SSH_KEY_FILE", self._key_file
        try:
            if path is not None:
                proofs["client_keys"] = asyncssh.load_keypairs(path)
            name, path = "RELAY_SSH_KNOWN_HOSTS", self._known_hosts
            if path is not None:
                proofs["known_hosts"] = asyncssh.read_known_hosts(path)
        except OSError as error:
            raise Denied(f"{self._name}: {name}: {path}: {error.strerror}") from None
        except ValueError as error:
            raise Denied(f"{self._name}: {name}: {path}: {error}") from None
        return proofs

    async def _connect(
        self, seconds: float, proofs: dict[str, Any]
    ) -> asyncssh.SSHClientConnection:
        lines = self

        class Client(asyncssh.SSHClient):
            def connection_made(self, _connection: Any) -> None:
                lines.open += 1

            def connection_lost(self, _error: Exception | None) -> None:
                lines.open -= 1

        options = dict(proofs)
        if self._target.user is not None:
            options["username"] = self._target.user
        return await asyncssh.connect(
            self._target.host,
            self._target.port,
            client_factory=Client,
            config=None,
            agent_path=None,
            agent_forwarding=False,
            preferred_auth="publickey",
            connect_timeout=seconds,
            login_timeout=seconds,
            keepalive_interval=_ALIVE_EVERY,
            keepalive_count_max=_ALIVE_MISSED,
            **options,
        )
