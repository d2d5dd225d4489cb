"""The command line ``relayconf``: one module per command, answers on stdout, the rest on stderr.

Exit codes: 0; 1 findings, drift or a write that failed; 2 usage, an unknown name or an unreadable
input; 3 not applied by all; 4 no live instance; 78 strict mode refuses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from relayconf import report
from relayconf.errors import RelayconfError, StrictError, WriteError

EX_FAILED = 1
EX_USAGE = 2
EX_CONFIG = 78  # sysexits.h


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no exception leaves but SystemExit."""
    from relayconf.cli.parser import build_parser  # noqa: PLC0415 - argparse only when it runs

    argv = sys.argv[1:] if argv is None else argv
    arguments = build_parser(argv).parse_args(argv)
    report.listener = _warn
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except StrictError as error:
        sys.stderr.write(f"relayconf: {error}\n")
        return EX_CONFIG
    except WriteError as error:
        sys.stderr.write(f"relayconf: {error}\n")
        return EX_FAILED
    except RelayconfError as error:
        sys.stderr.write(f"relayconf: {error}\n")
        return EX_USAGE
    except BrokenPipeError:
        # The reader went away; nothing more can be said, and the interpreter must not try at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _warn(line: str) -> None:
    sys.stderr.write(f"relayconf: WARNING: {line}\n")
