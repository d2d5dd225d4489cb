"""A table for the terminal: coloured and fitted there, plain columns where a program reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_STYLES = {
    "invalid": "bold red",
    "clamped": "yellow",
    "repaired": "yellow",
    "killed": "bold magenta",
    "default": "dim",
    "overdue": "bold red",
    "expired": "red",
    "due": "yellow",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows under a header.

    Args:
        header: the names of the columns.
        rows: texts, as many in each row as there are columns; the first word of the last column
            decides the colour.

    Returns:
        Text without a trailing newline. Off a terminal it has no colour and is never cut.
    """
    return _coloured(header, rows) if sys.stdout.isatty() else _plain(header, rows)


def _plain(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    )


def _coloured(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from rich.console import Console  # noqa: PLC0415 - slow to import, needed on a terminal only
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    layout = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        layout.add_column(name, overflow="fold")
    for row in rows:
        layout.add_row(*map(Text, row), style=_STYLES.get(row[-1].partition(" ")[0], ""))
    console = Console()
    with console.capture() as capture:
        console.print(layout)
    return capture.get().rstrip("\n")
