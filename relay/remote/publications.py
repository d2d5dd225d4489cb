"""Answers on their way into a remote sandbox.

Each is one request to the host, repeated with growing pauses until it is there or nobody waits for
it any more. Its claim goes with it, so that a crash before leaves a claim that tells what happened.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable

from relay.engine.telemetry import log
from relay.hosts.host import Host, HostError, TimedOut, TooLarge, Unreachable
from relay.protocol import RESPONSE_SUFFIX, Response, claim_name, encode_response

#: Pauses between attempts, in seconds: the first, and the longest.
_RETRY_FIRST = 0.1
_RETRY_LONGEST = 1.0

#: Bytes that every host can take: where one says otherwise of fewer, it is tried again.
_SURELY_TAKEN = 16 * 1024


class Publications:
    """The publications of one session.

    Args:
        host: where they go.
        path: the session's directory.
        runner: this runner's id.
        clock: monotonic seconds.
        on_trouble: called where the host was not reached.
        holds: tells whether the claim of a request that is in flight is still there.
    """

    def __init__(
        self,
        host: Host,
        path: str,
        runner: str,
        *,
        clock: Callable[[], float],
        on_trouble: Callable[[], None],
        holds: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._host = host
        self._path = path
        self._runner = runner
        self._clock = clock
        self._on_trouble = on_trouble
        self._holds = holds
        self._tasks: set[asyncio.Task[None]] = set()

    def send(
        self, request: str, data: bytes, *, until: Callable[[], float], over: Callable[[bool], None]
    ) -> None:
        """Publish an answer.

        Args:
            request: whose.
            data: the response's bytes.
            until: returns when nobody waits for it any more, in monotonic seconds.
            over: called at its end, with whether it was published.
        """
        task = asyncio.ensure_future(self._send(request, data, until, over))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self, patience: float) -> None:
        """Wait until all are over, for at most so many seconds; then give up the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(patience, 0.0))
        for task in tuple(self._tasks):
            task.cancel()

    async def _send(
        self, request: str, data: bytes, until: Callable[[], float], over: Callable[[bool], None]
    ) -> None:
        published = False
        try:
            published = await self._insist(request, data, until)
        finally:
            over(published)

    async def _insist(self, request: str, data: bytes, until: Callable[[], float]) -> bool:
        final = posixpath.join(self._path, request + RESPONSE_SUFFIX)
        claim = posixpath.join(self._path, claim_name(request, self._runner))
        pause, first = 0.0, True
        while True:
            try:
                # RACE: an attempt that got no answer may have taken place, and its id be used anew:
                # the claim that is there now is not to be answered with this.
                if first or await self._holds(request):
                    await self._host.write(final, data, instead_of=claim, kind="publish")
            except HostError as error:
                first = False
                if isinstance(error, TooLarge) and len(data) > _SURELY_TAKEN:
                    data = _too_large(len(data))
                    continue
                if isinstance(error, (TimedOut, Unreachable)):
                    self._on_trouble()
                if self._clock() + pause >= until():
                    log.warning("request %s cannot be answered: %s", request, error)
                    return False
            else:
                return True
            # A kept connection that was just being closed is worth one more attempt at once.
            await asyncio.sleep(pause)
            pause = min(max(pause * 2, _RETRY_FIRST), _RETRY_LONGEST)


def _too_large(size: int) -> bytes:
    error = f"the answer of {size} bytes is larger than the sandbox's host can take"
    return encode_response(Response(ok=False, code="too_large", error=error))
