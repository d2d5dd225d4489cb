"""The tools file: TOML in, everything that a runner offers out, or every fault in it at once.

``[tools.NAME]`` declares one tool of one kind: ``python = "module:name"``, ``command = [...]`` or
``http = {...}``. ``[mcp.NAME]`` is a whole MCP server, ``[http]`` says where HTTP may lead, and
``guard`` and ``policy`` name what decides about calls. A fault names the file, the line, the tool
and what to do; nothing is started where there is one. Reading it imports the modules that it names,
and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from relay.tools.credentials import Credentials
from relay.tools.kinds import Making, read_tool
from relay.tools.offering import Offering
from relay.tools.policy import Policy, read_policy
from relay.tools.registry import Registry, ToolsError
from relay.tools.servers import Servers, read_server
from relay.tools.tables import Faults, Table
from relay.tools.targets import find
from relay.tools.toml import read_toml

_KEYS = ("guard", "http", "mcp", "policy", "tools")


def load_tools(path: str) -> Registry:
    """Read a tools file, and what it names.

    Raises:
        ToolsError: it cannot be read, or has faults; one line for each.
    """
    text, document = read_toml(path, "the tools file")
    faults = Faults(path, text)
    offering = _offering(document, path, faults)
    if offering is None:
        raise ToolsError(faults.problems)
    return offering


def _offering(document: Mapping[str, Any], path: str, faults: Faults) -> Offering | None:
    folder = os.path.dirname(os.path.abspath(path))
    head = Table(document, (), faults, "tools file")
    for key in document:
        if key not in _KEYS:
            head.fault(f"{key!r} is not known here; tools stand under [tools.NAME]", key)
    making = Making(folder, Credentials(os.environ))
    making.read_rules(
        Table(head.table("http", "where HTTP may lead") or {}, ("http",), faults, "http")
    )
    tools = _each(head, "tools", lambda table, name: read_tool(name, table, making))
    servers = Servers(making)
    _each(head, "mcp", lambda table, name: read_server(name, table, servers))
    making.check_trust(head)
    guard = _guard(head, folder)
    policy = _policy(head, folder, faults, [*(tool.name for tool in tools), *servers.patterns])
    if faults:
        return None
    offering = Offering(
        tools,
        sources=servers.makers(),
        closing=[making.web.close],
        policy=policy,
        guard=guard,
    )
    offering.servers = [server.name for server in servers.servers]
    return offering


def _each(head: Table, key: str, read: Callable[[Table, str], Any]) -> list[Any]:
    """Read every table under a key, and return what they gave."""
    tables = head.table(key, f"tables, each declared under [{key}.NAME]") or {}
    made = []
    for name, data in tables.items():
        kind = "tool" if key == "tools" else "mcp"
        table = head.below(key, name, data, title=f"{kind} {name}")
        if table is not None:
            made.append(read(table, name))
    return [each for each in made if each is not None]


def _guard(head: Table, folder: str) -> Any:
    target = head.text("guard")
    if target is None:
        return None
    return find(target, folder, partial(head.fault, key="guard"), what="guard")


def _policy(head: Table, folder: str, faults: Faults, names: list[str]) -> Policy | None:
    given = head.text("policy")
    if given is None:
        return None
    path = os.path.join(folder, given)
    try:
        text, document = read_toml(path, "the policy file")
    except ToolsError as error:
        faults.extend(error.problems)
        return None
    found = Faults(path, text)
    policy = read_policy(path, document, found, tools=names)
    faults.extend(found.problems)
    return policy
