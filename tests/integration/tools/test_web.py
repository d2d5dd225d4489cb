"""HTTP tools against services of every kind: honest, slow, huge, redirecting, lying, dying."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.servers.running import free_port

LOCAL = '[http]\nallow_private = ["127.0.0.1/32"]\n'
SECRET = "tok-en-4711-canary"


def tool(port: int, more: str = "", host: str = "127.0.0.1") -> str:
    """Return a tools file with one HTTP tool."""
    return f'{LOCAL}[tools.ask.http]\nurl = "http://{host}:{port}/ask"\n{more}'


class TestAnswers:
    def test_arguments_are_the_body(self, offer: Any, service: Any, http: Any) -> None:
        """The arguments go as JSON, the body comes back as the text, with the file's headers."""

        async def behave(request: Any, writer: Any) -> None:
            writer.write(http(200, b"<" + request.body + b">"))

        async def run() -> None:
            async with (
                service(behave) as served,
                offer(tool(served.port, 'headers = { X-Team = "blue" }')) as session,
            ):
                assert '<{"a": 1, "b": "ü"}>' == await session.call("ask", a=1, b="ü")
                (request,) = served.requests
                assert ("POST", "/ask") == (request.method, request.target)
                assert "application/json" == request.headers["content-type"]
                assert ("blue", "identity") == (
                    request.headers["x-team"],
                    request.headers["accept-encoding"],
                )

        asyncio.run(run())

    def test_a_method_without_a_body(self, offer: Any, service: Any, http: Any) -> None:
        """With GET the arguments are the query."""

        async def behave(request: Any, writer: Any) -> None:
            writer.write(http(200, request.target.encode()))

        async def run() -> None:
            async with (
                service(behave) as served,
                offer(tool(served.port, 'method = "GET"')) as session,
            ):
                said = await session.call("ask", q="a b&c", n=5, tags=["x", "y"], deep={"k": None})
                assert "/ask?q=a%20b%26c&n=5&tags=x&tags=y&deep=%7B%22k%22%3A%20null%7D" == (
                    said.replace("+", "%20")
                )

        asyncio.run(run())

    def test_connections_are_kept(self, offer: Any, service: Any, http: Any) -> None:
        """Calls one after another go over one connection."""

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(200, b"ok"))

        async def run() -> None:
            async with service(behave) as served, offer(tool(served.port)) as session:
                for _ in range(5):
                    assert "ok" == await session.call("ask")
                assert 1 == served.connections

        asyncio.run(run())

    def test_charsets(self, offer: Any, service: Any, http: Any) -> None:
        """A text is read as its head says; where that is nonsense, as UTF-8."""
        kinds = {"latin": "latin-1", "odd": "no-such", "codec": "rot13", "bytes": "hex"}

        async def behave(request: Any, writer: Any) -> None:
            which = json.loads(request.body)["which"]
            body = "ü".encode("latin-1" if which == "latin" else "utf-8")
            writer.write(http(200, body, content_type=f"text/plain; charset={kinds[which]}"))

        async def run() -> None:
            async with service(behave) as served, offer(tool(served.port)) as session:
                for which in kinds:
                    assert "ü" == await session.call("ask", which=which)

        asyncio.run(run())


class TestErrors:
    def test_status_and_a_little_of_the_body(self, offer: Any, service: Any, http: Any) -> None:
        """An error is told with its status and at most 2,000 bytes of what was said."""

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(418, b"short and stout" + b"!" * 1_000_000))

        async def run() -> None:
            async with service(behave) as served, offer(tool(served.port)) as session:
                error = await session.failure("ask")
                assert "tool_error" == error.code
                assert str(error).startswith("the service answered 418: short and stout!")
                assert len(str(error)) < 2100

        asyncio.run(run())

    @pytest.mark.parametrize(
        ("sent", "says"),
        [
            (b"", "the service cannot be reached"),
            (b"nonsense\r\n\r\n", "the service cannot be reached"),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
                "the service cannot be reached",
            ),
            (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx", "packs"),
        ],
        ids=["nothing", "nonsense", "half", "packed"],
    )
    def test_services_that_break(self, offer: Any, service: Any, sent: bytes, says: str) -> None:
        """A service that dies or talks nonsense is an error at once, and the next call is tried."""

        async def behave(_: Any, writer: Any) -> None:
            writer.write(sent)
            await writer.drain()
            writer.close()

        async def run() -> None:
            async with service(behave) as served, offer(tool(served.port)) as session:
                for _ in range(2):
                    error = await session.failure("ask")
                    assert says in str(error)
                    assert str(served.port) not in str(error)

        asyncio.run(run())

    def test_nobody_there(self, offer: Any) -> None:
        """A port where nobody listens is an error that does not say which."""
        port = free_port()

        async def run() -> None:
            async with offer(tool(port)) as session:
                assert "the service cannot be reached" == str(await session.failure("ask"))

        asyncio.run(run())

    def test_a_slow_service(self, offer: Any, service: Any) -> None:
        """A service that sends a byte now and then ends with the tool's time."""

        async def behave(_: Any, writer: Any) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
            while True:
                writer.write(b".")
                await asyncio.sleep(0.02)

        async def run() -> None:
            more = '\n[tools.ask]\ntimeout = "300ms"\n'
            async with service(behave) as served, offer(tool(served.port) + more) as session:
                assert "timeout" == (await session.failure("ask")).code

        asyncio.run(run())

    def test_a_caller_that_gives_up(self, offer: Any, service: Any) -> None:
        """A request whose caller takes it back is ended, and the service sees that."""
        begun, ended = asyncio.Event(), asyncio.Event()

        async def behave(_: Any, writer: Any) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            begun.set()
            try:
                while True:
                    writer.write(b".")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            except ConnectionError:
                ended.set()

        async def run() -> None:
            async with service(behave) as served, offer(tool(served.port)) as session:
                call = asyncio.create_task(session.call("ask"))
                async with asyncio.timeout(20):
                    await begun.wait()
                    call.cancel()
                    await ended.wait()

        asyncio.run(run())

    def test_a_huge_answer(self, offer: Any, service: Any) -> None:
        """An answer over the bound ends the reading, whatever its head says."""
        sent = 0

        async def behave(_: Any, writer: Any) -> None:
            nonlocal sent
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
            while sent < 1 << 30:
                writer.write(b"x" * 65536)
                sent += 65536
                await writer.drain()

        async def run() -> None:
            async with (
                service(behave) as served,
                offer(tool(served.port), max_response=1 << 20) as session,
            ):
                error = await session.failure("ask")
                assert "too_large" == error.code
                assert sent < 64 << 20

        asyncio.run(run())


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_within_the_service(self, offer: Any, service: Any, http: Any, status: int) -> None:
        """A redirect on the same host is followed, with the headers."""

        async def behave(request: Any, writer: Any) -> None:
            if request.target == "/ask":
                writer.write(http(status, location="/there"))
            else:
                writer.write(http(200, f"{request.method} {request.headers['x-key']}".encode()))

        async def run() -> None:
            async with (
                service(behave) as served,
                offer(tool(served.port, 'headers = { X-Key = "k1" }')) as session,
            ):
                method = "POST" if status in (307, 308) else "GET"
                assert f"{method} k1" == await session.call("ask")

        asyncio.run(run())

    @pytest.mark.parametrize(
        "location",
        [
            "http://other.test/",
            "//other.test/x",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "http://user:word@{host}/",
            "//user@{host}/",
        ],
    )
    def test_to_another_host(self, offer: Any, service: Any, http: Any, location: str) -> None:
        """A redirect off the list, or with a user in it, is refused, and nobody else is asked."""

        async def behave(request: Any, writer: Any) -> None:
            writer.write(http(302, location=location.format(host=request.headers["host"])))

        async def run() -> None:
            async with service(behave) as served, offer(tool(served.port)) as session:
                error = await session.failure("ask")
                assert ("refused", 1) == (error.code, len(served.requests))

        asyncio.run(run())

    def test_to_an_allowed_host_without_the_credentials(
        self, offer: Any, service: Any, http: Any
    ) -> None:
        """Another origin that is allowed gets the question, and none of the headers or cookies."""

        async def other(request: Any, writer: Any) -> None:
            writer.write(http(200, json.dumps(request.headers).encode()))

        async def run() -> None:
            async with service(other) as second:

                async def behave(_: Any, writer: Any) -> None:
                    there = f"http://127.0.0.1:{second.port}/"
                    writer.write(http(307, location=there, set_cookie="a=b"))

                async with service(behave) as first:
                    more = 'headers = { X-Key = "k1", Authorization = "Bearer x" }'
                    async with offer(tool(first.port, more)) as session:
                        got = json.loads(await session.call("ask"))
                        assert set() == {"x-key", "authorization", "cookie"} & set(got)

        asyncio.run(run())

    def test_without_end(self, offer: Any, service: Any, http: Any) -> None:
        """Redirects that lead nowhere end after five."""

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(307, location="/ask"))

        async def run() -> None:
            async with service(behave) as served, offer(tool(served.port)) as session:
                assert "more than 5 times" in str(await session.failure("ask"))
                assert 6 == len(served.requests)

        asyncio.run(run())
