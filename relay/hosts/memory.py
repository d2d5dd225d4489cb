"""A host in memory: files in a dictionary, commands as Python functions, faults on demand.

It is public, for tests of whatever uses a host. It obeys the whole protocol and adds three ways to
be unlike a healthy host: ``failing`` raises, ``delay`` waits, ``clock`` is its own.
"""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from relay.hosts.host import (
    Done,
    Entry,
    Exists,
    Host,
    HostError,
    Missing,
    NoCommand,
    TimedOut,
    TooLarge,
)

#: Takes the arguments after the program's name, and the seconds that it may take.
Command = Callable[[Sequence[str], float], Awaitable[Done]]


class MemoryHost(Host):
    """A host that is a dictionary.

    Args:
        directories: those that exist at first.
        commands: what can be run, by name.
        clock: seconds, for the times of files.
        name: what it is called.

    Attributes:
        files: each path's bytes and mtime.
        directories: the paths of all directories.
        failing: an error for each operation named in it (``"run"``, ``"entries"``, ...), or for
            every one under ``"*"``; raised instead of the operation.
        delay: seconds that each operation takes.
    """

    def __init__(
        self,
        *directories: str,
        commands: Mapping[str, Command] | None = None,
        clock: Callable[[], float] = time.time,
        name: str = "memory",
    ) -> None:
        super().__init__(name)
        self.files: dict[str, tuple[bytes, float]] = {}
        self.directories = set(directories)
        self.commands = dict(commands or {})
        self.failing: dict[str, HostError] = {}
        self.delay = 0.0
        self._clock = clock

    def put(self, path: str, data: bytes, *, age: float = 0.0) -> None:
        """Make a file appear, as somebody inside would; ``age`` in seconds."""
        self.files[path] = (data, self._clock() - age)

    async def _begin(self, operation: str, kind: str | None = None) -> None:
        self.requests[kind or operation] += 1
        if self.delay:
            await asyncio.sleep(self.delay)
        error = self.failing.get(operation) or self.failing.get("*")
        if error is not None:
            raise error

    async def run(
        self, argv: Sequence[str], *, seconds: float, max_output: int, kind: str = "run"
    ) -> Done:
        """See ``Host.run``."""
        await self._begin("run", kind)
        command = self.commands.get(argv[0])
        if command is None:
            raise NoCommand(f"{self.name}: {argv[0]} cannot be started: it is not there")
        try:
            done = await asyncio.wait_for(command(argv[1:], seconds), seconds)
        except TimeoutError:
            return Done(None, "", "", timed_out=True)
        out, err = done.stdout.encode(), done.stderr.encode()
        cut = max(len(out), len(err)) > max_output
        return done._replace(
            stdout=out[:max_output].decode(errors="replace"),
            stderr=err[:max_output].decode(errors="replace"),
            cut=cut,
        )

    async def entries(self, path: str, *, kind: str = "list") -> list[Entry]:
        """See ``Host.entries``."""
        await self._begin("entries", kind)
        if path not in self.directories:
            raise Missing(f"{self.name}: {path} is not there")
        inside = [p for p in (*self.files, *self.directories) if posixpath.dirname(p) == path]
        return [self._entry(p) for p in inside if p != path]

    def _entry(self, path: str) -> Entry:
        name = posixpath.basename(path)
        if path in self.files:
            data, modified = self.files[path]
            return Entry(name, directory=False, size=len(data), modified=modified)
        return Entry(name, directory=True, size=0, modified=0.0)

    async def stat(self, path: str) -> Entry:
        """See ``Host.stat``."""
        await self._begin("stat")
        if path not in self.files and path not in self.directories:
            raise Missing(f"{self.name}: {path} is not there")
        return self._entry(path)

    async def read(self, path: str, *, limit: int) -> bytes:
        """See ``Host.read``."""
        await self._begin("read")
        if path not in self.files:
            raise Missing(f"{self.name}: {path} is not there")
        data, _ = self.files[path]
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
        """See ``Host.write``."""
        await self._begin("write", kind)
        if posixpath.dirname(path) not in self.directories:
            raise Missing(f"{self.name}: the directory of {path} is not there")
        if instead_of is not None and instead_of not in self.files:
            return
        self.put(path, data)
        if instead_of is not None:
            self.files.pop(instead_of, None)

    async def move(self, source: str, target: str) -> None:
        """See ``Host.move``."""
        await self._begin("move")
        if source not in self.files:
            raise Missing(f"{self.name}: {source} is not there")
        if target in self.files or target in self.directories:
            raise Exists(f"{self.name}: {target} is there already")
        self.files[target] = self.files.pop(source)

    async def remove(self, path: str) -> None:
        """See ``Host.remove``."""
        await self._begin("remove")
        self.files.pop(path, None)

    async def close(self) -> None:
        """See ``Host.close``."""


def never(host: str) -> Command:
    """Return a command that never ends by itself, for tests of time limits."""

    async def command(_argv: Sequence[str], seconds: float) -> Done:
        await asyncio.sleep(seconds + 3600)
        raise TimedOut(f"{host}: gave up")  # pragma: no cover - ended long before

    return command
