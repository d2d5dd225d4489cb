"""Reporting: each problem is said once, and strict mode refuses on all of them together.

What is said goes to the logger ``relayconf``. A command, whose log is its stderr, takes it as it
is, since loading ``logging`` would take as long as all that ``show`` does. Ground floor.
"""

from __future__ import annotations

from typing import Callable, Iterable, Optional, Set, Tuple

from relayconf.errors import StrictError
from relayconf.problems import STRICT_CODES, Problem

#: What this process has logged already: code, setting, and the text or its origin.
said: Set[Tuple[str, str, Optional[str]]] = set()

#: Takes each warning instead of the logger, where a command has set it.
listener: Optional[Callable[[str], None]] = None


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
        warn(f"{problem.line()} [{problem.code}]", note=problem.severity == "note")


def warn(line: str, *, note: bool = False) -> None:
    """Log one line of text that holds no secret; a note is no more than information."""
    if listener is not None:
        if not note:
            listener(line)
        return
    import logging  # noqa: PLC0415 - most starts have nothing to say

    level = logging.INFO if note else logging.WARNING
    logging.getLogger("relayconf").log(level, "%s", line)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise where a value is not used as it was written.

    Raises:
        StrictError: it carries every such problem, not only the first.
    """
    lines = [f"{p.line()} [{p.code}]" for p in problems if p.code in STRICT_CODES]
    if lines:
        raise StrictError(lines)
