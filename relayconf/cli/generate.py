"""``relayconf generate``: write what is generated from the declarations, or print its drift."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tomllib
from collections.abc import Mapping

from relayconf.cli import common
from relayconf.errors import SourceError, TargetError
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
    return _compare(files) if arguments.check else _write(files)


def listed_targets() -> list[str]:
    """Return the targets under ``[tool.relayconf]`` of the project in the working directory.

    Returns:
        Names as ``--target`` takes them; none where there is no pyproject.toml, or no such list.

    Raises:
        SourceError: pyproject.toml is unreadable or damaged, or the list is not one of texts.
    """
    path = "pyproject.toml"
    try:
        with open(path, "rb") as file:
            project = tomllib.load(file)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SourceError(f"cannot read the file: {error.strerror}", origin=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(str(error), origin=path) from None
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


def _compare(files: Mapping[str, str]) -> int:
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
    if drift:
        sys.stderr.write("relayconf: generated files are stale; run 'relayconf generate'\n")
    return 1 if drift else 0


def _write(files: Mapping[str, str]) -> int:
    for path, text in files.items():
        if _read(path) == text:
            continue
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            sys.stderr.write(f"relayconf: cannot write {path}: {error.strerror}\n")
            return 1
        common.print_text(f"wrote {path}")
    return 0


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None
