"""Every engine keeps what the protocol promises: in memory, and against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relayconf.fleet import conformance
from relayconf.fleet.engine import Engine
from relayconf.fleet.memory import MemoryEngine, MemoryServer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.redis import RedisEngine
from tests.servers.fleetserver import FleetServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetServer]:
    """Return a server that runs."""
    server = FleetServer(Path(tmp_path_factory.mktemp("server")) / "data")
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["memory", "redis"])
def connect(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Return what opens another connection to an empty store."""
    if request.param == "memory":
        memory = MemoryServer()
        return lambda: MemoryEngine(memory)
    server: FleetServer = request.getfixturevalue("server")
    server.ask("FLUSHALL")
    options = FleetOptions(server.url, timeout_ms=10_000)
    return lambda: RedisEngine(options)


class TestConformance:
    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_conforms(self, check: conformance.Check, connect: Callable[[], Engine]) -> None:
        """An engine keeps one promise."""
        asyncio.run(check(connect))
