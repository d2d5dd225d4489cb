"""What a call hears of, what it cannot hear of, and when it looks around for itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay import protocol
from relay.client.wakes import ThreadWakes
from relay.client.writer import Writer
from relay.errors import BadRequest

Appear = Callable[[Path, str, bytes], None]
Tell = Callable[..., None]

#: Seconds of a wait that is woken long before.
PATIENCE = 30.0

ANSWER = b'{"ok":true,"text":"found"}'


class Call:
    """A call of a writer, driven by hand. Made, it has come to its first wait."""

    def __init__(self, wakes: ThreadWakes, writer: Writer, args: Any = None) -> None:
        exchange = writer.exchange("any", args)
        self._wakes = wakes
        self._steps = exchange.steps()
        self.waiter = exchange.waiter
        next(self._steps)
        self.heard = wakes.listen(self.waiter)
        self._steps.send(self.heard)

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
    def test_that_another_call_has_read(
        self, session: Path, wakes: ThreadWakes, tell: Tell
    ) -> None:
        """What one call was woken for is known to the next one of any writer in the process."""
        writers = Writer(session), Writer(session)
        for writer in writers:
            Call(wakes, writer).end()
        first = Call(wakes, writers[0])
        assert first.heard
        tell(RELAY_RESPONSE_WATCH_ENABLED=(False, "override"))
        assert first.wait()
        assert not Call(wakes, writers[1]).end().waiter.watch

    def test_from_before_a_call(self, session: Path, wakes: ThreadWakes, tell: Tell) -> None:
        """A kill that nobody has read yet ends the first wait of the next call at once."""
        writer = Writer(session)
        Call(wakes, writer).end()
        tell(RELAY_RESPONSE_WATCH_ENABLED=(False, "override"))
        call = Call(wakes, writer)
        call.look(woken=call.wait())
        assert not call.end().waiter.watch

    def test_a_refused_call_keeps_none_to_itself(
        self, session: Path, wakes: ThreadWakes, tell: Tell
    ) -> None:
        """A call that was to look around, and came to nothing before, leaves that to the next."""
        writer = Writer(session)
        Call(wakes, writer).end()
        first = Call(wakes, writer)
        tell(RELAY_RESPONSE_WATCH_ENABLED=(False, "override"))
        assert first.wait()
        with pytest.raises(BadRequest):
            Call(wakes, writer, {"no": object()})
        assert not Call(wakes, writer).end().waiter.watch

    def test_a_directory_that_is_away_for_a_moment(
        self, session: Path, wakes: ThreadWakes, appear: Appear
    ) -> None:
        """A call that is under way when its directory is moved goes on, as long as it has time."""
        writer = Writer(session)
        Call(wakes, writer).end()
        call = Call(wakes, writer)
        assert call.heard
        away = session.rename(session.parent / "away")
        assert call.wait()
        assert call.look(woken=True) is None
        away.rename(session)
        appear(session, call.waiter.name, ANSWER)
        assert call.wait()
        assert "found" == call.look(woken=True)


class TestUnheard:
    def test_a_runner_that_signals_no_more(
        self, session: Path, wakes: ThreadWakes, appear: Appear, tell: Tell
    ) -> None:
        """Its relay.json is not heard of, and is read after the first answer that was not, either.

        However soon the poll finds each answer.
        """
        tell(["signal"])
        writer = Writer(session)
        assert Call(wakes, writer).end().waiter.signals
        tell()
        call = Call(wakes, writer)
        appear(session, call.waiter.name, ANSWER)
        assert "found" == call.look(woken=False)
        call.end()
        assert not Call(wakes, writer).end().waiter.signals

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
        last = Call(wakes, writer)
        last.look(woken=last.wait())
        assert [True, True, False, True] == [*seen, last.end().waiter.signals]

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
        wakes.listen(believes.waiter)
        wakes.leave(believes.waiter)
        appear(session, call.waiter.name, ANSWER)
        assert call.wait()
        assert "found" == call.look(woken=True)

    def test_nothing_goes_by_events_alone(
        self, session: Path, wakes: ThreadWakes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A change that no event tells of reaches a writer that is never idle after a second."""
        now = [0.0]
        monkeypatch.setattr("relay.client.wakes.monotonic", lambda: now[0])
        writer = Writer(session)
        Call(wakes, writer).end()
        # Written in place, and not renamed.
        told = {"protocol": 1, "features": ["signal"]}
        (session / protocol.RELAY_JSON).write_text(json.dumps(told))
        seen = []
        for now[0] in (0.9, 1.1):
            seen.append(Call(wakes, writer).end().waiter.signals)
        assert [False, True] == seen
