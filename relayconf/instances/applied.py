"""The record of what was applied when: a line for each instance and generation, for the history.

Lines are appended whole and never made durable; the older half goes away in time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from relayconf.instances import files
from relayconf.state.clock import Clock
from relayconf.state.directory import StateDirectory

#: A record that is longer begins anew; the one before is kept.
LONGEST = 4 * 1024 * 1024

_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def took_ms(written: tuple[str, int] | None, clock: Clock) -> int | None:
    """Return the milliseconds since a document was written, where that was in this boot."""
    if written is None or written[0] != clock.boot_id():
        return None
    return max(0, clock.boot_ms() - written[1])


def append(folder: StateDirectory, line: dict[str, Any]) -> None:
    """Add a line.

    Raises:
        OSError: it cannot be written.
    """
    fd = os.open(files.APPLIED, _OPEN, 0o600, dir_fd=folder.fd)
    try:
        found = os.fstat(fd)
        if found.st_size == 0:
            folder.own(fd)
        os.write(fd, json.dumps(line).encode() + b"\n")
    finally:
        os.close(fd)
    if found.st_size > LONGEST:
        # RACE: of two that find it too long the second puts a short one in the place of the old
        # one; a part of the record is lost, which holds nothing but times.
        folder.rename(files.APPLIED, files.APPLIED_BEFORE)


def read(folder: StateDirectory) -> Iterator[dict[str, Any]]:
    """Yield the lines, the oldest first; what is no line is passed over."""
    for name in (files.APPLIED_BEFORE, files.APPLIED):
        data = b""
        with suppress(OSError):
            data = folder.read(name, limit=2 * LONGEST) or b""
        for text in data.split(b"\n"):
            with suppress(ValueError, RecursionError):
                line = json.loads(text)
                if isinstance(line, dict) and isinstance(line.get("generation"), int):
                    yield line
