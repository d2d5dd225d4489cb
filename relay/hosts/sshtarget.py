"""Where an SSH server is and as whom to log in, as one text; and output read within bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from relay.hosts.host import HostError

#: user@host:port; the host may be an IPv6 address in brackets.
_TARGET = re.compile(r"(?:([^@\s]+)@)?(\[[0-9A-Fa-f:.%]+\]|[^@:\s\[\]]+)(?::([0-9]{1,5}))?")

_PIECE = 64 * 1024


class SshTarget(NamedTuple):
    """Where to connect and as whom."""

    host: str
    port: int
    user: str | None


def read_target(text: str) -> SshTarget:
    """Return what ``user@host:port`` says.

    Raises:
        HostError: it says something else.
    """
    found = _TARGET.fullmatch(text)
    port = int(found[3] or 22) if found else 0
    if found is None or not 0 < port < 65536:
        raise HostError("the ssh target is none: it is user@host or user@host:port")
    return SshTarget(found[2].strip("[]"), port, found[1])


async def bounded(reader: Any, most: int, tell: Callable[[bytes], None] | None = None) -> bytes:
    """Read to the end, or one byte beyond ``most``; each piece is told as it comes."""
    pieces, size = [], 0
    while size <= most and (piece := await reader.read(min(_PIECE, most + 1 - size))):
        pieces.append(piece)
        size += len(piece)
        if tell is not None:
            tell(piece)
    return b"".join(pieces)


async def beginning(reader: Any, most: int) -> bytes:
    """Read to the end, and keep ``most`` bytes of it: what a command complains of ends with it."""
    kept = await bounded(reader, most)
    while len(kept) > most and await reader.read(_PIECE):
        pass
    return kept[:most]
