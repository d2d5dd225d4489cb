"""Works out what environment a service's container gets, and why each variable is what it is.

``environment`` beats ``env_file``, later env files beat earlier ones, and a name without a value
is taken from the project's variables or, where they lack it, is ``None``: absent in the container,
even where an env file or the image would set it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from relayconf.compose.dotenv import EnvEntry, parse_dotenv
from relayconf.compose.errors import ComposeError
from relayconf.compose.interpolate import Reference
from relayconf.compose.nodes import Mapping, Node, Scalar, Sequence, text_of
from relayconf.compose.rawenv import parse_raw
from relayconf.compose.scalars import render
from relayconf.compose.session import Session
from relayconf.compose.variables import Variables, note_entries

# The bytes that Go takes for white space when it looks at the last byte of a name.
_SPACE_BYTES = frozenset(b"\t\n\v\f\r \x85\xa0")


class Step(NamedTuple):
    """One place that says something about a variable.

    ``layer`` is ``environment`` or ``env_file``; ``origin`` is ``file:line:column``; ``raw`` is the
    text as it stands there. ``value`` is what it comes to, ``None`` for a name without a value that
    nothing supplies. ``source`` says where a name without a value took it from. ``shadowed_by`` is
    the origin of the winner, ``None`` for the winner itself. ``references`` are the variables that
    the text asked for.
    """

    layer: str
    origin: str
    raw: str
    value: str | None
    source: str | None = None
    shadowed_by: str | None = None
    references: tuple[Reference, ...] = ()


class Binding(NamedTuple):
    """One variable of one container: its value, and its chain of steps, winner first."""

    name: str
    value: str | None
    chain: tuple[Step, ...]


def check_names(service: str, node: Mapping) -> None:
    """Refuse a list item whose name ends in white space; Compose does so for every service."""
    environment = node.entries.get("environment")
    for item in environment.items if isinstance(environment, Sequence) else ():
        name = (text_of(item) or "").partition("=")[0]
        if name and name.encode("utf-8", "surrogatepass")[-1] in _SPACE_BYTES:
            shown = name.rstrip() or ascii(name)
            message = (
                f"services.{service}.environment: environment variable {shown} is declared "
                "with a trailing space"
            )
            raise ComposeError(message, kind="schema", origin=str(item.mark))


def bindings_of(
    service: str, node: Mapping, variables: Variables, session: Session
) -> dict[str, Binding]:
    """The environment of one service.

    Args:
        service: its name.
        node: the service, merged, with absolute env file paths.
        variables: the project's own variables.
        session: reads env files and collects notes.

    Raises:
        ComposeError: an env file is missing, cannot be read, or does not parse.
    """
    entries = dict(_declared(node))
    declared = {name: _resolved(name, entry, variables) for name, entry in entries.items()}
    known = {name: step.value for name, step in declared.items() if step.value is not None}
    from_files: dict[str, list[Binding]] = {}
    files = _EnvFiles(service, variables, known, session)
    for binding in files.read(node.entries.get("env_file")):
        from_files.setdefault(binding.name, []).append(binding)
    bindings: dict[str, Binding] = {}
    for name, step in declared.items():
        steps = [step, *_shadowed(entries[name])]
        steps.extend(found.chain[0] for found in reversed(from_files.pop(name, [])))
        bindings[name] = _decided(name, steps)
    for name, several in from_files.items():
        if len(several) == 1:
            bindings[name] = several[0]
        else:
            bindings[name] = _decided(name, [found.chain[0] for found in reversed(several)])
    return bindings


def _decided(name: str, steps: list[Step]) -> Binding:
    """The binding of a variable whose steps are given, the winner first."""
    winner, *losers = steps
    chain = (winner, *(loser._replace(shadowed_by=winner.origin) for loser in losers))
    return Binding(name, winner.value, chain)


def _declared(node: Mapping) -> Iterator[tuple[str, Scalar]]:
    """Each name under ``environment`` with its value: text, or null for a name alone.

    What a value shadows is turned into values the same way, latest first.
    """
    environment = node.entries.get("environment")
    if isinstance(environment, Mapping):
        for name, value in environment.entries.items():
            if isinstance(value, Scalar):
                entry = value.revalued(_map_value)
                entry.mark = environment.keys[name]
                yield name, entry
    elif isinstance(environment, Sequence):
        for item in environment.items:
            if isinstance(item, Scalar) and isinstance(item.value, str):
                yield item.value.partition("=")[0], item.revalued(_list_value)


def _map_value(node: Scalar) -> str | None:
    return None if node.value is None else render(node.value)


def _list_value(node: Scalar) -> str | None:
    _, equals, text = (text_of(node) or "").partition("=")
    return text if equals else None


def _resolved(name: str, entry: Scalar, variables: Variables) -> Step:
    """The winning step under ``environment``; a name alone takes the project's variable."""
    value, source = text_of(entry), entry.source
    if value is None and name in variables.records:
        record = variables.records[name]
        value, source = record.value, record.source
    told = None
    if source is not None:
        told = source.layer if source.origin is None else f"{source.layer} ({source.origin})"
    return _step(entry)._replace(value=value, source=told)


def _shadowed(entry: Scalar) -> list[Step]:
    """What the winner under ``environment`` took the place of, latest first."""
    return [_step(scalar) for scalar in entry.shadows()]


def _step(entry: Scalar) -> Step:
    origin, value = str(entry.mark), text_of(entry)
    return Step("environment", origin, entry.raw, value, references=entry.references)


class _EnvFiles:
    """Reads a service's env files in order; ``$`` sees project, service, then earlier lines."""

    def __init__(
        self, service: str, variables: Variables, declared: dict[str, str], session: Session
    ) -> None:
        self.service = service
        self.variables = variables
        self.declared = declared
        self.known = dict(declared)
        self.session = session

    def read(self, node: Node | None) -> Iterator[Binding]:
        """Each assignment that sets something, as if it were the only one of its variable."""
        for item in node.items if isinstance(node, Sequence) else ():
            if isinstance(item, Mapping):
                for binding in self.tolerated(item):
                    if binding.value is not None:
                        self.known[binding.name] = binding.value
                        yield binding

    def tolerated(self, item: Mapping) -> list[Binding]:
        """The assignments of one file; none of a refused one in a session that goes on."""
        try:
            return self.bindings(item)
        except ComposeError as error:
            if error.origin is None:
                error = ComposeError(str(error), kind=error.kind, origin=str(item.mark))
            if not self.session.tolerates(error, ("services", self.service, "env_file")):
                raise error from None
            return []

    def bindings(self, item: Mapping) -> list[Binding]:
        """The assignments of one file; parsed once where every service's would be the same."""
        path = text_of(item.entries.get("path")) or ""
        shown = self.session.display(path)
        if not _there(path):
            required = item.entries.get("required")
            if isinstance(required, Scalar) and required.value is False:
                return []
            message = f"env file not found: {shown or repr(shown)}: no such file or directory"
            raise ComposeError(message, kind="missing-file", origin=str(item.mark))
        form = item.entries.get("format")
        word = text_of(form) or ""
        if word not in ("", ".env", "raw"):
            message = f'unsupported env_file format "{word}"'
            raise ComposeError(message, kind="schema", origin=str((form or item).mark))
        settled = self.session.settled.get((path, word))
        if settled is not None:
            return settled
        entries = self.parsed(path, shown, word)
        found = [_of_entry(shown, entry) for entry in entries if entry.value is not None]
        if not any(entry.references or entry.form == "bare" for entry in entries):
            self.session.settled[path, word] = found
        return found

    def parsed(self, path: str, shown: str, word: str) -> list[EnvEntry]:
        data = self.session.read(path)
        if word == "raw":
            entries = parse_raw(data, path=shown, lookup=self.lookup)
        else:
            entries = parse_dotenv(
                data,
                path=shown,
                lookup=self.lookup,
                earlier=self.known,
                eager=not self.session.newest,
            )
            note_entries(entries, shown, self.session)
        self.session.took(shown, "env_file", entries)
        return entries

    def lookup(self, name: str) -> str | None:
        value = self.variables.lookup(name)
        return self.declared.get(name) if value is None else value


def _of_entry(path: str, entry: EnvEntry) -> Binding:
    origin = f"{path}:{entry.line}:{entry.column}"
    source = "inherited" if entry.form == "bare" else None
    step = Step("env_file", origin, entry.raw, entry.value, source, None, entry.references)
    return Binding(entry.name, entry.value, (step,))


def _there(path: str) -> bool:
    """Whether Compose takes a path for there: only a plain "no such file" counts as missing."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return True
