"""A runner while it runs: its bounds, its settings as they change, its peers, its end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from relay.engine.locks import Locks
from relay.engine.place import START_WAIT
from relay.errors import RelayError
from relay.protocol import Response
from relay.settings import RelaySettings
from relay.tools import python_tool
from relayconf.errors import StateError
from relayconf.layers import Sources
from relayconf.live.snapshot import Live, load


def live(*options: str) -> Live[RelaySettings]:
    """Return live settings with these options over nothing."""
    return load(RelaySettings, Sources({}, (), options))


def switch(settings: Live[RelaySettings], *options: str) -> None:
    """Replace the options."""
    settings.reload(Sources({}, (), options))


async def nap_for_ever() -> str:
    """Take more time than a test has."""
    await asyncio.Event().wait()
    return ""


class TestBounds:
    def test_no_more_than_allowed_at_once(self, hand: Any) -> None:
        """Requests over a session's bound wait in the directory, and run when there is room."""
        running, most = 0, 0

        async def busy() -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1
            return "done"

        async def go() -> list[Response]:
            async with hand.runner({"busy": busy}, session_max_in_flight=3):
                for number in range(40):
                    hand.ask(f"n{number}", "busy")
                return [await hand.answer(f"n{number}") for number in range(40)]

        assert {"done"} == {response.text for response in asyncio.run(go())}
        assert 3 == most

    def test_the_last_quarter_is_for_others(self, hand: Any) -> None:
        """One session alone gets three quarters of all slots."""
        running, most = 0, 0

        async def busy() -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.005)
            running -= 1
            return "done"

        async def go() -> None:
            async with hand.runner({"busy": busy}, max_in_flight=8):
                for number in range(40):
                    hand.ask(f"n{number}", "busy")
                for number in range(40):
                    await hand.answer(f"n{number}")

        asyncio.run(go())
        assert 6 == most

    @pytest.mark.parametrize("withdrawn", [False, True])
    def test_a_free_slot_goes_to_whoever_waits(self, hand: Any, *, withdrawn: bool) -> None:
        """A slot that the first to get it has no request for is passed on at once, to the next."""
        end = asyncio.Event()

        async def nap() -> str:
            await end.wait()
            return "slept"

        async def quick() -> str:
            return "waited for a slot"

        async def go() -> str:
            one, another, third = (hand.beside(name) for name in ("one", "another", "third"))
            # Nothing is looked at again before the test is over: only the slot's end may help.
            rare = {"poll": timedelta(minutes=1), "poll_max": timedelta(minutes=1)}
            tools = {"nap": nap, "quick": quick}
            async with hand.root_runner(tools, max_in_flight=1, **rare) as runner:
                one.ask("busy", "nap")
                await hand.until(lambda: runner.counters.executed == 1)
                gone = another.ask("gone", "quick") if withdrawn else None
                await hand.until(lambda: len(runner._loop._blocked) >= 1 + withdrawn)
                third.ask("waiting", "quick")
                await hand.until(lambda: len(runner._loop._blocked) >= 2 + withdrawn)
                if gone is not None:
                    gone.unlink()
                end.set()
                answer: Response = await third.answer("waiting")
                return answer.text

        assert "waited for a slot" == asyncio.run(go())

    def test_answering_for_the_dead_takes_turns(self, hand: Any) -> None:
        """Without a free slot, too, claims of the dead are answered within the time of a turn."""

        async def go() -> int:
            soon = timedelta(milliseconds=1)
            options = {"session_max_in_flight": 1, "drain_timeout": soon}
            async with hand.runner({"nap": nap_for_ever}, **options) as runner:
                hand.ask("busy", "nap")
                await hand.until(lambda: runner.counters.executed == 1)
                for number in range(50):
                    hand.put(f"c{number}.claim.gone", b"")
                session = runner._loop.sessions[0]
                session.bury(lambda: None)
                clock, session._shared.clock = session._shared.clock, count().__next__
                # The first may only end a listing that had begun.
                for until in (10, 30):
                    session.pump(4, until)
                session._shared.clock = clock
                return len(list(hand.session.glob("*.claim.gone")))

        assert 50 > asyncio.run(go()) >= 20

    def test_an_id_in_flight_waits(self, hand: Any) -> None:
        """A second request under an id that is being worked on runs after the first."""
        order: list[str] = []
        release = asyncio.Event()

        async def slow(name: str) -> str:
            order.append(f"{name} began")
            await release.wait()
            order.append(f"{name} ended")
            return name

        async def go() -> list[str]:
            async with hand.runner({"slow": slow}, poll=timedelta(milliseconds=20)) as runner:
                hand.ask("x", "slow", {"name": "first"})
                await hand.until(lambda: order)
                hand.ask("x", "slow", {"name": "second"})
                polls = runner.counters.polls
                await hand.until(lambda: runner.counters.polls > polls + 2)
                release.set()
                first = await hand.answer("x")
                second = await hand.answer("x")
                return [first.text, second.text]

        assert ["first", "second"] == asyncio.run(go())
        assert ["first began", "first ended", "second began", "second ended"] == order

    def test_an_answer_that_cannot_be_published_yet(self, hand: Any) -> None:
        """An answer for which there is no place is tried again, and comes when there is."""
        inside, release = asyncio.Event(), asyncio.Event()

        async def slow() -> str:
            inside.set()
            await release.wait()
            return "late"

        async def go() -> Response:
            async with hand.runner({"slow": slow}) as runner:
                hand.ask("x", "slow")
                await inside.wait()
                directory = runner._loop.sessions[0].place.directory
                # An unwritable directory does not stop root; a descriptor of another kind does.
                kept = os.dup(directory.fd)
                other = os.open(os.devnull, os.O_RDONLY)
                os.dup2(other, directory.fd)
                release.set()
                await asyncio.sleep(0.15)
                os.dup2(kept, directory.fd)
                os.close(kept)
                os.close(other)
                response: Response = await hand.answer("x")
                return response

        assert Response(ok=True, text="late") == asyncio.run(go())


class TestLiveSettings:
    def test_the_watch_goes_off_and_on(self, hand: Any) -> None:
        """Switching the watch off and on loses nothing, and each state picks up its own way."""
        settings = live("RELAY_POLL_MS=20")

        async def go() -> list[bool]:
            seen = []
            async with hand.runner(settings=settings) as runner:
                place = runner._loop.sessions[0].place
                for state in ("true", "false", "true", "false", "true"):
                    switch(settings, "RELAY_POLL_MS=20", f"RELAY_LOCAL_WATCH_ENABLED={state}")
                    response = await hand.call("echo", text=state)
                    assert state == response.text
                    seen.append(place.watch is not None)
            return seen

        assert [True, False, True, False, True] == asyncio.run(go())

    def test_mode_poll_watches_nothing(self, hand: Any) -> None:
        """RELAY_MODE=poll needs no watch anywhere, whatever the flags say."""

        async def go() -> tuple[str, bool]:
            async with hand.runner(settings=live("RELAY_MODE=poll", "RELAY_POLL_MS=20")) as runner:
                response = await hand.call("echo", text="polled")
                return response.text, runner._loop.sessions[0].place.watch is None

        assert ("polled", True) == asyncio.run(go())

    def test_writers_are_told(self, hand: Any) -> None:
        """A change of a setting that writers go by is in relay.json, with its layer."""
        settings = live()

        async def go() -> None:
            async with hand.runner(settings=settings):
                switch(settings, "RELAY_RESPONSE_WATCH_ENABLED=false")
                told = hand.session / "relay.json"
                wanted = b'"RELAY_RESPONSE_WATCH_ENABLED":{"value":false,"layer":"option"}'
                await hand.until(lambda: wanted in told.read_bytes())

        asyncio.run(go())

    def test_a_change_from_another_thread(self, hand: Any) -> None:
        """Settings may be reloaded in any thread."""
        settings = live()

        async def go() -> None:
            async with hand.runner(settings=settings):
                await asyncio.to_thread(switch, settings, "RELAY_TIMEOUT_MS=5s")
                told = hand.session / "relay.json"
                await hand.until(lambda: b'"value":5000' in told.read_bytes())

        asyncio.run(go())

    def test_bounds_apply_at_once(self, hand: Any) -> None:
        """A smaller bound refuses the very next answer."""
        settings = live()

        async def go() -> list[str]:
            codes = []
            async with hand.runner({"big": lambda: "x" * 5000}, settings=settings):
                for limit in ("1MiB", "1KiB", "1MiB"):
                    switch(settings, f"RELAY_MAX_RESPONSE_BYTES={limit}")
                    codes.append((await hand.call("big")).code)
            return codes

        assert ["", "too_large", ""] == asyncio.run(go())


class TestPeers:
    def test_the_second_joins(self, hand: Any) -> None:
        """A runner that starts beside a living one executes what lies there, and does not sweep."""

        async def go() -> list[Response]:
            slow = hand.runner(local_watch=False, poll=timedelta(minutes=1))
            async with slow:
                hand.ask("x", args={"text": "ran"})
                async with hand.runner():
                    return [await hand.answer("x")]

        assert [Response(ok=True, text="ran")] == asyncio.run(go())

    def test_the_newest_announces(self, hand: Any) -> None:
        """relay.json is the newest runner's; when it leaves, the one before announces again."""
        told = hand.session / "relay.json"

        async def go() -> list[bool]:
            seen = []
            settings = live()
            async with hand.runner(settings=settings) as old:
                async with hand.runner() as new:
                    seen.append(new.id.encode() in told.read_bytes())
                    switch(settings, "RELAY_TIMEOUT_MS=5s")
                    await hand.call("echo")
                    seen.append(new.id.encode() in told.read_bytes())
                await hand.until(lambda: old.id.encode() in told.read_bytes())
            return seen

        assert [True, True] == asyncio.run(go())

    def test_a_start_lock_that_is_held_too_long(self, hand: Any) -> None:
        """A start waits for another's start, and joins without sweeping where that takes long."""
        hand.ask("x", args={"text": "ran"})

        async def go() -> Response:
            locks = Locks(str(hand.state))
            found = hand.session.stat()
            held = locks.try_start((found.st_dev, found.st_ino))
            assert held is not None
            try:
                async with hand.runner():
                    response: Response = await hand.answer("x")
                    return response
            finally:
                held.release()
                locks.close()

        with shortened_wait():
            assert Response(ok=True, text="ran") == asyncio.run(go())

    def test_nothing_stays_behind(self, hand: Any) -> None:
        """After the last runner has left, the state directory holds no lock and no mark."""

        async def go() -> None:
            async with hand.runner(), hand.runner():
                await hand.call("echo")

        asyncio.run(go())
        assert ["runners"] == sorted(p.name for p in Path(hand.state, "locks").rglob("*"))


@contextmanager
def shortened_wait() -> Iterator[None]:
    """Wait for a start lock for a moment, instead of five seconds."""
    from relay.engine import place  # noqa: PLC0415 - the module, to change its constant

    place.START_WAIT = 0.1
    try:
        yield
    finally:
        place.START_WAIT = START_WAIT


class TestStop:
    def test_it_lets_calls_finish(self, hand: Any) -> None:
        """What is in flight at a stop gets its answer; what was not taken stays."""
        inside = asyncio.Event()

        async def slow() -> str:
            inside.set()
            await asyncio.sleep(0.1)
            return "finished"

        async def go() -> tuple[Response, list[str]]:
            async with hand.runner({"slow": slow}):
                hand.ask("x", "slow")
                await inside.wait()
            hand.ask("y", "slow")
            return await hand.answer("x"), hand.names()

        expected = (Response(ok=True, text="finished"), ["y.req.json"])
        assert expected == asyncio.run(go())

    @pytest.mark.parametrize("kind", ["obedient", "stubborn", "blocking"])
    def test_it_does_not_wait_for_ever(self, hand: Any, kind: str) -> None:
        """What is not finished in time is answered as interrupted, and nothing holds up the end."""
        inside, release = threading.Event(), threading.Event()

        async def obedient() -> None:
            inside.set()
            await asyncio.sleep(3600)

        async def stubborn() -> None:
            inside.set()
            while not release.is_set():
                try:
                    await asyncio.sleep(0.05)
                except asyncio.CancelledError:
                    continue

        def blocking() -> None:
            inside.set()
            release.wait(60)

        hang = {"obedient": obedient, "stubborn": stubborn, "blocking": blocking}[kind]

        async def go() -> Response:
            async with hand.runner({"hang": hang}, drain_timeout=timedelta(milliseconds=50)):
                hand.ask("x", "hang")
                await hand.until(inside.is_set)
            response: Response = await hand.answer("x")
            release.set()
            return response

        assert "interrupted" == asyncio.run(go()).code

    def test_it_is_over_once(self, hand: Any) -> None:
        """Stopping twice is stopping; a runner is not started twice."""

        async def go() -> None:
            runner = hand.runner()
            await runner.stop()
            await runner.start()
            assert runner.ready
            await runner.stop()
            await runner.stop()
            assert not runner.ready
            with pytest.raises(RelayError, match="started before"):
                await runner.start()

        asyncio.run(go())

    def test_descriptors_are_given_back(self, hand: Any) -> None:
        """Starting and stopping leaves no descriptor and no thread behind."""

        def open_files() -> list[str]:
            return sorted(os.listdir("/proc/self/fd"))

        async def go() -> None:
            async with hand.runner():
                await hand.call("echo")

        asyncio.run(go())
        before = open_files(), threading.active_count()
        for _ in range(5):
            asyncio.run(go())
        assert before == (open_files(), threading.active_count())


class TestBadStart:
    def test_a_missing_parent(self, hand: Any) -> None:
        """A directory is made, and its parent is not."""
        hand.session = hand.folder / "no" / "session"
        with pytest.raises(RelayError, match=r"parent .* does not exist"):
            asyncio.run(hand.runner().start())

    def test_a_file(self, hand: Any) -> None:
        """A path that is a file is refused."""
        hand.session = hand.folder / "file"
        hand.session.touch()
        with pytest.raises(RelayError, match="is not a directory"):
            asyncio.run(hand.runner().start())

    def test_the_state_in_the_session(self, hand: Any) -> None:
        """A state directory that a writer could reach is refused."""
        hand.state = hand.session / "state"
        with pytest.raises(StateError, match="lies in the session directory"):
            asyncio.run(hand.runner().start())

    def test_a_state_that_everybody_can_write(self, hand: Any) -> None:
        """A state directory that is world-writable is refused."""
        hand.state.mkdir()
        hand.state.chmod(0o777)
        with pytest.raises(StateError, match="can be written by everybody"):
            asyncio.run(hand.runner().start())

    def test_no_directory(self) -> None:
        """Without a directory, the message says what to set."""
        from relay import Runner  # noqa: PLC0415 - as a program imports it

        for given in (None, "", " "):
            with pytest.raises(RelayError, match="RELAY_DIR"):
                Runner(given, tools={}, settings=RelaySettings())
        with pytest.raises(RelayError, match="RELAY_TOOLS_FILE"):
            Runner("somewhere", settings=RelaySettings())

    def test_more_tools_than_writers_read_of(self) -> None:
        """Tools that would make relay.json too long for any writer are refused at once."""
        from relay import Runner  # noqa: PLC0415 - as a program imports it

        wordy = python_tool("wordy", lambda: None, description="word " * 250_000)
        with pytest.raises(RelayError, match="offer fewer"):
            Runner("somewhere", tools=[wordy], settings=RelaySettings())
