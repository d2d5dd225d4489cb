"""What stands in an env file of the project and reaches no container.

``.env`` and ``--env-file`` feed the compose files and nothing else: a variable in them gets into a
container only by an entry that hands it on. With a contract that declares it this is an error; of
any other variable that nothing at all uses it is a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relayconf.check.finding import Finding, Place, place_of
from relayconf.check.inspection import Inspection
from relayconf.check.writing import is_listed
from relayconf.compose.nodes import Mapping, Node, Scalar, Sequence, text_of
from relayconf.layers import concerns
from relayconf.setting import Contract
from relayconf.values import is_blank

# Settings of Compose, of Docker and of its builder.
_FOREIGN = ("COMPOSE_", "DOCKER_", "BUILDKIT_", "BUILDX_")


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at the last assignment of each variable in each env file of the project."""
    if inspection.project is None or inspection.refusals:
        return
    known, contracts = _known(inspection), inspection.declared()
    for file in inspection.env_files:
        if not file.feeds_project or file.path in known.own_files:
            continue
        last = {entry.name: entry for entry in file.entries if entry.value is not None}
        for name, entry in last.items():
            if name in known.used or not name or is_blank(entry.value or ""):
                continue
            place = Place(file.path, entry.line, entry.column)
            declaring = known.declaring.get(name)
            if declaring is not None:
                yield _not_forwarded(inspection, declaring, name, place)
            elif not (name.startswith(_FOREIGN) or any(concerns(c, name) for c in contracts)):
                message = "it is set here, and no compose file uses it or hands it on"
                yield Finding("unused-variable", message, place, name, None, f"# {name}")


class _Known(NamedTuple):
    """What something takes from the project, the files that containers read, and who declares what.

    ``declaring`` has the first service, and its contract, for each name, also for a legacy one.
    """

    used: frozenset[str]
    own_files: frozenset[str]
    declaring: dict[str, tuple[str, Contract]]


def _known(inspection: Inspection) -> _Known:
    used = {reference.name for use in inspection.uses for reference in use.references}
    for file in inspection.env_files:
        for entry in file.entries:
            used.update(reference.name for reference in entry.references)
            if entry.form == "bare" and not file.feeds_project:
                used.add(entry.name)
    model = inspection.model
    if model is not None:
        used |= _passed(model) | _sources(model)
    containers = {file.path for file in inspection.env_files if not file.feeds_project}
    return _Known(frozenset(used), frozenset(containers), _declaring(inspection))


def _passed(model: Mapping) -> set[str]:
    """The names that some service hands on as they are, of an inactive profile too."""
    names: set[str] = set()
    for service in _mappings(model, "services"):
        build = service.entries.get("build")
        arguments = build.entries.get("args") if isinstance(build, Mapping) else None
        names |= _alone(service.entries.get("environment")) | _alone(arguments)
    return names


def _alone(node: Node | None) -> set[str]:
    """The names in a list or mapping that stand without a value, or did before they got one."""
    names: set[str] = set()
    if isinstance(node, Mapping):
        pairs = node.entries.items()
        names.update(k for k, v in pairs if isinstance(v, Scalar) and v.value is None)
    for item in node.items if isinstance(node, Sequence) else ():
        text = text_of(item) or ""
        if isinstance(item, Scalar) and ("=" not in text or item.source is not None):
            names.add(text.partition("=")[0])
    return names


def _sources(model: Mapping) -> set[str]:
    """The variables whose value is the content of a secret or a config."""
    nodes = [*_mappings(model, "secrets"), *_mappings(model, "configs")]
    return {text_of(node.entries.get("environment")) or "" for node in nodes}


def _mappings(model: Mapping, section: str) -> list[Mapping]:
    node = model.entries.get(section)
    entries = node.entries.values() if isinstance(node, Mapping) else ()
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _declaring(inspection: Inspection) -> dict[str, tuple[str, Contract]]:
    found: dict[str, tuple[str, Contract]] = {}
    for service, contracts in inspection.contracts.items():
        for contract in contracts:
            for setting in contract.settings.values():
                for name in (setting.name, *setting.legacy):
                    found.setdefault(name, (service, contract))
    return found


def _not_forwarded(
    inspection: Inspection, declaring: tuple[str, Contract], name: str, place: Place
) -> Finding:
    service, contract = declaring
    own = inspection.project.services.get(service, {}) if inspection.project else {}
    written = own.get(name)
    message = f"it is set here, and no service hands it on; {service or 'a service'} "
    if written is not None:
        message += f"({contract.target}) has its own value at {written.chain[0].origin}"
    else:
        message += f"({contract.target}) would read it"
    fix = f"{name}:"
    for binding in own.values():
        step = binding.chain[0]
        if step.layer == "environment":
            listed = is_listed(inspection.texts, place_of(step.origin), binding.name)
            fix = f"- {name}" if listed else fix
            break
    return Finding("not-forwarded", message, place, name, service or None, fix)
