"""Who has ended, of those that a server still lists: a server that came back lists them again.

A process that ends signs off, and so does, for one that was killed, whoever finds it dead. A server
that comes back from an older copy knows nothing of that, and nobody would say it a second time.
Only its own host can: whoever lives has an entry there.
"""

from __future__ import annotations

from collections.abc import Sequence

from relayconf.fleet.engine import InstanceRecord
from relayconf.instances.listing import Listing

#: Whoever was heard of later than that may just have changed its entry, in milliseconds.
SILENT_MS = 2000


def ended(listing: Listing, records: Sequence[InstanceRecord]) -> list[str]:
    """Return the ids of those that have ended, as far as this host can tell.

    Args:
        listing: this host's instances.
        records: what a server lists, read before.
    """
    silent = [r for r in records if r.age_ms > max(SILENT_MS, 2 * r.heartbeat_ms)]
    return listing.ended({record.id: record.place for record in silent if record.place})
