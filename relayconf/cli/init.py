"""``relayconf init``: draft a contract from the compose and env files that are there."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
from typing import TYPE_CHECKING

from relayconf.cli import common, composing, streams
from relayconf.errors import TargetError
from relayconf.nearest import nearest

if TYPE_CHECKING:
    from relayconf.compose.project import Project
    from relayconf.drafting.draft import Draft

EX_UNWRITTEN = 1
_YAML = (".yaml", ".yml")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "init",
        help="draft a contract from compose and env files",
        description="Draft a contract from the variables that the containers of a project get: "
        "their names, guessed types, defaults and places. Each description begins with REVIEW:. "
        "What may be a secret becomes one, and its value is not written.",
        allow_abbrev=False,
    )
    composing.add_files(parser)
    parser.add_argument(
        "--service",
        metavar="SERVICE",
        help="only this service's variables; one contract a service is best",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write, YAML where it ends so, else JSON (default: standard output)",
    )
    parser.add_argument("--force", action="store_true", help="write over a FILE that is there")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the draft; 1 where that fails."""
    from relayconf.compose.project import load  # noqa: PLC0415 - a YAML reader, slow to import
    from relayconf.drafting.draft import draft  # noqa: PLC0415 - as above

    project = load(arguments.file, arguments.env_file, profiles=arguments.profile)
    services = _services(project, arguments.service)
    target = _word(arguments.service or (services[0] if len(services) == 1 else project.name))
    made = draft(project, services, target=target)
    if not made.contract.settings:
        raise TargetError("no service has a variable that could be a setting")
    code = _write(made, arguments.output, force=arguments.force)
    if code == 0:
        _say(made, services, arguments.output)
    return code


def _services(project: Project, wanted: str | None) -> list[str]:
    from relayconf.drafting.draft import by_service  # noqa: PLC0415 - as above

    if wanted is None:
        return list(by_service(project))
    if wanted not in project.services:
        near = nearest(wanted, project.services)
        hint = f"; is it {near}?" if near else ""
        raise TargetError(f"no service {wanted!r} in an active profile{hint}")
    return [wanted]


def _word(text: str) -> str:
    """A text as the name of a target."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text).lstrip(".-") or "service"


def _text(document: object, *, yaml: bool) -> str:
    if yaml:
        from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import

        out = io.StringIO()
        writer = YAML()
        writer.width = 100
        writer.dump(document, out)
        return out.getvalue()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _write(made: Draft, path: str | None, *, force: bool) -> int:
    from relayconf.contract.document import to_document  # noqa: PLC0415 - as above

    document = to_document(made.contract)
    if path is None:
        common.print_json(document)
        return 0
    text = _text(document, yaml=path.endswith(_YAML))
    try:
        with open(path, "w" if force else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise TargetError(f"{path} is there already; --force writes over it") from None
    except OSError as error:
        streams.complain(f"cannot write {path}: {error.strerror}")
        return EX_UNWRITTEN
    return 0


def _say(made: Draft, services: list[str], path: str | None) -> None:
    """What is left to do, on stderr: stdout may be the draft."""
    lines = [
        f"{len(made.contract.settings)} setting(s) of {', '.join(services)}, each marked REVIEW:"
    ]
    if made.left_out:
        lines.append(f"left out, since no setting can have the name: {', '.join(made.left_out)}")
    if len(services) > 1:
        lines.append("one contract for several services; --service S drafts one for one")
    if path is not None:
        shown = path if os.sep in path else f"./{path}"
        lines.append(f"next: relayconf check --contract {services[0]}={shown}")
    for line in lines:
        streams.complain(line)
