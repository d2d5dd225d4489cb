"""HTTPS services: who may vouch for them, and what is not taken for one."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from relay.tools import ToolsError, load_tools
from tests.servers.authority import Authority

LOCAL = 'allow_private = ["127.0.0.1/32"]'


async def greet(_: Any, writer: Any) -> None:
    """Answer as any service does."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


def tool(port: int, ca_file: Path | None = None) -> str:
    """Return a tools file with one HTTPS tool."""
    trust = "" if ca_file is None else f'ca_file = "{ca_file}"'
    return f'[http]\n{LOCAL}\n{trust}\n[tools.ask.http]\nurl = "https://localhost:{port}/ask"\n'


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return the authority that the operator trusts."""
    return Authority(tmp_path, "ours")


class TestServers:
    def test_that_the_operators_authority_vouches_for(
        self, offer: Any, service: Any, authority: Authority
    ) -> None:
        """With its file named, a service of an internal authority is called, and again."""

        async def run() -> None:
            async with (
                service(greet, tls=authority.server("localhost")) as served,
                offer(tool(served.port, authority.file)) as session,
            ):
                assert ["ok"] * 2 == [await session.call("ask") for _ in range(2)]
                assert 1 == served.connections

        asyncio.run(run())

    def test_a_file_beside_the_tools_file(
        self, offer: Any, service: Any, authority: Authority, tmp_path: Path
    ) -> None:
        """A relative name is looked for beside the tools file, wherever the runner was started."""
        assert tmp_path == authority.file.parent

        async def run() -> None:
            async with (
                service(greet, tls=authority.server("localhost")) as served,
                offer(tool(served.port, Path(authority.file.name))) as session,
            ):
                assert "ok" == await session.call("ask")

        asyncio.run(run())

    def test_by_the_variable_of_openssl(
        self, offer: Any, service: Any, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """``SSL_CERT_FILE`` stands in the place of the public authorities."""
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

        async def run() -> None:
            async with (
                service(greet, tls=authority.server("localhost")) as served,
                offer(tool(served.port)) as session,
            ):
                assert "ok" == await session.call("ask")

        asyncio.run(run())

    @pytest.mark.parametrize("wrong", ["unknown authority", "other name", "expired"])
    def test_that_prove_nothing(
        self,
        offer: Any,
        service: Any,
        authority: Authority,
        tmp_path: Path,
        log: pytest.LogCaptureFixture,
        wrong: str,
    ) -> None:
        """They are asked nothing; the sandbox hears that there is no service, the log hears why."""
        shown: dict[str, ssl.SSLContext] = {
            "unknown authority": Authority(tmp_path, "others").server("localhost"),
            "other name": authority.server("elsewhere.test"),
            "expired": authority.server("localhost", expired=True),
        }
        says = {
            "unknown authority": "unable to get local issuer certificate",
            "other name": "not valid for 'localhost'",
            "expired": "certificate has expired",
        }

        async def run() -> None:
            async with (
                service(greet, tls=shown[wrong]) as served,
                offer(tool(served.port, authority.file)) as session,
            ):
                error = await session.failure("ask")
                assert ("tool_error", "the service cannot be reached") == (error.code, str(error))
                assert [] == served.requests

        asyncio.run(run())
        assert says[wrong] in log.text

    def test_an_mcp_server(
        self, offer: Any, service: Any, authority: Authority, tmp_path: Path, log: Any
    ) -> None:
        """An MCP server by url has to prove its name by the same rules."""

        async def deny(_: Any, writer: Any) -> None:
            writer.write(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")

        async def run(tls: ssl.SSLContext) -> int:
            async with service(deny, tls=tls) as served:
                table = f'[mcp.web]\nurl = "https://localhost:{served.port}/mcp"\n'
                text = f'[http]\n{LOCAL}\nca_file = "{authority.file}"\n{table}'
                async with offer(text):
                    return len(served.requests)

        assert asyncio.run(run(authority.server("localhost"))) > 0
        assert 0 == asyncio.run(run(Authority(tmp_path, "others").server("localhost")))
        assert "unable to get local issuer certificate" in log.text


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot be read: No such file or directory"), ("nonsense", "holds no certificate")],
)
def test_a_file_of_no_authority(tmp_path: Path, content: str | None, says: str) -> None:
    """It is found before anything starts, with its line."""
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    file = tmp_path / "tools.toml"
    file.write_text(f'[http]\n{LOCAL}\nca_file = "ca.pem"\n')
    with pytest.raises(ToolsError) as raised:
        load_tools(str(file))
    (problem,) = raised.value.problems
    assert problem.startswith(f"{file}:3: http: ca_file: {tmp_path / 'ca.pem'} {says}")


def test_a_variable_that_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``SSL_CERT_FILE`` is looked at before anything starts, where a service is called at all."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    file = tmp_path / "tools.toml"
    file.write_text('[tools.a]\ncommand = ["true"]\n')
    load_tools(str(file))
    file.write_text('[tools.ask.http]\nurl = "https://example.com"\n')
    with pytest.raises(ToolsError) as raised:
        load_tools(str(file))
    (problem,) = raised.value.problems
    assert "SSL_CERT_FILE of the environment cannot be used: No such file" in problem
