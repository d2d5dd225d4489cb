"""What changes under a waiting writer: its directory, and what its runner tells it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay.client.wakes import ThreadWakes
from relay.client.writer import Writer
from relay.errors import CallTimeout, NoDirectory
from relay.protocol import Response

Serve = Callable[..., Any]
Appear = Callable[[Path, str, bytes], None]

#: Seconds of a wait that is woken long before.
PATIENCE = 30.0


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

    def test_gone_before_a_call(self, session: Path) -> None:
        """A call where there is no directory any more ends at once, and leaves nothing behind."""
        writer = Writer(session)
        moved = session.rename(session.parent / "elsewhere")
        with pytest.raises(NoDirectory):
            writer.call("any")
        assert [] == os.listdir(moved)
        moved.rmdir()
        with pytest.raises(NoDirectory):
            writer.call("any")

    def test_a_link_that_leads_elsewhere(self, tmp_path: Path, serve: Serve) -> None:
        """A call goes where the path leads now, though the directory before is still served."""
        link = tmp_path / "link"
        writer = None
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
            serve(tmp_path / name, lambda _, name=name: Response(ok=True, text=name))
            (tmp_path / "next").symlink_to(name)
            (tmp_path / "next").rename(link)
            writer = writer or Writer(link)
            assert [name] * 3 == [writer.call("any") for _ in range(3)]

    def test_moved_between_calls(self, session: Path, serve: Serve) -> None:
        """A call goes to the directory that is at the path now, and leaves nothing in another."""
        writer = Writer(session)
        moved = session.rename(session.parent / "elsewhere")
        session.mkdir()
        serve(session)
        assert "1" == writer.call("echo", {"text": "1"})
        assert [] == os.listdir(moved)

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
        steps.send(False)
        assert ([], 1) == (os.listdir(tmp_path / "old"), len(os.listdir(session)))
        appear(session, exchange.waiter.name, b'{"ok":true,"text":"found"}')
        with pytest.raises(StopIteration) as done:
            steps.send(True)
        assert "found" == done.value.value

    def test_a_request_that_was_taken_is_not_asked_twice(
        self, session: Path, appear: Appear, tmp_path: Path
    ) -> None:
        """A request that a runner may have is never published again."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(True)
        for path in session.iterdir():
            path.unlink()
        session.rename(tmp_path / "old")
        session.mkdir()
        steps.send(False)
        assert [] == os.listdir(session)
        appear(session, exchange.waiter.name, b'{"ok":true,"text":"found"}')
        with pytest.raises(StopIteration) as done:
            steps.send(True)
        assert "found" == done.value.value

    def test_a_vanished_directory_ends_at_the_deadline(self, session: Path) -> None:
        """A directory that is gone for good ends a call at its deadline, as a timeout."""
        now = [0.0]
        exchange = Writer(session, clock=lambda: now[0]).exchange("any", timeout=1)
        steps = exchange.steps()
        next(steps)
        steps.send(True)
        for path in session.iterdir():
            path.unlink()
        session.rmdir()
        assert 0 < steps.send(False)
        now[0] = 1.0
        with pytest.raises(CallTimeout):
            steps.send(False)


class TestRelayJson:
    def test_another_deadline_between_calls(self, session: Path, tell: Callable[..., None]) -> None:
        """A changed RELAY_TIMEOUT_MS counts for the next call already, and its runner is told."""
        tell(RELAY_TIMEOUT_MS=(60_000, "default"))
        writer = Writer(session)
        assert 60.0 == writer.options.timeout
        tell(RELAY_TIMEOUT_MS=(5_000, "override"))
        steps = writer.exchange("any").steps()
        next(steps)
        steps.send(False)
        (request,) = (json.loads(path.read_bytes()) for path in session.glob("*.req.json"))
        steps.close()
        assert 4_000 < request["timeoutMs"] <= 5_000

    def test_a_kill_reaches_a_waiting_call(self, session: Path, tell: Callable[..., None]) -> None:
        """A call that waits on its watch leaves it when the flag is killed outside."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        seen = [exchange.waiter.watch]
        for flag in ((False, "fleet"), (True, "default")):
            tell(RELAY_RESPONSE_WATCH_ENABLED=flag)
            steps.send(True)
            seen.append(exchange.waiter.watch)
        steps.close()
        assert [True, False, True] == seen

    def test_a_change_wakes_a_waiting_call(self, session: Path, tell: Callable[..., None]) -> None:
        """A new relay.json is acted on when it appears, and not at the next poll."""
        exchange = Writer(session).exchange("any")
        steps, waiter, wakes = exchange.steps(), exchange.waiter, ThreadWakes()
        wakes.wait(waiter, next(steps))
        steps.send(True)
        tell(RELAY_MODE=("poll", "override"))
        assert wakes.wait(waiter, PATIENCE)
        steps.send(True)
        wakes.leave(waiter)
        steps.close()
        assert not waiter.watch
