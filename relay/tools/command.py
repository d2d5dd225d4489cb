"""Commands as tools: arguments as JSON on stdin, the answer as text on stdout.

A command is an argv, never a line for a shell. It runs in a session and process group of its own,
with the few environment variables that it is allowed, until its deadline; what is then left of
the group is killed. Its stderr goes to the runner's log and to nobody else. One call occupies one
thread of the engine's pool from start to end.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from relay.engine.telemetry import escaped
from relay.errors import ToolError
from relay.tools.registry import Call, Failure, Tool

_log = logging.getLogger("relay.tools")

#: Variables that a command gets without being asked for; and every ``LC_*``.
ALLOWED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")

#: How long a command may take from SIGTERM to SIGKILL, in seconds.
TERM_GRACE = 1.0

#: How often a command is looked at that neither prints nor ends; cancelling takes this long.
_TICK = 0.1

#: How much of a failing command's output its caller, and the log, is shown.
_SHOWN = 2000

#: How much of its stderr is kept until then, so that a credential at the cut is whole.
_KEPT = 65536

#: Bytes in one read, what a pipe holds; and how many reads before its bounds are looked at again.
_READ = 65536
_READS = 16


def command_tool(
    name: str,
    argv: Sequence[str],
    *,
    description: str,
    schema: Mapping[str, Any],
    timeout: float | None = None,
    pass_env: Iterable[str] = (),
    masked: Callable[[str], str] = str,
) -> Tool:
    """Make a tool of a program.

    Args:
        name: the tool's name.
        argv: the program, found on PATH, and its arguments.
        description: what the sandbox is told.
        schema: the JSON Schema of the arguments.
        timeout: the tool's own limit in seconds.
        pass_env: names of further variables that it gets from the runner's environment.
        masked: takes credentials out of what it prints, for its caller and for the log.

    Raises:
        ToolsError: the name or the schema cannot be right.
    """
    names = (*ALLOWED, *pass_env)

    def handler(args: dict[str, Any], call: Call) -> str:
        process = _Process(name, argv, environment(names), call, masked)
        try:
            return masked(process.run(args))
        except ToolError as error:
            raise ToolError(masked(str(error))) from None

    return Tool(name, description, schema, handler, blocking=True, timeout=timeout)


def environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of these names that the runner has, and every ``LC_*``."""
    passed = {name: os.environ[name] for name in names if name in os.environ}
    passed.update((name, text) for name, text in os.environ.items() if name.startswith("LC_"))
    return passed


#: Commands that are running now, in any runner of this process.
_running: set[_Process] = set()


def kill_cancelled() -> None:
    """Kill at once what was cancelled and has not ended: nobody will be there to do it later."""
    for process in tuple(_running):
        process.kill_if_cancelled()


class _Process:
    """One run of a command, from its start to the end of its group."""

    def __init__(
        self,
        tool: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        call: Call,
        masked: Callable[[str], str],
    ) -> None:
        self._tool = tool
        self._argv = list(argv)
        self._environment = environment
        self._call = call
        self._masked = masked
        self._out = bytearray()
        self._err = bytearray()
        self._lock = threading.Lock()
        self._reaped = False
        self._kill_at: float | None = None
        self._failure: Failure | None = None

    def run(self, args: dict[str, Any]) -> str:
        """Run it with these arguments, and return what it printed.

        Raises:
            ToolError: it could not be started, or ended with another status than 0.
            Failure: it printed too much, or its time was over.
        """
        self._start()
        _running.add(self)
        try:
            self._call.on_cancel(self._terminate)
            self._exchange(json.dumps(args, ensure_ascii=False).encode("utf-8", "replace"))
        finally:
            status = self._end()
        self._log_stderr()
        if self._failure is not None:
            raise self._failure
        if status != 0:
            # Masked before it is cut: half a credential is none that would be known.
            printed = self._masked(self._out.decode("utf-8", "replace").strip())[:_SHOWN]
            ended = (
                f"exited with status {status}" if status > 0 else f"was killed by signal {-status}"
            )
            raise ToolError(f"the command {ended}{': ' if printed else ''}{printed}")
        return self._out.decode("utf-8", "replace")

    def _start(self) -> None:
        try:
            self._child = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(self._environment),
                start_new_session=True,
            )
        except OSError as error:
            _log.warning("tool %s: %s cannot be started: %s", self._tool, self._argv[0], error)
            raise ToolError(f"the command cannot be started: {error.strerror}") from None

    def _exchange(self, given: bytes) -> None:
        """Feed stdin and collect stdout and stderr until the command is over or out of bounds."""
        child = self._child
        with selectors.PollSelector() as selector:
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    os.set_blocking(stream.fileno(), False)
            if child.stdin is not None:
                selector.register(child.stdin, selectors.EVENT_WRITE, memoryview(given))
            selector.register(_opened(child.stdout), selectors.EVENT_READ, self._out)
            selector.register(_opened(child.stderr), selectors.EVENT_READ, self._err)
            with _exit_of(child.pid) as ended:
                if ended is not None:
                    selector.register(ended, selectors.EVENT_READ, None)
                while True:
                    over = self._is_over() or self._out_of_bounds()
                    self._move(selector, timeout=0.0 if over else _TICK)
                    if over:
                        return

    def _move(self, selector: selectors.PollSelector, timeout: float) -> None:
        if not selector.get_map():
            # Both ends are closed and it still runs: nothing is left but to look again.
            time.sleep(timeout / 10)
            return
        for key, events in selector.select(timeout):
            if key.data is None:
                continue
            stream: Any = key.fileobj
            if events & selectors.EVENT_WRITE:
                rest = _written(stream, key.data)
                if rest:
                    selector.modify(stream, selectors.EVENT_WRITE, rest)
                    continue
            elif self._read_all(stream, key.data):
                continue
            selector.unregister(stream)
            stream.close()

    def _read_all(self, stream: IO[bytes], into: bytearray) -> bool:
        """Take what is there; False at the end of the stream."""
        for _ in range(_READS):
            try:
                data = os.read(stream.fileno(), _READ)
            except BlockingIOError:
                return True
            if not data:
                return False
            into += data
            if into is self._err:
                del self._err[:-_KEPT]
            elif len(into) > self._call.max_bytes:
                break
        return True

    def _is_over(self) -> bool:
        # Looked at without being reaped: until then its number, and its group's, stay its own.
        try:
            found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return found is not None

    def _out_of_bounds(self) -> bool:
        """Ask it to end where it must; True where it must be killed."""
        if len(self._out) > self._call.max_bytes:
            self._failure = Failure(
                "too_large", f"the answer is larger than {self._call.max_bytes} bytes"
            )
            return True
        now = time.monotonic()
        if self._kill_at is None and now >= self._call.deadline:
            self._failure = Failure("timeout", "the command ran out of time")
            self._terminate()
        return self._kill_at is not None and now >= self._kill_at

    def _terminate(self) -> None:
        with self._lock:
            # RACE: a command that ends by itself just now has won; the signal meets a zombie, or
            # after the reaping is not sent, since its number may be somebody else's by then.
            if self._kill_at is None and not self._reaped:
                self._kill_at = time.monotonic() + TERM_GRACE
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._child.pid, signal.SIGTERM)

    def _end(self) -> int:
        """Kill what is left of the group, reap the command, and return its status."""
        child = self._child
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        with self._lock:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            status = child.wait()
            self._reaped = True
        _running.discard(self)
        return status

    def kill_if_cancelled(self) -> None:
        """Skip the rest of the grace between SIGTERM and SIGKILL."""
        with self._lock:
            if self._kill_at is not None and not self._reaped:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._child.pid, signal.SIGKILL)

    def _log_stderr(self) -> None:
        if self._err:
            said = self._masked(self._err.decode("utf-8", "replace").strip())
            text = escaped(said[-_SHOWN:], limit=_SHOWN)
            _log.warning("tool %s wrote to stderr: %s", self._tool, text)


@contextmanager
def _exit_of(pid: int) -> Iterator[int | None]:
    """Give a descriptor that becomes readable when the process ends, where the kernel has such."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError):
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _opened(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:  # pragma: no cover - all three are asked for as pipes
        raise ValueError("not a pipe")
    return stream


def _written(stream: IO[bytes], data: memoryview) -> memoryview:
    """Write what fits, and return the rest; nothing is left for a command that does not read."""
    try:
        return data[os.write(stream.fileno(), data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]
