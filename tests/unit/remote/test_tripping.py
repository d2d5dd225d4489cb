"""Too many demoted relays kill the flag, as anybody would, and for a while."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from relay.remote.counters import RemoteCounters
from relay.remote.tripping import FLAG, Tripping


def demote(state: Path, relays: int, *, among: int) -> RemoteCounters:
    """Demote relays, one after the other."""
    counters = RemoteCounters()

    async def main() -> None:
        tripping = Tripping(str(state), None, counters, clock=lambda: 5.0)
        for number in range(relays):
            tripping.demoted(f"/session/{number}", among=among)
        await tripping.wait()

    asyncio.run(main())
    return counters


class TestTripping:
    def test_kills_the_flag(self, tmp_path: Path) -> None:
        """Three relays of ten are enough: the flag is killed by ``auto``, with an end."""
        state = tmp_path / "state"
        assert 1 == demote(state, 3, among=10).trips
        (entry,) = json.loads((state / "overrides.json").read_text())["entries"]
        assert (FLAG, "kill", "auto") == (entry["name"], entry["kind"], entry["actor"])
        assert entry["expires_at"]

    def test_few_of_many(self, tmp_path: Path) -> None:
        """Three relays of a hundred are their own affair."""
        assert 0 == demote(tmp_path / "state", 3, among=100).trips

    def test_one_again_and_again(self, tmp_path: Path) -> None:
        """One relay that is demoted over and over counts once."""
        counters = RemoteCounters()

        async def main() -> None:
            tripping = Tripping(str(tmp_path / "state"), None, counters, clock=lambda: 5.0)
            for _ in range(9):
                tripping.demoted("/session/a", among=1)
            await tripping.wait()

        asyncio.run(main())
        assert 0 == counters.trips
