"""The fleet as a layer: what of it concerns one contract on this host, now. Ground floor."""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

from relayconf.fleet.known import BLIND
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.reading import FleetReading
from relayconf.fleet.record import FleetEntry
from relayconf.layers import Entry, Layer
from relayconf.overrides.document import Document
from relayconf.overrides.layer import known_names, override_layer
from relayconf.overrides.reading import Reading
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM, Clock

NAME = "fleet"


def fleet_layer(
    contract: Contract, reading: FleetReading, options: FleetOptions, *, clock: Clock = SYSTEM
) -> Layer:
    """Return the layer of the fleet for one contract.

    Its generation is 0: the fleet's revisions do not count among those of the host's overrides.

    Args:
        contract: entries for other targets are passed over in silence.
        reading: what the fleet says.
        options: which deployment this is.
        clock: of this host.
    """
    mine = [e for e in reading.entries if e.scope.covers(options.deployment, host_name())]
    narrow = _narrowest(contract, mine)
    # What has ended is not in the reading; an end that has come without news of the fleet is held.
    overrides = tuple(entry.override._replace(end=None) for entry in narrow)
    document = Document(overrides=overrides)
    layer = override_layer(
        contract, Reading(document, reading.problems, "document"), clock=clock, name=NAME
    )
    return _blinded(contract, layer) if reading.freshness == BLIND else layer


def host_name() -> str:
    """Return the name by which entries are scoped to this host."""
    return os.uname().nodename


def _narrowest(contract: Contract, entries: List[FleetEntry]) -> List[FleetEntry]:
    """Return one entry for each setting and kind: the one for the narrowest scope."""
    names = known_names(contract)
    found: Dict[Tuple[str, str, str], FleetEntry] = {}
    for entry in entries:
        override = entry.override
        setting = names.get(override.name) if override.target == contract.target else None
        name = override.name if setting is None else setting.name
        key = (override.target, name, override.kind)
        before = found.get(key)
        if before is None or _order(entry) >= _order(before):
            found[key] = entry
    return list(found.values())


def _order(entry: FleetEntry) -> Tuple[int, int]:
    return entry.scope.rank, entry.at_ms


def _blinded(contract: Contract, layer: Layer) -> Layer:
    """Return what is left where nobody knows any more what the fleet would say.

    Flags do what they declare for that; a kill that is known stays whatever they declare.
    """
    kills = {kill.name for kill in layer.kills}
    added: List[Entry] = []
    dropped = set()
    for name, setting in contract.settings.items():
        policy = "hold" if setting.flag is None else setting.flag.blind
        if policy == "safe" and name not in kills:
            added.append(Entry(name, "", "fleet (blind)"))
        elif policy == "default":
            dropped.add(name)
    entries = tuple(entry for entry in layer.entries if entry.name not in dropped)
    return layer._replace(entries=entries, kills=(*layer.kills, *added))
