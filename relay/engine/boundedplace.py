"""Where a session on a file system that may not answer is, as its runner and its engine see it.

Nothing here touches the file system: what was read is kept, and what is to be written is handed on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from relay.engine.hub import Watch
from relay.engine.locks import Identity
from relay.engine.looking import Taken
from relay.protocol import claim_name
from relay.tools.registry import Failure


class BoundedDirectory:
    """What the engine sees of such a directory: what was read already, and answers on their way.

    Args:
        identity: the directory's device and inode.
        runner: this runner's id.
        publish: called with a request's id and the bytes of its answer; returns at once.
        discard: called with a name that is to go; returns at once.

    ``cancels`` are the names by which writers take back what is in flight.
    """

    #: One that is gone takes answers all the same: they are given up when their time is over.
    deleted = False

    def __init__(
        self,
        identity: Identity,
        runner: str,
        publish: Callable[[str, bytes], None],
        discard: Callable[[str], None],
    ) -> None:
        self.identity = identity
        self.cancels: set[str] = set()
        self._runner = runner
        self._publish = publish
        self._discard = discard
        self._taken: dict[str, Taken] = {}

    def add(self, taken: Taken) -> None:
        """Hold what was claimed, until it is answered."""
        self._taken[claim_name(taken.request, self._runner)] = taken

    def hold(self) -> None:
        """Do nothing: the session keeps it open."""

    def release(self) -> None:
        """Do nothing, as ``hold``."""

    def examine(self, name: str) -> Any:
        """Return what a claim was when it was read; of a cancel, whether it is there."""
        taken = self._taken.get(name)
        return taken.found if taken is not None else (name if name in self.cancels else None)

    def read(self, name: str, found: object, limit: int) -> bytes:
        """Return a claim's bytes, or raise ``Failure``."""
        del found, limit
        data = self._taken[name].data
        if isinstance(data, Failure):
            raise data
        return data

    def respond(self, request: str, data: bytes) -> None:
        """Publish an answer, in the background."""
        self._taken.pop(claim_name(request, self._runner), None)
        self._publish(request, data)

    def remove(self, name: str) -> None:
        """Remove a cancel, or a claim without an answer; another goes when that is published."""
        if self._taken.pop(name, None) is not None or name in self.cancels:
            self.cancels.discard(name)
            self._discard(name)


class BoundedPlace:
    """Where the session is: what its runner asks of a ``Place``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.directory: BoundedDirectory | None = None
        self.watch: Watch | None = None
        self.peers: set[str] = set()
        #: Why the writers could not be told what they are to be told; empty where they were.
        self.unannounced = ""

    def meet(self, peers: set[str]) -> None:
        """Take note of the other living runners on this directory."""
        self.peers = peers

    def judge_again(self) -> None:
        """Do nothing: it is judged at each look."""
