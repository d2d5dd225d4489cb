"""``relay bench``: the relay's figures beside a bare inotify program's, as ratios of one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

from relay.errors import RelayError

#: Each part: its module in relay.bench, and what it measures.
PARTS = {
    "roundtrip": ("calls", "one caller, with 20 ms of think time and without"),
    "throughput": ("calls", "1, 8, 64 and 256 callers at once, and how late a 10 ms timer is"),
    "payload": ("calls", "texts of 1 KiB to 1 MiB"),
    "residue": ("calls", "among 0, 1,000 and 10,000 foreign files"),
    "sessions": (
        "sessions",
        "1, 100, 1,000 and 4,000 sessions in one runner, and what idling costs",
    ),
    "starts": ("starts", "how long the commands take to start"),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parts = "".join(f"\n  {name:11} {text}" for name, (_, text) in PARTS.items())
    parser = commands.add_parser(
        "bench",
        help="measure the relay against a bare inotify program",
        description="Measure the relay and, in the same run, a program with bare inotify and no "
        f"features. Figures are ratios; nothing is judged.\n\nparts (default: all):{parts}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to measure")
    parser.add_argument("--json", metavar="FILE", help="write the figures here; - is stdout")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios here, as SVG")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="N", help="times as many calls (1.0)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, and write what came out.

    Raises:
        RelayError: a part is not known, or something that is measured does not start.
    """
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        raise RelayError(f"there is no part {unknown[0]!a}; the parts are {', '.join(PARTS)}")
    if not 0 < arguments.scale <= 1000:
        raise RelayError(f"--scale {arguments.scale:g}: it is above 0, and at most 1000")
    for path in (arguments.json, arguments.plot):
        if path and path != "-":
            # Said now, and not after two minutes.
            _write(path, "")
    results: dict[str, Any] = {"machine": _machine()}
    for name in arguments.parts or PARTS:
        sys.stderr.write(f"measuring {name}: {PARTS[name][1]}\n")
        results[name] = _part(name)(arguments.scale)
    document = json.dumps(results, indent=2) + "\n"
    if arguments.json == "-":
        sys.stdout.write(document)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _table(results)))
        if arguments.json:
            _write(arguments.json, document)
    if arguments.plot:
        from relay.bench.plot import svg  # noqa: PLC0415 - where a plot is asked for

        _write(arguments.plot, svg(results, title="The relay, in multiples of a bare program"))
    return 0


def _part(name: str) -> Callable[[float], dict[str, Any]]:
    from importlib import import_module  # noqa: PLC0415 - one command a process

    part: Callable[[float], dict[str, Any]] = getattr(
        import_module(f"relay.bench.{PARTS[name][0]}"), name
    )
    return part


def _machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
    }


def _table(results: dict[str, Any]) -> Iterator[str]:
    yield f"{'':44}{'floor':>10}{'relay':>10}{'ratio':>8}"
    for path, value in _figures(results):
        if isinstance(value, dict):
            yield f"{path:44}{value['floor']:>10}{value['relay']:>10}{value['ratio']:>8}"
        else:
            yield f"{path:44}{'':10}{'not told' if value is None else value:>10}"


def _figures(results: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, value in results.items():
        if name == "machine":
            continue
        if isinstance(value, dict) and "ratio" not in value:
            yield from _figures(value, (*path, name))
        else:
            yield " ".join((*path, name)), value


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RelayError(f"{path} cannot be written: {error.strerror}") from None
