"""``relay doctor``: whether a runner would do well here, and what to do where it would not."""

from __future__ import annotations

import argparse
import json
import logging
import sys

from relay.cli import serve
from relay.engine.checkup import OK, PROBLEM, Finding, checkup

EX_OK = 0
EX_FOUND = 1


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check what a runner needs of this machine, its directories and its settings",
        description="Check what a runner needs: settings, tools, state directory, permissions, "
        "file events, limits, clock. Give it what you give relay serve, as the same user. Exit 0 "
        "where a runner would do its work, 1 where something keeps it from that.",
        allow_abbrev=False,
    )
    serve.add_served(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, and print what was found.

    Raises:
        RelayError, RelayconfError: the settings cannot be read.
    """
    # What is wrong with them is among the findings.
    logging.getLogger("relayconf").setLevel(logging.CRITICAL)
    logging.getLogger("relay").setLevel(logging.CRITICAL)
    arguments.strict = False
    live = serve.settings_of(arguments)
    directory, root = arguments.dir, arguments.root
    if directory is None and root is None:
        settings = live.current
        directory, root = _text(settings.dir), _text(settings.root)
    findings = checkup(live, directory=directory, root=root)
    failed = any(finding.status == PROBLEM for finding in findings)
    if arguments.json:
        body = {"ok": not failed, "findings": [finding._asdict() for finding in findings]}
        sys.stdout.write(json.dumps(body, indent=2) + "\n")
    else:
        sys.stdout.write("".join(map(_lines, findings)))
    return EX_FOUND if failed else EX_OK


def _text(path: object) -> str | None:
    return None if path is None else str(path)


def _lines(finding: Finding) -> str:
    text = f"{finding.status:8} {finding.check}: {_plain(finding.message)}\n"
    return text if finding.status == OK else f"{text}{'':9}{_plain(finding.fix)}\n"


def _plain(text: str) -> str:
    """Escape what a terminal would act on: names may be anybody's."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
