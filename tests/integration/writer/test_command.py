"""``relay call`` and ``relay tools`` as processes: what they print, and how they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from relay import protocol
from relay.cli import main
from relay.protocol import Request, Response

Serve = Callable[..., Any]
PATIENCE = 30.0


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class Command:
    """Runs ``python -m relay`` in the checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Start the command."""
        environ = {**os.environ, "PYTHONPATH": str(self.root), **options.pop("environ", {})}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-m", "relay", *map(str, arguments)],
            text=True,
            env=environ,
            **{**pipes, **options},
        )

    def __call__(self, *arguments: object, text: str | None = None, **options: Any) -> Ended:
        """Run the command to its end."""
        if text is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        out, err = process.communicate(text, timeout=PATIENCE)
        assert "Traceback" not in err
        return Ended(process.returncode, out, err)


@pytest.fixture
def relay(root: Path) -> Command:
    """Return the command."""
    return Command(root)


def answering(**response: Any) -> Callable[[Request], Response]:
    """Return what answers each request the same."""
    return lambda _: Response(**response)


class TestAnswers:
    def test_the_text_alone_is_on_stdout(self, relay: Command, session: Path, serve: Serve) -> None:
        """A shell gets the tool's text, one newline, and nothing else."""
        serve(session)
        assert Ended(0, "héllo\n", "") == relay(
            "call", "echo", '{"text":"héllo"}', "--dir", session
        )

    def test_a_text_that_ends_its_line_is_left_alone(
        self, relay: Command, session: Path, serve: Serve
    ) -> None:
        """No second newline is added."""
        serve(session, answering(ok=True, text="a\nb\n"))
        assert "a\nb\n" == relay("call", "any", "--dir", session).out

    def test_arguments_from_stdin(self, relay: Command, session: Path, serve: Serve) -> None:
        """A dash reads the arguments from stdin, however long they are."""
        serve(session)
        text = "x" * 300_000
        ended = relay("call", "echo", "-", f"--dir={session}", text=json.dumps({"text": text}))
        assert Ended(0, text + "\n", "") == ended

    def test_the_whole_answer_as_json(self, relay: Command, session: Path, serve: Serve) -> None:
        """With --json a program reads one object, whatever happened."""
        runner = serve(session)
        said = relay("call", "echo", '{"text":"é"}', "--dir", session, "--json")
        assert (0, {"ok": True, "text": "é"}) == (said.status, json.loads(said.out))
        runner.answer = answering(ok=False, error="no", code="refused")
        said = relay("call", "echo", "--json", "--dir", session)
        expected = {"ok": False, "error": "no", "code": "refused", "mayHaveRun": False}
        assert (1, expected) == (said.status, json.loads(said.out))

    def test_the_callers_id_reaches_the_runner(
        self, relay: Command, session: Path, serve: Serve
    ) -> None:
        """A call can be found again in the runner's log."""
        runner = serve(session)
        relay("call", "echo", "--dir", session, "--call-id", "mine", "--timeout", "1m30s")
        body = json.loads(runner.bodies[0])
        assert ("mine", True) == (body["toolCallId"], 89_000 <= body["timeoutMs"] <= 90_000)

    def test_the_environment_names_the_directory(
        self, relay: Command, session: Path, serve: Serve
    ) -> None:
        """Inside a sandbox no option is needed."""
        serve(session)
        ended = relay("call", "echo", '{"text":"x"}', environ={"RELAY_DIR": str(session)})
        assert Ended(0, "x\n", "") == ended


class TestExitStatus:
    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("tool_error", 1),
            ("invalid_args", 1),
            ("refused", 1),
            ("bad_request", 1),
            ("too_large", 1),
            ("busy", 1),
            ("of_a_later_version", 1),
            ("unknown_tool", 2),
            ("interrupted", 69),
            ("timeout", 124),
            ("expired", 124),
        ],
    )
    def test_each_way_of_ending(
        self, relay: Command, session: Path, serve: Serve, code: str, status: int
    ) -> None:
        """A shell script tells by the status what happened, and a person by one message."""
        serve(session, answering(ok=False, error="it went wrong", code=code))
        ended = relay("call", "any", "--dir", session)
        assert Ended(status, "", "relay call: it went wrong\n") == ended

    def test_paused(self, relay: Command, session: Path, serve: Serve) -> None:
        """A parked call is a temporary failure: 75."""
        serve(session, answering(ok=True, paused=True))
        ended = relay("call", "any", "--dir", session)
        assert (75, "") == (ended.status, ended.out)

    def test_not_executed(self, relay: Command, session: Path, serve: Serve) -> None:
        """A call that no runner got to run is 69, and is not said to have run."""
        serve(session, answering(ok=False, error="the runner started", code="not_executed"))
        # The second request is asked at once, and each later one after a rest: the deadline comes
        # in a rest.
        environ = {"RELAY_POLL_MS": "60s", "RELAY_POLL_MAX_MS": "60s"}
        ended = relay("call", "any", "--dir", session, "--timeout", "400ms", environ=environ)
        assert Ended(69, "", "relay call: the runner started\n") == ended

    def test_no_answer_in_time(self, relay: Command, session: Path) -> None:
        """Without a runner a call ends with 124, and leaves nothing that could run later."""
        ended = relay("call", "any", "--dir", session, "--timeout", "50")
        assert (124, []) == (ended.status, os.listdir(session))
        assert "did not run" in ended.err

    def test_no_directory(self, relay: Command, tmp_path: Path) -> None:
        """A directory that is not there is 2, and is named."""
        ended = relay("call", "any", "--dir", tmp_path / "nowhere")
        assert 2 == ended.status
        assert "nowhere" in ended.err
        assert 2 == relay("call", "any").status

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ([], "no tool is named"),
            ([""], "no tool is named"),
            (["any", "--bogus"], "'--bogus'"),
            (["any", "-x"], "'-x'"),
            (["any", "--dir"], "--dir needs a value"),
            (["any", "{}", "more"], "'more' is left"),
            (["any", "{"], "not JSON"),
            (["any", "[]"], "not an object"),
            (["any", '{"a":NaN}'], "NaN"),
            (["any", '{"a":1,"a":2}'], "twice"),
            (["any", "--timeout", "5sjunk"], "not a duration"),
            (["any", "--timeout", "0"], "longer than 0"),
            (["any", "--timeout", "-5"], "longer than 0"),
            (["any", "--timeout", "25h"], "at most 24h"),
            (["any", "--timeout", "9" * 400], "not a duration"),
            ([os.fsdecode(b"\xff")], "cannot be written as JSON: holds half of a surrogate pair"),
        ],
    )
    def test_wrong_usage(
        self, relay: Command, session: Path, arguments: list[str], said: str
    ) -> None:
        """A command line that means nothing is 2, says what is wrong, and asks nobody."""
        ended = relay("call", *arguments, environ={"RELAY_DIR": str(session)})
        assert (2, "") == (ended.status, ended.out)
        assert said in ended.err
        assert [] == os.listdir(session)

    def test_bad_settings_do_not_stop_a_call(
        self, relay: Command, session: Path, serve: Serve
    ) -> None:
        """A value that cannot be read is warned of once, and the call is made."""
        serve(session)
        environ = {"RELAY_POLL_MS": "30000junk"}
        ended = relay("call", "echo", '{"text":"x"}', "--dir", session, environ=environ)
        assert (0, "x\n") == (ended.status, ended.out)
        assert 1 == ended.err.count("RELAY_POLL_MS")

    def test_help(self, relay: Command) -> None:
        """Help is an answer, and needs no directory."""
        for command in ("call", "tools"):
            ended = relay(command, "--help")
            assert (0, "") == (ended.status, ended.err)
            assert ended.out.startswith(f"usage: relay {command}")

    def test_nothing_of_a_terminals_gets_out(
        self, relay: Command, session: Path, serve: Serve
    ) -> None:
        """What a tool says on its failure cannot move the cursor of whoever reads it."""
        serve(session, answering(ok=False, error="\x1b[2Jgone\nand \x07more", code="tool_error"))
        ended = relay("call", "any", "--dir", session)
        assert "relay call: \\x1b[2Jgone\nand \\x07more\n" == ended.err


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_takes_the_request_back(
        self, relay: Command, session: Path, until: Any, number: signal.Signals
    ) -> None:
        """A call that is stopped before any runner has it never runs, and exits 130."""
        process = relay.start("call", "any", "--dir", session)
        until(lambda: any(protocol.request_id(name) for name in os.listdir(session)))
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
        assert (130, "", []) == (process.returncode, out, os.listdir(session))
        assert f"relay call: stopped by {number.name}; " in err
        assert "taken back" in err

    def test_a_signal_after_the_claim(
        self, relay: Command, session: Path, serve: Serve, until: Any
    ) -> None:
        """A call that is stopped while it runs says that it may have run."""
        runner = serve(session, lambda _: None)
        process = relay.start("call", "any", "--dir", session)
        until(lambda: runner.ids)
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
        assert 130 == process.returncode
        assert "may have run" in err

    def test_an_ignored_signal_stays_ignored(
        self, relay: Command, session: Path, serve: Serve, until: Any
    ) -> None:
        """What a shell has shielded from a signal, as nohup does, is not ended by it."""
        go = threading.Event()
        runner = serve(session, lambda _: Response(ok=go.wait(), text="done"))
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = relay.start("call", "any", "--dir", session)
        finally:
            signal.signal(signal.SIGHUP, before)
        until(lambda: runner.ids)
        process.send_signal(signal.SIGHUP)
        go.set()
        out, _ = process.communicate(timeout=PATIENCE)
        assert (0, "done\n") == (process.returncode, out)


class TestOutput:
    def test_a_reader_that_left(self, relay: Command, session: Path, serve: Serve) -> None:
        """An answer that nobody reads is one message and status 1, not a traceback."""
        serve(session)
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as stdout:
            ended = relay("call", "echo", '{"text":"x"}', "--dir", session, stdout=stdout)
        assert 1 == ended.status
        assert "stdout cannot be written" in ended.err

    def test_a_closed_stdout(self, root: Path, session: Path) -> None:
        """Where the answer would be lost, nothing is asked."""
        command = f'exec "{sys.executable}" -m relay call any --dir "{session}" >&-'
        done = subprocess.run(
            ["sh", "-c", command],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        assert 2 == done.returncode
        assert "stdout is closed" in done.stderr
        assert [] == os.listdir(session)

    def test_a_full_disk(self, relay: Command, session: Path, serve: Serve) -> None:
        """An answer that does not fit where it should go is an error."""
        serve(session)
        with Path("/dev/full").open("w") as full:
            ended = relay("call", "echo", '{"text":"x"}', "--dir", session, stdout=full)
        assert 1 == ended.status
        assert "No space left" in ended.err


class TestTools:
    def announce(self, session: Path, tools: list[Any]) -> None:
        """Publish a relay.json with these tools."""
        fd = os.open(session, os.O_RDONLY)
        try:
            body = json.dumps({"protocol": 1, "tools": tools}).encode()
            protocol.publish(fd, protocol.RELAY_JSON, body)
        finally:
            os.close(fd)

    def test_they_are_listed(self, relay: Command, session: Path) -> None:
        """A person sees what there is, and what each takes."""
        schema = {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}},
        }
        add = {"name": "add", "description": "Add numbers.\nAt length.", "input": schema}
        self.announce(session, [add, {"name": "multiply"}])
        expected = "add       Add numbers.\n          a: integer, b?: string, c?\nmultiply\n"
        assert Ended(0, expected, "") == relay("tools", "--dir", session)

    def test_a_program_gets_json(self, relay: Command, session: Path) -> None:
        """With --json each tool is an object with its schema."""
        tool = {"name": "t", "description": "d", "input": {"type": "object"}}
        self.announce(session, [{**tool, "more": 1}])
        assert [tool] == json.loads(relay("tools", "--dir", session, "--json").out)

    def test_no_tools(self, relay: Command, session: Path) -> None:
        """A runner without tools is told apart from no runner."""
        self.announce(session, [])
        assert Ended(0, "(no tools)\n", "") == relay("tools", "--dir", session)

    def test_no_runner(self, relay: Command, session: Path) -> None:
        """A directory in which no runner ever was is 69."""
        ended = relay("tools", "--dir", session)
        assert 69 == ended.status
        assert "no runner has announced itself" in ended.err

    def test_a_working_directory_that_is_gone(
        self, relay: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where nothing is relative to any more, one message says so: 2."""
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        for command in (("tools",), ("call", "any")):
            ended = relay(*command, "--dir", "session")
            assert (2, 1) == (ended.status, len(ended.err.splitlines())), ended.err
            assert "the working directory is gone" in ended.err

    def test_wrong_usage(self, relay: Command, tmp_path: Path) -> None:
        """What cannot be meant is 2."""
        assert 2 == relay("tools", "--dir", tmp_path / "nowhere").status
        assert 2 == relay("tools").status
        assert 2 == relay("tools", "x", "--dir", tmp_path).status


class TestStart:
    PROGRAM = """
from relay.cli import main
assert main(["call", "echo", '{"text":"x"}', "--dir", sys.argv[1]]) == 0
print(*sorted(sys.modules))
"""

    def test_a_call_loads_little(
        self, session: Path, serve: Serve, python: Callable[..., str], sandbox_python: str
    ) -> None:
        """On the oldest Python too, a call loads neither asyncio nor argparse nor a contract."""
        serve(session)
        TestTools().announce(session, [])
        everything = {
            "RELAY_POLL_MS": 300,
            "RELAY_POLL_MAX_MS": 1500,
            "RELAY_IDLE_GROW_AFTER": 5,
            "RELAY_TIMEOUT_MS": 60_000,
            "RELAY_MAX_RESPONSE_BYTES": 1_000_000,
            "RELAY_RESPONSE_WATCH_ENABLED": True,
            "RELAY_MODE": "auto",
        }
        settings = {name: {"value": v, "layer": "default"} for name, v in everything.items()}
        (session / "relay.json").write_text(json.dumps({"protocol": 1, "settings": settings}))
        text, modules = python(self.PROGRAM, session, executable=sandbox_python).splitlines()
        assert "x" == text
        dear = {"asyncio", "argparse", "dataclasses", "inspect", "logging", "pathlib", "relayconf"}
        assert set() == dear & set(modules.split())

    def test_a_copy_of_the_two_packages_is_all_of_a_writer(
        self, root: Path, session: Path, tmp_path: Path, serve: Serve, sandbox_python: str
    ) -> None:
        """Without the contract, relay.json and any package, a writer reads its own settings."""
        serve(session)
        for package in ("relay", "relayconf"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root / package, tmp_path / "copy" / package, ignore=ignored)
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); from relay.cli import main\n"
            'main(["call", "echo", \'{"text":"x"}\', "--dir", sys.argv[2]])'
        )
        done = subprocess.run(
            [sandbox_python, "-I", "-S", "-c", program, str(tmp_path / "copy"), str(session)],
            env={"RELAY_POLL_MS": "20s", "AGENTA_AGENT_TOOLS_RELAY_TIMEOUT": "5junk"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (0, "x\n") == (done.returncode, done.stdout), done.stderr
        warned = [line.partition(":")[0] for line in done.stderr.splitlines()]
        assert ["RELAY_POLL_MAX_MS", "RELAY_TIMEOUT_MS"] == sorted(warned)

    def test_main_returns_to_who_gave_it_arguments(
        self, session: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """A program that calls main with arguments goes on after it, its signals as they were."""
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        assert 124 == main(["call", "any", "--dir", str(session), "--timeout", "20"])
        assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        assert "did not run" in capfd.readouterr().err
