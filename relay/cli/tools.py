"""``relay tools``: what the runner of a session directory offers, as its relay.json says it.

It asks nobody: the list is what the newest runner has published, whether or not it still lives.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, Iterator, List

from relay.cli.terminal import (
    USAGE_ERROR,
    UsageError,
    answer,
    complain,
    explain,
    misused,
    plain,
    read_line,
)
from relay.client.directory import Held
from relay.client.options import told
from relay.client.writer import directory_of
from relay.errors import NoDirectory

USAGE = """\
usage: relay tools [--dir DIR] [--json]
       relay tools --check [--tools FILE]

List the tools that the runner of a session directory offers; or, where the runner is installed,
judge its tools file (relay tools --check --help).

  --dir DIR       the session directory (default: RELAY_DIR)
  --json          print a JSON array of {"name", "description", "input"}
  -h, --help      print this and exit

exit status:
  0    the list is on stdout
  2    wrong usage, or no session directory
  69   no runner has announced itself in the directory
"""

UNAVAILABLE = 69


def run(argv: List[str]) -> int:
    """Carry out ``relay tools`` with these arguments and return its exit status."""
    try:
        options = parse(argv)
        if "-h" in options or "--help" in options:
            return explain("tools", USAGE)
        held = Held(directory_of(os.environ, options.get("--dir")))
    except UsageError as error:
        return misused("tools", error)
    except NoDirectory as error:
        return complain("tools", str(error), USAGE_ERROR)
    announced = told(held)
    if announced is None:
        text = f"no runner has announced itself in {held.path!r} (there is no usable relay.json)"
        return complain("tools", text, UNAVAILABLE)
    if "--json" in options:
        return answer("tools", json.dumps([_record(tool) for tool in announced.tools], indent=2))
    return answer("tools", "\n".join(_lines(announced.tools)) or "(no tools)")


def parse(argv: List[str]) -> Dict[str, str]:
    """Return the options among the arguments.

    Raises:
        UsageError: there is anything else.
    """
    words, options = read_line(argv, flags=("--json", "-h", "--help"), valued=("--dir",))
    if words:
        raise UsageError(f"no argument is expected, and {words[0]!a} is left")
    return options


def _record(tool: Dict[str, Any]) -> Dict[str, Any]:
    return {name: tool.get(name) for name in ("name", "description", "input")}


def _lines(tools: Iterable[Dict[str, Any]]) -> Iterator[str]:
    """Two lines for each tool: what it does, and what it takes."""
    known = [(plain(tool["name"]), tool) for tool in tools]
    width = max((len(name) for name, _ in known), default=0)
    for name, tool in known:
        description = tool.get("description")
        first = description.partition("\n")[0] if isinstance(description, str) else ""
        yield f"{name:<{width}}  {plain(first)}".rstrip()
        arguments = ", ".join(plain(text) for text in _arguments(tool.get("input")))
        if arguments:
            yield f"{'':<{width}}  {arguments}"


def _arguments(schema: Any) -> Iterator[str]:
    """Each argument of an input schema as ``name: type``, with ``?`` where it may be left out."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    for name, each in properties.items():
        kind = each.get("type") if isinstance(each, dict) else None
        mark = "" if name in needed else "?"
        yield f"{name}{mark}: {kind}" if isinstance(kind, str) else f"{name}{mark}"
