"""The MCP servers that a tools file names: read, and made into sources of tools when they start."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from relay.tools.credentials import template
from relay.tools.kinds import Making, headers, program, variables
from relay.tools.tables import Table

if TYPE_CHECKING:
    from relay.tools.upstream import Server

_KEYS = ("command", "env", "headers", "pass_env", "timeout", "url")

#: A server's name begins those of its tools, so it leaves room for theirs.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)

#: Bytes of one message from a server: what the largest answer needs, escaped (the maximum of
#: RELAY_MAX_RESPONSE_BYTES is 256 MiB, which no server of tools sends).
_MESSAGE = 64 * 1024 * 1024


class Servers:
    """The servers of one file."""

    def __init__(self, making: Making) -> None:
        self.making = making
        self.servers: list[Server] = []
        self.patterns: list[str] = []

    def makers(self) -> list[Callable[[Callable[[], None]], Any]]:
        """Return a function for each server that makes its connection."""
        if not self.servers:
            return []
        from relay.tools.upstream import Upstream  # noqa: PLC0415 - half a second to load

        return [partial(self._make, Upstream, server) for server in self.servers]

    def _make(self, kind: Any, server: Server, changed: Callable[[], None]) -> Any:
        making = self.making
        return kind(server, credentials=making.credentials, reach=making.reach, changed=changed)


def read_server(name: str, table: Table, servers: Servers) -> None:
    """Read one table ``[mcp.NAME]``."""
    servers.patterns.append(f"{name}_*")
    table.only(_KEYS)
    if not _NAME.fullmatch(name):
        table.fault("a name is 1 to 64 letters, digits, '_', '-' or '.'")
    if importlib.util.find_spec("mcp") is None:
        table.fault("MCP servers need the mcp library: pip install 'relayconf[mcp]'")
    if ("command" in table) is ("url" in table):
        table.fault('a server has one of command = [...] and url = "https://..."')
        return
    making = servers.making
    credentials = making.credentials
    by_url = "url" in table
    argv = [] if by_url else program(table, folder=making.folder)
    url = making.address(table) if by_url else None
    env = {
        variable: template(text, credentials, table, f"env.{variable}")
        for variable, text in table.texts("env").items()
    }
    sent = headers(table, credentials)
    pass_env = variables(table)
    timeout = table.seconds("timeout")
    if not table.is_right:
        return
    from relay.tools.upstream import Server  # noqa: PLC0415 - half a second to load

    servers.servers.append(
        Server(
            name=name,
            command=argv,
            folder=making.folder,
            env={n: t for n, t in env.items() if t is not None},
            pass_env=pass_env,
            url=url,
            headers=sent,
            timeout=timeout,
            limit=_MESSAGE,
        )
    )
