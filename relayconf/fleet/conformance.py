"""Whether an engine keeps what ``Engine`` promises: a suite that any implementation can run.

Each check is a coroutine that raises ``AssertionError`` with a sentence. A test of an engine is
then::

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_conforms(check, connect):
        asyncio.run(check(connect))

``connect`` returns another connection to one store, which is empty before each check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from relayconf.fleet import chain
from relayconf.fleet.engine import Change, Engine, InstanceRecord, Outcome
from relayconf.fleet.record import NOWHERE, FleetEntry, Position, Scope
from relayconf.overrides.document import Override

Connect = Callable[[], Engine]
Check = Callable[[Connect], Coroutine[Any, Any, None]]

#: Text that every layer in between would love to interpret.
ODD = 'a "quoted"\\n\n{1,2} é 🦊 \' $(x) %s \x00 \u2028 end'

#: How long a follower waits for what must come, in milliseconds.
_PATIENCE_MS = 20_000


def kill(name: str, change: str, *, reason: str = "r", scope: Scope | None = None) -> Change:
    """Return a change that kills a flag, made in view of nothing."""
    override = Override(change, "target", name, "kill", "false", reason, "somebody", store="fleet")
    return Change(change, FleetEntry(override, scope or Scope()))


def restore(name: str, change: str, expected: Position = NOWHERE) -> Change:
    """Return a change that writes a tombstone."""
    made = kill(name, change)
    return Change(change, made.entry._replace(tombstone=True), expected)


def _expect(holds: object, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


async def an_empty_store_is_nowhere(connect: Connect) -> None:
    """A store without any change has no epoch, no entry and no past."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        snapshot = await engine.snapshot()
        _expect(snapshot.standing.position == NOWHERE, "an empty store stands somewhere")
        _expect(snapshot.items == (), "an empty store holds something")
        _expect(snapshot.standing.time_ms > 0, "it does not say what time it is")
        _expect(not await engine.follow(NOWHERE, 0), "an empty store has changes")
        _expect(list(await engine.audit()) == [], "an empty store has an audit")


async def a_change_is_one_step(connect: Connect) -> None:
    """A change adds one revision, with a head of its own, and everything shows it."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        outcome = await engine.change(kill("A", "c1"))
        _expect(outcome.accepted and not outcome.repeated, "a first change was not accepted")
        position = outcome.standing.position
        _expect(position.revision == outcome.revision == 1, "the first revision is not 1")
        _expect(position.epoch and position.head, "an epoch or a head is missing")
        snapshot = await engine.snapshot()
        _expect(snapshot.standing.position == position, "the snapshot stands elsewhere")
        (item,) = snapshot.items
        _expect(item.body["name"] == "A" and item.body["id"] == "c1", "another entry was kept")
        _expect(item.position[:2] == position[:2], "the entry has another position")
        (same,) = await engine.follow(NOWHERE, 0)
        _expect(same.position == position and same.previous == "", "the stream says otherwise")
        _expect(same.body == item.body, "the stream holds another entry than the state")


async def revisions_follow_each_other(connect: Connect) -> None:
    """Each change follows the one before it, by revision and by head."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        for number in range(5):
            await engine.change(kill(f"F{number}", f"c{number}"))
        items = await engine.follow(NOWHERE, 0)
        _expect([i.position.revision for i in items] == [1, 2, 3, 4, 5], "revisions are missing")
        heads = ["", *(item.position.head for item in items)]
        _expect([i.previous for i in items] == heads[:-1], "a change does not name its predecessor")
        times = [item.at_ms for item in items]
        _expect(times == sorted(set(times)), "two changes have the same time")
        rest = await engine.follow(items[2].position, 0)
        _expect(list(rest) == list(items[3:]), "following from a position yields something else")


async def a_change_has_one_effect(connect: Connect) -> None:
    """The same change again, also from elsewhere, changes nothing and has the same answer."""
    async with AsyncExitStack() as stack:
        one, other = (_closing(stack, connect()) for _ in range(2))
        first = await one.change(kill("A", "c1"))
        await one.change(kill("B", "c2"))
        again = await other.change(kill("A", "c1"))
        _expect(again.accepted and again.repeated, "a repeated change is not told from a new one")
        _expect(again.revision == first.revision, "a repeated change has another revision")
        _expect(again.standing.position.revision == 2, "a repeated change was written again")
        _expect(len(await one.follow(NOWHERE, 0)) == 2, "a repeated change was streamed again")


async def a_change_that_was_overtaken_conflicts(connect: Connect) -> None:
    """Who did not know of the entry that is there changes nothing, and learns of it."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        first = await engine.change(kill("A", "c1"))
        refused = await engine.change(restore("A", "c2"))
        _expect(not refused.accepted, "a change in view of nothing replaced an entry")
        _expect(refused.current and refused.current.body["id"] == "c1", "it is not said by what")
        _expect(refused.standing.position == first.standing.position, "a conflict wrote something")
        elsewhere = first.standing.position._replace(epoch="another")
        refused = await engine.change(restore("A", "c3", elsewhere))
        _expect(not refused.accepted, "a revision of another epoch counted as known")
        taken = await engine.change(restore("A", "c4", first.standing.position))
        _expect(taken.accepted and taken.revision == 2, "a change in view of what is there failed")


async def an_id_is_plain(connect: Connect) -> None:
    """What cannot be the id of a change is refused, and changes nothing."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        for bad in ("", "a b", 'a"b', "a\n", "é", "x" * 65):
            try:
                await engine.change(kill("A", bad))
            except ValueError:
                continue
            raise AssertionError(f"{bad!r} was taken for an id")
        _expect((await engine.snapshot()).standing.position == NOWHERE, "something was written")


async def one_of_many_wins(connect: Connect) -> None:
    """Of several changes in view of the same entry one is accepted."""
    async with AsyncExitStack() as stack:
        engines = [_closing(stack, connect()) for _ in range(4)]
        first = await engines[0].change(kill("A", "c0"))
        changes = [
            replace(kill("A", f"c{number}"), expected=first.standing.position)
            for number in range(1, 5)
        ]
        pairs = zip(engines, changes, strict=True)
        outcomes = await asyncio.gather(*(engine.change(change) for engine, change in pairs))
        _expect(sum(outcome.accepted for outcome in outcomes) == 1, "not one change was accepted")


async def a_missing_entry_is_no_conflict(connect: Connect) -> None:
    """A tombstone is written where there is nothing to restore, whatever was expected."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        outcome = await engine.change(restore("A", "c1", Position("lost", 7, "")))
        _expect(outcome.accepted, "a tombstone was refused where nothing is")
        (item,) = (await engine.snapshot()).items
        _expect(item.body["tombstone"] is True, "the tombstone was not kept")


async def scopes_are_apart(connect: Connect) -> None:
    """Entries for different deployments and hosts do not meet."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        scopes = (Scope(), Scope("prod"), Scope(None, "h1"), Scope("prod", "h1"))
        for number, scope in enumerate(scopes):
            outcome = await engine.change(kill("A", f"c{number}", scope=scope))
            _expect(outcome.accepted, f"an entry for {scope} met another one")
        _expect(len((await engine.snapshot()).items) == len(scopes), "entries are missing")


async def text_is_data(connect: Connect) -> None:
    """Whatever a text holds comes back as it was."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        await engine.change(kill(ODD, "c1", reason=ODD))
        (item,) = (await engine.snapshot()).items
        _expect(item.body["name"] == ODD, "the name was changed on its way")
        _expect(item.body["reason"] == ODD, "the reason was changed on its way")


async def an_end_is_on_the_servers_clock(connect: Connect) -> None:
    """An entry with a TTL ends that long after the server's time; one without never does."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        outcome = await engine.change(replace(kill("A", "c1"), ttl_ms=60_000))
        await engine.change(kill("B", "c2"))
        ends = {i.body["name"]: i.expires_ms for i in (await engine.snapshot()).items}
        _expect(ends["A"] == outcome.standing.time_ms + 60_000, "the end is another")
        _expect(ends["B"] is None, "an entry without a TTL ends")


async def a_change_comes_after_what_was_seen(connect: Connect) -> None:
    """A change is later than what its writer has seen, whatever the server's clock says."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        future = (await engine.snapshot()).standing.time_ms + 3_600_000
        await engine.change(replace(kill("A", "c1"), after_ms=future))
        await engine.change(kill("B", "c2"))
        times = [item.at_ms for item in await engine.follow(NOWHERE, 0)]
        _expect(times[0] == future + 1, "the change is not later than what was seen")
        _expect(times[1] > times[0], "a later revision has an earlier time")


async def a_follower_is_woken(connect: Connect) -> None:
    """Who waits for changes gets them when they are made, not when the time is over."""
    async with AsyncExitStack() as stack:
        reader, writer = (_closing(stack, connect()) for _ in range(2))
        await reader.snapshot()
        waiting = asyncio.ensure_future(reader.follow(NOWHERE, _PATIENCE_MS))
        await asyncio.sleep(0.05)
        outcome = await writer.change(kill("A", "c1"))
        (item,) = await waiting
        _expect(item.position == outcome.standing.position, "another change came")


async def following_ends(connect: Connect) -> None:
    """Without changes following ends by itself, with nothing."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        outcome = await engine.change(kill("A", "c1"))
        _expect(not await engine.follow(outcome.standing.position, 30), "there was a change")


async def a_snapshot_tells_the_history(connect: Connect) -> None:
    """A snapshot says whether the history that was known goes on."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        first = (await engine.change(kill("A", "c1"))).standing.position
        await engine.change(kill("B", "c2"))
        _expect((await engine.snapshot(first)).continues is True, "its own past is foreign to it")
        other = first._replace(head="0" * 40)
        _expect((await engine.snapshot(other)).continues is False, "a foreign past is its own")
        later = first._replace(revision=9)
        _expect((await engine.snapshot(later)).continues is False, "its future is its past")


async def heartbeats_tell_the_standing(connect: Connect) -> None:
    """A heartbeat says where the store stands, and lists its instance with what it said last."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        record = _record("i1")
        _expect((await engine.heartbeat(record)).position == NOWHERE, "it stands somewhere")
        position = (await engine.change(kill("A", "c1"))).standing.position
        flags = {"A": {"value": False, "layer": "fleet", "status": "killed"}}
        applied = replace(record, applied=position, flags=flags)
        for _ in range(2):
            _expect((await engine.heartbeat(applied)).position == position, "it stands elsewhere")
        (seen,) = await engine.instances()
        _expect(replace(seen, age_ms=0) == applied, f"the instance is listed as {seen}")
        _expect(not seen.gone, "an instance that was just heard of is gone")
        (line,) = await engine.applied()
        _expect(
            line["instance"] == "i1" and line["revision"] == 1, "it is not told what it applied"
        )


async def who_signs_off_is_not_listed(connect: Connect) -> None:
    """An instance that signs off is not on the list any more; others are."""
    async with AsyncExitStack() as stack:
        one, other = (_closing(stack, connect()) for _ in range(2))
        await one.heartbeat(_record("i1"))
        await other.heartbeat(_record("i2"))
        await one.sign_off("i1")
        await one.sign_off("never-there")
        _expect([r.id for r in await one.instances()] == ["i2"], "the list is another")
        _expect(not await one.instances(silent_ms=60_000), "who was just heard of is not silent")
        await one.heartbeat(_record("i1"))
        _expect(len(await one.instances()) == 2, "who comes back is not listed")


async def the_audit_is_chained(connect: Connect) -> None:
    """The audit holds each change, whole and in its order, and verifies."""
    async with AsyncExitStack() as stack:
        engine = _closing(stack, connect())
        first = await engine.change(kill("A", "c1", reason=ODD))
        await engine.change(kill("A", "c1"))
        await engine.change(restore("A", "c2", first.standing.position))
        lines = list(await engine.audit())
        _expect([line["revision"] for line in lines] == [1, 2], "the audit has other lines")
        _expect(lines[0]["entry"]["reason"] == ODD, "the audit does not say why")
        _expect(chain.verify(lines) == [], f"the audit is broken: {chain.verify(lines)}")
        _expect(len(await engine.audit(1)) == 1, "the audit is longer than was asked for")


async def a_closed_engine_opens_again(connect: Connect) -> None:
    """Closing twice does nothing; a call afterwards connects anew."""
    engine = connect()
    await engine.close()
    await engine.change(kill("A", "c1"))
    await engine.close()
    await engine.close()
    _expect(len((await engine.snapshot()).items) == 1, "what was written is gone")
    await engine.close()


def _closing(stack: AsyncExitStack, engine: Engine) -> Engine:
    stack.push_async_callback(engine.close)
    return engine


def _record(instance: str) -> InstanceRecord:
    return InstanceRecord(instance, "target", "host", 7, NOWHERE, names=("A", "B"), deployment="d")


def accepted(outcome: Outcome) -> Position:
    """Return the position that an accepted change led to."""
    _expect(outcome.accepted, "the change is in conflict")
    return outcome.standing.position


CHECKS: tuple[Check, ...] = (
    an_empty_store_is_nowhere,
    a_change_is_one_step,
    revisions_follow_each_other,
    a_change_has_one_effect,
    a_change_that_was_overtaken_conflicts,
    an_id_is_plain,
    one_of_many_wins,
    a_missing_entry_is_no_conflict,
    scopes_are_apart,
    text_is_data,
    an_end_is_on_the_servers_clock,
    a_change_comes_after_what_was_seen,
    a_follower_is_woken,
    following_ends,
    a_snapshot_tells_the_history,
    heartbeats_tell_the_standing,
    who_signs_off_is_not_listed,
    the_audit_is_chained,
    a_closed_engine_opens_again,
)
