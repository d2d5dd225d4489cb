"""Reporting: each problem is said once, and strict mode refuses on all of them together.

Ground floor.
"""

from __future__ import annotations

from typing import Iterable, Optional, Set, Tuple

from relayconf.errors import StrictError
from relayconf.problems import STRICT_CODES, Problem

#: What this process has logged already: code, setting, and the text or its origin.
said: Set[Tuple[str, str, Optional[str]]] = set()


def once(problems: Iterable[Problem]) -> None:
    """Log every problem that this process has not logged yet.

    One problem is one code for one setting and raw text, however often the text is read. A secret
    has no raw text here; its origin stands for it.
    """
    for problem in problems:
        text = problem.raw if problem.raw is not None else problem.origin
        key = (problem.code, problem.name, text)
        if key in said:
            continue
        said.add(key)
        import logging  # noqa: PLC0415 - most starts have nothing to say

        level = {"error": logging.WARNING, "warning": logging.WARNING}.get(
            problem.severity, logging.INFO
        )
        logging.getLogger("relayconf").log(level, "%s [%s]", problem.line(), problem.code)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise where a value is not used as it was written.

    Raises:
        StrictError: it carries every such problem, not only the first.
    """
    lines = [f"{p.line()} [{p.code}]" for p in problems if p.code in STRICT_CODES]
    if lines:
        raise StrictError(lines)
