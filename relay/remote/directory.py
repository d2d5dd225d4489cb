"""A remote session directory as the engine sees one: claims in memory, answers on their way.

The engine reads and answers at once; here the bytes of a claim came with its drain, and an answer
is published in the background by whoever owns the session.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from relay.protocol import cancel_name, claim_name
from relay.remote.report import Claim
from relay.tools.registry import Failure


class Found(NamedTuple):
    """What is known of a claim, under the names of ``os.stat_result``, by the runner's clock."""

    st_mtime: float
    st_size: int


class RemoteDirectory:
    """The claims of one remote session, for the engine.

    Args:
        runner: this runner's id.
        publish: called with a request's id and the bytes of its answer; returns at once.
    """

    #: A directory that is gone takes answers all the same: they are given up when their time is.
    deleted = False

    def __init__(self, runner: str, publish: Callable[[str, bytes], None]) -> None:
        self._runner = runner
        self._publish = publish
        self._claims: dict[str, tuple[Claim, float]] = {}
        self._cancels: set[str] = set()

    def add(self, claim: Claim, modified: float) -> None:
        """Hold a claim until it is answered; ``modified`` is its mtime on the runner's clock."""
        self._claims[claim_name(claim.request, self._runner)] = (claim, modified)

    def cancel(self, request: str) -> None:
        """Note that a caller took its request back: its claim is gone from the sandbox."""
        self._cancels.add(cancel_name(request))

    def over(self, request: str) -> bool:
        """Forget a request; True where its caller took it back."""
        self._claims.pop(claim_name(request, self._runner), None)
        cancelled = cancel_name(request) in self._cancels
        self._cancels.discard(cancel_name(request))
        return cancelled

    def hold(self) -> None:
        """Do nothing: there is no descriptor to keep open."""

    def release(self) -> None:
        """Do nothing, as ``hold``."""

    def examine(self, name: str) -> Found | None:
        """Return what is known of a claim; of a cancel, whether it was there."""
        held = self._claims.get(name)
        if held is not None:
            return Found(held[1], held[0].size)
        return Found(0.0, 0) if name in self._cancels else None

    def read(self, name: str, found: os.stat_result | Found, limit: int) -> bytes:
        """Return a claim's bytes.

        Raises:
            Failure: it is larger than ``limit`` bytes, or no request that may be read.
        """
        claim, _ = self._claims[name]
        if claim.bad:
            raise Failure("bad_request", claim.bad)
        if found.st_size > limit or claim.data is None:
            raise Failure("too_large", f"the request is larger than {limit} bytes")
        return claim.data

    def respond(self, request: str, data: bytes) -> None:
        """Publish the answer of a request, in the background."""
        self._claims.pop(claim_name(request, self._runner), None)
        self._publish(request, data)

    def remove(self, name: str) -> None:
        """Do nothing: a claim goes with the publication of its answer, or went with its cancel."""
