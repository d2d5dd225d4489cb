"""A sandbox behind an SSH server as a host; needs the extra ``ssh`` (asyncssh).

One connection carries everything: commands as channels of it, files by SFTP. The server's key is
always verified; no agent is asked, nothing is forwarded, no configuration file is read. A
connection that broke is made anew by the next operation, after a growing, jittered pause in which
operations fail at once.
"""

from __future__ import annotations

import asyncio
import posixpath
import random
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any

from relay.hosts.host import (
    Denied,
    Done,
    Entry,
    Exists,
    Faulty,
    Host,
    HostError,
    Missing,
    NoCommand,
    TimedOut,
    TooLarge,
    Unreachable,
)
from relay.hosts.publishing import judge, publish_argv
from relay.hosts.sshtarget import beginning, bounded, read_target
from relay.hosts.standing import PROGRAM, Standing, StandingError
from relay.settings import RelaySettings

try:
    import asyncssh
except ImportError:
    raise HostError("RELAY_BACKEND=ssh needs asyncssh: install relayconf[ssh]") from None

#: Operations at once beside callers' own commands; OpenSSH allows ten channels a connection.
_SHORT_OPERATIONS = 4

#: Seconds between two signs of life on an idle connection, and how many may be missed.
_ALIVE_EVERY = 10
_ALIVE_MISSED = 2

#: Pauses after a failed connection, in seconds: the first, the longest; each is cut by up to 20 %.
_PAUSE_FIRST = 0.1
_PAUSE_LONGEST = 1.0
_JITTER = 0.2

#: Seconds that an answer may come after the command's own time limit.
_LATE = 1.0

#: The longest argument that Linux hands to a program; a shell gets the whole command as one.
_LONGEST_COMMAND = 128 * 1024 - 1

_CANNOT_RUN = frozenset({126, 127})


def open_ssh(settings: RelaySettings) -> SshHost:
    """Return the host that the settings describe; nothing is sent yet.

    Raises:
        HostError: settings that it needs are missing or unusable.
    """
    if settings.ssh_target is None:
        raise HostError("RELAY_BACKEND is ssh; set RELAY_SSH_TARGET to user@host:port")
    key, known = settings.ssh_key_file, settings.ssh_known_hosts
    return SshHost(
        settings.ssh_target,
        key_file=None if key is None else str(key),
        known_hosts=None if known is None else str(known),
        timeout=settings.file_op_timeout.total_seconds(),
    )


class _Line:
    """One connection, how many use it, and what stays open on it once it was needed."""

    __slots__ = ("connection", "retired", "sftp", "standing", "users")

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self.connection = connection
        self.users = 0
        self.retired = False
        self.sftp: asyncssh.SFTPClient | None = None
        self.standing: Standing | None = None


class SshHost(Host):
    """A sandbox behind an SSH server, whose login shell is a POSIX one.

    Args:
        target: ``user@host:port``.
        key_file: the private key; without it, those in the user's ``.ssh``.
        known_hosts: the file of accepted host keys; without it, the user's ``.ssh/known_hosts``.
        timeout: seconds that an operation which is no command may take.
        rand: a source of jitter.

    Raises:
        HostError: the target is none.
    """

    streams = True

    def __init__(
        self,
        target: str,
        *,
        key_file: str | None = None,
        known_hosts: str | None = None,
        timeout: float = 10.0,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._target = read_target(target)
        where = f"{self._target.host}:{self._target.port}"
        who = f"{self._target.user}@" if self._target.user else ""
        super().__init__(f"ssh {who}{where}", timeout=timeout)
        self._key_file = key_file
        self._known_hosts = known_hosts
        self._random = rand
        self._line: _Line | None = None
        self._connecting = asyncio.Lock()
        self._short = asyncio.Semaphore(_SHORT_OPERATIONS)
        self._starting = asyncio.Lock()
        self._stands = True
        self._pause = 0.0
        self._not_before = 0.0
        self._closed = False
        self._lines = 0

    @property
    def sockets(self) -> int:
        """See ``Host.sockets``."""
        return self._lines

    async def run(
        self, argv: Sequence[str], *, seconds: float, max_output: int, kind: str = "run"
    ) -> Done:
        """See ``Host.run``. The login shell is given the arguments quoted, and nothing else."""
        return await self._execute(argv, b"", seconds=seconds, most=max_output, kind=kind)

    async def follow(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        max_output: int,
        kind: str,
        tell: Callable[[bytes], None],
    ) -> Done:
        """See ``Host.follow``."""
        return await self._execute(
            argv, b"", seconds=seconds, most=max_output, kind=kind, tell=tell
        )

    async def _execute(
        self,
        argv: Sequence[str],
        data: bytes,
        *,
        seconds: float,
        most: int,
        kind: str,
        tell: Callable[[bytes], None] | None = None,
    ) -> Done:
        what = f"running {posixpath.basename(argv[0])}"
        command = f"exec {shlex.join(argv)}"
        if len(command.encode("utf-8", "surrogateescape")) > _LONGEST_COMMAND:
            raise TooLarge(f"{self.name}: {what}: the command is longer than 128 KiB")
        with self._mapping(what, seconds):
            try:
                async with asyncio.timeout(seconds + _LATE), self._using() as line:
                    self.requests[kind] += 1
                    return await self._command(line, command, data, most, tell)
            except TimeoutError:
                if data:
                    raise
                return Done(None, "", "", timed_out=True)

    async def _command(
        self,
        line: _Line,
        command: str,
        data: bytes,
        most: int,
        tell: Callable[[bytes], None] | None,
    ) -> Done:
        process = await line.connection.create_process(command, encoding=None)
        try:
            if data:
                process.stdin.write(data)
            process.stdin.write_eof()
            out, err = await asyncio.gather(
                bounded(process.stdout, most, tell), beginning(process.stderr, most)
            )
            if len(out) <= most:
                await process.wait_closed()
        finally:
            # Closing tells the server that nobody reads any more; the command may go on.
            process.close()
        code = process.returncode
        said = err.decode(errors="replace")
        if code in _CANNOT_RUN:
            raise NoCommand(f"{self.name}: it cannot be started: {said.strip()[:200]}")
        text = out[:most].decode(errors="replace")
        return Done(code, text, said, cut=len(out) > most)

    async def entries(self, path: str, *, kind: str = "list") -> list[Entry]:
        """See ``Host.entries``."""
        async with self._files(f"listing {path}", kind) as sftp:
            names = [n async for n in sftp.scandir(path)]
        return [_entry(str(n.filename), n.attrs) for n in names if n.filename not in {".", ".."}]

    async def stat(self, path: str) -> Entry:
        """See ``Host.stat``."""
        async with self._files(f"looking at {path}", "stat") as sftp:
            return _entry(posixpath.basename(path), await sftp.lstat(path))

    async def read(self, path: str, *, limit: int) -> bytes:
        """See ``Host.read``."""
        async with self._files(f"reading {path}", "read") as sftp:
            async with sftp.open(path, "rb") as file:
                data: bytes = await file.read(limit + 1)
            if len(data) > limit:
                raise TooLarge(f"{self.name}: {path} is longer than {limit} bytes")
            return data

    async def write(
        self, path: str, data: bytes, *, then_remove: str | None = None, kind: str = "write"
    ) -> None:
        """See ``Host.write``. The bytes travel on the input of a shell that stays, or of one."""
        if self._stands and Standing.can(path, data, then_remove):
            try:
                code = await self._by_standing(path, data, then_remove, kind)
            except StandingError:
                # This login's programs are not what it needs, or the connection is gone; what was
                # published so may be published again.
                self._stands = False
            else:
                judge(self.name, path, Done(code, "", ""))
                return
        argv = publish_argv(path, len(data), "-", gone=then_remove)
        async with self._short:
            done = await self._execute(argv, data, seconds=self.timeout, most=4096, kind=kind)
        if done.timed_out:
            raise TimedOut(f"{self.name}: writing {path} took longer than {self.timeout:g} s")
        judge(self.name, path, done)

    async def _by_standing(self, path: str, data: bytes, gone: str | None, kind: str) -> int:
        with self._mapping(f"writing {path}", self.timeout):
            async with asyncio.timeout(self.timeout), self._using() as line:
                self.requests[kind] += 1
                async with self._starting:
                    if line.standing is None or line.standing.broken:
                        command = f"exec sh -c {shlex.quote(PROGRAM)}"
                        process = await line.connection.create_process(
                            command, encoding=None, stderr=asyncssh.DEVNULL
                        )
                        line.standing = Standing(process)
                try:
                    return await line.standing.publish(path, data, gone)
                except StandingError:
                    if line.connection.is_closed():
                        raise Unreachable(f"{self.name}: the connection broke") from None
                    raise

    async def move(self, source: str, target: str) -> None:
        """See ``Host.move``."""
        async with self._files(f"moving {source}", "move") as sftp:
            try:
                # Version 3 of the protocol refuses where the target is there.
                await sftp.rename(source, target)
            except asyncssh.SFTPFailure:
                if await sftp.lexists(target):
                    raise Exists(f"{self.name}: {target} is there already") from None
                if not await sftp.lexists(source):
                    raise Missing(f"{self.name}: {source} is not there") from None
                raise

    async def remove(self, path: str) -> None:
        """See ``Host.remove``."""
        try:
            async with self._files(f"removing {path}", "remove") as sftp:
                await sftp.remove(path)
        except Missing:
            return

    def renew(self) -> None:
        """See ``Host.renew``."""
        line, self._line = self._line, None
        if line is not None:
            line.retired = True
            self._drop_if_unused(line)

    async def close(self) -> None:
        """See ``Host.close``."""
        self._closed = True
        line = self._line
        self.renew()
        if line is not None:
            self._drop(line)
            await line.connection.wait_closed()

    @asynccontextmanager
    async def _files(self, what: str, kind: str) -> AsyncIterator[asyncssh.SFTPClient]:
        with self._mapping(what, self.timeout):
            async with asyncio.timeout(self.timeout), self._short, self._using() as line:
                self.requests[kind] += 1
                if line.sftp is None:
                    line.sftp = await line.connection.start_sftp_client()
                yield line.sftp

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[_Line]:
        line = await self._connected()
        line.users += 1
        try:
            yield line
        finally:
            line.users -= 1
            self._drop_if_unused(line)

    def _drop_if_unused(self, line: _Line) -> None:
        if line.retired and line.users == 0:
            self._drop(line)

    @staticmethod
    def _drop(line: _Line) -> None:
        if line.standing is not None:
            line.standing.close()
        line.connection.abort()

    async def _connected(self) -> _Line:
        async with self._connecting:
            line = self._line
            if line is not None and not line.connection.is_closed():
                return line
            self._line = None
            if self._closed:
                raise Unreachable(f"{self.name}: the connection was closed")
            if monotonic() < self._not_before:
                raise Unreachable(f"{self.name}: not connected; trying again in a moment")
            try:
                self._line = _Line(await self._connect())
            except BaseException:
                self._pause = min(max(self._pause * 2, _PAUSE_FIRST), _PAUSE_LONGEST)
                cut = 1 - _JITTER * self._random()
                self._not_before = monotonic() + self._pause * cut
                raise
            self._pause = 0.0
            return self._line

    async def _connect(self) -> asyncssh.SSHClientConnection:
        host = self

        class Client(asyncssh.SSHClient):
            def connection_made(self, _connection: Any) -> None:
                host._lines += 1

            def connection_lost(self, _error: Exception | None) -> None:
                host._lines -= 1

        options: dict[str, Any] = {}
        if self._key_file is not None:
            options["client_keys"] = [self._key_file]
        if self._known_hosts is not None:
            options["known_hosts"] = self._known_hosts
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
            connect_timeout=self.timeout,
            login_timeout=self.timeout,
            keepalive_interval=_ALIVE_EVERY,
            keepalive_count_max=_ALIVE_MISSED,
            **options,
        )

    @contextmanager
    def _mapping(self, what: str, seconds: float) -> Iterator[None]:
        """Turn whatever goes wrong on the way into one error of this package."""
        try:
            yield
        except HostError:
            raise
        except TimeoutError as error:
            raise TimedOut(f"{self.name}: {what} took longer than {seconds:g} s") from error
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath) as error:
            raise Missing(f"{self.name}: {what}: it is not there") from error
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection) as error:
            raise Unreachable(f"{self.name}: {what}: the connection broke") from error
        except asyncssh.SFTPError as error:
            raise Faulty(f"{self.name}: {what}: {error.reason}") from error
        except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyImportError) as error:
            raise Denied(f"{self.name}: {error}; see RELAY_SSH_KNOWN_HOSTS") from error
        except asyncssh.PermissionDenied as error:
            raise Denied(f"{self.name}: the login is refused: {error.reason}") from error
        except asyncssh.ChannelOpenError as error:
            raise Unreachable(f"{self.name}: {what}: {error.reason}") from error
        except (OSError, asyncssh.Error) as error:
            told = str(error) or type(error).__name__
            raise Unreachable(f"{self.name}: {what}: {told}") from error


def _entry(name: str, attrs: asyncssh.SFTPAttrs) -> Entry:
    modified = (attrs.mtime or 0) + (attrs.mtime_ns or 0) / 1e9
    return Entry(
        name,
        directory=attrs.type == asyncssh.FILEXFER_TYPE_DIRECTORY,
        size=attrs.size or 0,
        modified=modified,
    )
