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
    from relayconf.generate import plan  # noqa: PLC0415 - other commands need none of it

    names = [arguments.target] if arguments.target else listed_targets()
    files = plan([_declared(name) for name in names])
    return _compare(files) if arguments.check else _write(files)


def listed_targets() -> list[str]:
    """Return the targets under ``[tool.relayconf]`` of the project in the working directory.

    Raises:
        SourceError: pyproject.toml is missing, damaged, or lists none.
    """
    path = "pyproject.toml"
    try:
        with open(path, "rb") as file:
            project = tomllib.load(file)
    except OSError as error:
        raise SourceError(f"cannot read the file: {error.strerror}", origin=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(str(error), origin=path) from None
    listed = project.get("tool", {}).get("relayconf", {}).get("targets")
    if not listed or not isinstance(listed, list) or not all(type(n) is str for n in listed):
        raise SourceError("lists no targets; add [tool.relayconf] targets = ['...']", origin=path)
    return listed


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
