"""A command's session with its fleet: the engine's calls, one after the other, without a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, TypeVar

from relayconf.fleet.changing import Submitted, submit
from relayconf.fleet.engine import Change, Engine, InstanceRecord, Snapshot
from relayconf.fleet.opening import open_engine
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.record import NOWHERE, Json, Position

T = TypeVar("T")


class Session:
    """Asks one fleet's server, for as long as it is entered. Not safe across threads.

    Entering connects to nothing. Every call may raise ``FleetUnavailable``, within the time limits
    of the options; the next one tries anew.

    Args:
        options: how the fleet is reached.
        opening: makes the engine.
    """

    def __init__(
        self,
        options: FleetOptions,
        *,
        opening: Callable[[FleetOptions], Engine] = open_engine,
    ) -> None:
        self._options = options
        self._opening = opening
        self._runner = asyncio.Runner()
        self._engine: Engine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._engine is not None:
                self._runner.run(self._engine.close())
        finally:
            self._runner.close()

    def snapshot(self, since: Position = NOWHERE) -> Snapshot:
        """Return the whole state; see ``Engine.snapshot``."""
        return self._ask(lambda engine: engine.snapshot(since))

    def submit(
        self, change: Change, *, overtakes: Callable[[Change], None] | None = None
    ) -> Submitted:
        """Write a change; see ``relayconf.fleet.changing.submit``."""
        return self._ask(lambda engine: submit(engine, change, overtakes=overtakes))

    def instances(self) -> Sequence[InstanceRecord]:
        """Return every instance; see ``Engine.instances``."""
        return self._ask(lambda engine: engine.instances())

    def sign_off(self, instance: str) -> None:
        """Take an instance off the list; see ``Engine.sign_off``."""
        self._ask(lambda engine: engine.sign_off(instance))

    def audit(self) -> Sequence[Json]:
        """Return the audit; see ``Engine.audit``."""
        return self._ask(lambda engine: engine.audit())

    def applied(self) -> Sequence[Json]:
        """Return what was applied when; see ``Engine.applied``."""
        return self._ask(lambda engine: engine.applied())

    def _ask(self, call: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
        if self._engine is None:
            self._engine = self._opening(self._options)
        return self._runner.run(call(self._engine))
