"""One look at a directory that may not answer: everything that is done there in one go.

It runs in a session's own thread. What it finds out, it keeps here as it goes: where it got stuck
half-way, what was claimed before is not lost, and is executed or answered once the look is over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from relay.engine.directory import SessionDirectory
from relay.engine.residue import Residue
from relay.protocol import RELAY_JSON, claim_name, parse_cancel, request_id
from relay.tools.registry import Failure

#: Requests of the largest size that are read in one look; further ones wait for the next.
_LARGEST_READ = 4


class Taken(NamedTuple):
    """A request that was claimed at ``picked`` (wall clock), and its bytes or why it has none."""

    request: str
    picked: float
    found: os.stat_result | None
    data: bytes | Failure


@dataclass(slots=True)
class Look:
    """What a look is to do, and what came of it.

    Attributes:
        room: how many requests may be claimed.
        limit: bytes of the largest request that is read.
        busy: ids that are worked on; a request of such an id waits. What is claimed is added.
        peers: the other living runners on the directory.
        keep: seconds that a response nobody fetched stays, where residue is to be treated.
        tell: the bytes of relay.json, where this runner is to publish it.
        discard: names of this runner's that are to go.
        then: called, by whoever sent it, after a look that treated residue.
        taken: what was claimed, until it is taken over.
        claimed: how many that were in all.
        cancels: names by which writers take back what is in flight.
        refused: why it could not be published.
        full: whether requests were left for want of room.
    """

    room: int
    limit: int
    busy: set[str]
    peers: Collection[str]
    keep: float | None
    tell: bytes | None
    discard: list[str]
    then: list[Callable[[], None]]
    taken: list[Taken] = field(default_factory=list)
    claimed: int = 0
    cancels: set[str] = field(default_factory=set)
    refused: str = ""
    full: bool = False


class Looking:
    """The looks at one directory.

    Args:
        directory: where.
        residue: what is treated there.
        runner: this runner's id.
        beat: called between any two operations.
        wall: the clock that file times are on.
    """

    def __init__(
        self,
        directory: SessionDirectory,
        residue: Residue,
        runner: str,
        *,
        beat: Callable[[], None],
        wall: Callable[[], float],
    ) -> None:
        self.directory = directory
        self._residue = residue
        self._runner = runner
        self._beat = beat
        self._wall = wall
        self._published: tuple[int, int, int] | None = None

    def do(self, look: Look) -> None:
        """Tell the writers, then take what is there.

        Raises:
            OSError: the directory cannot be listed.
        """
        for name in look.discard:
            self.directory.remove(name)
            self._beat()
        if look.tell is not None:
            self._tell(look, look.tell)
        held = 0
        for name in self.directory.names():
            self._beat()
            request = request_id(name)
            if request is None:
                if parse_cancel(name) in look.busy:
                    look.cancels.add(name)
                elif look.keep is not None:
                    self._residue.treat(name, look.keep)
            elif request not in look.busy and not self._is_claimed(request, look.peers):
                # Where there is no room for more, the rest is still looked at for cancels.
                look.full = look.claimed >= look.room or held > look.limit * _LARGEST_READ
                if not look.full:
                    held += self._take(request, look)

    def sweep(self, keep: float) -> bool:
        """Clear what was left behind; True where nothing had to stay. See ``Residue.sweep``."""
        clean = True
        for name in self.directory.names():
            self._beat()
            clean = self._residue.clear(name, keep) and clean
        return clean

    def _tell(self, look: Look, data: bytes) -> None:
        if self._published is not None and self._published == self._identity():
            return
        self._beat()
        try:
            self.directory.publish(RELAY_JSON, data)
        except OSError as error:
            look.refused = error.strerror or str(error)
            return
        self._published = self._identity()

    def tell_again(self) -> None:
        """Publish relay.json at the next look, although it is as it was published."""
        self._published = None

    def _identity(self) -> tuple[int, int, int] | None:
        found = self.directory.examine(RELAY_JSON)
        return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)

    def _is_claimed(self, request: str, peers: Collection[str]) -> bool:
        claims = (claim_name(request, peer) for peer in peers)
        return any(self.directory.examine(claim) is not None for claim in claims)

    def _take(self, request: str, look: Look) -> int:
        """Claim and read one request; return its bytes."""
        claim = claim_name(request, self._runner)
        picked = self._wall()
        # Before there is a claim, so that none is ever taken for one that is left over.
        look.busy.add(request)
        try:
            self.directory.claim(request, claim)
        except OSError:
            # RACE: it was withdrawn, or another runner won. But over a network the rename may have
            # been done and its answer lost; sent again, it finds nothing. The claim is ours then.
            if self.directory.examine(claim) is None:
                look.busy.discard(request)
                return 0
        self._beat()
        found = self.directory.examine(claim)
        data: bytes | Failure = b""
        if found is not None:
            self._beat()
            try:
                data = self.directory.read(claim, found, look.limit)
            except Failure as failure:
                data = failure
        look.claimed += 1
        look.taken.append(Taken(request, picked, found, data))
        return len(data) if isinstance(data, bytes) else 0

    def answer(self, request: str, data: bytes) -> None:
        """Publish an answer, and end its claim.

        Raises:
            OSError: it cannot be published.
        """
        self.directory.respond(request, data)
        self._beat()
        self.directory.remove(claim_name(request, self._runner))
