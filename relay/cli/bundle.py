"""``relay bundle``: write the sandbox's side of the relay as one file."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from relay.bundle import CannotBundle, bundle, this_python


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bundle",
        help="write what a sandbox needs as one file",
        description="Write call, tools, mcp and the library as one archive of the standard library "
        "alone, which any Python from 3.9 on runs: python3 relay.pyz call TOOL --dir DIR. It "
        "starts quickly on the Pythons whose bytecode is in it.",
        allow_abbrev=False,
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="where to write it")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PYTHON",
        help="put in the bytecode of this interpreter, too; may be repeated (always: this one)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write it, and return the exit code.

    Raises:
        CannotBundle: an interpreter cannot be used, or the file cannot be written.
    """
    data = bundle(pythons=[this_python(), *arguments.python])
    try:
        _write(arguments.output, data)
    except OSError as error:
        reason = error.strerror
        raise CannotBundle(f"{arguments.output} cannot be written: {reason}") from None
    sys.stderr.write(f"{arguments.output}: {len(data)} bytes\n")
    return 0


def _write(path: str, data: bytes) -> None:
    """Put the file there whole: a sandbox may be running the one before it."""
    with tempfile.NamedTemporaryFile(
        dir=os.path.dirname(os.path.abspath(path)), prefix=".relay-bundle-", delete=False
    ) as file:
        try:
            file.write(data)
            os.fchmod(file.fileno(), 0o755)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
