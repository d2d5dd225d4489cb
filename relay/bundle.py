"""The writer as one file: an archive that any bare Python from 3.9 on runs, with nothing installed.

The archive holds the sources of what its entry imports, found by reading the imports, the contract
that a writer resolves by, and the bytecode of the Pythons that were asked for, so that none of
these compiles anything at its start. What goes in decides its bytes: built twice, it is the same.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from io import BytesIO

from relay.errors import RelayError
from relayconf.contract.reading import installed_path

#: What is imported by name: the command line, and what ``import relay`` gives to a program.
ENTRIES = (
    "relay.cli.bundled",
    "relay.cli.call",
    "relay.cli.mcp",
    "relay.cli.tools",
    "relay.client.loop",
    "relay.client.writer",
)

_PACKAGES = ("relay", "relayconf")

#: Where the bytecode of one Python lies, by the first four bytes of its files.
_BYTECODE = "bytecode/{}/"

_MAIN = '''\
"""Start the writer, from bytecode where the archive has this Python's."""

import importlib.util
import sys

sys.path.insert(0, sys.path[0] + "/bytecode/" + importlib.util.MAGIC_NUMBER.hex())

from relay.cli.bundled import main

sys.exit(main())
'''

#: Runs in the Python whose bytecode it makes: sources as JSON in, what to store as JSON out. A
#: file's head says that it is never compared with a source.
_COMPILE = """
import _imp, base64, importlib.util, json, marshal, sys
magic = importlib.util.MAGIC_NUMBER
made = {}
for name, source in json.load(sys.stdin).items():
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    head = magic + b"\\1\\0\\0\\0" + importlib.util.source_hash(source.encode())
    made[name] = base64.b64encode(head + marshal.dumps(code)).decode()
json.dump([sys.version_info[:2], magic.hex(), made], sys.stdout)
"""

#: The oldest Python that the ground floor runs on.
_OLDEST = [3, 9]

#: Every file of the archive is as old as the format allows, so that no clock is in its bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class CannotBundle(RelayError):
    """The archive cannot be made; the message says why."""

    code = "bundle"


def bundle(*, pythons: Iterable[str] = ()) -> bytes:
    """Return the bytes of the archive.

    Args:
        pythons: interpreters whose bytecode is to be in it, by path or by name on PATH. Any other
            Python, from 3.9 on, runs it too, and compiles the sources at each start.

    Raises:
        CannotBundle: an interpreter cannot be run, or is too old; or this installation is damaged.
    """
    sources = _sources(ENTRIES)
    contract = _contract()
    files = {"__main__.py": _MAIN.encode(), "relayconf/schema/relay.schema.json": contract}
    files.update((name, text.encode()) for name, text in sources.items())
    for python in pythons:
        magic, compiled = _compiled(python, sources)
        folder = _BYTECODE.format(magic)
        files[f"{folder}relayconf/schema/relay.schema.json"] = contract
        files.update((f"{folder}{name}c", data) for name, data in compiled.items())
    return _zipped(files)


def _zipped(files: dict[str, bytes]) -> bytes:
    """Return an archive whose bytes follow from its files alone; nothing is compressed."""
    made = BytesIO()
    made.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[name])
    return made.getvalue()


def _contract() -> bytes:
    path = installed_path("relay")
    if path is None:
        raise CannotBundle("this installation is damaged: it has no contract for relay")
    with open(path, "rb") as file:
        # Written small: it is read for each call that has a setting of its own.
        return json.dumps(json.load(file), ensure_ascii=False, separators=(",", ":")).encode()


def _sources(entries: Iterable[str]) -> dict[str, str]:
    """Return the text of every module that the entries import: file name in the archive to text."""
    found: dict[str, str] = {}
    waiting = list(entries)
    seen = set(waiting)
    while waiting:
        module = waiting.pop()
        path = _file_of(module)
        if path is None:
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        package = os.path.basename(path) == "__init__.py"
        found[module.replace(".", "/") + ("/__init__.py" if package else ".py")] = text
        outer = module.rpartition(".")[0]
        for name in (*_imports(ast.parse(text), package=package), *([outer] if outer else [])):
            if name.partition(".")[0] in _PACKAGES and name not in seen:
                seen.add(name)
                waiting.append(name)
    return found


def _file_of(module: str) -> str | None:
    """Return a module's file; ``None`` where the name is something else than a module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None:
        return None
    return spec.origin


def _imports(tree: ast.Module, *, package: bool) -> Iterator[str]:
    """Yield what a module imports when it runs.

    The functions of a package's ``__init__`` are the lazy door to everything else, and stay shut.
    """
    for node in tree.body:
        door = package and isinstance(node, ast.FunctionDef)
        typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if door or typing:
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import):
                yield from (alias.name for alias in inner.names)
            elif isinstance(inner, ast.ImportFrom) and inner.module is not None:
                yield inner.module
                yield from (f"{inner.module}.{alias.name}" for alias in inner.names)


def _compiled(python: str, sources: dict[str, str]) -> tuple[str, dict[str, bytes]]:
    """Return the mark of an interpreter's bytecode, and that of every source."""
    try:
        # An environment of one variable: the order of sets is in the bytes of older Pythons.
        done = subprocess.run(
            [python, "-B", "-s", "-S", "-c", _COMPILE],
            input=json.dumps(sources),
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONHASHSEED": "0", "PATH": os.environ.get("PATH", os.defpath)},
        )
    except OSError as error:
        raise CannotBundle(f"{python} cannot be run: {error.strerror}") from None
    try:
        version, magic, made = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2]
        raise CannotBundle(f"{python} is no Python that can compile: {last}") from None
    if version < _OLDEST:
        raise CannotBundle(f"{python} is Python {version[0]}.{version[1]}; the oldest is 3.9")
    return str(magic), {name: base64.b64decode(data) for name, data in made.items()}


def this_python() -> str:
    """Return the interpreter that runs this, whose bytecode a bundle has unless told otherwise."""
    return sys.executable
