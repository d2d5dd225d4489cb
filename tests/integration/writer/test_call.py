"""The writer against a runner that keeps to the protocol: what a caller hears, and what is left."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relay
from relay.client.exchange import TAKEN, WITHDRAWN, Exchange
from relay.client.writer import Writer
from relay.errors import (
    BadRequest,
    BadResponse,
    CallError,
    CallTimeout,
    CannotPublish,
    Interrupted,
    NoDirectory,
    NotExecuted,
    Paused,
    ToolFailed,
    UnknownTool,
)
from relay.protocol import Request, Response

Serve = Callable[..., Any]
Appear = Callable[[Path, str, bytes], None]


class TestAnswers:
    def test_the_text_is_returned_and_nothing_is_left_behind(
        self, session: Path, serve: Serve
    ) -> None:
        """A caller gets the tool's text, and the directory is empty again."""
        runner = serve(session)
        assert "héllo" == relay.call("echo", {"text": "héllo"}, dir=session)
        runner.stop()
        assert [] == os.listdir(session)

    def test_the_request_is_the_ecosystems(self, session: Path, serve: Serve) -> None:
        """A TypeScript runner reads its own key order, with args an object even where none came."""
        runner = serve(session)
        relay.call("echo", dir=session, call_id="toolu_1", timeout=7)
        expected = b'{"toolName":"echo","toolCallId":"toolu_1","args":{},"timeoutMs":7000}'
        assert [expected] == runner.bodies

    def test_the_id_shows_the_call_and_never_repeats(self, session: Path, serve: Serve) -> None:
        """Two calls with one id of their own are two requests, both readable by that id."""
        runner = serve(session)
        for _ in range(2):
            relay.call("echo", dir=session, call_id="toolu/1")
        assert ["toolu_1", "toolu_1"] == [id_[:-13] for id_ in runner.ids]
        assert 2 == len(set(runner.ids))

    @pytest.mark.parametrize(
        ("code", "error", "ran"),
        [
            ("tool_error", ToolFailed, True),
            ("unknown_tool", UnknownTool, False),
            ("invalid_args", CallError, False),
            ("refused", CallError, False),
            ("busy", CallError, False),
            ("timeout", CallTimeout, True),
            ("expired", CallTimeout, False),
            ("interrupted", Interrupted, True),
            ("of_a_later_version", CallError, True),
        ],
    )
    def test_an_error_keeps_its_code(
        self, session: Path, serve: Serve, code: str, error: type[CallError], *, ran: bool
    ) -> None:
        """An error carries the runner's words, its code, and whether the tool may have run."""
        serve(session, lambda _: Response(ok=False, error="no such luck", code=code))
        with pytest.raises(error) as caught:
            relay.call("any", dir=session)
        assert ("no such luck", code, ran) == (
            str(caught.value),
            caught.value.code,
            caught.value.may_have_run,
        )

    def test_a_paused_call_says_so(self, session: Path, serve: Serve) -> None:
        """A parked call is told apart from a text and from an error."""
        serve(session, lambda _: Response(ok=True, paused=True))
        with pytest.raises(Paused, match="paused"):
            relay.call("any", dir=session)

    def test_an_answer_may_be_there_already(self, session: Path, appear: Appear) -> None:
        """A response that appears with the request is taken without any wait."""
        writer = Writer(session)
        exchange = writer.exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        appear(session, exchange.waiter.name, b'{"ok":true,"text":"early","more":[1]}')
        with pytest.raises(StopIteration) as done:
            steps.send(True)
        assert "early" == done.value.value

    @pytest.mark.parametrize(
        "body", [b"", b"nonsense", b"[]", b"{}", b'{"ok":1}', b'{"ok":true,"text":5}', b"\xff"]
    )
    def test_what_is_no_response_is_said_to_be_none(
        self, session: Path, appear: Appear, body: bytes
    ) -> None:
        """A damaged response ends the call at once, with an error of its own, and is removed."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        appear(session, exchange.waiter.name, body)
        with pytest.raises(BadResponse):
            steps.send(True)
        assert [] == [name for name in os.listdir(session) if name.endswith(".res.json")]

    @pytest.mark.parametrize("kind", ["symlink", "directory", "fifo", "hard link"])
    def test_a_planted_name_is_not_followed(self, session: Path, kind: str) -> None:
        """Something else under the response's name neither blocks the caller nor reaches it."""
        secret = session / "secret"
        secret.write_text('{"ok":true,"text":"secret"}')
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        planted = session / exchange.waiter.name
        if kind == "symlink":
            planted.symlink_to(secret)
        elif kind == "directory":
            planted.mkdir()
        elif kind == "fifo":
            os.mkfifo(planted)
        else:
            planted.hardlink_to(secret)
        with pytest.raises(BadResponse):
            steps.send(True)

    def test_a_response_over_the_limit_is_not_read(self, session: Path, serve: Serve) -> None:
        """A response beyond RELAY_MAX_RESPONSE_BYTES is removed, and named as too large."""
        serve(session, lambda _: Response(ok=True, text="x" * 2000))
        with pytest.raises(CallError, match="RELAY_MAX_RESPONSE_BYTES is 1024") as caught:
            relay.call("any", dir=session, environ={"RELAY_MAX_RESPONSE_BYTES": "1KiB"})
        assert "too_large" == caught.value.code
        assert [] == [name for name in os.listdir(session) if name.endswith(".res.json")]

    def test_half_a_surrogate_pair_is_replaced(self, session: Path, appear: Appear) -> None:
        """A text that JavaScript cut inside an emoji arrives, and can be printed."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        appear(session, exchange.waiter.name, b'{"ok":true,"text":"a\\ud83d"}')
        with pytest.raises(StopIteration) as done:
            steps.send(True)
        assert "a\N{REPLACEMENT CHARACTER}" == done.value.value


class TestAsking:
    @pytest.mark.parametrize(
        "args", [{"n": float("nan")}, {"n": float("inf")}, {"s": {1, 2}}, {"t": "\ud800"}]
    )
    def test_arguments_that_json_cannot_say_are_refused_at_once(
        self, session: Path, args: dict[str, Any]
    ) -> None:
        """Nothing is published for arguments that no runner could read."""
        with pytest.raises(BadRequest):
            relay.call("any", args, dir=session)
        assert [] == os.listdir(session)

    def test_circular_arguments_are_refused(self, session: Path) -> None:
        """Arguments that hold themselves are an error, not a crash."""
        args: dict[str, Any] = {}
        args["self"] = args
        with pytest.raises(BadRequest):
            relay.call("any", args, dir=session)

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
    def test_a_timeout_that_is_none_is_refused(self, session: Path, timeout: float) -> None:
        """A timeout has to be a positive number of seconds."""
        with pytest.raises(ValueError, match="timeout must be a positive number"):
            relay.call("any", dir=session, timeout=timeout)

    def test_a_missing_directory_is_named(self, tmp_path: Path) -> None:
        """A caller hears which directory is not there."""
        with pytest.raises(NoDirectory, match=r"not-there.*No such file"):
            relay.call("any", dir=tmp_path / "not-there")

    def test_a_file_is_no_directory(self, tmp_path: Path) -> None:
        """A path to a file is refused like a missing one."""
        (tmp_path / "file").touch()
        with pytest.raises(NoDirectory, match="Not a directory"):
            relay.call("any", dir=tmp_path / "file")

    @pytest.mark.parametrize("name", ["RELAY_DIR", "AGENTA_AGENT_TOOLS_RELAY_DIR"])
    def test_the_environment_may_name_the_directory(
        self, session: Path, serve: Serve, name: str
    ) -> None:
        """Inside a sandbox the directory comes from the environment, under either name."""
        serve(session)
        environ = {name: str(session)}
        assert "x" == relay.call("echo", {"text": "x"}, environ=environ)

    def test_no_directory_at_all(self) -> None:
        """Without any directory the message says where one may come from."""
        with pytest.raises(NoDirectory, match="RELAY_DIR"):
            relay.call("any", environ={})

    def test_a_blank_directory_is_none(self, session: Path, serve: Serve) -> None:
        """A blank never means the working directory: the environment decides, or nothing does."""
        serve(session)
        environ = {"RELAY_DIR": str(session)}
        assert "x" == relay.call("echo", {"text": "x"}, dir=" ", environ=environ)
        for blank in ("", " "):
            with pytest.raises(NoDirectory, match="RELAY_DIR"):
                relay.call("any", dir=blank, environ={"RELAY_DIR": "\t"})
            with pytest.raises(NoDirectory, match="RELAY_DIR"):
                Writer(blank)

    def test_a_request_that_cannot_be_written(self, session: Path) -> None:
        """A name that the file system does not take is an error of the caller's side."""
        (session / "any-000000000000.req.json").mkdir()
        with pytest.raises(CannotPublish, match="Is a directory"):
            Writer(session, random=bytes).call("any")
        assert 1 == len(os.listdir(session))

    def test_files_in_a_setgid_directory_are_the_groups(self, session: Path) -> None:
        """Writer and runner may be different users of one group, whatever the umask."""
        session.chmod(0o2770)
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        before = os.umask(0o077)
        try:
            next(steps)
            steps.send(False)
        finally:
            os.umask(before)
        assert [0o660] == [stat.S_IMODE(path.stat().st_mode) for path in session.iterdir()]
        steps.close()

    def test_files_elsewhere_are_the_owners_alone(self, session: Path) -> None:
        """Nobody else reads a request in an ordinary directory."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        steps.send(True)
        assert [0o600] == [stat.S_IMODE(path.stat().st_mode) for path in session.iterdir()]
        steps.close()


class TestDeadline:
    def test_without_a_runner_the_request_is_taken_back(self, session: Path) -> None:
        """A call that nobody takes ends at its deadline and can never run later."""
        with pytest.raises(CallTimeout, match="did not run") as caught:
            relay.call("any", dir=session, timeout=0.05)
        assert not caught.value.may_have_run
        assert [] == os.listdir(session)

    def test_a_request_that_a_runner_has_may_run(self, session: Path, serve: Serve) -> None:
        """A caller is told when its request was taken, and nothing was heard of it."""
        serve(session, lambda _: None)
        with pytest.raises(CallTimeout, match="a runner has it") as caught:
            relay.call("any", dir=session, timeout=0.2)
        assert caught.value.may_have_run

    def test_an_answer_between_the_last_look_and_the_withdrawal_counts(
        self, session: Path, appear: Appear
    ) -> None:
        """An answer at the very deadline is returned, and not thrown away."""
        now = [0.0]
        looked: list[str] = []

        def clock() -> float:
            if looked and now[0] < 10:
                # The writer has just looked, and asks whether its time is over.
                os.unlink(session / looked[0].replace(".res.", ".req."))
                appear(session, looked[0], b'{"ok":true,"text":"just in time"}')
                now[0] = 10.0
            return now[0]

        exchange = Writer(session, clock=clock).exchange("any", timeout=1)
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        steps.send(True)
        looked.append(exchange.waiter.name)
        with pytest.raises(StopIteration) as done:
            steps.send(True)
        assert "just in time" == done.value.value

    def test_closing_a_call_takes_its_request_back(self, session: Path) -> None:
        """A call that is given up does not run later."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        steps.send(True)
        assert 1 == len(os.listdir(session))
        steps.close()
        assert ([], WITHDRAWN) == (os.listdir(session), exchange.state)

    def test_closing_a_call_that_was_taken_says_so(self, session: Path) -> None:
        """Whoever gives a call up can tell whether it may still run."""
        exchange = Writer(session).exchange("any")
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        steps.send(True)
        for path in session.iterdir():
            path.unlink()
        steps.close()
        assert TAKEN == exchange.state


class TestPolling:
    def pauses(self, exchange: Exchange, count: int) -> list[float]:
        """Return how long the call waits each time while nothing happens."""
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        waited = [steps.send(True)] + [steps.send(False) for _ in range(count - 1)]
        steps.close()
        return waited

    def test_the_poll_grows_while_nothing_comes(self, session: Path) -> None:
        """An idle writer looks ever less often, and never less than once a second."""
        environ = {"RELAY_POLL_MS": "100", "RELAY_IDLE_GROW_AFTER": "2", "RELAY_POLL_MAX_MS": "30s"}
        writer = Writer(session, environ=environ, clock=lambda: 0.0)
        assert [0.1, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0] == self.pauses(writer.exchange("any"), 7)

    def test_the_poll_stops_growing_at_its_maximum(self, session: Path) -> None:
        """RELAY_POLL_MAX_MS bounds the growth."""
        environ = {"RELAY_POLL_MS": "100", "RELAY_IDLE_GROW_AFTER": "0", "RELAY_POLL_MAX_MS": "250"}
        writer = Writer(session, environ=environ, clock=lambda: 0.0)
        assert [0.1, 0.2, 0.25, 0.25] == self.pauses(writer.exchange("any"), 4)

    def test_the_last_wait_ends_at_the_deadline(self, session: Path) -> None:
        """No wait is longer than the time that is left."""
        writer = Writer(session, clock=lambda: 0.0)
        assert [0.25] == self.pauses(writer.exchange("any", timeout=0.25), 1)

    def test_without_a_watch_the_answer_is_found_by_polling(
        self, session: Path, serve: Serve, python: Callable[..., str]
    ) -> None:
        """With the watch off a call works, and no inotify instance is ever opened."""
        serve(session)
        program = """
import os, relay, sys
environ = {"RELAY_RESPONSE_WATCH_ENABLED": "off", "RELAY_POLL_MS": "10"}
print(relay.call("echo", {"text": "polled"}, dir=sys.argv[1], environ=environ))
print(sum("inotify" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
          if os.path.islink(f"/proc/self/fd/{fd}")))
"""
        assert "polled\n0\n" == python(program, session)


class TestNotExecuted:
    def test_a_request_that_lay_there_too_early_is_asked_again(
        self, session: Path, serve: Serve
    ) -> None:
        """A sandbox that starts before its runner loses nothing."""
        refused = [True, True]

        def answer(request: Request) -> Response:
            if refused:
                refused.pop()
                return Response(ok=False, error="started later", code="not_executed")
            return Response(ok=True, text=request.call_id)

        runner = serve(session, answer)
        environ = {"RELAY_POLL_MS": "10"}
        assert "mine" == relay.call("any", dir=session, call_id="mine", environ=environ)
        assert 3 == len(set(runner.ids))

    def test_it_ends_at_the_deadline(self, session: Path, appear: Appear) -> None:
        """Runners that start and start do not keep a caller beyond its deadline."""
        now = [0.0]
        exchange = Writer(session, clock=lambda: now[0]).exchange("any", timeout=1)
        steps = exchange.steps()
        next(steps)
        steps.send(False)
        steps.send(True)
        for path in session.iterdir():
            path.unlink()
        appear(
            session, exchange.waiter.name, b'{"ok":false,"error":"started","code":"not_executed"}'
        )
        now[0] = 1.0
        with pytest.raises(NotExecuted, match="started") as caught:
            steps.send(True)
        assert not caught.value.may_have_run

    def test_it_is_not_asked_in_a_tight_loop(self, session: Path, serve: Serve) -> None:
        """Asking again slows down, so that a restarting runner is not flooded."""
        runner = serve(session, lambda _: Response(ok=False, error="x", code="not_executed"))
        with pytest.raises(CallError):
            relay.call("any", dir=session, timeout=0.5, environ={"RELAY_POLL_MS": "200"})
        assert len(runner.ids) <= 4
