"""An MCP server's process: its pipes as the streams that the MCP library wants, and its end.

Its environment is what it was allowed, a message from it has a bound, what it writes to stderr goes
to the log, and nothing of it outlives the connection: it has a process group of its own, which is
killed when it does not end by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from relay.mcp.messages import Lines, TooLong
from relay.tools.pace import Pace
from relay.tools.questions import Questions

#: Seconds that a process has to end once its stdin is closed, and again after SIGTERM.
_GRACE = 2.0

_READ = 1 << 16

#: Bytes of a process's stderr that are logged; of a line, so many are waited for.
_LOGGED = 400_000
_LONGEST_LINE = 1 << 16

#: An answer that cannot be used is looked at again, for whom it was, up to so many bytes.
_LONGEST_JUDGED = 1 << 20

#: What an error carries that stands for an answer over the bound.
TOO_LARGE = "relay/too_large"

Streams = tuple[Any, Any]


class Pipes:
    """One process and its streams, while it is connected.

    Args:
        argv: the program and its arguments.
        environment: all its variables.
        folder: where it is started.
        limit: bytes of one message from it.
        ended: called once it has closed its stdout.
        said: takes what it writes to stderr.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        folder: str,
        limit: int,
        ended: Callable[[], None],
        said: Callable[[str], None],
    ) -> None:
        self._argv = list(argv)
        self._environment = dict(environment)
        self._folder = folder
        self._limit = limit
        self._ended = ended
        self._said = said
        self._questions = Questions()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Streams]:
        """Start the process, give its streams, and end it.

        Raises:
            OSError: it cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            cwd=self._folder,
            start_new_session=True,
        )
        received, read = anyio.create_memory_object_stream[Any](0)
        write, sent = anyio.create_memory_object_stream[Any](0)
        tasks = [
            asyncio.create_task(self._receive(process, received)),
            asyncio.create_task(self._send(process, sent)),
            asyncio.create_task(self._log(process)),
        ]
        try:
            yield read, write
        finally:
            await _finish(process, tasks)
            for stream in (received, read, write, sent):
                stream.close()

    async def _receive(self, process: asyncio.subprocess.Process, received: Any) -> None:
        stdout = process.stdout
        lines, pace = Lines(self._limit), Pace()
        try:
            while stdout is not None and (data := await stdout.read(_READ)):
                for line in lines.feed(data):
                    message = self._message(line)
                    if not await self._questions.admit(getattr(message, "message", None)):
                        self._said("it asks, and does not take the answers; it is given up")
                        return
                    if message is not None:
                        await received.send(message)
                await pace.keep(data)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            # The session is over and takes nothing more.
            return
        finally:
            received.close()
            self._ended()

    def _message(self, line: bytes | TooLong) -> SessionMessage | Exception | None:
        if isinstance(line, TooLong):
            if line.id is None:
                self._said(f"a message of {line.size} bytes was dropped")
                return None
            text = f"the answer is larger than {self._limit} bytes"
            error = ErrorData(code=INTERNAL_ERROR, message=text, data=TOO_LARGE)
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=line.id, error=error))
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as fault:
            id_ = _answered(line)
            if id_ is None:
                return fault
            error = ErrorData(code=INTERNAL_ERROR, message="its answer cannot be used")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=id_, error=error))

    async def _send(self, process: asyncio.subprocess.Process, sent: Any) -> None:
        stdin = process.stdin
        try:
            async for each in sent:
                if stdin is None:  # pragma: no cover - it is asked for as a pipe
                    return
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
                self._questions.sent(each.message)
        except (ConnectionError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
        finally:
            sent.close()

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        stderr = process.stderr
        left, held = _LOGGED, b""
        while stderr is not None and (data := await stderr.read(_READ)):
            if left <= 0:
                continue
            # Whole lines, so that no credential is cut in two: neither half would be known for one.
            lines, end, rest = (held + data).rpartition(b"\n")
            held = rest
            if not end and len(held) >= _LONGEST_LINE:
                lines, held = held, b""
            if lines:
                left -= len(lines)
                self._said(lines.decode("utf-8", "replace").strip())
        if held:
            self._said(held.decode("utf-8", "replace").strip())


def _answered(line: bytes) -> str | int | None:
    """Return the id of the request that a line was meant to answer, where that can be told."""
    if len(line) > _LONGEST_JUDGED:
        return None
    try:
        body = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or "method" in body:
        return None
    id_ = body.get("id")
    return id_ if isinstance(id_, str | int) and not isinstance(id_, bool) else None


async def _finish(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]]) -> None:
    """End a process and everything that it has started, whatever it takes; then the tasks."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        for sign in (None, signal.SIGTERM):
            if sign is not None:
                _signal(process, sign)
            if await _has_ended(process, _GRACE):
                break
    finally:
        # Also what has no leader any more, and also when this task is cancelled again.
        _signal(process, signal.SIGKILL)
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            await _has_ended(process, _GRACE)
        finally:
            # A descendant that has left the group may hold a pipe's other end for ever.
            transport = getattr(process, "_transport", None)
            if transport is not None:
                transport.close()


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not process.wait(): it waits for the pipes, too, and a descendant may hold them.
    deadline = asyncio.get_running_loop().time() + seconds
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(0.01)
    return True


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
