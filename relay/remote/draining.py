"""Drains over a host: by the program in python3 or node, or by plain listings and moves.

Which one a sandbox can do is found by a probe. All three obey one text, ``Drains``; the plain one
cannot wait, so a relay that has no other only polls.
"""

from __future__ import annotations

import asyncio
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from relay.engine.telemetry import escaped, log
from relay.hosts.host import Done, Faulty, Host, NoCommand, TimedOut
from relay.protocol import cancel_name, request_id
from relay.remote.intake import MOST_CLAIMS
from relay.remote.program import node_program, python_program
from relay.remote.report import Batches, Claim, Order, Report, read_report

#: Called with each batch of a drain that goes on.
OnBatch = Callable[[Report], None]

#: Output that is asked for at most; the daemon cuts a command's at 1 MiB.
MOST_OUTPUT = 1_000_000

#: Bytes of requests in one output: base64 makes a third more of them, and there are fields around.
MOST_ROOM = 512 * 1024

#: Seconds that a drain needs beside its window: an interpreter's start on a busy machine.
STARTING = 5.0

_PYTHON = (
    "import sys,fcntl,select,binascii,zlib,stat,errno;"
    "print(sys.executable if sys.version_info>=(3,6) else '')"
)
_NODE = "require('zlib');console.log(+process.versions.node.split('.')[0]>=12?process.execPath:'')"


class Hit(NamedTuple):
    """A name that a listing found: a request, or a claim of this runner's that wants attention.

    It does not know that claim, or its caller has taken it back.
    """

    request: str
    claimed: bool
    modified: float


class Drains(ABC):
    """How requests are taken out of one remote directory.

    Guaranteed: a request is claimed by a rename that one wins; a claim is printed until it is
    known; nothing is claimed under a lease that was not in force at the look before the rename.
    Not guaranteed: that a drain which was given up has stopped; that what it claimed was printed.
    """

    #: Whether a drain can wait inside the sandbox.
    waits: bool

    #: Whether a link at the path is followed; drains by plain listings follow any.
    follows = True

    def __init__(self, host: Host, path: str, runner: str) -> None:
        self.host = host
        self.path = path
        self.runner = runner

    @abstractmethod
    async def drain(
        self, order: Order, *, grace: float, kind: str, on_batch: OnBatch | None = None
    ) -> Report:
        """Do one drain; seconds of ``grace`` beyond its window may pass.

        Where ``on_batch`` is given, and the host hands output over as it comes, the drain stays for
        its whole window; each batch is told at once, and is not part of the report.

        Raises:
            HostError: it did not end as it should, or what it says makes no sense.
        """

    @abstractmethod
    async def release(self, generation: int) -> None:
        """Empty the lease where it is still this runner's.

        Raises:
            HostError: that may not have happened.
        """

    @abstractmethod
    async def holds(self, claim: Claim) -> bool:
        """Whether a claim is still there: the same one, not another under its id.

        Raises:
            HostError: it is not known.
        """

    async def look(self, known: Sequence[str]) -> list[Hit]:
        """List the directory from outside, which depends on nothing inside.

        Args:
            known: ids that this runner works on.

        Raises:
            Missing: the directory is not there.
            HostError: it cannot be listed.
        """
        hits = []
        mine = f".claim.{self.runner}"
        working = set(known)
        entries = await self.host.entries(self.path)
        names = {entry.name for entry in entries}
        for entry in entries:
            request = request_id(entry.name)
            claimed = request is None and entry.name.endswith(mine)
            if claimed:
                request = request_id(entry.name.removesuffix(mine) + ".req.json")
            cancelled = claimed and request is not None and cancel_name(request) in names
            if request is not None and (cancelled or request not in working):
                hits.append(Hit(request, claimed, entry.modified))
        return hits


class ProgramDrains(Drains):
    """Drains by the program, which ``argv`` runs; options follow it."""

    waits = True

    def __init__(self, host: Host, path: str, runner: str, argv: Sequence[str]) -> None:
        super().__init__(host, path, runner)
        self._argv = tuple(argv)

    async def drain(
        self, order: Order, *, grace: float, kind: str, on_batch: OnBatch | None = None
    ) -> Report:
        """See ``Drains.drain``."""
        options = [
            f"window={order.window:.3f}",
            f"rescan={order.rescan:.3f}",
            f"poll={order.poll:.3f}",
            f"count={min(order.most, MOST_CLAIMS)}",
            f"bytes={min(order.room, MOST_ROOM)}",
            f"known={','.join(order.known)}",
        ]
        if order.keep:
            options.append(f"keep={order.keep:.0f}")
        if order.take:
            options.append(f"take={order.take}")
        if order.make:
            options.append("make=1")
        seconds = order.window + grace
        if on_batch is None or not self.host.streams:
            return await self._run(order.generation, options, seconds, kind)
        batches = Batches(on_batch)
        argv = self._with(order.generation, [*options, "stream=1"])
        done = await self.host.follow(
            argv, seconds=seconds, max_output=MOST_OUTPUT, kind=kind, tell=batches.take
        )
        return self._report(done, batches.rest, seconds)

    async def release(self, generation: int) -> None:
        """See ``Drains.release``."""
        await self._run(generation, ["release=1"], STARTING, "release")

    async def holds(self, claim: Claim) -> bool:
        """See ``Drains.holds``."""
        options = [f"holds={claim.request}", "count=1"]
        report = await self._run(0, options, STARTING, "holds")
        return any(found.key == claim.key for found in report.claims)

    async def census(
        self, since: int, *, window: float, rescan: float, grace: float, make: bool = False
    ) -> Report:
        """Wait until a name came into the directory or went from it; nothing is claimed.

        Args:
            since: the directory's mtime in nanoseconds that an earlier census told, or 0.
            window: seconds that it may wait.
            rescan: seconds after which it looks by itself.
            grace: seconds beyond the window that may pass.
            make: make the directory where it is missing.

        Raises:
            HostError: as ``drain``.
        """
        options = [f"since={since}", f"window={window:.3f}", f"rescan={rescan:.3f}"]
        if make:
            options.append("make=1")
        return await self._run(0, options, window + grace, "census")

    async def _run(self, generation: int, options: list[str], seconds: float, kind: str) -> Report:
        argv = self._with(generation, options)
        done = await self.host.run(argv, seconds=seconds, max_output=MOST_OUTPUT, kind=kind)
        return self._report(done, done.stdout, seconds)

    def _with(self, generation: int, options: list[str]) -> list[str]:
        which = [f"dir={self.path}", f"runner={self.runner}", f"generation={generation}"]
        return [*self._argv, *which, *(["follow=1"] if self.follows else []), *options]

    def _report(self, done: Done, output: str, seconds: float) -> Report:
        if done.timed_out:
            raise TimedOut(f"{self.host.name}: a drain did not end in {seconds:g} s")
        if done.code != 0:
            last = ascii(done.stderr.strip().rpartition("\n")[2][:200])
            raise Faulty(f"{self.host.name}: a drain ended with {done.code}: {last}")
        if done.cut:
            raise Faulty(f"{self.host.name}: a drain's output was cut")
        return read_report(output)


class Means:
    """By what a host's sandbox can be drained: asked for once, for all relays in it.

    Args:
        host: how the sandbox is reached.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._argv: tuple[str, ...] | None = None
        self._asking = asyncio.Lock()

    async def drains(self, path: str, runner: str, *, seconds: float) -> Drains:
        """Return the best drains of one directory that the sandbox can do.

        Raises:
            HostError: it cannot be asked.
        """
        from relay.remote.plain import PlainDrains  # noqa: PLC0415 - it builds on this module

        async with self._asking:
            if self._argv is None:
                self._argv = await _interpreter(self._host, seconds)
                means = self._argv[0] if self._argv else PlainDrains.means
                log.info("%s: drains by %s", self._host.name, escaped(means))
            argv = self._argv
        if not argv:
            return PlainDrains(self._host, path, runner)
        return ProgramDrains(self._host, path, runner, argv)

    def forget(self) -> None:
        """Ask anew: what was there cannot be run any more."""
        self._argv = None


async def _interpreter(host: Host, seconds: float) -> tuple[str, ...]:
    """Return the command that runs the program, empty where there is none."""
    python = await _where(host, ["python3", "-I", "-S", "-c", _PYTHON], seconds)
    if python:
        return (python, "-I", "-S", "-c", python_program())
    node = await _where(host, ["node", "-e", _NODE], seconds)
    return (node, "-e", node_program(), "--") if node else ()


async def _where(host: Host, argv: list[str], seconds: float) -> str:
    """Return the path of an interpreter that works; a wrapper on PATH would cost at each start."""
    try:
        done = await host.run(argv, seconds=seconds, max_output=4096, kind="probe")
    except NoCommand:
        return ""
    found = done.stdout.strip()
    return found if done.code == 0 and posixpath.isabs(found) and "\n" not in found else ""
