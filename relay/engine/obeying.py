"""Obeying: an engine goes by its live settings, and says so once it does.

A change is applied in the engine's own loop: new limits as a whole, watches armed or ended, writers
told by relay.json. Then it is acknowledged. A session whose writers cannot be told is named, tried
again, and holds up nothing. What cannot be obeyed (a watch that cannot be armed) leaves what was in
force before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from relay.engine.announce import announcement
from relay.engine.limits import limits_of
from relay.engine.served import Serving
from relay.engine.settingswatch import SettingsWatch
from relay.engine.shared import Shared
from relay.engine.telemetry import escaped, log
from relay.settings import Mode, RelaySettings
from relay.tools.registry import Registry
from relayconf.live.following import Applier, Following
from relayconf.live.snapshot import Live


class Obeying:
    """The link between live settings and one engine. Everything is called in the engine's loop.

    Args:
        live: the settings.
        shared: the engine's parts; its limits and announcement are replaced here.
        loop: serves the sessions.
        tools: what writers are told of.
    """

    def __init__(
        self, live: Live[RelaySettings], shared: Shared, loop: Serving, tools: Registry
    ) -> None:
        self._live = live
        self._shared = shared
        self._loop = loop
        self._tools = tools
        self._running = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._watch = SettingsWatch(shared.hub, self._poke_soon)
        self._poke_scheduled = False
        self._following: Following | None = None
        self._applier: Applier | None = None
        self._end: Callable[[], None] | None = None
        self._refused = ""

    def begin(self) -> None:
        """Follow the settings: watch, register, then read, so that no change falls between."""
        self._watch.arm(self._directories(self._live.directories))
        self._following = self._live.follow(events=False)
        self._applier = self._following.applier()
        self._end = self._live.subscribe(lambda _old, _new: self._changed())
        # A change between the first read of the settings and the subscription is not lost.
        self.apply()
        self._loop.chores.append(self._look)

    def end(self) -> None:
        """Go by no further change, and sign off."""
        if self._end is not None:
            self._end()
        if self._following is not None:
            if self._applier is not None:
                self._applier.close()
            self._following = self._applier = None
            self._live.close()

    def apply(self) -> None:
        """Go by the snapshot that is in force, and acknowledge it."""
        if self._loop.stopping:
            return
        snapshot = self._live.snapshot
        limits = limits_of(snapshot)
        told = announcement(
            self._shared.locks.runner, snapshot, self._tools, cancels=self._shared.cancels
        )
        if (limits, told) != (self._shared.limits, self._shared.announcement):
            before = self._shared.limits
            self._shared.limits, self._shared.announcement = limits, told
            self._loop.change()
            self._refused = ""
            if limits.mode is Mode.WATCH is not before.mode and self._loop.unwatched():
                self._keep_mode(before.mode)
        self._acknowledge(snapshot.number)

    def _keep_mode(self, mode: Mode) -> None:
        """Go back to the mode from before, since the new one demands what is not to be had."""
        self._refused = (
            "RELAY_MODE=watch cannot be obeyed, since a session cannot be watched; "
            f"{mode} stays in force"
        )
        log.warning("%s", self._refused)
        self._shared.limits = limits_of(self._live.snapshot, mode=mode)
        self._loop.change()

    def _acknowledge(self, number: int) -> None:
        if self._applier is not None:
            refused = ("RELAY_MODE",) if self._refused else ()
            self._applier.done(number, self._problems(), refused=refused)

    def _problems(self) -> tuple[str, ...]:
        problems = [
            f"{escaped(session.place.path)}: relay.json cannot be written: "
            f"{session.place.unannounced}"
            for session in self._loop.sessions
            if session.place.unannounced
        ]
        return (*problems, self._refused) if self._refused else tuple(problems)

    def _look(self) -> None:
        """See, now and then, that the watches are on the right directories."""
        if self._following is not None:
            self._watch.arm(self._directories(self._following.directories))
        applier = self._applier
        if applier is not None and applier.problems != self._problems():
            self._acknowledge(applier.applied)

    def _directories(self, directories: list[str]) -> list[str]:
        """Return what is to be watched: RELAY_MODE=poll means no file events anywhere."""
        return [] if self._live.current.mode is Mode.POLL else directories

    def _poke_soon(self) -> None:
        if not self._poke_scheduled:
            self._poke_scheduled = True
            self._running.call_soon(self._poke)

    def _poke(self) -> None:
        self._poke_scheduled = False
        self._live.poke()

    def _changed(self) -> None:
        """Apply a change, in the engine's loop whoever has noticed it."""
        if threading.get_ident() == self._thread:
            self.apply()
            return
        try:
            self._running.call_soon_threadsafe(self.apply)
        except RuntimeError:
            # RACE: the loop was closed before it was told; there is nobody to act any more.
            return
