"""Opening an engine: from a url to a connection, by its scheme."""

from __future__ import annotations

from relayconf.errors import FleetUnavailable
from relayconf.fleet.engine import Engine
from relayconf.fleet.options import FleetOptions


def open_engine(options: FleetOptions) -> Engine:
    """Return an engine for a url; nothing is connected yet.

    Raises:
        FleetUnavailable: the url is none that can be used, or the client is not installed.
    """
    if options.fault is not None:
        raise FleetUnavailable(options.fault)
    try:
        from relayconf.fleet.redis import RedisEngine  # noqa: PLC0415 - only where there is one
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("redis"):
            raise
        raise FleetUnavailable(
            "the client for the fleet's server is not installed; pip install 'relayconf[redis]'"
        ) from None
    return RedisEngine(options)
