"""``relayconf generate``: write what is generated from the declarations, or print its drift."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import tomllib
from collections.abc import Mapping
from errno import EEXIST

from relayconf.cli import common, streams
from relayconf.errors import SourceError, TargetError
from relayconf.layers import read_bytes
from relayconf.setting import Contract
from relayconf.targets import find_class, find_contract


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "generate",
        help="write the contract and everything else that repeats the declarations",
        description="Write the generated files of every target listed under [tool.relayconf] in "
        "pyproject.toml, or of --target alone.",
        allow_abbrev=False,
    )
    parser.add_argument("--target", metavar="TARGET", help="this target instead of the listed ones")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; print the drift and exit 1 if any"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write or compare; 1 on drift or where a file cannot be written."""
    files = _planned(arguments.target)
    if not arguments.check:
        return _write(files)
    if not _drifted(files):
        return 0
    again = f" --target {shlex.quote(arguments.target)}" if arguments.target else ""
    streams.complain(f"generated files are stale; run 'relayconf generate{again}'")
    return 1


def listed_targets() -> list[str]:
    """Return the targets under ``[tool.relayconf]`` of the project in the working directory.

    Returns:
        Names as ``--target`` takes them; none where there is no pyproject.toml, or no such list.

    Raises:
        SourceError: pyproject.toml is unreadable or damaged, or the list is not one of texts.
    """
    path = "pyproject.toml"
    if not os.path.lexists(path):
        return []
    try:
        project = tomllib.loads(read_bytes(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(str(error), origin=path) from None
    except RecursionError:
        raise SourceError("it nests too deep", origin=path) from None
    listed: object = project
    for key in ("tool", "relayconf", "targets"):
        listed = listed.get(key) if isinstance(listed, dict) else None
    if listed is None:
        return []
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise SourceError("[tool.relayconf] targets must be a list of texts", origin=path)
    return listed


def _planned(target: str | None) -> Mapping[str, str]:
    """Return what to write: for every listed target, or for one and the vectors it has part in."""
    from relayconf.generate import VECTORS, plan, plan_one  # noqa: PLC0415 - only for this command

    listed = listed_targets()
    names = listed if target is None or target in listed else [target]
    if not names:
        message = "lists no targets; name one by --target, or add [tool.relayconf] targets = [...]"
        raise TargetError(f"pyproject.toml {message}")
    contracts = {name: _declared(name) for name in names}
    files = dict(plan(list(contracts.values())))
    if target is not None:
        own = plan_one(contracts[target])
        files = {path: files[path] for path in (*own, VECTORS)}
        if listed and target not in listed:
            del files[VECTORS]  # those of the listed targets
    # A contract that is written by hand is a source, wherever it stands.
    sources = {os.path.realpath(name) for name in names}
    return {path: text for path, text in files.items() if os.path.realpath(path) not in sources}


def _declared(name: str) -> Contract:
    # The class and never its contract: that one is what is being generated.
    try:
        return find_class(name).__contract__
    except TargetError:
        return find_contract(name)


def _drifted(files: Mapping[str, str]) -> bool:
    """Print what differs from what is to be, and return whether anything does."""
    drift = False
    for path, text in files.items():
        old = _read(path)
        if old == text:
            continue
        drift = True
        lines = difflib.unified_diff(
            (old or "").splitlines(), text.splitlines(), path, f"{path} (generated)", lineterm=""
        )
        common.print_text("\n".join(lines) if old is not None else f"{path}: missing")
    return drift


def _write(files: Mapping[str, str]) -> int:
    for path, text in files.items():
        if _read(path) == text:
            continue
        try:
            _put(path, text)
        except OSError as error:
            streams.complain(f"cannot write {path}: {error.strerror}")
            return 1
        common.print_text(f"wrote {path}")
    return 0


def _put(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(EEXIST, "something that is no file stands there")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _read(path: str) -> str | None:
    if not os.path.isfile(path):
        return None  # opening a FIFO would wait for a writer
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None
