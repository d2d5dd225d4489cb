"""Drains without a program: a listing, moves as claims, reads; where neither python3 nor node is.

A claim is a move that replaces nothing, so it has one winner as well. The lease is read before each
batch; between that and a move an old runner may still claim, and its claim is found at each look.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable

from relay.hosts.host import Entry, Exists, Host, Missing, TooLarge
from relay.protocol import REQUEST_SUFFIX, cancel_name, claim_name, parse_claim, request_id
from relay.remote.draining import Drains, OnBatch
from relay.remote.intake import MOST_CLAIMS
from relay.remote.report import Claim, Foreign, Order, Report

LEASE = ".relay-lease"


class PlainDrains(Drains):
    """See the module. ``wall`` is the runner's clock, in seconds."""

    waits = False
    means = "plain listings"

    def __init__(
        self, host: Host, path: str, runner: str, *, wall: Callable[[], float] = time.time
    ) -> None:
        super().__init__(host, path, runner)
        self._wall = wall
        #: What the sandbox's clock shows, less what the runner's does.
        self._offset = 0.0
        self._shown = 0

    async def drain(
        self,
        order: Order,
        *,
        grace: float,  # noqa: ARG002 - one text for all drains
        kind: str,  # noqa: ARG002 - as above
        on_batch: OnBatch | None = None,  # noqa: ARG002 - as above
    ) -> Report:
        """See ``Drains.drain``. Whatever its window, it looks once."""
        try:
            held = await self._holder()
            mine = held == (self.runner, str(order.generation))
            if order.take == "force" or (order.take and held[0] in {"", self.runner}):
                await self._take(order.generation)
                mine = True
            if not mine:
                return Report("superseded", holder=held[0])
            report = await self._look(order)
        except Missing:
            return Report("gone")
        return report._replace(before=held[0], now=self._wall() + self._offset)

    async def _take(self, generation: int) -> None:
        await self.host.write(self._at(LEASE), f"{self.runner} {generation}\n".encode())
        written = await self.host.stat(self._at(LEASE))
        self._offset = written.modified - self._wall()

    async def _holder(self) -> tuple[str, str]:
        try:
            text = await self.host.read(self._at(LEASE), limit=200)
        except TooLarge:
            return "", ""
        except Missing:
            await self.host.stat(self.path)
            return "", ""
        runner, _, generation = text.decode("ascii", "replace").strip().partition(" ")
        return (runner, generation) if parse_claim(f"x.claim.{runner}") else ("", "")

    async def _look(self, order: Order) -> Report:
        entries = {entry.name: entry for entry in await self.host.entries(self.path)}
        cancelled = await self._cancelled(entries)
        parsed = [(parse_claim(name), entry) for name, entry in entries.items()]
        claimed = {found[0] for found, _ in parsed if found}
        known = {key.partition(":")[0] for key in order.known}
        claims: list[Claim] = []
        room, most = order.room, min(order.most, MOST_CLAIMS)
        for name, entry in entries.items():
            if len(claims) >= most:
                break
            request = await self._own(name, claimed)
            if request is None or request in known:
                continue
            claim = self._claim(request, entry)
            if entry.size <= room:
                claim = await self._filled(claim, room)
                room -= claim.size
            claims.append(claim)
        foreign = tuple(
            Foreign(found[0], found[1], self._age(entry))
            for found, entry in parsed
            if found and found[1] != self.runner
        )
        status = "claimed" if claims or cancelled else "idle"
        return Report(status, tuple(claims), foreign, cancelled)

    async def _cancelled(self, entries: dict[str, Entry]) -> tuple[str, ...]:
        """Remove the claims that their callers took back; return their requests."""
        found = []
        for name in tuple(entries):
            claim = parse_claim(name)
            if claim is None or claim[1] != self.runner or cancel_name(claim[0]) not in entries:
                continue
            del entries[name]
            await self.host.remove(self._at(name))
            await self.host.remove(self._at(cancel_name(claim[0])))
            found.append(claim[0])
        return tuple(found)

    async def _own(self, name: str, claimed: set[str]) -> str | None:
        """Return the request that a name stands for, once it is this runner's."""
        found = parse_claim(name)
        if found is not None:
            return found[0] if found[1] == self.runner else None
        request = request_id(name)
        if request is None or request in claimed:
            return None
        target = claim_name(request, self.runner)
        try:
            await self.host.move(self._at(request + REQUEST_SUFFIX), self._at(target))
        except (Missing, Exists):
            # RACE: it was withdrawn, or another runner won.
            return None
        return request

    def _claim(self, request: str, entry: Entry) -> Claim:
        bad = "the request is not a regular file" if entry.directory else ""
        # Some hosts tell times by the second; nothing comes late here, so that a number will do to
        # tell one publication from the next under the same id.
        self._shown += 1
        return Claim(request, self._shown, 0, entry.size, self._age(entry), bad=bad)

    async def _filled(self, claim: Claim, limit: int) -> Claim:
        if claim.bad:
            return claim
        try:
            data = await self.host.read(
                self._at(claim_name(claim.request, self.runner)), limit=limit
            )
        except Missing:
            return claim._replace(bad="the request was taken away while it was claimed")
        except TooLarge:
            return claim
        return claim._replace(data=data, size=len(data))

    def _age(self, entry: Entry) -> float:
        return self._wall() + self._offset - entry.modified

    async def release(self, generation: int) -> None:
        """See ``Drains.release``."""
        # RACE: whoever takes the lease between this look and the write loses it, and takes it again
        # at its next look, since it then finds it nobody's.
        held = await self._holder()
        if held == (self.runner, str(generation)):
            await self.host.write(self._at(LEASE), b"")

    async def holds(self, claim: Claim) -> bool:
        """See ``Drains.holds``. Another claim under the same id is not told from it."""
        try:
            await self.host.stat(self._at(claim_name(claim.request, self.runner)))
        except Missing:
            return False
        return True

    def _at(self, name: str) -> str:
        return posixpath.join(self.path, name)
