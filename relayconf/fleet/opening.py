"""Opening an engine: from a url to a connection, by its scheme."""

from __future__ import annotations

import os

from relayconf.errors import FleetUnavailable
from relayconf.fleet.engine import Engine
from relayconf.fleet.options import FleetOptions


def open_engine(options: FleetOptions) -> Engine:
    """Return an engine for a url; nothing is connected yet.

    Raises:
        FleetUnavailable: the url is none that can be used, the authorities cannot be read, or the
            client is not installed.
    """
    if options.fault is not None:
        raise FleetUnavailable(options.fault)
    if options.ca_file is not None and not os.access(options.ca_file, os.R_OK):
        raise FleetUnavailable(f"RELAYCONF_FLEET_CA_FILE cannot be read: {options.ca_file}")
    try:
        from relayconf.fleet.redis import RedisEngine  # noqa: PLC0415 - only where there is one
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("redis"):
            raise
        raise FleetUnavailable(
            "the client for the fleet's server is not installed; pip install 'relayconf[redis]'"
        ) from None
    return RedisEngine(options)
