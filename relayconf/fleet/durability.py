"""How safe a change is: asking a server to wait until it is, for as long as it may take.

``WAIT`` tells how many replicas have what this connection wrote, ``WAITAOF`` (from version 7.2 on)
whether it is on disk. A server that cannot say leaves it unknown, which counts as not reached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions

from relayconf.fleet.engine import Durability
from relayconf.fleet.options import FleetOptions

Ask = Callable[..., Awaitable[Any]]


async def reached(ask: Ask, options: FleetOptions) -> Durability:
    """Return how safe the last change on a connection is.

    Args:
        ask: sends one command on that connection.
        options: what is wanted (``memory``, ``disk`` or ``replica``), and for how long to wait.
    """
    limit = max(1, options.timeout_ms // 2)
    wanted = options.durability
    on_disk = await _on_disk(ask, limit) if wanted == "disk" else None
    # Without one that is wanted nobody waits: the answer is how many have it by now.
    replicas = await _replicas(ask, 1 if wanted == "replica" else 0, limit)
    return Durability(replicas, on_disk)


async def _replicas(ask: Ask, number: int, limit_ms: int) -> int | None:
    try:
        return int(await ask("WAIT", number, limit_ms, longer_ms=limit_ms))
    except exceptions.ResponseError:
        return None


async def _on_disk(ask: Ask, limit_ms: int) -> bool | None:
    try:
        found = await ask("WAITAOF", 1, 0, limit_ms, longer_ms=limit_ms)
        return int(found[0]) > 0
    except exceptions.ResponseError:
        # An older server, or one that writes no file of changes at all.
        return None
