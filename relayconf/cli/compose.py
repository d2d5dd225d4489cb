"""``relayconf compose``: what each container really gets, and why, read as Docker Compose does.

``env`` prints the values, since that is what it is for. ``explain`` prints where they come from,
and a value that may be a secret only where that is asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from relayconf.cli import common, composing
from relayconf.compose.errors import printable
from relayconf.errors import TargetError
from relayconf.nearest import nearest
from relayconf.secretnames import may_be_secret
from relayconf.setting import MASK
from relayconf.values import mask_userinfo

if TYPE_CHECKING:
    from relayconf.compose.environment import Binding, Step
    from relayconf.compose.project import Project
    from relayconf.compose.variables import Variables


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command with its two parts."""
    parser = commands.add_parser(
        "compose",
        help="what each container gets, read as Docker Compose reads it",
        description="Read compose and env files as Docker Compose v2 does. No engine is asked.",
        allow_abbrev=False,
    )
    parts = parser.add_subparsers(title="parts", metavar="PART", required=True)
    env = parts.add_parser(
        "env",
        help="the environment of each service's container",
        description="Print the environment of each service of an active profile. A name without "
        "a value (null in JSON) is taken out of the container, even where its image sets it.",
        allow_abbrev=False,
    )
    _add_options(env)
    env.set_defaults(run=run_env)
    explain = parts.add_parser(
        "explain",
        help="why one variable of a service has its value",
        description="Print every place that says something about NAME, the winner first. Values "
        "that may be secrets are masked.",
        allow_abbrev=False,
    )
    explain.add_argument("name", metavar="NAME", help="the variable")
    _add_options(explain)
    explain.add_argument(
        "--show-values", action="store_true", help="print values that may be secrets too"
    )
    explain.set_defaults(run=run_explain)


def _add_options(parser: argparse.ArgumentParser) -> None:
    composing.add_files(parser)
    parser.add_argument("--service", metavar="SERVICE", help="only this service")
    composing.add_version(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run_env(arguments: argparse.Namespace) -> int:
    """Print the environments; always 0."""
    project = _project(arguments)
    environments = project.environments()
    if arguments.service is not None:
        _bindings(project, arguments.service)
        environments = {arguments.service: environments[arguments.service]}
    if arguments.json:
        common.print_json(environments)
    else:
        common.print_text("\n".join(_env_lines(environments)))
    return 0


def run_explain(arguments: argparse.Namespace) -> int:
    """Print the chain of one variable; always 0."""
    project = _project(arguments)
    service = arguments.service or _only_service(project, arguments.name)
    binding = _binding(project, service, arguments.name)
    view = _View(show=arguments.show_values, secret=_may_be_secret(binding))
    if arguments.json:
        common.print_json(_answer(service, binding, project.variables, view))
    else:
        common.print_text("\n".join(_explain_lines(service, binding, project.variables, view)))
    return 0


def _project(arguments: argparse.Namespace) -> Project:
    """Load the project and say on stderr what Compose would warn of."""
    from relayconf.compose.project import load  # noqa: PLC0415 - a YAML reader, slow to import

    project = load(
        arguments.file,
        arguments.env_file,
        profiles=arguments.profile,
        version=arguments.compose_version,
    )
    for note in project.notes:
        place = f"{note.origin}: " if note.origin else ""
        sys.stderr.write(f"relayconf: WARNING: {printable(place + note.message)}\n")
    return project


def _bindings(project: Project, service: str) -> dict[str, Binding]:
    if service in project.services:
        return project.services[service]
    if service in project.disabled:
        raise TargetError(f"service {service} is not in an active profile; name it with --profile")
    raise _unknown(f"no service {printable(service)}", service, list(project.services))


def _binding(project: Project, service: str, name: str) -> Binding:
    bindings = _bindings(project, service)
    if name not in bindings:
        raise _unknown(f"{service} has no variable {printable(name)}", name, list(bindings))
    return bindings[name]


def _only_service(project: Project, name: str) -> str:
    """The service to use where none is named: the only one that has the variable."""
    having = [service for service, bindings in project.services.items() if name in bindings]
    if len(having) == 1:
        return having[0]
    if not having:
        known = [each for bindings in project.services.values() for each in bindings]
        raise _unknown(f"no service has a variable {printable(name)}", name, known)
    raise TargetError(f"name one with --service; {printable(name)} is in: {', '.join(having)}")


def _unknown(message: str, wanted: str, known: list[str]) -> TargetError:
    suggestion = nearest(wanted, known)
    return TargetError(message if suggestion is None else f"{message}; is it {suggestion}?")


def _env_lines(environments: dict[str, dict[str, str | None]]) -> Iterator[str]:
    """One block a service; a value that would not stand on its line is shown in JSON's quotes."""
    for index, (service, environment) in enumerate(environments.items()):
        if index:
            yield ""
        yield f"{service}:"
        for name, value in sorted(environment.items()):
            shown = _quoted(name) if name else '""'
            yield f"  {shown}  (taken out)" if value is None else f"  {shown}={_quoted(value)}"


def _quoted(text: str) -> str:
    plain = text.isprintable() and text == text.strip() and not text.startswith('"')
    return text if plain else json.dumps(text)


def _may_be_secret(binding: Binding) -> bool:
    """Whether the name, or the name of a variable that it is made of, is one of a secret."""
    names = [binding.name]
    names.extend(reference.name for step in binding.chain for reference in step.references)
    return any(map(may_be_secret, names))


class _View(NamedTuple):
    """How ``explain`` shows texts: all, or masked where the variable may be a secret."""

    show: bool
    secret: bool

    @property
    def masked(self) -> bool:
        return self.secret and not self.show

    def text(self, text: str | None) -> str | None:
        """A value or raw text; of a url the userinfo is masked whatever the variable's name."""
        if self.show or not text:
            return text
        if self.secret:
            return MASK
        return mask_userinfo(text) if "://" in text and "@" in text else text

    def quoted(self, text: str | None) -> str:
        return _quoted(self.text(text) or "")


def _answer(service: str, binding: Binding, variables: Variables, view: _View) -> dict[str, object]:
    return {
        "service": service,
        "name": binding.name,
        "value": view.text(binding.value),
        "masked": view.masked,
        "chain": [
            {
                "layer": step.layer,
                "origin": step.origin,
                "raw": view.text(step.raw),
                "value": view.text(step.value),
                "source": step.source,
                "uses": list(_uses(step, variables)),
                "shadowed_by": step.shadowed_by,
            }
            for step in binding.chain
        ],
    }


def _explain_lines(
    service: str, binding: Binding, variables: Variables, view: _View
) -> Iterator[str]:
    taken_out = binding.value is None
    told = "taken out of the container" if taken_out else view.quoted(binding.value)
    yield f"{service}: {_quoted(binding.name)} = {told}"
    for step in binding.chain:
        yield f"  {'loses' if step.shadowed_by else 'wins '}  {_place(step)}"
        if step.raw:
            yield f"         written as {view.quoted(step.raw)}"
        for use in _uses(step, variables):
            yield f"         uses {use}"
        if step.shadowed_by and step.value is not None:
            yield f"         would give {view.quoted(step.value)}"
    if view.masked:
        yield "  The name looks like a secret's; --show-values prints the values."


def _uses(step: Step, variables: Variables) -> Iterator[str]:
    """Each variable that the text asked for, and where the project has it from."""
    for reference in {each.name: each for each in step.references}.values():
        record = variables.records.get(reference.name)
        if reference.value is None:
            yield f"{reference.name}, which is not set"
        elif record is None or record.value != reference.value:
            yield f"{reference.name}, as this file or its own env file has it"
        elif record.origin is None:
            yield f"{reference.name} from {record.layer}"
        else:
            yield f"{reference.name} from {record.layer} ({record.origin})"


def _place(step: Step) -> str:
    source = f", value from {step.source}" if step.source else ""
    if step.value is None:
        source = ", a name without a value that nothing supplies"
    return f"{step.layer} at {step.origin}{source}"
