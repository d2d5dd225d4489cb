"""The results as a picture: one bar for each ratio to the floor (SVG, written by hand)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

#: Pixels: of a row, of the labels, of the bars, and where the longest bar ends.
_ROW = 22
_LABELS = 300
_BARS = 460
_WIDTH = _LABELS + _BARS + 90

#: A ratio of this and more fills the picture.
_WIDEST = 4.0


class Bar(NamedTuple):
    """One bar: what it stands for, and how many times the floor's it is."""

    label: str
    ratio: float


def bars(results: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[Bar]:
    """Yield every ratio in the results, with its path as the label."""
    for name, value in results.items():
        if not isinstance(value, dict):
            continue
        if "ratio" in value:
            yield Bar(" ".join((*path, name)), float(value["ratio"]))
        else:
            yield from bars(value, (*path, name))


def svg(results: dict[str, Any], *, title: str) -> str:
    """Return a picture of the ratios."""
    rows = list(bars(results))
    height = _ROW * (len(rows) + 3)
    one = _LABELS + _BARS / _WIDEST
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">',
        "<style>text { font: 12px sans-serif }</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="8" y="16">{escape(title)}</text>',
        f'<text x="{one + 4:.0f}" y="{_ROW * 1.7:.0f}" fill="#666">the floor</text>',
    ]
    for number, bar in enumerate(rows):
        y = _ROW * (number + 2)
        width = min(bar.ratio, _WIDEST) * _BARS / _WIDEST
        lines.append(f'<text x="8" y="{y + 15}">{escape(bar.label)}</text>')
        lines.append(
            f'<rect x="{_LABELS}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" '
            'fill="#4878a8"/>'
        )
        lines.append(f'<text x="{_LABELS + width + 6:.1f}" y="{y + 15}">{bar.ratio:g}</text>')
    lines.append(
        f'<line x1="{one:.1f}" y1="{_ROW * 2}" x2="{one:.1f}" y2="{height - _ROW}" stroke="#a33"/>'
    )
    return "\n".join([*lines, "</svg>", ""])
