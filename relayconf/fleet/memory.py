"""A fleet's store in memory: the same rules as a real server's script, and faults on demand.

For tests of whoever uses an engine. ``MemoryServer`` is the store, with what can befall one;
``MemoryEngine`` a connection to it, which can be made to fail.
"""

from __future__ import annotations

import asyncio
import copy
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from relayconf.errors import FleetUnavailable
from relayconf.fleet.chain import audit_line, body_text, digest, line_text, read_item
from relayconf.fleet.engine import (
    Change,
    Durability,
    InstanceRecord,
    Item,
    Outcome,
    Snapshot,
    Standing,
)
from relayconf.fleet.record import NOWHERE, Json, Position, is_change_id, key_text
from relayconf.fleet.records import applied_text, read_applied
from relayconf.fleet.scripts import APPLIED, AUDIT, SEEN, STREAM

T = TypeVar("T")

#: Before a call: nothing happens. After it: it takes place, and its answer is lost.
REQUEST_LOST, ANSWER_LOST = "request lost", "answer lost"


def _now_ms() -> int:
    return round(time.time() * 1000)


def _new_epoch() -> str:
    return os.urandom(8).hex()


@dataclass(slots=True)
class _State:
    """Everything that a server holds and a dump keeps."""

    position: Position = NOWHERE
    at_ms: int = 0
    entries: dict[str, str] = field(default_factory=dict)
    stream: list[tuple[str, str, str]] = field(default_factory=list)
    audit: list[tuple[str, str, str]] = field(default_factory=list)
    seen: OrderedDict[str, int] = field(default_factory=OrderedDict)
    instances: dict[str, tuple[int, InstanceRecord]] = field(default_factory=dict)
    applied: list[Json] = field(default_factory=list)


class MemoryServer:
    """A store.

    Args:
        now_ms: its clock, in milliseconds since 1970.
        new_epoch: makes the name of a new history.
        stream: how many changes it keeps for those who follow.
    """

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = _now_ms,
        new_epoch: Callable[[], str] = _new_epoch,
        stream: int = STREAM,
    ) -> None:
        self._now_ms = now_ms
        self._new_epoch = new_epoch
        self._length = stream
        self._state = _State()
        self._news = asyncio.Event()

    def flush(self) -> None:
        """Lose everything."""
        self._state = _State()
        self._wake()

    def dump(self) -> Any:
        """Return a copy of everything, for ``restore``."""
        return copy.deepcopy(self._state)

    def restore(self, dump: Any) -> None:
        """Come back from a copy, as after a restart or a failover that lost writes."""
        self._state = copy.deepcopy(dump)
        self._wake()

    def trim(self, keep: int = 0) -> None:
        """Forget all but the last changes of the stream."""
        self._state.stream = self._state.stream[len(self._state.stream) - keep :] if keep else []

    def standing(self) -> Standing:
        """Return where it stands."""
        return Standing(self._state.position, self._now_ms())

    def snapshot(self, since: Position = NOWHERE) -> Snapshot:
        """Return everything that is in the state."""
        items = [read_item(line) for line in self._state.entries.values()]
        found = tuple(item for item in items if item is not None)
        return Snapshot(self.standing(), found, self._continues(since))

    def after(self, revision: int) -> list[Item]:
        """Return the changes after a revision that it still knows."""
        items = (read_item(*entry) for entry in self._state.stream)
        return [item for item in items if item is not None and item.position.revision > revision]

    def change(self, change: Change) -> Outcome:
        """Write one entry, or say why not."""
        if not is_change_id(change.id):
            raise ValueError(f"{change.id!r} cannot be the id of a change")
        # Read once, as a server's script does: the change and its answer have one time.
        now, state = self._now_ms(), self._state
        if not state.position.epoch:
            self._state = state = _State(
                Position(self._new_epoch(), 0, ""), instances=state.instances
            )
        key = key_text(change.entry.key)
        there = state.entries.get(key)
        current = None if there is None else read_item(there)
        seen = state.seen.get(change.id)
        if seen is not None:
            return Outcome(True, True, self.standing(), seen, durability=Durability(0, None))
        if current is not None and current.position[:2] != change.expected[:2]:
            return Outcome(False, False, self.standing(), 0, current)
        self._write(change, key, now)
        standing = Standing(self._state.position, now)
        revision = standing.position.revision
        return Outcome(True, False, standing, revision, durability=Durability(0, None))

    def heartbeat(self, record: InstanceRecord) -> Standing:
        """Note what an instance says."""
        now, state = self._now_ms(), self._state
        _, before = state.instances.get(record.id, (0, None))
        state.instances[record.id] = (now, record)
        if before is not None and before.applied != record.applied:
            position = state.position.revision
            line = read_applied(applied_text(record), now, position, state.at_ms)
            state.applied = [*state.applied, line or {}][-APPLIED:]
        return self.standing()

    def instances(self, silent_ms: int = 0) -> list[InstanceRecord]:
        """Return every instance."""
        now = self._now_ms()
        listed = [replace(r, age_ms=max(0, now - at)) for at, r in self._state.instances.values()]
        return [record for record in listed if record.age_ms >= silent_ms]

    def sign_off(self, instance: str) -> None:
        """Forget an instance."""
        self._state.instances.pop(instance, None)

    def audit(self, limit: int) -> list[Json]:
        """Return the last lines of the audit."""
        return [audit_line(*entry) for entry in self._state.audit[-limit:]]

    def applied(self, limit: int) -> list[Json]:
        """Return what was applied last, and when."""
        return self._state.applied[-limit:]

    async def news(self, timeout_ms: int) -> None:
        """Wait until something is written, at most so long."""
        self._news = asyncio.Event() if self._news.is_set() else self._news
        try:
            await asyncio.wait_for(self._news.wait(), timeout_ms / 1000)
        except TimeoutError:
            return

    def _write(self, change: Change, key: str, now: int) -> None:
        state = self._state
        at_ms = max(now, state.at_ms + 1, change.after_ms + 1)
        expires_ms = None if change.ttl_ms is None else now + change.ttl_ms
        epoch, revision, previous = state.position
        where = (revision + 1, epoch)
        line = line_text(change.id, body_text(change), where, at_ms, expires_ms)
        entry = (line, previous, digest(previous, line))
        state.position = Position(epoch, revision + 1, entry[2])
        state.at_ms = at_ms
        state.entries[key] = line
        state.stream = [*state.stream, entry][-self._length :]
        state.audit = [*state.audit, entry][-AUDIT:]
        state.seen[change.id] = revision + 1
        if len(state.seen) > SEEN:
            state.seen.popitem(last=False)
        self._wake()

    def _continues(self, since: Position) -> bool | None:
        epoch, revision, head = self._state.position
        if since.epoch != epoch or since.revision > revision:
            return since == NOWHERE
        if since.revision in (0, revision):
            return since.revision == 0 or since.head == head
        for item in self.after(since.revision - 1):
            if item.position.revision == since.revision:
                return item.position.head == since.head
            return item.previous == since.head if item.position.revision == since[1] + 1 else None
        return None

    def _wake(self) -> None:
        self._news.set()


class MemoryEngine:
    """A connection to a ``MemoryServer``; an ``Engine``.

    Args:
        server: the store.
        fault: asked at each call, with its name, what goes wrong: ``REQUEST_LOST``,
            ``ANSWER_LOST``, or ``None`` for nothing.
    """

    def __init__(
        self, server: MemoryServer, *, fault: Callable[[str], str | None] | None = None
    ) -> None:
        self.server = server
        self.fault = fault

    async def snapshot(self, since: Position = NOWHERE) -> Snapshot:
        """See ``Engine``."""
        return self._call("snapshot", lambda: self.server.snapshot(since))

    async def follow(self, since: Position, timeout_ms: int) -> Sequence[Item]:
        """See ``Engine``."""
        found = self._call("follow", lambda: self.server.after(since.revision))
        if not found and timeout_ms > 0:
            await self.server.news(timeout_ms)
            found = self._call("follow", lambda: self.server.after(since.revision))
        return found

    async def change(self, change: Change) -> Outcome:
        """See ``Engine``."""
        return self._call("change", lambda: self.server.change(change))

    async def heartbeat(self, record: InstanceRecord) -> Standing:
        """See ``Engine``."""
        return self._call("heartbeat", lambda: self.server.heartbeat(record))

    async def instances(self, *, silent_ms: int = 0) -> Sequence[InstanceRecord]:
        """See ``Engine``."""
        return self._call("instances", lambda: self.server.instances(silent_ms))

    async def sign_off(self, instance: str) -> None:
        """See ``Engine``."""
        self._call("sign_off", lambda: self.server.sign_off(instance))

    async def audit(self, limit: int = AUDIT) -> Sequence[Json]:
        """See ``Engine``."""
        return self._call("audit", lambda: self.server.audit(limit))

    async def applied(self, limit: int = APPLIED) -> Sequence[Json]:
        """See ``Engine``."""
        return self._call("applied", lambda: self.server.applied(limit))

    async def close(self) -> None:
        """See ``Engine``."""

    def _call(self, name: str, work: Callable[[], T]) -> T:
        fault = None if self.fault is None else self.fault(name)
        if fault == REQUEST_LOST:
            raise FleetUnavailable("the store in memory was told to lose this request")
        answer = work()
        if fault == ANSWER_LOST:
            raise FleetUnavailable("the store in memory was told to lose this answer")
        return answer
