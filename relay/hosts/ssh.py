"""A sandbox behind an SSH server as a host; needs the extra ``ssh`` (asyncssh).

Commands are channels of a connection, files travel by SFTP on the first one. The server's key is
always verified; no agent is asked, nothing is forwarded, no configuration file is read.
"""

from __future__ import annotations

import asyncio
import posixpath
import random
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import monotonic

import asyncssh

from relay.hosts.host import (
    LATE,
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
from relay.hosts.sshlines import Line, Lines
from relay.hosts.sshtarget import beginning, bounded, read_target
from relay.hosts.standing import PROGRAM, Standing, StandingError
from relay.settings import RelaySettings

#: Operations on files, and commands that publish, at once.
_SHORT_OPERATIONS = 16

#: Connections on which a command is tried, where the server allows no further channel on one.
_CONNECTIONS_TRIED = 3

#: The longest argument that Linux hands to a program; a shell gets the whole command as one.
_LONGEST_COMMAND = 128 * 1024 - 1

#: Seconds for which each file has a command of its own, once the shell that stays has failed.
_WITHOUT = 60.0

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
        self._lines = Lines(
            self._target, self.name, key_file=key_file, known_hosts=known_hosts, rand=rand
        )
        self._short = asyncio.Semaphore(_SHORT_OPERATIONS)
        self._starting = asyncio.Lock()
        self._stands_from = 0.0

    @property
    def sockets(self) -> int:
        """See ``Host.sockets``."""
        return self._lines.open

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
                async with asyncio.timeout(seconds + LATE):
                    for left in reversed(range(_CONNECTIONS_TRIED)):
                        try:
                            return await self._command(command, data, most, kind, tell)
                        except asyncssh.ChannelOpenError:
                            if not left:
                                raise
            except TimeoutError:
                if data:
                    raise
        return Done(None, "", "", timed_out=True)

    async def _command(
        self,
        command: str,
        data: bytes,
        most: int,
        kind: str,
        tell: Callable[[bytes], None] | None,
    ) -> Done:
        async with self._lines.borrow(self.timeout, command=True) as line:
            self.requests[kind] += 1
            try:
                process = await line.connection.create_process(command, encoding=None)
            except asyncssh.ChannelOpenError:
                line.is_full()
                raise
            return await self._talk(process, data, most, tell)

    async def _talk(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        data: bytes,
        most: int,
        tell: Callable[[bytes], None] | None,
    ) -> Done:
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
        self,
        path: str,
        data: bytes,
        *,
        instead_of: str | None = None,
        kind: str = "write",
    ) -> None:
        """See ``Host.write``. The bytes travel on the input of a shell that stays, or of one."""
        if monotonic() >= self._stands_from and Standing.can(path, data, instead_of):
            try:
                code = await self._by_standing(path, data, instead_of, kind)
            except StandingError:
                # It was ended, or this login's programs are not what it needs.
                self._stands_from = monotonic() + _WITHOUT
            else:
                judge(self, path, Done(code, "", ""))
                return
        argv = publish_argv(path, len(data), "-", gone=instead_of)
        with self._mapping(f"writing {path}", self.timeout):
            async with asyncio.timeout(self.timeout + LATE), self._short:
                done = await self._execute(argv, data, seconds=self.timeout, most=4096, kind=kind)
        judge(self, path, done)

    async def _by_standing(self, path: str, data: bytes, gone: str | None, kind: str) -> int:
        with self._mapping(f"writing {path}", self.timeout):
            async with asyncio.timeout(self.timeout), self._lines.borrow(self.timeout) as line:
                self.requests[kind] += 1
                standing = await self._standing(line)
                try:
                    return await standing.publish(path, data, gone)
                except StandingError:
                    if line.connection.is_closed():
                        raise Unreachable(f"{self.name}: the connection broke") from None
                    raise

    async def _standing(self, line: Line) -> Standing:
        async with self._starting:
            if line.standing is None or line.standing.broken:
                command = f"exec sh -c {shlex.quote(PROGRAM)}"
                process = await line.connection.create_process(
                    command, encoding=None, stderr=asyncssh.DEVNULL
                )
                line.standing = Standing(process)
            return line.standing

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
        self._lines.renew()

    async def close(self) -> None:
        """See ``Host.close``."""
        await self._lines.close()

    @asynccontextmanager
    async def _files(self, what: str, kind: str) -> AsyncIterator[asyncssh.SFTPClient]:
        with self._mapping(what, self.timeout):
            async with (
                asyncio.timeout(self.timeout),
                self._short,
                self._lines.borrow(self.timeout) as line,
            ):
                self.requests[kind] += 1
                async with self._starting:
                    if line.sftp is None:
                        line.sftp = await line.connection.start_sftp_client()
                yield line.sftp

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
        except asyncssh.HostKeyNotVerifiable as error:
            raise Denied(f"{self.name}: {error}; see RELAY_SSH_KNOWN_HOSTS") from error
        except asyncssh.PermissionDenied as error:
            raise Denied(
                f"{self.name}: the login is refused: {error.reason}; see RELAY_SSH_KEY_FILE"
            ) from error
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
