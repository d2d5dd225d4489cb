"""Claims of other runners in a remote directory, and who answers for them.

A claim whose runner is known to be dead, since it ran on this machine and its lock is free, is
answered ``interrupted`` at once; any other at its caller's deadline, since a runner on another
machine cannot be judged. None is ever executed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from relay.engine.telemetry import log
from relay.errors import BadRequest
from relay.hosts.host import Exists, Host, HostError, Missing
from relay.protocol import (
    RESPONSE_SUFFIX,
    Response,
    claim_name,
    decode_request,
    encode_response,
)
from relay.remote.report import Foreign

#: Claims answered for at one look; the rest follow at the next.
_AT_ONCE = 20

#: Deadlines that are remembered.
_MOST = 1000

#: A claim that is being buried is nobody's to execute: it bears the name of its undertaker.
_UNDERTAKER = "bury-"

INTERRUPTED = encode_response(
    Response(
        ok=False,
        code="interrupted",
        error="the runner that had taken this request died; the tool may have run",
    )
)


class Burying:
    """Answers for the dead in one directory.

    Args:
        host: where it is.
        path: the directory.
        runner: this runner's id.
        is_dead: tells whether another runner is known to be dead.
    """

    def __init__(
        self, host: Host, path: str, runner: str, *, is_dead: Callable[[str], bool]
    ) -> None:
        self._host = host
        self._path = path
        self._runner = runner
        self._is_dead = is_dead
        self._patience: dict[str, float] = {}

    async def look(self, foreign: tuple[Foreign, ...], patience: float, limit: int) -> int:
        """Answer what is to be answered; return how many were.

        Args:
            foreign: what was found.
            patience: seconds that a caller waits who does not say.
            limit: bytes that a request may have.
        """
        answered = 0
        for claim in foreign:
            if answered >= _AT_ONCE:
                break
            dead = self._is_dead(claim.runner.removeprefix(_UNDERTAKER))
            # A claim of a moment ago is most likely a living runner's: not worth a request.
            late = claim.age > 1.0 and claim.age >= await self._deadline(claim, patience, limit)
            if dead or late:
                answered += await self._bury(claim)
        return answered

    async def _deadline(self, claim: Foreign, patience: float, limit: int) -> float:
        """Return the age at which a claim's caller gives up, by what the claim itself says."""
        name = claim_name(claim.request, claim.runner)
        known = self._patience.get(name)
        if known is not None:
            return known
        found = patience
        try:
            data = await self._host.read(posixpath.join(self._path, name), limit=limit)
            asked = decode_request(data).timeout_ms
            found = patience if asked is None else asked / 1000
        except (HostError, BadRequest):
            # What cannot be read has the usual time; what is gone needs none.
            found = patience
        if len(self._patience) >= _MOST:
            self._patience.clear()
        self._patience[name] = found
        return found

    async def _bury(self, claim: Foreign) -> int:
        """Answer one, once among all that would."""
        theirs = posixpath.join(self._path, claim_name(claim.request, claim.runner))
        mine = posixpath.join(self._path, claim_name(claim.request, _UNDERTAKER + self._runner))
        final = posixpath.join(self._path, claim.request + RESPONSE_SUFFIX)
        if theirs != mine:
            try:
                # RACE: of several that bury one claim, the first move has it; others find nothing.
                await self._host.move(theirs, mine)
            except (Missing, Exists):
                return 0
        try:
            await self._host.stat(final)
        except Missing:
            await self._host.write(final, INTERRUPTED, instead_of=mine)
            log.warning("request %s: its runner %s died", claim.request, claim.runner)
            return 1
        await self._host.remove(mine)
        return 0
