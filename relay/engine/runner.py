"""The runner, as a program embeds it: started, ready, stopped.

``async with Runner(...)`` is ready when everything that was left behind is cleared; leaving it
drains: nothing new is taken, what is in flight gets its time, the rest is answered and given up.
A runner belongs to one event loop. A caller in the same process must not block that loop.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from relay.engine.announce import announcement, refuse_too_much
from relay.engine.guard import Guard
from relay.engine.hub import Hub
from relay.engine.limits import limits_of
from relay.engine.locks import Locks
from relay.engine.loop import Loop
from relay.engine.obeying import Obeying
from relay.engine.root import Root
from relay.engine.session import Session
from relay.engine.shared import Shared
from relay.engine.slots import Slots
from relay.engine.telemetry import Counters, event, token
from relay.errors import RelayError
from relay.settings import RelaySettings
from relay.tools.file import load_tools
from relay.tools.registry import Registry, Tool
from relayconf.classes.build import text_of
from relayconf.errors import StateError
from relayconf.layers import Entry, Layer, Sources
from relayconf.live.rereading import Rereader
from relayconf.live.snapshot import Live, Snapshot, load
from relayconf.process import read_process
from relayconf.resolve import resolve
from relayconf.settings import contract_of
from relayconf.state.directory import FIX
from relayconf.state.location import state_path


class NothingToServe(RelayError):
    """A runner has no directory, or no tools."""

    code = "usage"


class Runner:
    """Serves one session directory, or all in a root.

    Args:
        dir: the directory; its last component is made where missing. Without it: RELAY_DIR.
        root: instead, a directory whose sub-directories are sessions, served as they come and go;
            made likewise. Without it: RELAY_ROOT. The process's limit of open files is raised to
            its hard limit, since each session holds one.
        tools: a registry, tools, or names with callables. Without it: the file RELAY_TOOLS_FILE.
        settings: live settings, or settings that stay; without it, the process environment's.
        guard: called with each request before its tool is looked up; a text that it returns, or
            an exception, refuses the call. It may be asynchronous; else it runs in a thread.
        state: the state directory. Without it: RELAYCONF_STATE_DIR, else the user's own.

    Raises:
        RelayError: the directory or the tools cannot be used; here or at the start.
        RelayconfError: the settings or the state directory cannot be; likewise.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] | None = None,  # noqa: A002 - the name of the setting
        *,
        root: str | os.PathLike[str] | None = None,
        tools: Mapping[str, Callable[..., Any] | Tool] | Iterable[Tool] | None = None,
        settings: Live[RelaySettings] | RelaySettings | None = None,
        guard: Guard | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        self._live = _live(settings, None if state is None else os.path.abspath(state))
        _refuse_remote(self._live.current)
        self._path, self._serves_many = _served(dir, root, self._live.current)
        self._tools = _registry(tools, self._live.current)
        self._guard = guard if guard is not None else self._tools.guard
        self._state = _state(state, self._live.sources)
        self._shared: Shared | None = None
        self._loop: Loop | None = None
        self._root: Root | None = None
        self._task: asyncio.Task[None] | None = None
        self._obeying: Obeying | None = None

    @property
    def ready(self) -> bool:
        """Whether requests are being taken."""
        return self._task is not None and not self._task.done()

    @property
    def live(self) -> Live[RelaySettings]:
        """The settings that it goes by."""
        return self._live

    @property
    def counters(self) -> Counters:
        """What it has done since its start."""
        return self._shared.counters if self._shared is not None else Counters()

    @property
    def sessions(self) -> tuple[str, ...]:
        """The paths of the session directories that it serves, or waits for."""
        return tuple(s.place.path for s in self._loop.sessions) if self._loop is not None else ()

    @property
    def shared(self) -> Shared | None:
        """Its parts; ``None`` before its start."""
        return self._shared

    @property
    def id(self) -> str:
        """The name under which it claims; empty before its start."""
        return self._shared.locks.runner if self._shared is not None else ""

    @property
    def left_behind(self) -> int:
        """How many tools go on although they were given up, and cannot be ended."""
        return self._loop.engine.left_behind if self._loop is not None else 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Join each directory, clear what was left behind, and begin to take requests.

        Raises:
            RelayError, RelayconfError: something that it needs cannot be used; nothing is left
                running.
        """
        if self._shared is not None:
            raise RelayError("this runner was started before; make another")
        _refuse_within(self._state, self._path)
        await self._tools.open(self._tools_changed)
        try:
            await self._start()
        except BaseException:
            await self._tools.close(self._tools_changed)
            raise

    async def _start(self) -> None:
        limits = limits_of(self._live.snapshot)
        locks = Locks(self._state, group=self._live.sources.state_group)
        self._shared = shared = Shared(
            hub=Hub(),
            locks=locks,
            slots=Slots(limits),
            limits=limits,
            announcement=announcement(
                locks.runner, self._live.snapshot, self._tools, cancels=True
            ),
            cancels=True,
            clock=time.monotonic,
            wall=time.time,
        )
        self._loop = loop = Loop(shared, self._tools, self._guard)
        try:
            await self._open(shared, loop)
        except BaseException:
            self._sign_off()
            raise
        self._obeying = Obeying(self._live, shared, loop, self._tools)
        self._obeying.begin()
        self._task = asyncio.create_task(loop.run(), name="relay-runner")
        many = f" sessions={len(loop.sessions)}" if self._serves_many else ""
        event(f"stage=relay_ready dir={token(self._path)} runner={locks.runner}{many}")

    async def _open(self, shared: Shared, loop: Loop) -> None:
        if self._serves_many:
            self._root = Root(self._path, shared, loop)
            await self._root.start()
            return
        session = Session(self._path, shared, loop)
        loop.add(session)
        await session.start()

    def _tools_changed(self) -> None:
        if self._obeying is not None:
            self._obeying.apply()

    async def wait(self) -> None:
        """Wait until it stops.

        Raises:
            Exception: whatever ended the loop, where it was no stop.
        """
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Take nothing new, let what is in flight finish for a while, then leave.

        What is not finished within RELAY_DRAIN_TIMEOUT_MS is answered ``interrupted`` and given up;
        a thread that hangs is left behind.
        """
        loop, shared, task = self._loop, self._shared, self._task
        if loop is None or shared is None or loop.stopping:
            return
        loop.stopping = True
        shared.hub.wake()
        try:
            if task is not None:
                await asyncio.wait([task])
            await loop.engine.drain(shared.limits.drain_timeout)
        finally:
            self._sign_off()
            await self._tools.close(self._tools_changed)
        event(
            f"stage=relay_stopped dir={token(self._path)} runner={shared.locks.runner} "
            f"{shared.counters.line()}"
        )

    def _sign_off(self) -> None:
        """Let go of everything that is held."""
        loop, shared = self._loop, self._shared
        if loop is None or shared is None:
            return
        loop.stopping = True
        loop.engine.close()
        if self._obeying is not None:
            self._obeying.end()
        if self._root is not None:
            self._root.stop()
        # All watches end at once, which is quicker than one by one.
        shared.hub.close()
        for session in loop.sessions:
            session.stop()
        shared.locks.close()


def _refuse_remote(settings: RelaySettings) -> None:
    if settings.backend != "local":
        raise NothingToServe(
            f"RELAY_BACKEND is {settings.backend}: a directory behind it is served by "
            "relay.remote.runner.RemoteRunner, or by relay serve"
        )


def _served(
    one: str | os.PathLike[str] | None,
    root: str | os.PathLike[str] | None,
    settings: RelaySettings,
) -> tuple[str, bool]:
    """Return the path of what is served, and whether it is a root."""
    # A blank is unset, here as in every text.
    one, root = (
        None if path is None or not os.fspath(path).strip() else path for path in (one, root)
    )
    if one is None and root is None:
        one, root = settings.dir, settings.root
    if one is not None and root is not None:
        raise NothingToServe(
            "RELAY_DIR and RELAY_ROOT are both set, and a runner serves one session or a root of "
            "many: unset one"
        )
    path = one if root is None else root
    if path is None:
        raise NothingToServe(
            "no session directory is named: give one, or set RELAY_DIR; or RELAY_ROOT for many"
        )
    try:
        return os.path.abspath(os.fspath(path)), root is not None
    except FileNotFoundError:
        raise NothingToServe(
            f"{path} is relative, and the working directory is gone; give an absolute path"
        ) from None


def _state(given: str | os.PathLike[str] | None, sources: Sources) -> str:
    path = os.fspath(given) if given is not None else sources.state_dir or state_path(os.environ)
    if path is None:
        raise StateError(f"there is no home directory to keep the relay's state in: {FIX}")
    return os.path.abspath(path)


def _refuse_within(state: str, session: str) -> None:
    """Refuse a state directory that the session's writer could reach."""
    outer, inner = os.path.realpath(session), os.path.realpath(state)
    if inner == outer or inner.startswith(outer.rstrip("/") + "/"):
        raise StateError(f"the state directory {state} lies in the session directory: {FIX}")


def _registry(
    tools: Mapping[str, Callable[..., Any] | Tool] | Iterable[Tool] | None,
    settings: RelaySettings,
) -> Registry:
    if tools is not None:
        offered = Registry.of(tools)
    elif settings.tools_file is None:
        raise NothingToServe("no tools are named: give some, or set RELAY_TOOLS_FILE")
    else:
        offered = load_tools(str(settings.tools_file))
    refuse_too_much(offered)
    return offered


def _live(
    given: Live[RelaySettings] | RelaySettings | None, state: str | None
) -> Live[RelaySettings]:
    if isinstance(given, Live):
        return given
    sources = read_process(os.environ).sources if given is None else Sources({})
    if state is not None:
        sources = sources._replace(state_dir=state)
    return load(RelaySettings, sources) if given is None else _held_still(given, sources)


def _held_still(settings: RelaySettings, sources: Sources) -> Live[RelaySettings]:
    """Return settings that somebody has built by hand as if each had been an option."""
    contract = contract_of(RelaySettings)
    entries = tuple(
        Entry(name, text_of(contract.settings[name], getattr(settings, field)), "RelaySettings")
        for field, name in RelaySettings.__names__.items()
        if field in settings.model_fields_set
    )
    layers = [Layer("option", entries)]
    resolution = resolve(contract, layers)
    rereader = Rereader(contract, sources, fixed=layers)
    return Live(Snapshot(1, settings, resolution), sources, rereader=rereader)
