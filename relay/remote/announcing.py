"""relay.json in a remote directory: written when it changed, again where that failed."""

from __future__ import annotations

import asyncio
import posixpath

from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.hosts.host import Host, HostError
from relay.protocol import RELAY_JSON

#: Seconds until a failed attempt is repeated.
_AGAIN = 3.0


class Announcing:
    """What a session's writers are told.

    ``path`` and ``unannounced`` are for whoever reports problems: where, and why it could not be
    written; empty where it was.

    Args:
        host: where the directory is.
        path: the directory.
        shared: the runner's parts.
    """

    def __init__(self, host: Host, path: str, shared: Shared) -> None:
        self.path = path
        self.unannounced = ""
        self._host = host
        self._shared = shared
        self._written = b""
        self._tried_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Nothing that was written is there any more."""
        self._written = b""

    def soon(self) -> None:
        """See to it that the writers are told, without waiting for it."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self.now())

    def look(self) -> None:
        """Repeat what failed, once its pause is over."""
        if self.unannounced and self._shared.clock() - self._tried_at >= _AGAIN:
            self.soon()

    async def now(self) -> None:
        """Tell them; a failure is noted and logged once."""
        while self._written != (data := self._shared.announcement.plain):
            self._tried_at = self._shared.clock()
            try:
                await self._host.write(posixpath.join(self.path, RELAY_JSON), data, kind="announce")
            except HostError as error:
                if not self.unannounced:
                    log.warning("%s: relay.json cannot be written: %s", escaped(self.path), error)
                self.unannounced = str(error)
                return
            self.unannounced = ""
            self._written = data

    def stop(self) -> None:
        """Tell them nothing more."""
        if self._task is not None:
            self._task.cancel()
