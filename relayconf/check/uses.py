"""Uses: every ``$`` expression of a merged compose document, wherever in it it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relayconf.compose.interpolate import Reference
from relayconf.compose.nodes import Mapping, Mark, Node, Scalar, Sequence


class Use(NamedTuple):
    """One scalar that asks for variables.

    ``mark`` is where its variable's name stands for an entry of ``environment``, else where the
    scalar does. ``service`` is the service it belongs to, ``variable`` the variable that it is the
    value of, each None where there is no such one.
    """

    scalar: Scalar
    mark: Mark
    service: str | None
    variable: str | None

    @property
    def references(self) -> tuple[Reference, ...]:
        """The variables that are asked for."""
        return self.scalar.references


def uses_of(model: Mapping) -> Iterator[Use]:
    """Yield each use once for its place in the files, however often an anchor repeats it."""
    seen: set[Mark] = set()
    stack: list[tuple[Node, Mark, tuple[str, ...]]] = [(model, model.mark, ())]
    while stack:
        node, mark, path = stack.pop()
        if isinstance(node, Mapping):
            variables = len(path) == 3 and path[2] == "environment"
            stack.extend(
                (child, node.keys[key] if variables else child.mark, (*path, key))
                for key, child in reversed(node.entries.items())
            )
        elif isinstance(node, Sequence):
            stack.extend((child, child.mark, (*path, "")) for child in reversed(node.items))
        elif node.references and mark not in seen:
            seen.add(mark)
            yield Use(node, mark, _service(path), _variable(node, path))


def _service(path: tuple[str, ...]) -> str | None:
    return path[1] if len(path) > 2 and path[0] == "services" else None


def _variable(node: Scalar, path: tuple[str, ...]) -> str | None:
    if len(path) != 4 or path[0] != "services" or path[2] != "environment":
        return None
    return path[3] or str(node.value).partition("=")[0]
