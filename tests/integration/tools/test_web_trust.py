"""What HTTP tools trust: addresses, hosts, and nobody with a credential."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from relay.tools import ToolsError, load_tools
from relay.tools.addresses import Allowed, networks
from relay.tools.web import Hosts

LOCAL = '[http]\nallow_private = ["127.0.0.1/32"]\n'
SECRET = "tok-en-4711-canary"


def tool(port: int, more: str = "", host: str = "127.0.0.1") -> str:
    """Return a tools file with one HTTP tool."""
    return f'{LOCAL}[tools.ask.http]\nurl = "http://{host}:{port}/ask"\n{more}'


class TestAddresses:
    @pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "169.254.169.254"])
    def test_private_ones_are_refused(
        self, offer: Any, host: str, log: pytest.LogCaptureFixture
    ) -> None:
        """Without being allowed, a private or link-local address is never connected to."""

        async def run() -> None:
            text = f'[tools.ask.http]\nurl = "http://{host}:9/"\n'
            async with offer(text) as session:
                error = await session.failure("ask")
                assert "refused" == error.code
                assert "the service is at an address that is not allowed" == str(error)

        asyncio.run(run())
        assert host.strip("[]") in log.text

    def test_a_name_server_that_is_silent(
        self, offer: Any, service: Any, http: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Calls of a name that is not resolved end in their time, and hold up no other name's."""
        silent, asked = threading.Event(), []

        def lookup(host: str, port: int, **_: Any) -> list[Any]:
            asked.append(host)
            if host == "silent.test":
                silent.wait(60)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(200, b"ok"))

        async def run() -> None:
            async with service(behave) as served:
                two = "".join(
                    f'[tools.{name}]\ntimeout = "{time}"\n[tools.{name}.http]\n'
                    f'url = "http://{name}.test:{served.port}/"\n'
                    for name, time in (("silent", "500ms"), ("other", "20s"))
                )
                async with offer(LOCAL + two) as session:
                    calls = (session.failure("silent") for _ in range(20))
                    said = [error.code for error in await asyncio.gather(*calls)]
                    assert ["timeout"] * 20 == said
                    assert "ok" == await session.call("other")
                    assert ["silent.test", "other.test"] == asked
                    silent.set()

        asyncio.run(run())

    def test_a_name_that_moves(
        self, offer: Any, service: Any, http: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name is asked for once a connection, and where it then leads is what was judged."""
        answers = [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1", "127.0.0.1"]]
        asked: list[str] = []

        def lookup(host: str, port: int, **_: Any) -> list[Any]:
            asked.append(host)
            kind = socket.SOCK_STREAM
            return [(socket.AF_INET, kind, 6, "", (each, port)) for each in answers[len(asked) - 1]]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(200, b"ok", connection="close"))
            await writer.drain()
            writer.close()

        async def run() -> None:
            async with (
                service(behave) as served,
                offer(tool(served.port, host="moving.test")) as session,
            ):
                assert "ok" == await session.call("ask")
                assert "refused" == (await session.failure("ask")).code
                assert "ok" == await session.call("ask")
                assert ["moving.test"] * 3 == asked

        asyncio.run(run())

    @pytest.mark.parametrize(
        ("address", "allowed"),
        [
            ("93.184.215.14", True),
            ("2606:2800:21f:cb07::1", True),
            ("127.0.0.1", False),
            ("10.1.2.3", True),
            ("10.2.0.1", False),
            ("169.254.1.1", False),
            ("100.64.0.1", False),
            ("0.0.0.0", False),  # noqa: S104 - data, nobody binds to it
            ("224.0.0.251", False),
            ("255.255.255.255", False),
            ("::1", False),
            ("fe80::1", False),
            ("fd00::1", False),
            ("::ffff:127.0.0.1", False),
            ("::ffff:169.254.169.254", False),
            ("64:ff9b::7f00:1", False),
            ("64:ff9b::a00:1", False),
            ("2002:7f00:1::", False),
        ],
    )
    def test_which_are_allowed(self, address: str, allowed: bool) -> None:  # noqa: FBT001 - data
        """Public addresses and allowed networks pass; what hides a private one does not."""
        import ipaddress  # noqa: PLC0415 - for this one

        known = Allowed(networks(["10.1.0.0/16"]))
        assert allowed is (ipaddress.ip_address(address) in known)


class TestHosts:
    def test_names_and_all_below_one(self) -> None:
        """A name stands for itself, a star for whatever is below."""
        hosts = Hosts(["api.example.com", "*.internal.example"])
        right = [
            "api.example.com",
            "API.example.com.",
            "a.internal.example",
            "a.b.internal.example",
        ]
        wrong = ["example.com", "x.api.example.com", "internal.example", "xinternal.example", ""]
        assert [True] * 4 == [host in hosts for host in right]
        assert [False] * 5 == [host in hosts for host in wrong]


class TestCredentials:
    def test_never_come_back(
        self,
        offer: Any,
        service: Any,
        http: Any,
        monkeypatch: pytest.MonkeyPatch,
        log: pytest.LogCaptureFixture,
    ) -> None:
        """A service that repeats what it was sent, in an answer or an error, shows no secret."""
        monkeypatch.setenv("ASK_TOKEN", SECRET)
        monkeypatch.setenv("ASK_KEY", 'a"b c/d')

        async def behave(request: Any, writer: Any) -> None:
            said = f"you said {request.headers['authorization']}".encode()
            if b"spell" in request.body:
                key = request.headers["key"]
                said = f"{json.dumps(key)} {quote(key, safe='')}".encode()
            status = 500 if b"fail" in request.body else 200
            writer.write(http(status, said))

        async def run() -> None:
            more = 'headers = { Authorization = "Bearer ${ASK_TOKEN}", Key = "${ASK_KEY}" }'
            async with service(behave) as served, offer(tool(served.port, more)) as session:
                assert "you said ********" == await session.call("ask")
                assert '"********" ********' == await session.call("ask", spell=1)
                error = await session.failure("ask", fail=1)
                assert "the service answered 500: you said ********" == str(error)
                assert f"Bearer {SECRET}" == served.requests[0].headers["authorization"]
                assert SECRET not in session.everything()

        asyncio.run(run())
        assert SECRET not in log.text

    def test_addresses_are_none(
        self, offer: Any, service: Any, http: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where a service is may come from a variable, and links to it stay as they are."""

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(200, f"see {base}/v1/ask and {base}/hooks/T0AB/{SECRET}".encode()))

        base = ""

        async def run() -> None:
            nonlocal base
            async with service(behave) as served:
                base = f"http://127.0.0.1:{served.port}"
                monkeypatch.setenv("BASE", base)
                monkeypatch.setenv("HOOK", f"{base}/hooks/T0AB/{SECRET}")
                text = (
                    f'{LOCAL}[tools.ask.http]\nurl = "${{BASE}}/v1/ask"\n'
                    '[tools.hook.http]\nurl = "${HOOK}"\n'
                )
                async with offer(text) as session:
                    said = f"see {base}/v1/ask and ********"
                    assert said == await session.call("hook")
                    assert said == await session.call("ask")

        asyncio.run(run())

    @pytest.mark.parametrize(
        ("name", "text", "shown"),
        [
            ("REGION", "data", True),
            ("FOLDER", "/srv/data", True),
            ("SERVICE_PORT", "8080", True),
            ("REGION_KEY", "data", False),
            ("DB_PASSWORD", "8080", False),
            ("REGION", "Data9x", False),
            ("FOLDER", "/hooks/T0AB9Zx8Kq", False),
        ],
    )
    def test_common_words_are_none(
        self,
        offer: Any,
        service: Any,
        http: Any,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        text: str,
        *,
        shown: bool,
    ) -> None:
        """A word, a port or a folder stays as it is, unless its name sounds like a secret's."""
        monkeypatch.setenv(name, text)

        async def behave(request: Any, writer: Any) -> None:
            writer.write(http(200, f"it is {request.headers['x-what']}.".encode()))

        async def run() -> None:
            more = f'headers = {{ X-What = "in ${{{name}}}" }}'
            async with service(behave) as served, offer(tool(served.port, more)) as session:
                said = f"in {text}" if shown else "********"
                assert f"it is {said}." == await session.call("ask")

        asyncio.run(run())

    def test_rotate(
        self,
        offer: Any,
        service: Any,
        http: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A secret file is read at each call, by its pointer or from the directory of secrets."""
        named, folder = tmp_path / "named", tmp_path / "secrets"
        folder.mkdir()
        named.write_text("one\n")
        (folder / "second_key").write_text("two")
        monkeypatch.setenv("FIRST_KEY_FILE", str(named))
        monkeypatch.setenv("RELAYCONF_SECRETS_DIR", str(folder))

        async def behave(_: Any, writer: Any) -> None:
            writer.write(http(200, b"ok"))

        async def run() -> None:
            more = 'headers = { A = "${FIRST_KEY}", B = "${SECOND_KEY}$$" }'
            async with service(behave) as served, offer(tool(served.port, more)) as session:
                await session.call("ask")
                named.write_text("three")
                (folder / "second_key").write_text("four")
                await session.call("ask")
                named.unlink()
                error = await session.failure("ask")
                assert "the runner lacks a credential for this service" == str(error)
                assert [("one", "two$"), ("three", "four$")] == [
                    (request.headers["a"], request.headers["b"]) for request in served.requests
                ]

        asyncio.run(run())

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("${NOWHERE}", "${NOWHERE} is not set: set NOWHERE in the runner's environment"),
            ("${BLANK}", "${BLANK} is not set"),
            ("${LINES}", "${LINES} holds a control character"),
            ("$NAME", "a '$' begins ${NAME}"),
            ("${1}", "a '$' begins ${NAME}"),
        ],
    )
    def test_that_stand_for_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
    ) -> None:
        """A name that cannot be resolved is found before anything starts, with its line."""
        monkeypatch.setenv("BLANK", "")
        monkeypatch.setenv("LINES", "a\r\nX-Other: b")
        file = tmp_path / "tools.toml"
        file.write_text(
            f'[tools.a.http]\nurl = "https://example.com"\nheaders = {{ K = "{text}" }}\n'
        )
        with pytest.raises(ToolsError) as raised:
            load_tools(str(file))
        (problem,) = raised.value.problems
        assert problem.startswith(f"{file}:3: tool a: http: headers.K: {says}")
