"""The directories that the settings come from, watched through the engine's own inotify instance.

The kernel allows a user 128 instances; a second one in each relay would halve what a host can run.
An event wakes and says nothing else; every second the settings are looked at without any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from relay.engine.hub import Hub
from relay.engine.telemetry import event, token
from relayconf.overrides.reading import LAST

#: What a process that writes overrides does on its way; the document's own rename is what counts.
_ON_THE_WAY = (".tmp", ".jsonl", LAST)

_Identity = tuple[int, int]


class SettingsWatch:
    """Watches some directories, and calls back when something in them may concern the settings.

    Args:
        hub: the engine's.
        changed: called in the event loop; it must not block.
    """

    def __init__(self, hub: Hub, changed: Callable[[], None]) -> None:
        self._hub = hub
        self._changed = changed
        self._armed: dict[_Identity, int] = {}
        self._complained = False

    def arm(self, directories: Sequence[str]) -> None:
        """Watch these directories and no others; call it again whenever one may be another.

        What cannot be watched is looked at every second all the same, and that is logged once.
        """
        wanted = {identity: path for path in directories if (identity := _identity(path))}
        for identity in self._armed.keys() - wanted.keys():
            self._hub.ignore(self._armed.pop(identity))
        for identity in wanted.keys() - self._armed.keys():
            try:
                key = self._hub.notice(wanted[identity], self._on_change)
            except OSError as error:
                self._complain(wanted[identity], error)
            else:
                self._armed[identity] = key
                # What was changed before the watch was there is looked for now.
                self._changed()

    def _on_change(self, name: bytes | None, key: int) -> None:
        if name is None:
            # Events were lost, or the watch itself is: the next look arms another.
            self._armed = {at: other for at, other in self._armed.items() if other != key}
        elif name.decode("ascii", "replace").endswith(_ON_THE_WAY):
            return
        self._changed()

    def _complain(self, path: str, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            # The sessions' own warning has said the same of this user's limits, where they are it.
            event(f"stage=settings_unwatched dir={token(path)} reason={token(str(error.strerror))}")


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
