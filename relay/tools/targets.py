"""Python callables by name, ``module:name``: found as any import, or beside the naming file."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

from relay.engine.telemetry import escaped

_TARGET = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


def find(
    target: object, folder: str, fault: Callable[[str], None], *, what: str
) -> Callable[..., Any] | None:
    """Import a callable.

    Args:
        target: what should be a text ``module:name``.
        folder: where modules are looked for after everywhere else.
        fault: takes what is wrong.
        what: the key that names it, for messages.

    Returns:
        The callable; ``None`` where there is none, which was said then.
    """
    matched = _TARGET.fullmatch(target) if isinstance(target, str) else None
    if matched is None:
        fault(f'{what} is not of the form "module:name"')
        return None
    module, name = matched.groups()
    if folder not in sys.path:
        # Last, so that no file there takes the place of a module of the standard library.
        sys.path.append(folder)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
        said = escaped(f"{type(error).__name__}: {error}")
        fault(f"{what}: cannot import {target}: {said}")
        return None
    if not callable(found):
        fault(f"{what}: {target} is not callable")
        return None
    function: Callable[..., Any] = found
    return function
