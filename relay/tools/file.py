"""The tools file: TOML in, a registry out, or every fault in it at once.

``[tools.NAME]`` declares one tool of one kind: ``python = "module:name"`` or ``command = [...]``.
A fault names the file, the line of the table, the tool and what to do; nothing is started where
there is one. Reading it imports the modules that it names, and nothing else.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from relay.engine.telemetry import escaped
from relay.tools.command import command_tool
from relay.tools.registry import Registry, Tool, ToolsError, python_tool
from relay.tools.toml import read_toml
from relayconf.setting import Setting
from relayconf.values import Invalid, parse

#: Kinds of tools that this version runs, and those that it only knows by name.
_KINDS = ("python", "command")
_LATER = ("http",)
_KEYS = {
    "python": frozenset({"python", "description", "timeout", "input"}),
    "command": frozenset({"command", "description", "timeout", "input", "pass_env"}),
}

_TIMEOUT = Setting("timeout", "duration", unit="ms")
_TARGET = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class _Fault(ValueError):
    """One thing that is wrong with one tool."""


def load_tools(path: str) -> Registry:
    """Read a tools file.

    Raises:
        ToolsError: it cannot be read, or has faults; one line for each.
    """
    text, document = read_toml(path, "the tools file")
    tools: list[Tool] = []
    problems: list[str] = list(_foreign(path, document))
    tables = document.get("tools", {})
    if not isinstance(tables, Mapping):
        tables = {}
        problems.append(f"{path}: 'tools' is not a table; declare each tool under [tools.NAME]")
    folder = os.path.dirname(os.path.abspath(path))
    for name, table in tables.items():
        where = f"{path}{_line(text, name)}: "
        try:
            tools.append(_tool(name, table, folder=folder))
        except _Fault as fault:
            problems.extend(f"{where}tool {name}: {line}" for line in str(fault).split("\n"))
        except ToolsError as error:
            problems.extend(f"{where}{problem}" for problem in error.problems)
    if problems:
        raise ToolsError(problems)
    return Registry(tools)


def _foreign(path: str, document: Mapping[str, Any]) -> Iterator[str]:
    for key in document:
        if key == "mcp":
            yield f"{path}: [mcp.*]: this version has no MCP servers; remove the table"
        elif key != "tools":
            yield f"{path}: {key!r} is not known here; tools stand under [tools.NAME]"


def _line(text: str, name: str) -> str:
    """Return ``:LINE`` of a tool's table, or nothing where it is written in another way."""
    spelled = rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    found = re.search(rf"^[ \t]*\[[ \t]*tools[ \t]*\.[ \t]*{spelled}[ \t]*\]", text, re.MULTILINE)
    return f":{text.count(chr(10), 0, found.start()) + 1}" if found else ""


def _tool(name: str, table: object, *, folder: str) -> Tool:
    if not isinstance(table, Mapping):
        raise _Fault(f"it is not a table; write [tools.{name}] and one of {_either()}")
    kind = _kind(table)
    faults = [
        f"{key!r} is not known for a {kind} tool; it takes {', '.join(sorted(_KEYS[kind]))}"
        for key in table
        if key not in _KEYS[kind]
    ]
    description = _text(table, faults)
    timeout = _timeout(table, faults)
    schema = table.get("input")
    if schema is not None and not isinstance(schema, Mapping):
        faults.append("input is not a table; it is the JSON Schema of the arguments")
    if kind == "python":
        function = _callable(table["python"], folder, faults)
        if faults or function is None:
            raise _Fault("\n".join(faults))
        return python_tool(name, function, description=description, schema=schema, timeout=timeout)
    argv = _words(table, "command", faults)
    pass_env = _words(table, "pass_env", faults) if "pass_env" in table else []
    faults.extend(
        f"pass_env: {variable[:60]!a} is no variable's name"
        for variable in pass_env
        if not _VARIABLE.fullmatch(variable)
    )
    if faults:
        raise _Fault("\n".join(faults))
    return command_tool(
        name,
        argv,
        description=description or "",
        schema={"type": "object"} if schema is None else schema,
        timeout=timeout,
        pass_env=pass_env,
    )


def _either() -> str:
    return " or ".join(f"{kind} = ..." for kind in _KINDS)


def _kind(table: Mapping[str, Any]) -> str:
    for kind in _LATER:
        if kind in table:
            raise _Fault(f"this version has no {kind} tools; use one of {_either()}")
    kinds = [kind for kind in _KINDS if kind in table]
    if len(kinds) != 1:
        has = "both" if kinds else "neither"
        raise _Fault(f"a tool has one of {_either()}; this one has {has}")
    return kinds[0]


def _text(table: Mapping[str, Any], faults: list[str]) -> str | None:
    description = table.get("description")
    if description is not None and not isinstance(description, str):
        faults.append("description is not a text")
        return None
    return description


def _timeout(table: Mapping[str, Any], faults: list[str]) -> float | None:
    """Return the tool's own limit in seconds; a bare number is milliseconds."""
    given = table.get("timeout")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | int):
        faults.append('timeout is a duration such as "10s"')
        return None
    parsed = parse(_TIMEOUT, str(given))
    if isinstance(parsed, Invalid):
        faults.append(f"timeout: {parsed.reason}")
        return None
    if not isinstance(parsed.value, int) or parsed.value <= 0:
        faults.append("timeout: it is not above zero")
        return None
    return parsed.value / 1000


def _words(table: Mapping[str, Any], key: str, faults: list[str]) -> list[str]:
    words = table[key]
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        faults.append(f'{key} is not a list of texts; write {key} = ["first", "second"]')
        return []
    if any("\0" in word for word in words):
        faults.append(f"{key} holds a null character")
    if key == "command" and not (words and words[0]):
        faults.append("command is empty; its first text is the program")
    return list(words)


def _callable(target: object, folder: str, faults: list[str]) -> Callable[..., Any] | None:
    """Import ``module:name``, found as any import or beside the tools file."""
    matched = _TARGET.fullmatch(target) if isinstance(target, str) else None
    if matched is None:
        faults.append('python is not of the form "module:name"')
        return None
    module, name = matched.groups()
    if folder not in sys.path:
        # Last, so that no file there takes the place of a module of the standard library.
        sys.path.append(folder)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
        said = escaped(f"{type(error).__name__}: {error}")
        faults.append(f"python: cannot import {target}: {said}")
        return None
    if not callable(found):
        faults.append(f"python: {target} is not callable")
        return None
    function: Callable[..., Any] = found
    return function
