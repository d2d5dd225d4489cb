"""Values that lose: set twice, with the one that a person edits perhaps not the one that counts.

Files given in order, overrides, ``extends`` and merge keys are made to put one value over another
and are no findings. An entry of ``environment`` over an ``env_file`` is one, and so is a repeated
name within one file or list.
"""

from __future__ import annotations

from collections.abc import Iterator

from relayconf.check.finding import Finding, Place, place_of
from relayconf.check.inspection import EnvFile, Inspection
from relayconf.check.texts import Texts
from relayconf.check.writing import is_listed
from relayconf.compose.environment import Binding, Step
from relayconf.setting import Contract

# So many losers of one variable are told apart, since doing so looks at the lines in between.
_MOST = 50

# Every shell has them, and nobody expects them to reach a container.
_SHELLS = frozenset({"HOME", "HOSTNAME", "LANG", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL"})
_SHELLS_TOO = frozenset({"SHLVL", "TERM", "TMPDIR", "TZ", "USER", "_"})


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at each env file by itself, then at each container."""
    yield from in_env_files(inspection)
    project = inspection.project
    for service, bindings in () if project is None else project.services.items():
        for binding in bindings.values():
            if len(binding.chain) > 1:
                yield from _losers(inspection.texts, service, binding)
            yield from _shell(inspection, service, binding)
        for contract in inspection.contracts.get(service, ()):
            yield from _mixed(inspection, service, contract)


def in_env_files(inspection: Inspection) -> Iterator[Finding]:
    """Look at each env file by itself."""
    for file in inspection.env_files:
        yield from _repeated(file)


def _repeated(file: EnvFile) -> Iterator[Finding]:
    """A name twice in one file, unless the later line is made of the earlier."""
    last = {entry.name: entry for entry in file.entries if entry.value is not None}
    if len(last) == len(file.entries):
        return
    for entry in file.entries:
        winner = last.get(entry.name)
        if winner is None or winner is entry or entry.value is None or not entry.name:
            continue
        if any(reference.name == entry.name for reference in winner.references):
            continue
        same = " to the same value" if winner.value == entry.value else ""
        message = f"it is set again{same} in line {winner.line}, which wins over this one"
        place = Place(file.path, entry.line, entry.column)
        yield Finding("shadowed", message, place, entry.name, None, f"# {entry.name}")


def _losers(texts: Texts, service: str, binding: Binding) -> Iterator[Finding]:
    winner, *losers = binding.chain
    if winner.layer != "environment":
        return
    name, at = binding.name, winner.origin
    files = [step for step in losers if step.layer == "env_file" and step.value is not None]
    if files and winner.value is None:
        message = (
            f"the entry without a value takes {name} out of the container, "
            f"although {files[0].origin} sets it"
        )
        yield Finding("null-shadows-env-file", message, place_of(at), name, service, f"# {name}")
    elif files and files[0].value != winner.value:
        message = f"it is set here for {service}, and {at} wins over it"
        place = place_of(files[0].origin)
        yield Finding("shadowed", message, place, name, service, f"# {name}")
    for step in losers[:_MOST]:
        if step.layer == "environment" and _in_one_list(texts, name, winner, step):
            message = f"it is set again at {at}, which wins over this one"
            yield Finding("shadowed", message, place_of(step.origin), name, service, f"# {name}")


def _in_one_list(texts: Texts, name: str, winner: Step, loser: Step) -> bool:
    """Whether two entries are items of the very same list, as the text shows it."""
    first, second = place_of(loser.origin), place_of(winner.origin)
    if first.file != second.file or not first.line or not second.line or first.line > second.line:
        return False
    if not (is_listed(texts, first, name) and is_listed(texts, second, name)):
        return False
    if first.line == second.line:
        return first.column != second.column
    lines = texts.lines(first.file)[first.line - 1 : second.line]
    items = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    indent = len(items[0]) - len(items[0].lstrip())
    return first.column == second.column and all(
        line[:indent].isspace() and line[indent:].startswith(("- ", " ")) for line in items
    )


def _shell(inspection: Inspection, service: str, binding: Binding) -> Iterator[Finding]:
    step, name = binding.chain[0], binding.name
    if step.layer != "env_file" or step.source is not None:
        return
    if any(reference.name == name for reference in step.references):
        return
    text = inspection.environ.get(name)
    if text is None or text == step.value or name in _SHELLS or name in _SHELLS_TOO:
        return
    message = (
        f"the shell sets {name} to something else, which does not reach {service}: "
        "an env_file is not overridden by the shell"
    )
    fix = f"{name}: ${{{name}}}"
    yield Finding("shell-vs-env-file", message, place_of(step.origin), name, service, fix)


def _mixed(inspection: Inspection, service: str, contract: Contract) -> Iterator[Finding]:
    """Both fragments on one service: most settings handed through by name, and an env file."""
    project = inspection.project
    bindings = {} if project is None else project.services.get(service, {})
    model = inspection.model
    services = model.entries.get("services") if model is not None else None
    node = getattr(services, "entries", {}).get(service)
    mark = getattr(node, "keys", {}).get("env_file")
    if mark is None:
        return
    steps = [bindings[name].chain[0] for name in contract.settings if name in bindings]
    passed = [s for s in steps if s.layer == "environment" and (s.value is None or s.source)]
    if len(passed) > 1 and 2 * len(passed) > len(contract.settings):
        message = (
            f"{service} has entries without values for {len(passed)} settings of "
            f"{contract.target} and an env_file; each entry shadows what the file says"
        )
        place = Place(mark.path, mark.line, mark.column)
        yield Finding("mixed-fragments", message, place, None, service, "# env_file")
