"""Every engine keeps what the protocol promises: in memory, and against a real server."""

from __future__ import annotations

import asyncio
import os
import socketserver
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from relayconf.errors import FleetUnavailable
from relayconf.fleet import conformance
from relayconf.fleet.engine import Engine, InstanceRecord, Outcome
from relayconf.fleet.memory import MemoryEngine, MemoryServer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.record import NOWHERE, key_text
from relayconf.fleet.redis import RedisEngine
from relayconf.fleet.session import Session
from tests.servers.authority import Authority
from tests.servers.fleetserver import PASSWORD, USER, FleetServer, available
from tests.servers.running import PATIENCE, free_port

SECRET = "kanar1envogel"
B_KEY = key_text(conformance.kill("B", "c2").entry.key)

CI = bool(os.environ.get("CI"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, FleetServer]]:
    """Return every server that can be had, running."""
    folder = Path(tmp_path_factory.mktemp("servers"))
    servers = {
        name: FleetServer(folder / name, program_path=path) for name, path in available().items()
    }
    for server in servers.values():
        server.start()
    yield servers
    for server in servers.values():
        server.kill()


@pytest.fixture(params=["memory", *(("redis", "valkey") if CI else sorted(available()))])
def connect(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Return what opens another connection to an empty store."""
    if request.param == "memory":
        memory = MemoryServer()
        return lambda: MemoryEngine(memory)
    server: FleetServer = request.getfixturevalue("servers")[request.param]
    server.ask("FLUSHALL")
    options = FleetOptions(server.url, timeout_ms=10_000)
    return lambda: RedisEngine(options)


class TestConformance:
    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_conforms(self, check: conformance.Check, connect: Callable[[], Engine]) -> None:
        """An engine keeps one promise."""
        asyncio.run(check(connect))


class Asking:
    """What one engine answers, without a loop at hand."""

    def __init__(self, options: FleetOptions) -> None:
        self.engine = RedisEngine(options)

    def snapshot(self) -> str:
        """Return an empty text for an answer, or the error's."""
        return self.run(self.engine.snapshot())

    def run(self, work: Coroutine[Any, Any, object]) -> str:
        """Do something, and return an empty text, or the error's."""

        async def bounded() -> str:
            try:
                await work
            except FleetUnavailable as error:
                return str(error)
            finally:
                await self.engine.close()
            return ""

        return asyncio.run(bounded())


class TestErrors:
    def test_nobody_there(self) -> None:
        """A server that is not there is named, with what happened."""
        text = Asking(FleetOptions(f"redis://u:{SECRET}@127.0.0.1:{free_port()}")).snapshot()
        assert "cannot be reached" in text
        assert SECRET not in text

    @pytest.mark.parametrize(
        "url",
        [
            f"redis://:{SECRET}@127.0.0.1:port/0",
            f"redis://user:{SECRET}@[::1",
            f"redis://:a/{SECRET}@127.0.0.1:1",
            f"redis://:a@{SECRET}@127.0.0.1:1",
            f"redis://:a#{SECRET}@127.0.0.1:1",
            f"redis://:a?b={SECRET}@127.0.0.1:1",
            f"redis://:a:{SECRET}@127.0.0.1:1",
            f"redis://127.0.0.1:1/0?password={SECRET}",
        ],
    )
    def test_a_url_that_is_none(self, url: str) -> None:
        """Whatever is wrong with a url, no part of it that may be a password is repeated."""
        text = Asking(FleetOptions(url, timeout_ms=2000)).snapshot()
        assert text
        assert SECRET not in text

    def test_a_wrong_password(self, tmp_path: Path) -> None:
        """A refused password is said to be, and not shown; the right one serves."""
        server = FleetServer(tmp_path / "data", password=PASSWORD)
        server.start()
        try:
            right = FleetOptions(server.url, user=USER, password=PASSWORD)
            assert Asking(right).snapshot() == ""
            text = Asking(right._replace(password=SECRET)).snapshot()
            assert "refuses the user or the password" in text
            assert SECRET not in text
            text = Asking(right._replace(user=None, password=None)).snapshot()
            assert "refuses the user or the password" in text
            text = Asking(right._replace(prefix="another")).snapshot()
            assert "does not let its user do what a fleet needs" in text
        finally:
            server.kill()

    def test_a_password_is_read_again(self, tmp_path: Path) -> None:
        """A password that is changed in its file is used for the next connection."""
        server = FleetServer(tmp_path / "data", password=PASSWORD)
        server.start()
        file = tmp_path / "password"
        file.write_text(SECRET)
        options = FleetOptions(server.url, user=USER, password_file=str(file))
        asking = Asking(options)
        try:
            assert "refuses" in asking.snapshot()
            file.write_text(f"{PASSWORD}\n")
            assert asking.snapshot() == ""
        finally:
            server.kill()

    def test_a_server_that_hangs(self, tmp_path: Path) -> None:
        """A call ends within its time limit, and the next one starts anew."""
        server = FleetServer(tmp_path / "data")
        server.start()
        asking = Asking(FleetOptions(server.url, timeout_ms=2_000))
        try:
            server.freeze()
            assert "did not answer in time" in asking.snapshot()
            server.thaw()
            assert asking.snapshot() == ""
        finally:
            server.kill()

    def test_something_else_listens(self) -> None:
        """Whoever answers in another protocol is no server."""
        with socketserver.TCPServer(("127.0.0.1", 0), Teapot) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"redis://127.0.0.1:{server.server_address[1]}"
            assert Asking(FleetOptions(url, timeout_ms=2000)).snapshot() != ""
            server.shutdown()

    @pytest.mark.parametrize("key", ["meta", "state", "stream", "audit", "seen", "seenlog"])
    def test_a_key_of_somebody_else(self, servers: dict[str, FleetServer], key: str) -> None:
        """A key that holds something else is an error that says so, and changes nothing."""
        for server in servers.values():
            server.ask("FLUSHALL")
            asking = Asking(FleetOptions(server.url))
            assert asking.run(asking.engine.change(conformance.kill("A", "c1"))) == ""
            server.ask("SET", f"{{relayconf}}:{key}", "mine")
            assert "WRONGTYPE" in asking.run(asking.engine.change(conformance.kill("B", "c2")))
            server.ask("DEL", f"{{relayconf}}:{key}")
            assert asking.run(asking.engine.change(conformance.kill("C", "c3"))) == ""
            assert b"B" not in server.ask("HGET", "{relayconf}:state", B_KEY)

    def test_what_is_no_entry(self, servers: dict[str, FleetServer]) -> None:
        """Junk in the place of an entry is in no kill's way, and is passed on as what it is."""
        for server in servers.values():
            server.ask("FLUSHALL")
            asking = Asking(FleetOptions(server.url))
            assert asking.run(asking.engine.change(conformance.kill("A", "c1"))) == ""
            server.ask("HSET", "{relayconf}:state", B_KEY, "junk")
            server.ask("HSET", "{relayconf}:state", "other", "[]")
            assert asking.run(asking.engine.change(conformance.kill("B", "c2"))) == ""
            with Session(FleetOptions(server.url)) as session:
                items = session.snapshot().items
            names = [item.body and item.body["name"] for item in items]
            assert sorted(names, key=str) == ["A", "B", None]

    def test_a_full_server(self, tmp_path: Path) -> None:
        """A server that is out of memory holds up no kill, and no heartbeat."""
        server = FleetServer(tmp_path / "data", options=("--maxmemory", "1"))
        server.start()
        asking = Asking(FleetOptions(server.url))
        record = InstanceRecord("i", "t", "h", 1, NOWHERE)
        try:
            assert server.ask("SET", "x", "y").startswith(b"-OOM")
            for name in ("A", "B"):
                assert asking.run(asking.engine.change(conformance.kill(name, name))) == ""
                assert asking.run(asking.engine.heartbeat(record)) == ""
        finally:
            server.kill()


class TestTls:
    def test_the_server_is_checked(self, tmp_path: Path) -> None:
        """Over TLS the server has to prove its name to an authority that is trusted."""
        authority = Authority(tmp_path, "authority")
        server = FleetServer(tmp_path / "data", authority=authority)
        server.start()
        try:
            trusting = FleetOptions(server.url, ca_file=str(authority.file), timeout_ms=20_000)
            assert Asking(trusting).snapshot() == ""
            assert "cannot be reached" in Asking(trusting._replace(ca_file=None)).snapshot()
            other = trusting._replace(url=server.url.replace("localhost", "127.0.0.1"))
            assert "cannot be reached" in Asking(other).snapshot()
            lax = other._replace(url=f"{other.url}?ssl_check_hostname=false&ssl_cert_reqs=none")
            assert "cannot be reached" in Asking(lax).snapshot()
        finally:
            server.kill()


class TestDurability:
    def test_what_is_reached(self, tmp_path: Path) -> None:
        """An accepted change says how safe it is: in memory, on disk, at replicas."""
        folder = tmp_path / "data"
        server = FleetServer(
            folder,
            program_path=available().get("valkey"),
            options=("--appendonly", "yes", "--appendfsync", "always"),
        )
        server.start()
        replica = FleetServer(
            tmp_path / "replica",
            program_path=available().get("valkey"),
            options=("--replicaof", f"127.0.0.1 {server.port}"),
        )
        replica.start()

        async def write(change: str, wanted: str) -> Outcome:
            engine = RedisEngine(FleetOptions(server.url, durability=wanted, timeout_ms=20_000))
            try:
                return await engine.change(conformance.kill(change, change))
            finally:
                await engine.close()

        try:
            assert asyncio.run(write("c1", "memory")).accepted
            assert asyncio.run(write("c2", "disk")).durability.on_disk is True
            assert asyncio.run(write("c3", "replica")).durability.replicas == 1
        finally:
            replica.kill()
            server.kill()

    def test_what_is_not_reached(self, servers: dict[str, FleetServer]) -> None:
        """Without a replica or a disk a change stands all the same, and does not claim either."""

        async def write(server: FleetServer, wanted: str) -> Outcome:
            # Half of it is what is waited; the rest is far above what the server takes to answer.
            engine = RedisEngine(FleetOptions(server.url, durability=wanted, timeout_ms=4_000))
            try:
                return await engine.change(conformance.kill(wanted, wanted))
            finally:
                await engine.close()

        for server in servers.values():
            server.ask("FLUSHALL")
            assert asyncio.run(write(server, "disk")).durability.on_disk is None
            assert asyncio.run(write(server, "replica")).durability.replicas == 0


class TestCluster:
    def test_keys_are_in_one_slot(self, tmp_path: Path) -> None:
        """On a server of a cluster every call works: all keys share one hash tag."""
        options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
        server = FleetServer(tmp_path / "data", options=options)
        server.start()
        server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        asking = Asking(FleetOptions(server.url))
        try:
            deadline = time.monotonic() + PATIENCE
            while b"cluster_state:ok" not in server.ask("CLUSTER", "INFO"):
                assert time.monotonic() < deadline
            asking = Asking(FleetOptions(server.url, prefix="my fleet"))
            assert asking.run(asking.engine.change(conformance.kill("A", "c1"))) == ""
            assert asking.snapshot() == ""
            record = InstanceRecord("i", "t", "h", 1, NOWHERE)
            assert asking.run(asking.engine.heartbeat(record)) == ""
        finally:
            server.kill()

    def test_another_node_is_followed(self, tmp_path: Path) -> None:
        """A node that does not have the keys leads to the one that has, by itself."""
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port")
        buses = [str(free_port()) for _ in range(2)]
        near, far = (
            FleetServer(tmp_path / name, options=(*options, bus))
            for name, bus in zip(("near", "far"), buses, strict=True)
        )
        try:
            for server in (near, far):
                server.start()
            far.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            near.ask("CLUSTER", "MEET", "127.0.0.1", str(far.port), buses[1])
            deadline = time.monotonic() + PATIENCE
            while b"MOVED" not in near.ask("GET", "{relayconf}:meta") or not all(
                b"cluster_state:ok" in server.ask("CLUSTER", "INFO") for server in (near, far)
            ):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            asking = Asking(FleetOptions(near.url))
            assert asking.run(asking.engine.change(conformance.kill("A", "c1"))) == ""
            assert far.ask("HLEN", "{relayconf}:state") == b":1\r\n"
        finally:
            near.kill()
            far.kill()


class Teapot(socketserver.BaseRequestHandler):
    """Answers everybody in HTTP."""

    def handle(self) -> None:
        """Answer once."""
        self.request.recv(1000)
        self.request.sendall(b"HTTP/1.1 418 I'm a teapot\r\n\r\n")
