"""The host protocol: what a relay needs of the place that a remote sandbox lives in.

A host runs bounded commands and moves files, and nothing else; everything that a relay does in a
sandbox is made of these. It owns no policy: no retries beyond what is written here, no schedule, no
names of the relay. ``relay.hosts.conformance`` holds any implementation to this text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from relay.errors import RelayError

#: Seconds that an answer may come after the command's own time limit.
LATE = 1.0


class HostError(RelayError):
    """Base of what a host raises. The message names the host and the operation, never a secret."""

    code = "host"


class Unreachable(HostError):
    """Nobody answers, or the connection broke. Whether the operation took place is not known."""

    code = "host_unreachable"


class TimedOut(HostError):
    """The operation was given up at its time limit. Whether it took place is not known."""

    code = "host_timeout"


class Denied(HostError):
    """The host refuses this caller: a token, a key, a host key. Trying again does not help."""

    code = "host_denied"


class Missing(HostError):
    """The path is not there. Nothing was changed."""

    code = "host_missing"


class Exists(HostError):
    """Something is at the target of a move. Nothing was changed."""

    code = "host_exists"


class NoCommand(HostError):
    """The command cannot be started, most often because it is not installed."""

    code = "host_no_command"


class TooLarge(HostError):
    """More bytes than were asked for, or than the host can take."""

    code = "host_too_large"


class Faulty(HostError):
    """The host refused or failed for another reason, or its answer makes no sense."""

    code = "host_faulty"


class Done(NamedTuple):
    """How a command ended. ``code`` is ``None`` where it was ended for its time.

    ``cut`` is whether its output was longer than what is here.
    """

    code: int | None
    stdout: str
    stderr: str
    timed_out: bool = False
    cut: bool = False


class Entry(NamedTuple):
    """One name in a directory: its size in bytes, and its mtime in seconds of the host's clock.

    ``directory`` is false for everything that is none, whatever else it is.
    """

    name: str
    directory: bool
    size: int
    modified: float


class Host(ABC):
    """A place that a relay reaches through commands and files alone.

    Guaranteed:

    * Paths are absolute and arbitrary otherwise: spaces, quotes, newlines, globs. They travel as
      data, never as part of a program or of a shell's text.
    * ``write`` is atomic: a reader of the path sees the old bytes or all of the new ones.
    * ``move`` never replaces anything, and of several moves of one source one succeeds.
    * Every operation ends: with a result, or with a ``HostError`` at its time limit at the latest.
    * What is returned is bounded by what was asked for.
    * A cancelled operation leaves no connection in a state that a later one could suffer from.
    * ``requests`` counts what was really sent, by kind; a retry counts again.
    * Operations may run at the same time, from one event loop.

    Not guaranteed:

    * That a command ends when its caller stops waiting, is cancelled or loses the connection: it
      must end by itself. Its time limit may end the command but not what it started.
    * That output which is no UTF-8 survives; print ASCII.
    * That an operation which raised ``Unreachable`` or ``TimedOut`` did not take place.
    * Any order between operations that run at the same time.
    * That a name in a listing is still there, or that a size is that of what is read later.
    * That symbolic links are not followed: the sandbox's own links lead within what the host's
      user may read.
    """

    #: What the host is, as one line for logs and as the key of locks; without any secret.
    name: str
    #: Seconds that an operation which is no command may take; may be changed at any time.
    timeout: float
    #: Whether ``follow`` hands output over before a command has ended.
    streams = False

    def __init__(self, name: str, *, timeout: float = 10.0) -> None:
        self.name = name
        self.timeout = timeout
        self.requests: Counter[str] = Counter()

    @abstractmethod
    async def run(
        self, argv: Sequence[str], *, seconds: float, max_output: int, kind: str = "run"
    ) -> Done:
        """Run a command until it ends, for at most so many seconds.

        Args:
            argv: the program, looked up on the sandbox's own PATH, and its arguments; no shell.
            seconds: its time; the answer may take a little longer than that to arrive.
            max_output: how many bytes of its output are wanted; what is more is cut.
            kind: under which name the request is counted.

        Raises:
            NoCommand: it cannot be started.
            HostError: as the class says.
        """

    async def follow(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        max_output: int,
        kind: str,
        tell: Callable[[bytes], None],
    ) -> Done:
        """Do as ``run``, and hand the output over as it comes, where ``streams`` says so.

        Args:
            argv: as for ``run``.
            seconds: as for ``run``.
            max_output: as for ``run``.
            kind: as for ``run``.
            tell: called with each piece of the output, which may end anywhere.

        Raises:
            HostError: as ``run``.
        """
        del tell
        return await self.run(argv, seconds=seconds, max_output=max_output, kind=kind)

    @abstractmethod
    async def entries(self, path: str, *, kind: str = "list") -> list[Entry]:
        """Return what is in a directory, unordered.

        Raises:
            Missing: there is no such directory.
            HostError: as the class says.
        """

    @abstractmethod
    async def stat(self, path: str) -> Entry:
        """Return one name's entry.

        Raises:
            Missing: it is not there.
            HostError: as the class says.
        """

    @abstractmethod
    async def read(self, path: str, *, limit: int) -> bytes:
        """Return a file's bytes.

        Raises:
            Missing: it is not there.
            TooLarge: it is longer than ``limit`` bytes.
            HostError: as the class says.
        """

    @abstractmethod
    async def write(
        self,
        path: str,
        data: bytes,
        *,
        instead_of: str | None = None,
        kind: str = "write",
    ) -> None:
        """Make ``path`` hold ``data``, at once, in place of another file where one is named.

        It is one request wherever the host can do it so, and is not repeated by the host itself.
        Only its user, and the group of a setgid directory, may read the file. The directory must
        be there.

        Args:
            path: the file.
            data: its bytes.
            instead_of: a file that goes once ``path`` is there. Where it is gone already, nothing
                is written, and that is no error: an attempt that seemed to fail had taken place.
            kind: under which name the request is counted.

        Raises:
            Missing: the directory is not there.
            TooLarge: the host cannot take so much.
            HostError: as the class says; what it is to replace may then be there still.
        """

    @abstractmethod
    async def move(self, source: str, target: str) -> None:
        """Rename a file within one file system, where nothing is at ``target``.

        Raises:
            Missing: the source is not there.
            Exists: something is at the target.
            HostError: as the class says.
        """

    @abstractmethod
    async def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is no error.

        Raises:
            HostError: as the class says.
        """

    @abstractmethod
    async def close(self) -> None:
        """Let go of every connection. Repeating it does nothing."""

    def renew(self) -> None:  # noqa: B027 - a host without kept connections has nothing to do
        """Use no connection again that was opened before: one of them led nowhere."""

    @property
    def sockets(self) -> int:
        """How many connections are open."""
        return 0
