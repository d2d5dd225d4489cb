"""``relayconf check``: what is wrong with compose and env files, and the line that mends it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from relayconf.cli import common, composing
from relayconf.errors import TargetError
from relayconf.process import Process, read_process
from relayconf.targets import find_contract

if TYPE_CHECKING:
    from relayconf.check.finding import Finding
    from relayconf.check.inspection import Inspection
    from relayconf.check.suppression import Suppressed

EX_FINDINGS = 1
_GRAVITY = {"error": 0, "warning": 1, "note": 2}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "check",
        help="what is wrong with compose and env files",
        description="Read compose and env files as Docker Compose does and judge what each "
        "container gets. A service is judged by its contract where it has one: by --contract, by "
        "its label relayconf.target, or by --target. Without -f and with --target only env files, "
        "settings files and the environment are judged. Exit 1 where there are findings of at "
        "least the severity of --fail-on, 2 where nothing could be read.",
        allow_abbrev=False,
    )
    _add_inputs(parser)
    _add_outputs(parser)
    parser.set_defaults(run=run)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to read")
    composing.add_files(
        group,
        env_file=". With --target alone: an env file of the target (RELAYCONF_ENV_FILE)",
    )
    group.add_argument("--service", metavar="SERVICE", help="only this service's container")
    group.add_argument(
        "--contract",
        metavar="SERVICE=TARGET",
        action="append",
        default=[],
        help="the contract of a service; may be repeated",
    )
    group.add_argument(
        "--target",
        metavar="TARGET",
        help="a contract for --service, or for the one service that fits",
    )
    group.add_argument("--deployment", metavar="NAME", help="with --target alone: which deployment")
    composing.add_version(group)
    group.add_argument(
        "--today", metavar="DATE", type=_date, help="judge flags as of this date (2027-03-01)"
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to say")
    group.add_argument(
        "--format",
        choices=("text", "json", "github", "sarif"),
        default="text",
        help="text with source lines, JSON, GitHub annotations, or SARIF 2.1.0",
    )
    group.add_argument("--json", action="store_true", help="the same as --format json")
    group.add_argument(
        "--fail-on",
        choices=tuple(_GRAVITY),
        default="error",
        help="the mildest severity that makes the exit code 1 (default: %(default)s)",
    )
    group.add_argument(
        "--baseline", metavar="FILE", help="findings that this file lists do not count"
    )
    group.add_argument(
        "--write-baseline",
        action="store_true",
        help="write today's findings to the file of --baseline, and exit 0",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the report; 1 where a finding is grave enough."""
    if arguments.write_baseline and not arguments.baseline:
        raise TargetError("--write-baseline needs --baseline FILE")
    from relayconf.check import baseline, suppression  # noqa: PLC0415 - only for this command

    inspection, found = _examined(arguments)
    counting, suppressed = suppression.apply(found, inspection.texts)
    if arguments.write_baseline:
        baseline.write(arguments.baseline, counting)
        common.print_text(f"wrote {len(counting)} finding(s) to {arguments.baseline}")
        return 0
    known = 0
    if arguments.baseline:
        outcome = baseline.apply(counting, baseline.read(arguments.baseline))
        counting, known = outcome.new, outcome.known
        if outcome.gone:
            sys.stderr.write(
                f"relayconf: {outcome.gone} finding(s) of {arguments.baseline} are gone; "
                "--write-baseline takes them out\n"
            )
    _print(arguments, inspection, counting, suppressed, known)
    limit = _GRAVITY[arguments.fail_on]
    return EX_FINDINGS if any(_GRAVITY[one.severity] <= limit for one in counting) else 0


def _examined(arguments: argparse.Namespace) -> tuple[Inspection, list[Finding]]:
    today = arguments.today or date.today()  # noqa: DTZ011 - a date on the operator's own calendar
    of_project = arguments.file or arguments.contract or arguments.service or arguments.profile
    if arguments.target and not of_project:
        from relayconf.check.target import check_target  # noqa: PLC0415 - as above

        checked = check_target(find_contract(arguments.target), _process(arguments).sources, today)
        return checked.inspection, checked.findings
    return _of_project(arguments, os.environ, today)


def _of_project(
    arguments: argparse.Namespace, environ: Mapping[str, str], today: date
) -> tuple[Inspection, list[Finding]]:
    from relayconf.check.assigned import assigned  # noqa: PLC0415 - only for this command
    from relayconf.check.examine import examine  # noqa: PLC0415 - as above
    from relayconf.check.inspection import gather  # noqa: PLC0415 - as above

    gathered = gather(
        os.getcwd(),
        files=arguments.file,
        env_files=arguments.env_file,
        profiles=arguments.profile,
        environ=environ,
        version=arguments.compose_version,
    )
    contracts = {}
    if gathered.project is not None:
        contracts = assigned(
            gathered.project,
            options=arguments.contract,
            target=arguments.target,
            service=arguments.service,
        )
    inspection = gathered.inspection(contracts, environ, today)
    return inspection, examine(inspection, service=arguments.service)


def _process(arguments: argparse.Namespace) -> Process:
    return read_process(os.environ, env_files=arguments.env_file, deployment=arguments.deployment)


def _print(
    arguments: argparse.Namespace,
    inspection: Inspection,
    findings: Sequence[Finding],
    suppressed: Sequence[Suppressed],
    known: int,
) -> None:
    form = "json" if arguments.json else arguments.format
    if form == "json":
        from relayconf.check import report  # noqa: PLC0415 - one form of several

        common.print_json(report.document(findings, suppressed, baselined=known))
    elif form == "sarif":
        from importlib.metadata import version  # noqa: PLC0415 - slow to import

        from relayconf.check import sarif  # noqa: PLC0415 - one form of several

        log = sarif.document(findings, suppressed, version=version("relayconf"))
        common.print_json(log)
    elif form == "github":
        from relayconf.check import github  # noqa: PLC0415 - one form of several

        for line in github.lines(findings, folder=_folder()):
            common.print_text(line)
    else:
        _print_text(inspection, findings, suppressed, known)


def _print_text(
    inspection: Inspection,
    findings: Sequence[Finding],
    suppressed: Sequence[Suppressed],
    known: int,
) -> None:
    from relayconf.check import text  # noqa: PLC0415 - one form of several
    from relayconf.check.excerpt import Excerpts  # noqa: PLC0415 - as above

    starts: dict[str, set[int]] = {}
    for file in inspection.env_files:
        starts.setdefault(file.path, set()).update(entry.line for entry in file.entries)
    aside = [f"{len(suppressed)} suppressed"] if suppressed else []
    aside += [f"{known} in the baseline"] if known else []
    excerpts = Excerpts(inspection.texts, inspection.hiding, starts)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    common.print_text("\n".join(text.lines(findings, excerpts, aside=aside, colour=colour)))


def _folder() -> str:
    """Where the working directory is inside GitHub's checkout; empty at its root and elsewhere."""
    root = os.environ.get("GITHUB_WORKSPACE")
    if not root:
        return ""
    folder = os.path.relpath(os.getcwd(), root)
    return "" if folder == "." or folder.startswith("..") else folder


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a date is written like 2027-03-01") from None
