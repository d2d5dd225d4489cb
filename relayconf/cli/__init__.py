"""The command line ``relayconf``: one module per command, answers on stdout, the rest on stderr.

Exit codes: 0; 1 findings, drift or a write that failed; 2 usage, an unknown name or an unreadable
input; 3 not applied by all; 4 no live instance; 78 strict mode refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relayconf import report
from relayconf.cli import streams
from relayconf.errors import RelayconfError, StrictError, WriteError

if TYPE_CHECKING:
    import argparse

EX_USAGE = 2
EX_CONFIG = 78  # sysexits.h


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no exception leaves but SystemExit."""
    from relayconf.cli.parser import build_parser  # noqa: PLC0415 - argparse only when it runs

    argv = sys.argv[1:] if argv is None else argv
    streams.prepare()
    try:
        arguments = build_parser(argv).parse_args(argv)
    except SystemExit as leaving:
        raise SystemExit(streams.finish(int(leaving.code or 0))) from None
    return streams.finish(_run(arguments))


def _run(arguments: argparse.Namespace) -> int:
    before, report.listener = report.listener, _warn
    try:
        return int(arguments.run(arguments))
    except RelayconfError as error:
        streams.complain(error)
        if isinstance(error, StrictError):
            return EX_CONFIG
        return streams.EX_FAILED if isinstance(error, WriteError) else EX_USAGE
    except KeyboardInterrupt:
        return 130
    finally:
        report.listener = before


def _warn(line: str) -> None:
    streams.complain(f"WARNING: {line}")
