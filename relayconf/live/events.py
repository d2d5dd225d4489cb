"""Events of directories, for a process without an engine: watchfiles, as far as it carries.

An event wakes and says nothing else. A directory that is deleted leaves its watch deaf, and limits
of the kernel may leave none: then there is only the timer, and arming is tried again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

#: Milliseconds between two looks at what the kernel has told (at 1 it wakes 865 times a second).
STEP_MS = 10

#: How often arming is tried again while the directories stay the same, in seconds.
_RETRY = 30.0

log = logging.getLogger("relayconf")


class NoEvents:
    """Nothing but the timer: somebody else watches, and pokes."""

    def arm(self, directories: Sequence[str]) -> None:
        """Watch nothing."""

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until the time is over or ``stop`` is set."""
        stop.wait(seconds)

    def close(self) -> None:
        """Have nothing to close."""

    def abandon(self) -> None:
        """Have nothing to abandon."""


class DirectoryEvents:
    """Wakes one thread when something changes in one of some directories."""

    def __init__(self) -> None:
        self._notify: RustNotify | None = None
        self._armed: object = None
        self._retry_at = 0.0
        self._complained: set[str] = set()

    def arm(self, directories: Sequence[str]) -> None:
        """Watch these directories from now on; those that are watched already stay so."""
        identities = [(path, _identity(path)) for path in directories]
        now = time.monotonic()
        if identities == self._armed and (self._notify is not None or now < self._retry_at):
            return
        self.close()
        self._armed = identities
        if not directories:
            return
        self._retry_at = now + _RETRY
        try:
            from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 - slow to import

            self._notify = RustNotify(list(directories), False, False, 1000, False, True)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is the timer
            self._complain(error)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait for an event, at most so long; return soon after ``stop`` is set."""
        if self._notify is None:
            stop.wait(seconds)
            return
        try:
            self._notify.watch(STEP_MS, STEP_MS, max(1, round(seconds * 1000)), stop)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is the timer
            self.close()
            self._complain(error)

    def close(self) -> None:
        """Watch nothing any more."""
        notify, self._notify = self._notify, None
        if notify is not None:
            notify.close()

    def abandon(self) -> None:
        """Forget the watch of the process that this one was forked from."""
        # Its thread does not exist here, so that closing it could wait for ever.
        _abandoned.append(self._notify)
        self._notify = None

    def _complain(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text not in self._complained:
            self._complained.add(text)
            log.warning("no file events (%s); looking every second", text)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


#: Kept, so that nothing in a forked child ever ends what belongs to its parent.
_abandoned: list[object] = []
