"""Commands as tools: real programs, run as the engine's threads run them."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from relay.errors import ToolError
from relay.tools import command_tool
from relay.tools.registry import Call, Failure


def run(script: str, *, seconds: float = 30.0, limit: int = 1 << 20, **more: Any) -> str:
    """Run a Python script as a tool with the arguments ``{"text": "hi"}``."""
    call = more.pop("call", None) or Call("id", "call", time.monotonic() + seconds, limit)
    tool = command_tool(
        "t", [sys.executable, "-S", "-c", script], description="", schema={}, **more
    )
    text: str = tool.handler({"text": "hi"}, call)
    return text


class TestOutput:
    def test_stdin_and_stdout(self) -> None:
        """Arguments come as JSON on stdin; what is printed is the text, unchanged."""
        script = "import sys, json; print(json.load(sys.stdin)['text'], 'é', sep='\\n')"
        assert "hi\né\n" == run(script)

    def test_bytes_that_are_no_text(self) -> None:
        """Output that is not UTF-8 is mended."""
        assert "\ufffdA" == run("import sys; sys.stdout.buffer.write(b'\\xffA')")

    def test_a_command_that_does_not_read(self) -> None:
        """A command may end without reading its arguments."""
        tool = command_tool("t", ["true"], description="", schema={})
        big = {"text": "x" * 1_000_000}
        assert "" == tool.handler(big, Call("id", "", time.monotonic() + 30, 1 << 20))

    def test_a_lot_both_ways(self) -> None:
        """Megabytes go in and come out while neither side waits for the other."""
        tool = command_tool("t", ["cat"], description="", schema={})
        big = {"text": "x" * 3_000_000}
        text = tool.handler(big, Call("id", "", time.monotonic() + 30, 1 << 23))
        assert big == json.loads(text)

    def test_stderr_is_for_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        """What it writes to stderr is in the runner's log, harmless, and nowhere else."""
        script = "import sys; sys.stderr.write('oops\\n\\x1b[31m' + 'x' * 100000); print('fine')"
        with caplog.at_level(logging.INFO, logger="relay"):
            assert "fine\n" == run(script)
        assert 1 == len(caplog.messages)
        assert caplog.messages[0].startswith("tool t wrote to stderr: ")
        assert caplog.messages[0].isprintable()
        assert len(caplog.messages[0]) < 3000

    def test_no_shell(self) -> None:
        """Arguments of the command mean nothing to any shell."""
        tool = command_tool("t", ["echo", "$HOME;", "`id`", "*"], description="", schema={})
        text = tool.handler({}, Call("id", "", time.monotonic() + 30, 1 << 20))
        assert "$HOME; `id` *\n" == text


class TestEnvironment:
    def test_only_what_is_allowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A command gets PATH, HOME and their like, and what its declaration passes on."""
        for name, text in (("SECRET", "s"), ("TOKEN", "t"), ("LC_ALL", "C.UTF-8")):
            monkeypatch.setenv(name, text)
        script = "import os, json; print(json.dumps(dict(os.environ)))"
        got = json.loads(run(script, pass_env=["TOKEN", "NOT_SET"]))
        assert ("t", "C.UTF-8", os.environ["PATH"]) == (got["TOKEN"], got["LC_ALL"], got["PATH"])
        assert set(got) <= {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TOKEN"} | {
            name for name in got if name.startswith("LC_")
        }


class TestFailures:
    def test_a_status(self) -> None:
        """Another status than 0 is an error with that status and what was printed."""
        with pytest.raises(ToolError, match="exited with status 3: no luck"):
            run("print('no luck'); raise SystemExit(3)")

    def test_a_signal(self) -> None:
        """A command that is killed says by what."""
        with pytest.raises(ToolError, match="was killed by signal 9"):
            run("import os; os.kill(os.getpid(), 9)")

    def test_no_such_program(self) -> None:
        """A program that is not there is an error, not a traceback."""
        tool = command_tool("t", ["no-such-program"], description="", schema={})
        with pytest.raises(ToolError, match="cannot be started: No such file"):
            tool.handler({}, Call("id", "", time.monotonic() + 30, 1 << 20))

    def test_too_much(self) -> None:
        """A command that prints without end is stopped at the bound."""
        with pytest.raises(Failure) as raised:
            run("while True: print('x' * 1000)", limit=100_000)
        assert "too_large" == raised.value.code

    def test_no_end_of_stderr(self) -> None:
        """A command that floods stderr runs out of time like any other."""
        with pytest.raises(Failure) as raised:
            run("import sys\nwhile True: sys.stderr.write('x' * 1000)", seconds=0.5)
        assert "timeout" == raised.value.code


class TestTheEnd:
    @pytest.mark.parametrize("ignores", [False, True])
    def test_the_deadline(self, tmp_path: Path, *, ignores: bool) -> None:
        """At its deadline a command is asked to end, then killed, and all of its group with it."""
        script = f"""
import os, signal, time
if {ignores}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    open({str(tmp_path / "child")!r}, "w").write(str(os.getpid()))
time.sleep(60)
"""
        with pytest.raises(Failure) as raised:
            run(script, seconds=0.7)
        assert "timeout" == raised.value.code
        self.wait_for_end(int((tmp_path / "child").read_text()))

    def test_a_child_that_holds_the_output(self, tmp_path: Path) -> None:
        """A command is over when it ends, whatever it leaves running; that is killed."""
        script = f"""
import os, time
print("done", flush=True)
if os.fork() == 0:
    open({str(tmp_path / "child.new")!r}, "w").write(str(os.getpid()))
    os.rename({str(tmp_path / "child.new")!r}, {str(tmp_path / "child")!r})
    time.sleep(60)
while not os.path.exists({str(tmp_path / "child")!r}): time.sleep(0.01)
os._exit(0)
"""
        assert "done\n" == run(script)
        self.wait_for_end(int((tmp_path / "child").read_text()))

    def test_closed_output(self) -> None:
        """A command that closes its output and goes on is waited for."""
        script = "import os, time; os.close(1); os.close(2); time.sleep(0.2)"
        assert "" == run(script)

    def test_cancelling(self) -> None:
        """A call that is over before its time ends its command."""
        call = Call("id", "call", time.monotonic() + 60, 1 << 20)
        call.enable_cancel()
        threading.Timer(0.2, call.cancel).start()
        with pytest.raises(ToolError, match="was killed by signal 15"):
            run("import time; time.sleep(60)", call=call)

    def wait_for_end(self, pid: int) -> None:
        """Wait until a process is gone, or only waits to be reaped."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                return
            time.sleep(0.01)
        raise AssertionError(f"process {pid} still runs")
