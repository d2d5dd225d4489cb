"""What changes under a waiting writer: its directory, and what its runner tells it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay import protocol
from relay.client.wakes import ThreadWakes, Waiter
from relay.client.writer import Writer
from relay.errors import CallTimeout

Serve = Callable[..., Any]
Appear = Callable[[Path, str, bytes], None]

#: Seconds of a wait that is woken long before.
PATIENCE = 30.0


@pytest.fixture
def tell(session: Path, appear: Appear) -> Callable[..., None]:
    """Return a function that publishes a relay.json as a runner does."""

    def publish(**settings: tuple[object, str]) -> None:
        entries = {name: {"value": v, "layer": layer} for name, (v, layer) in settings.items()}
        body = {"protocol": 1, "runner": "r", "generation": 1, "settings": entries, "tools": []}
        appear(session, protocol.RELAY_JSON, json.dumps(body).encode())

    return publish


class TestDirectoryReplaced:
    def test_between_calls(self, session: Path, serve: Serve) -> None:
        """A writer goes on in a directory that was deleted and made again."""
        first = serve(session)
        writer = Writer(session)
        assert "1" == writer.call("echo", {"text": "1"})
        first.stop()
        session.rmdir()
        session.mkdir()
        serve(session)
        assert "2" == writer.call("echo", {"text": "2"})

    def test_while_a_request_lies_there(
        self, session: Path, appear: Appear, tmp_path: Path
    ) -> None:
        """A request that nobody had taken is put again into the directory that replaces its own."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(True)
        session.rename(tmp_path / "old")
        session.mkdir()
        pause = steps.send(False)
        assert ([], 1) == (os.listdir(tmp_path / "old"), len(os.listdir(session)))
        appear(session, pause.name, b'{"ok":true,"text":"found"}')
        with pytest.raises(StopIteration) as done:
            steps.send(True)
        assert "found" == done.value.value

    def test_a_request_that_was_taken_is_not_asked_twice(
        self, session: Path, appear: Appear, tmp_path: Path
    ) -> None:
        """A request that a runner may have is never published again."""
        steps = Writer(session).exchange("any").steps()
        next(steps)
        steps.send(True)
        for path in session.iterdir():
            path.unlink()
        session.rename(tmp_path / "old")
        session.mkdir()
        pause = steps.send(False)
        assert [] == os.listdir(session)
        appear(session, pause.name, b'{"ok":true,"text":"found"}')
        with pytest.raises(StopIteration) as done:
            steps.send(True)
        assert "found" == done.value.value

    def test_a_vanished_directory_ends_at_the_deadline(self, session: Path) -> None:
        """A directory that is gone for good ends a call at its deadline, as a timeout."""
        now = [0.0]
        steps = Writer(session, clock=lambda: now[0]).exchange("any", timeout=1).steps()
        next(steps)
        steps.send(True)
        for path in session.iterdir():
            path.unlink()
        session.rmdir()
        assert 0 < steps.send(False).seconds
        now[0] = 1.0
        with pytest.raises(CallTimeout):
            steps.send(False)


class TestRelayJson:
    def test_a_kill_reaches_a_waiting_call(self, session: Path, tell: Callable[..., None]) -> None:
        """A call that waits on its watch leaves it when the flag is killed outside."""
        writer = Writer(session)
        steps = writer.exchange("any").steps()
        next(steps)
        assert steps.send(True).watch
        tell(RELAY_RESPONSE_WATCH_ENABLED=(False, "fleet"))
        assert not steps.send(True).watch
        tell(RELAY_RESPONSE_WATCH_ENABLED=(True, "default"))
        assert steps.send(False).watch
        steps.close()

    def test_a_change_wakes_a_waiting_call(self, session: Path, tell: Callable[..., None]) -> None:
        """A new relay.json is acted on when it appears, and not at the next poll."""
        steps = Writer(session).exchange("any").steps()
        wakes, waiter = ThreadWakes(), Waiter()
        wakes.wait(waiter, next(steps))
        pause = steps.send(True)._replace(seconds=PATIENCE)
        tell(RELAY_MODE=("poll", "override"))
        assert wakes.wait(waiter, pause)
        pause = steps.send(True)
        wakes.leave(waiter)
        steps.close()
        assert not pause.watch
