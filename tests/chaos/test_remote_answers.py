"""Whatever stands between a runner and its daemon breaks, in every way: no call is lost for good.

Each call's tool runs once at most, each caller gets the answer that is its own, and what was broken
for a while is served again afterwards.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from relay.hosts.daemon import DaemonHost
from relay.hosts.host import Denied, HostError, TimedOut, Unreachable
from relay.protocol import decode_response
from relay.remote.runner import RemoteRunner
from tests.chaos.test_remote import QUICK
from tests.servers.authority import Authority
from tests.servers.box import TOKEN, Box, play
from tests.servers.breaking import FAULTS, Asked, Breaking
from tests.servers.running import Server, available, daemon

#: Requests that are broken, one of three, while there are some left.
_BROKEN = 6


class Way:
    """A runner whose way to its daemon is broken, and a count of what it executed."""

    def __init__(self, box: Box, proxy: Breaking) -> None:
        self.box = box
        self.proxy = proxy
        self.ran: Counter[str] = Counter()

    async def count(self, text: str) -> str:
        """Run a call."""
        self.ran[text] += 1
        return text

    async def call(self, request: str, text: str) -> str:
        """Make a call; return the text of its answer."""
        self.box.ask(request, text=text)
        answer = await self.box.answer(request)
        return answer.text if answer.ok else str(answer)


if "daemon" in available():

    @pytest.fixture
    def server(tmp_path: Path) -> Iterator[Server]:
        """Run a daemon of the test's own."""
        server = daemon(tmp_path, token=TOKEN)
        server.start()
        yield server
        server.kill()

    @asynccontextmanager
    async def broken_way(folder: Path, proxy: Breaking, **settings: Any) -> AsyncIterator[Way]:
        """Serve through a proxy, and look that nothing ran twice."""
        (folder / "a session's").mkdir(mode=0o700)
        await proxy.start()
        box = Box(folder, lambda: DaemonHost(f"http://127.0.0.1:{proxy.port}", token=TOKEN))
        way = Way(box, proxy)
        try:
            async with box.serving({"echo": way.count}, **{**QUICK, **settings}):
                yield way
                assert "at last" == await way.call("at-last", "at last")
        finally:
            await proxy.stop()
        assert 1 == max(way.ran.values())

    class TestFaults:
        def test_each_alone(self, tmp_path: Path, server: Server) -> None:
            """One request of three is broken in one way, in each: all calls come back right."""
            one_after_the_other = asyncio.Lock()

            async def one(fault: str) -> None:
                turns = iter(range(3 * _BROKEN))
                ready = asyncio.Event()

                def judge(_asked: Asked) -> str:
                    return fault if ready.is_set() and next(turns, 1) % 3 == 0 else ""

                folder = tmp_path / fault
                folder.mkdir()
                proxy = Breaking(server.port, judge)
                async with AsyncExitStack() as stack:
                    serving = broken_way(folder, proxy, demote_after=100)
                    # What a start runs has a time limit; a dozen at once may take longer.
                    async with one_after_the_other:
                        way = await stack.enter_async_context(serving)
                    ready.set()
                    for number in range(6):
                        # Ids that are used anew, and ids that are not.
                        request = f"{fault}-{number % 2 and number}"
                        assert f"{fault} {number}" == await way.call(request, f"{fault} {number}")
                    assert proxy.done[fault] > 0

            async def story() -> None:
                await asyncio.gather(*(one(fault) for fault in FAULTS))

            play(story)

        @pytest.mark.parametrize("seed", range(3))
        def test_all_together(self, tmp_path: Path, server: Server, seed: int) -> None:
            """Requests are broken in any way: an answer is right, or its time is over."""
            rand = random.Random(seed)

            async def caller(way: Way, name: str) -> None:
                for number in range(12):
                    request, text = f"{name}-{number}", f"{name} {number}"
                    way.box.ask(request, text=text, timeout_ms=8000)
                    await way.box.until((way.box.session / f"{request}.res.json").exists)
                    data = way.box.take(f"{request}.res.json")
                    assert data is not None
                    answer = decode_response(data)
                    assert text == answer.text if answer.ok else answer.code == "expired"
                    assert way.ran[text] == answer.ok

            async def story() -> None:
                calm = True

                def judge(_asked: Asked) -> str:
                    return "" if calm or rand.random() > 0.15 else rand.choice(FAULTS)

                proxy = Breaking(server.port, judge)
                async with broken_way(tmp_path, proxy) as way:
                    calm = False
                    await asyncio.gather(*(caller(way, name) for name in "abc"))
                    calm = True

            play(story)

        def test_large_request_that_cannot_be_read_at_once(
            self, tmp_path: Path, server: Server
        ) -> None:
            """What is too large to be printed is read again, for as long as its caller waits."""

            async def story() -> None:
                turns = iter(range(4))

                def judge(asked: Asked) -> str:
                    reads = asked.method == "GET" and asked.target.endswith("/fs/file")
                    return "closed" if reads and next(turns, None) is not None else ""

                async with broken_way(tmp_path, Breaking(server.port, judge)) as way:
                    text = "x" * 700_000
                    assert text == await way.call("large", text)

            play(story)

        def test_token_that_is_changed(self, tmp_path: Path, server: Server) -> None:
            """A token that is refused is named as the fault; once it is taken again, calls come."""

            async def story() -> None:
                refuses = False
                proxy = Breaking(server.port, lambda _: "401" if refuses else "")
                async with broken_way(tmp_path, proxy) as way:
                    refuses = True
                    calls = asyncio.ensure_future(way.call("a", "a"))
                    await asyncio.sleep(1)
                    assert not calls.done()
                    refuses = False
                    assert "a" == await calls

            play(story)

        def test_daemon_that_is_killed_and_stopped(self, tmp_path: Path, server: Server) -> None:
            """A daemon that dies, or stands still, at any moment of a window loses no call."""
            rand = random.Random(11)

            async def story() -> None:
                async with broken_way(tmp_path, Breaking(server.port), demote_after=100) as way:
                    for number in range(8):
                        text = f"call {number}"
                        call = asyncio.ensure_future(way.call(f"c{number}", text))
                        await asyncio.sleep(rand.random() * 0.08)
                        if number % 2:
                            server.kill()
                            await asyncio.sleep(0.1)
                            server.start()
                        else:
                            server.freeze()
                            await asyncio.sleep(rand.random() * 0.5)
                            server.thaw()
                        assert text == await call

            play(story)

    class TestTls:
        def test_certificates(
            self, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
        ) -> None:
            """One that nobody vouches for, or of another name, or too old, ends the start."""
            authority, stranger = Authority(tmp_path, "known"), Authority(tmp_path, "stranger")
            monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
            for flawed in (
                stranger.server("localhost"),
                authority.server("elsewhere.example"),
                authority.server("localhost", expired=True),
            ):
                told = started(tmp_path, server, flawed, "https")
                assert isinstance(told, Denied), told
                assert "certificate" in str(told)
                assert TOKEN not in str(told)

        def test_no_tls_at_all(self, tmp_path: Path, server: Server) -> None:
            """Plain HTTP where TLS is spoken, and the other way round, is out of reach."""
            authority = Authority(tmp_path, "known")
            for tls, scheme in ((None, "https"), (authority.server("localhost"), "http")):
                told = started(tmp_path, server, tls, scheme)
                assert isinstance(told, (TimedOut, Unreachable)), told

        def test_handshake_that_never_ends(self) -> None:
            """A server that takes connections and says nothing leaves none of them open."""

            async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.read(-1)
                writer.transport.abort()

            async def story() -> None:
                listening = await asyncio.start_server(silent, "127.0.0.1", 0)
                port = listening.sockets[0].getsockname()[1]
                host = DaemonHost(f"https://127.0.0.1:{port}", timeout=0.2)
                for _ in range(3):
                    with pytest.raises(TimedOut):
                        await host.stat("/")
                await host.close()
                assert 0 == host.sockets
                listening.close()

            play(story)

        def test_an_authority_of_ones_own(
            self, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
        ) -> None:
            """SSL_CERT_FILE names the authority of a private certificate; then calls come back."""
            authority = Authority(tmp_path, "known")
            monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
            assert started(tmp_path, server, authority.server("localhost"), "https") is None

    def started(
        folder: Path, server: Server, tls: ssl.SSLContext | None, scheme: str
    ) -> BaseException | None:
        """Start a runner behind TLS, and make a call; return what it raises."""
        (folder / "a session's").mkdir(mode=0o700, exist_ok=True)
        told: list[BaseException] = []

        async def story() -> None:
            proxy = Breaking(server.port, tls=tls)
            await proxy.start()
            url = f"{scheme}://localhost:{proxy.port}"
            box = Box(folder, lambda: DaemonHost(url, token=TOKEN))
            try:
                async with box.serving(**QUICK) as runner:
                    assert isinstance(runner, RemoteRunner)
                    assert (await box.call("a")).ok
            except HostError as error:
                told.append(error)
            finally:
                await proxy.stop()

        play(story)
        return told[0] if told else None
