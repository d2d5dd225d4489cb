"""Writers: ``call`` and ``acall`` for whoever has a directory, ``Writer`` for whoever keeps one.

A ``Writer`` holds one session directory open and knows its options; its calls may come from many
threads and event loops at once. ``call`` and ``acall`` keep writers for a few dozen
directories, and drop them all in a forked child. Ground floor.
"""

from __future__ import annotations

import os
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Tuple, Union

from relay.client.directory import Directory
from relay.client.exchange import Exchange, Means
from relay.client.options import Options, OptionsSource, Own, Told, own_texts, told
from relay.client.wakes import thread_wakes
from relay.errors import NoDirectory
from relay.protocol import RandomBytes

if TYPE_CHECKING:
    # os.PathLike takes a parameter in annotations only, on Python 3.9 too.
    StrPath = Union[str, os.PathLike[str]]

#: The names under which an environment may give the directory; the legacy one comes second.
DIR_NAMES = ("RELAY_DIR", "AGENTA_AGENT_TOOLS_RELAY_DIR")

#: Seconds that no deadline reaches: 30 years. It keeps infinity out of the request.
_LONGEST_TIMEOUT = 1e9

#: Writers kept for ``call`` and ``acall``. Each holds one descriptor of the process's 1,024.
_KEPT = 64


class Writer:
    """The writer's side of one session directory.

    Args:
        dir: the session directory.
        environ: the environment whose ``RELAY_*`` texts count; read once. Default: the process's.
        clock: monotonic seconds.
        random: the source of the digits in request ids.

    Raises:
        NoDirectory: there is no such directory.
    """

    def __init__(
        self,
        dir: StrPath,  # noqa: A002 - the name that the command line has, and the environment
        *,
        environ: Optional[Mapping[str, str]] = None,
        clock: Callable[[], float] = time.monotonic,
        random: RandomBytes = os.urandom,
    ) -> None:
        own = own_texts(os.environ if environ is None else environ)
        directory = Directory(directory_of({}, dir))
        self._means = Means(directory, OptionsSource(own), clock, random)

    def call(
        self,
        tool: str,
        args: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        call_id: Optional[str] = None,
    ) -> str:
        """Ask the runner to run a tool, and return its text.

        The deadline holds whatever happens; at it, the request is withdrawn. A request that a
        runner found when it started, and did not execute, is asked again within the deadline.

        Args:
            tool: the tool's name.
            args: its arguments, as JSON can say them. Default: none.
            timeout: seconds until the deadline. Default: ``RELAY_TIMEOUT_MS``.
            call_id: the caller's own id, which the runner's log will show. Default: made up.

        Raises:
            CallError: the call ended without a text; ``code`` says how, ``may_have_run`` whether
                the tool may have had its effects.
            BadRequest: the arguments cannot be written as JSON.
            BadResponse: a response came that is none.
            CannotPublish: the request could not be written.
            NoDirectory: the directory is gone.
        """
        return drive(self.exchange(tool, args, timeout=timeout, call_id=call_id))

    async def acall(
        self,
        tool: str,
        args: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        call_id: Optional[str] = None,
    ) -> str:
        """Do what ``call`` does, in the running event loop. Cancelled, it withdraws its request."""
        from relay.client import loop  # noqa: PLC0415 - asyncio is for who has it already

        return await loop.drive(self.exchange(tool, args, timeout=timeout, call_id=call_id))

    def exchange(
        self,
        tool: str,
        args: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        call_id: Optional[str] = None,
        watch_after: float = 0.0,
    ) -> Exchange:
        """Return a call that is not begun, for ``drive``. Arguments as for ``call``.

        ``watch_after`` are seconds in which the call looks at short intervals before it makes a
        watch; a process that ends after one call saves the milliseconds in which a watch closes.
        """
        if timeout is not None and not 0 < timeout < _LONGEST_TIMEOUT:
            raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
        return Exchange(
            self._means,
            tool,
            dict(args or {}),
            timeout=timeout,
            call_id=call_id,
            watch_after=watch_after,
        )

    @property
    def options(self) -> Options:
        """The options in force now.

        Raises:
            NoDirectory: the directory is gone.
        """
        return self._means.source.current(self._means.directory.current())

    def told(self) -> Optional[Told]:
        """Return what relay.json says now: the runner's settings for a writer, and its tools.

        ``None`` where no runner has published one that can be used.

        Raises:
            NoDirectory: the directory is gone.
        """
        return told(self._means.directory.current())


def call(
    tool: str,
    args: Optional[Mapping[str, Any]] = None,
    *,
    dir: Optional[StrPath] = None,  # noqa: A002 - as in Writer
    timeout: Optional[float] = None,
    call_id: Optional[str] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> str:
    """Ask the runner of a session directory to run a tool, and return its text.

    Args:
        tool: the tool's name.
        args: its arguments, as JSON can say them. Default: none.
        dir: the session directory. Default: ``RELAY_DIR`` of the environment.
        timeout: seconds until the deadline. Default: ``RELAY_TIMEOUT_MS``.
        call_id: the caller's own id. Default: made up.
        environ: the environment whose ``RELAY_*`` texts count. Default: the process's.

    Raises:
        RelayError: as for ``Writer.call``.
    """
    return _kept(dir, environ).call(tool, args, timeout=timeout, call_id=call_id)


async def acall(
    tool: str,
    args: Optional[Mapping[str, Any]] = None,
    *,
    dir: Optional[StrPath] = None,  # noqa: A002 - as in Writer
    timeout: Optional[float] = None,
    call_id: Optional[str] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> str:
    """Do what ``call`` does, in the running event loop. Cancelled, it withdraws its request."""
    return await _kept(dir, environ).acall(tool, args, timeout=timeout, call_id=call_id)


def drive(exchange: Exchange) -> str:
    """Carry out a call in this thread; interrupted, it withdraws its request."""
    wakes = thread_wakes()
    waiter, steps = exchange.waiter, exchange.steps()
    try:
        next(steps)
        wakes.attend(waiter)
        seconds = next(steps)
        while True:
            seconds = steps.send(wakes.wait(waiter, seconds))
    except StopIteration as done:
        text: str = done.value
        return text
    finally:
        wakes.leave(waiter)
        steps.close()


def directory_of(environ: Mapping[str, str], given: Optional[StrPath] = None) -> str:
    """Return the path of the session directory: the one given, else the environment's.

    A blank is unset. A relative path is made absolute, since it means another directory once the
    process has moved.

    Raises:
        NoDirectory: none is named, or it is relative to a working directory that is gone.
    """
    for path in ("" if given is None else os.fspath(given), *map(environ.get, DIR_NAMES)):
        if path and path.strip():
            break
    else:
        said = "no session directory is named: give it (--dir DIR, or dir=...), or set RELAY_DIR"
        raise NoDirectory(said)
    if os.path.isabs(path):
        return path
    try:
        return os.path.abspath(path)
    except OSError as error:
        reason = f"is relative, and the working directory is gone: {error.strerror}"
        raise NoDirectory(f"the session directory {path!r} {reason}") from None


_writers: Dict[Tuple[str, Own], Writer] = {}
_keeping = Lock()


def _kept(path: Optional[StrPath], environ: Optional[Mapping[str, str]]) -> Writer:
    """Return the kept writer for a directory and what the environment says now."""
    environ = os.environ if environ is None else environ
    key = (directory_of(environ, path), own_texts(environ))
    writer = _writers.get(key)
    if writer is None:
        writer = Writer(key[0], environ=environ)
        with _keeping:
            while len(_writers) >= _KEPT:
                del _writers[next(iter(_writers))]
            _writers[key] = writer
    return writer


def _after_fork() -> None:
    global _keeping  # noqa: PLW0603 - a thread that is not here may have held the parent's
    _keeping = Lock()
    _writers.clear()


os.register_at_fork(after_in_child=_after_fork)
