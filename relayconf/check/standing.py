"""Where a container's value stands: the very text that a person edits to change it.

A value that is only handed through stands where the project has it from (a line of ``.env``), not
where the compose file asks for it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from relayconf.check.finding import Place, place_of
from relayconf.compose.environment import Binding, Step
from relayconf.compose.variables import Variable, Variables

_TOLD = re.compile(r"(?P<layer>[^(]*?)(?: \((?P<origin>.*)\))?\Z", re.DOTALL)


class Standing(NamedTuple):
    """A place, the name that the text has there, and the layer: ``shell`` where it has no place.

    For a value out of the shell the place is where the compose file hands it on.
    """

    place: Place
    name: str
    layer: str


def standing(binding: Binding, variables: Variables) -> Standing:
    """Where the value of a variable stands.

    Args:
        binding: a variable that has a value.
        variables: what ``${NAME}`` sees.
    """
    step = binding.chain[0]
    here = Standing(place_of(step.origin), binding.name, step.layer)
    if step.layer == "env_file":
        if step.source is None:
            return here
        return _of_record(variables.records.get(binding.name), binding.name, here)
    if step.source is not None:
        told = _TOLD.match(step.source)
        layer, origin = (told["layer"], told["origin"]) if told else (step.source, None)
        if origin is None:
            return here._replace(layer=layer)
        return Standing(place_of(origin), binding.name, layer)
    name = handed(step)
    return here if name is None else _of_record(variables.records.get(name), name, here)


def handed(step: Step) -> str | None:
    """The one variable whose value a step is, where it is nothing else and nothing more."""
    if len(step.references) != 1:
        return None
    reference = step.references[0]
    # A value that is longer than the variable's own has something else in it.
    return reference.name if reference.value and reference.value == step.value else None


def _of_record(record: Variable | None, name: str, here: Standing) -> Standing:
    if record is None:
        return here
    if record.origin is None:
        return here._replace(layer=record.layer)
    return Standing(place_of(record.origin), name, record.layer)
