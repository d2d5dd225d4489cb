"""What a call knows before it asks, what it hears of while it waits, and what it does not hear."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from relay import protocol
from relay.client.wakes import ThreadWakes
from relay.client.writer import Writer

Appear = Callable[[Path, str, bytes], None]
Tell = Callable[..., None]

#: Seconds of a wait that is woken long before.
PATIENCE = 30.0

ANSWER = b'{"ok":true,"text":"found"}'


class Call:
    """A call of a writer, driven by hand. Made, it has come to its first wait."""

    def __init__(self, wakes: ThreadWakes, writer: Writer) -> None:
        exchange = writer.exchange("any")
        self._wakes = wakes
        self._steps = exchange.steps()
        self.waiter = exchange.waiter
        next(self._steps)
        wakes.attend(self.waiter)
        next(self._steps)

    def wait(self) -> bool:
        """Wait as a thread does; tell whether there may be something to see."""
        return self._wakes.wait(self.waiter, PATIENCE)

    def look(self, *, woken: bool, told: bool = False) -> str | None:
        """Look, and return the text that ended the call, if one did.

        ``told`` is whether the signal of an answer that was found unheard comes after all.
        """
        try:
            self._steps.send(woken)
            if not woken and self.waiter.signals:
                self._steps.send(told)
        except StopIteration as done:
            text: str = done.value
            return text
        return None

    def end(self) -> Call:
        """End it where it would wait next."""
        self._wakes.attend(self.waiter)
        self._wakes.leave(self.waiter)
        self._steps.close()
        return self


@pytest.fixture
def wakes() -> ThreadWakes:
    """Return a waiting place."""
    return ThreadWakes()


class TestNews:
    def test_reaches_the_next_call(self, session: Path, wakes: ThreadWakes, tell: Tell) -> None:
        """A kill that was published before a call goes for that very call, of every writer."""
        writers = Writer(session), Writer(session)
        for flag in ((True, "default"), (False, "override"), (True, "default")):
            tell(RELAY_RESPONSE_WATCH_ENABLED=flag)
            seen = [Call(wakes, writer).end().waiter.watch for writer in writers]
            assert [flag[0]] * 2 == seen

    def test_of_which_no_event_tells(self, session: Path, wakes: ThreadWakes, tell: Tell) -> None:
        """Nothing goes by events alone: a relay.json that is written in place is read as well."""
        tell()
        writer = Writer(session)
        assert not Call(wakes, writer).end().waiter.signals
        told = {"protocol": 1, "features": ["signal"]}
        (session / protocol.RELAY_JSON).write_text(json.dumps(told))
        assert Call(wakes, writer).end().waiter.signals

    def test_a_directory_that_is_away_for_a_moment(
        self, session: Path, wakes: ThreadWakes, appear: Appear
    ) -> None:
        """A call that is under way when its directory is moved goes on, as long as it has time."""
        writer = Writer(session)
        Call(wakes, writer).end()
        call = Call(wakes, writer)
        away = session.rename(session.parent / "away")
        assert call.wait()
        assert call.look(woken=True) is None
        away.rename(session)
        appear(session, call.waiter.name, ANSWER)
        assert call.wait()
        assert "found" == call.look(woken=True)


class TestUnheard:
    def test_a_runner_that_does_not_signal_although_it_was_said(
        self, session: Path, wakes: ThreadWakes, appear: Appear, tell: Tell
    ) -> None:
        """Where a dead runner has left its relay.json, renames are waited for after two answers."""
        tell(["signal"])
        writer = Writer(session)
        seen = []
        for _ in range(3):
            call = Call(wakes, writer)
            seen.append(call.waiter.signals)
            appear(session, call.waiter.name, ANSWER)
            assert "found" == call.look(woken=not call.waiter.signals and call.wait())
            call.end()
        tell(["signal"], RELAY_POLL_MS=(1000, "default"))
        seen.append(Call(wakes, writer).end().waiter.signals)
        assert [True, True, False, True] == seen

    def test_a_signal_that_comes_late(
        self, session: Path, wakes: ThreadWakes, appear: Appear, tell: Tell
    ) -> None:
        """Where the poll finds answers before their signals are read, their runner is believed."""
        tell(["signal"])
        writer = Writer(session)
        for _ in range(3):
            call = Call(wakes, writer)
            assert call.waiter.signals
            appear(session, call.waiter.name, ANSWER)
            assert "found" == call.look(woken=False, told=True)
            call.end()

    def test_an_answer_before_its_event_is_listened_for(
        self, session: Path, wakes: ThreadWakes, appear: Appear, tell: Tell
    ) -> None:
        """Who waits for another event from now on looks once more before it waits."""
        tell(["signal"])
        call = Call(wakes, Writer(session))
        tell()
        # It is read in this look.
        assert call.look(woken=False) is None
        appear(session, call.waiter.name, ANSWER)
        assert call.wait()
        assert "found" == call.look(woken=True)

    def test_what_another_writer_waits_for(
        self, session: Path, wakes: ThreadWakes, appear: Appear, tell: Tell
    ) -> None:
        """A writer that believes an older relay.json takes no event from one that knows better."""
        tell(["signal"])
        believes = Writer(session).exchange("any")
        tell()
        call = Call(wakes, Writer(session))
        wakes.attend(believes.waiter)
        wakes.leave(believes.waiter)
        appear(session, call.waiter.name, ANSWER)
        assert call.wait()
        assert "found" == call.look(woken=True)
