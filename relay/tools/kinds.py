"""The kinds of tools that a tools file declares: a Python callable, a command, an HTTP service."""

from __future__ import annotations

import os
import re
import shutil
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from relay.tools.addresses import Allowed, networks
from relay.tools.command import command_tool
from relay.tools.credentials import Credentials, Template, Unresolvable, template
from relay.tools.registry import TOOL_NAME, Tool, ToolsError, python_tool
from relay.tools.tables import Table
from relay.tools.targets import find
from relay.tools.transport import Reach
from relay.tools.validate import Validator
from relay.tools.web import METHODS, Endpoint, Hosts, Web, http_tool

_KINDS = ("python", "command", "http")
_KEYS = {
    "python": ("python", "description", "timeout", "input"),
    "command": ("command", "description", "timeout", "input", "pass_env"),
    "http": ("http", "description", "timeout", "input"),
}
_HTTP_KEYS = ("url", "method", "headers", "allow_hosts")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

#: The characters of a header's name (RFC 9110, a token).
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)

#: Headers that follow from the request itself.
_NOT_FOR_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class Making:
    """What the tools of one file share while they are made: credentials, and where HTTP may lead.

    Args:
        folder: the file's own.
        credentials: fill the names in urls, headers and variables.
    """

    def __init__(self, folder: str, credentials: Credentials) -> None:
        self.folder = folder
        self.credentials = credentials
        self.reach = Reach(Allowed())
        self.web = Web(credentials, self.reach)
        self.hosts: list[str] = []
        self._goes_out = False

    def read_rules(self, table: Table) -> None:
        """Take in the table ``[http]``, which holds for every HTTP tool and MCP server."""
        table.only(("allow_hosts", "allow_private", "ca_file"))
        self.hosts = table.words("allow_hosts")
        allowed = Allowed()
        try:
            allowed = Allowed(networks(table.words("allow_private")))
        except ValueError as error:
            table.fault(f"allow_private: {error}", "allow_private")
        self.reach = Reach(allowed, self._authorities(table))
        self.web = Web(self.credentials, self.reach)

    def address(self, table: Table) -> Template | None:
        """Return the url of a service, whose names stand for something now."""
        self._goes_out = True
        return _address(table, self.credentials)

    def check_trust(self, head: Table) -> None:
        """Read the authorities where a service will be called, so that no first call waits."""
        if not self._goes_out:
            return
        try:
            _ = self.reach.trust
        except OSError as error:
            reason = (
                "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            )
            head.fault(f"SSL_CERT_FILE of the environment cannot be used: {reason}")

    def _authorities(self, table: Table) -> str | None:
        given = table.text("ca_file")
        if given is None:
            return None
        path = os.path.join(self.folder, given)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except ssl.SSLError:
            table.fault(f"ca_file: {path} holds no certificate in PEM", "ca_file")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            table.fault(f"ca_file: {path} cannot be read: {reason}", "ca_file")
        else:
            return path
        return None


def read_tool(name: str, table: Table, making: Making) -> Tool | None:
    """Make one tool of its table; ``None`` where something is wrong, which was noted then."""
    kinds = [kind for kind in _KINDS if kind in table]
    if len(kinds) != 1:
        has = "several" if kinds else "none"
        table.fault(f"a tool has one of {_either()}; this one has {has}")
        return None
    (kind,) = kinds
    table.only(_KEYS[kind])
    common: dict[str, Any] = {
        "description": table.text("description"),
        "timeout": table.seconds("timeout"),
        "schema": _schema(table),
    }
    if not TOOL_NAME.fullmatch(name):
        table.fault("a name is 1 to 128 letters, digits, '_', '-' or '.'")
    try:
        return _MAKERS[kind](name, table, making, common)
    except ToolsError as error:
        for problem in error.problems:
            table.fault(problem.removeprefix(f"tool {name}: "))
        return None


def _schema(table: Table) -> Mapping[str, Any] | None:
    schema = table.table("input", "the JSON Schema of the arguments")
    if schema is not None:
        try:
            Validator(schema)
        except ValueError as error:
            table.fault(f"input: {error}", "input")
    return schema


def _either() -> str:
    return ", ".join(f"{kind} = ..." for kind in _KINDS[:-1]) + f" and {_KINDS[-1]} = ..."


def _python(name: str, table: Table, making: Making, common: dict[str, Any]) -> Tool | None:
    function = find(
        table.data["python"],
        making.folder,
        lambda message: table.fault(message, "python"),
        what="python",
    )
    if function is None or not table.is_right:
        return None
    return python_tool(name, function, **common)


def _command(name: str, table: Table, making: Making, common: dict[str, Any]) -> Tool | None:
    # A path is the runner's own: a call is run where the runner was started.
    argv = program(table, folder="")
    pass_env = variables(table)
    if not table.is_right:
        return None
    making.credentials.never_show_variables(pass_env)
    return command_tool(
        name, argv, **_described(common), pass_env=pass_env, masked=making.credentials.masked
    )


def _http(name: str, table: Table, making: Making, common: dict[str, Any]) -> Tool | None:
    given = table.table("http", 'a table with a url, such as { url = "https://..." }')
    if given is None:
        return None
    inner = table.inner("http", given)
    inner.only(_HTTP_KEYS)
    url = making.address(inner)
    method = inner.text("method") or "POST"
    if method not in METHODS:
        inner.fault(f"method is one of {', '.join(METHODS)}", "method")
    sent = headers(inner, making.credentials)
    allowed = [*inner.words("allow_hosts"), *making.hosts]
    if url is None or not table.is_right:
        return None
    hosts = Hosts([*allowed, urlsplit(url.fill()).hostname or ""]) if allowed else None
    return http_tool(name, Endpoint(url, method, sent, hosts), making.web, **_described(common))


def _described(common: dict[str, Any]) -> dict[str, Any]:
    schema: Mapping[str, Any] = common["schema"] or {"type": "object"}
    return {**common, "description": common["description"] or "", "schema": schema}


_MAKERS = {"python": _python, "command": _command, "http": _http}


def program(table: Table, *, folder: str) -> list[str]:
    """Return a program, which there is, and its arguments; ``folder`` is where it is started."""
    argv = table.words("command")
    if table.data["command"] == [] or argv[:1] == [""]:
        table.fault("command is empty; its first text is the program", "command")
    elif argv and "\0" not in argv[0]:
        # A path is looked for where the program will be started; a name, on PATH.
        found = os.path.join(folder, argv[0]) if "/" in argv[0] else argv[0]
        if shutil.which(found) is None:
            table.fault(f"command: there is no program {argv[0][:100]!a}", "command")
    return argv


def variables(table: Table) -> list[str]:
    """Return the names of variables that are passed on."""
    names = table.words("pass_env")
    for name in names:
        if not _VARIABLE.fullmatch(name):
            table.fault(f"pass_env: {name[:60]!a} is no variable's name", "pass_env")
    return names


def _address(table: Table, credentials: Credentials) -> Template | None:
    given = table.text("url")
    if given is None:
        if "url" not in table:
            table.fault("url is missing")
        return None
    made = template(given, credentials, table, "url")
    if made is None:
        return None
    try:
        parts = urlsplit(made.fill())
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except Unresolvable:
        return None
    except ValueError:
        right = False
    if not right:
        table.fault("url is no address that begins with http:// or https://", "url")
        return None
    if parts.username is not None or parts.password is not None:
        table.fault("url holds a user or a password; put them into a header", "url")
        return None
    return made


def headers(table: Table, credentials: Credentials) -> dict[str, Template]:
    """Return the headers that are sent with each request."""
    made = {}
    for name, text in table.texts("headers").items():
        if not _HEADER.fullmatch(name) or name.lower() in _NOT_FOR_HEADERS:
            table.fault(f"headers: {name[:60]!a} cannot be a header here", "headers")
        elif any(ord(c) < 32 or ord(c) > 126 for c in text):
            table.fault(f"headers: {name} holds what is no printable ASCII", "headers")
        else:
            filled = template(text, credentials, table, f"headers.{name}")
            if filled is not None:
                made[name] = filled
    return made
