"""What earlier runners and writers left in a directory, and what becomes of it.

Nothing here runs a tool. A request that no runner was there for is answered ``not_executed``, a
claim whose runner is dead ``interrupted`` unless it was answered already; responses that nobody
fetched and files that were never finished are removed when their time is over. Only names that
belong to the relay are touched. Everything may be repeated: what is done is found done.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Container

from relay.engine.directory import SessionDirectory
from relay.engine.locks import Locks
from relay.engine.telemetry import Counters, log
from relay.protocol import (
    REQUEST_SUFFIX,
    RESPONSE_SUFFIX,
    Response,
    claim_name,
    discard,
    encode_response,
    is_temp,
    parse_cancel,
    parse_claim,
    request_id,
)

#: A temporary file that nobody has written to for so long, in seconds, is nobody's (section 7).
TEMP_AGE = 60.0

#: Names handled between two turns of the event loop.
_SLICE = 100

#: How often the sweep at the start is tried before what it left is only not executed.
_TRIES = 3

_NOT_EXECUTED = encode_response(
    Response(
        ok=False,
        code="not_executed",
        error="no runner was there for this request; it was not run, ask again",
    )
)
_INTERRUPTED = encode_response(
    Response(
        ok=False,
        code="interrupted",
        error="the runner that had taken this request died; the tool may have run",
    )
)


class Residue:
    """The residue of one directory.

    Args:
        directory: where it lies.
        locks: who is alive.
        in_flight: the ids that this runner is working on.
        counters: what is done is counted here.
        wall: the clock that file times are on, in seconds.
    """

    def __init__(
        self,
        directory: SessionDirectory,
        locks: Locks,
        in_flight: Container[str],
        *,
        counters: Counters,
        wall: Callable[[], float],
    ) -> None:
        self._directory = directory
        self._locks = locks
        self._in_flight = in_flight
        self._counters = counters
        self._wall = wall
        #: Deadlines of answered requests whose callers wait longer than they need to.
        self.awaited: dict[str, float] = {}

    async def sweep(self, keep: float) -> bool:
        """Clear everything, where no other runner lives; True where nothing had to be left.

        Args:
            keep: how long a response that nobody fetched stays, in seconds.
        """
        for _ in range(_TRIES):
            try:
                if await self._sweep_once(keep):
                    return True
            except OSError as error:
                log.warning("the session directory cannot be listed: %s", error.strerror)
            await asyncio.sleep(0.05)
        return False

    async def _sweep_once(self, keep: float) -> bool:
        clean = True
        for count, name in enumerate(self._directory.names()):
            if count % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            clean = self.clear(name, keep) and clean
        return clean

    def clear(self, name: str, keep: float) -> bool:
        """Clear one name at a start; False for a request that has to be left."""
        request = request_id(name)
        if request is not None:
            return self._refuse(request)
        self.treat(name, keep)
        return True

    def treat(self, name: str, keep: float) -> None:
        """Judge one name that is no request; most are left alone."""
        claim = parse_claim(name)
        if claim is not None:
            request, runner = claim
            if runner == self._locks.runner:
                if request not in self._in_flight:
                    self._bury(request, name)
            elif not self._locks.is_alive(runner):
                self._bury(request, name)
        elif name.endswith(RESPONSE_SUFFIX):
            request = name[: -len(RESPONSE_SUFFIX)]
            if request_id(request + REQUEST_SUFFIX) is not None:
                self._expire_response(request, name, keep)
        elif is_temp(name) or self._came_too_late(name):
            self._remove_older(name, TEMP_AGE)

    def _came_too_late(self, name: str) -> bool:
        """Whether a file asks to stop what this runner is not working on."""
        request = parse_cancel(name)
        return request is not None and request not in self._in_flight

    def _refuse(self, request: str) -> bool:
        """Answer a request that lay there before any runner; False where it cannot be taken."""
        claim = claim_name(request, self._locks.runner)
        if not self._directory.rename(request + REQUEST_SUFFIX, claim):
            # RACE: a writer that withdraws first has it, and there is nothing left to answer.
            return self._directory.examine(request + REQUEST_SUFFIX) is None
        return self._answer(request, claim, _NOT_EXECUTED)

    def _bury(self, request: str, name: str) -> None:
        """Answer the claim of a dead runner, once among all that would."""
        mine = claim_name(request, self._locks.runner)
        # RACE: of several that bury one claim, the first rename has it; the others find nothing.
        if name != mine and not self._directory.rename(name, mine):
            return
        if self._directory.examine(mine) is None:
            return
        if self._directory.examine(request + RESPONSE_SUFFIX) is not None:
            self._directory.remove(mine)
        elif self._answer(request, mine, _INTERRUPTED):
            self._counters.interrupted += 1

    def _answer(self, request: str, claim: str, data: bytes) -> bool:
        try:
            self._directory.respond(request, data)
        except OSError as error:
            log.warning("request %s cannot be answered: %s", request, error.strerror)
            return False
        self._directory.remove(claim)
        return True

    def _expire_response(self, request: str, name: str, keep: float) -> None:
        deadline = self.awaited.get(request)
        if deadline is not None:
            if self._wall() < deadline:
                return
            del self.awaited[request]
        self._remove_older(name, keep)

    def _remove_older(self, name: str, age: float) -> None:
        found = self._directory.examine(name)
        if found is None or stat.S_ISDIR(found.st_mode):
            return
        if self._wall() - found.st_mtime >= age:
            discard(self._directory.fd, name)
