"""Refuses texts that no container can be made from: sizes, durations and mounts.

Most often such a text is what an unset variable left behind: ``mem_limit: ${LIMIT}`` without a
``LIMIT``, ``${DATA}:/data`` without a ``DATA``. Compose decodes every service, also of a profile
that is not active, and so are they judged here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayconf.compose.canonical import services_of
from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Mapping, Node, Scalar, Sequence, text_of

_SIZES = (
    ("mem_limit",),
    ("memswap_limit",),
    ("mem_reservation",),
    ("shm_size",),
    ("build", "shm_size"),
    ("deploy", "resources", "limits", "memory"),
    ("deploy", "resources", "reservations", "memory"),
)
_DURATIONS = (
    ("stop_grace_period",),
    ("healthcheck", "interval"),
    ("healthcheck", "timeout"),
    ("healthcheck", "start_period"),
    ("healthcheck", "start_interval"),
)

# Go's units.RAMInBytes: what Go takes for a float without a sign, one space, a unit.
_SIZE = re.compile(
    r"\+?(?:\d(?:_?\d)*\.?\d*|\.\d+)(?:e[+-]?\d+)? ?(?:b|[kmgtp](?:i?b)?)?",
    re.ASCII | re.IGNORECASE,
)
_DURATION = re.compile(
    r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h|d|w))+)", re.ASCII
)
_PIECE = re.compile(r"([\d.]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h|d|w)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: Go counts a duration in nanoseconds, in 63 bits.
_LONGEST = (2**63 - 1) / 1e9

# More colons than these only a Windows drive brings along.
_MOST_PARTS = 3


def check(root: Mapping) -> None:
    """Judge the texts of every service of a merged document.

    Raises:
        ComposeError: kind ``schema``, at the first text that Compose cannot decode.
    """
    for name, service in services_of(root):
        for node in _mounts(service):
            _mount(name, node)
        for path in _SIZES:
            _text(name, service, path, _SIZE, "invalid size; write it like 512m")
        for path in _DURATIONS:
            _text(name, service, path, _DURATION, "invalid duration; write it like 1m30s")


def _text(
    name: str, service: Mapping, path: tuple[str, ...], form: re.Pattern[str], reason: str
) -> None:
    node: Node | None = service
    for key in path:
        node = node.entries.get(key) if isinstance(node, Mapping) else None
    text = text_of(node)
    if node is None or text is None:
        return
    if form.fullmatch(text) is None or (form is _DURATION and _seconds(text) > _LONGEST):
        raise _refuse(f"services.{name}.{'.'.join(path)}: {_blank(text)}{reason}", node)


def _seconds(text: str) -> float:
    return sum(float(number) * _SECONDS.get(unit, 1e-6) for number, unit in _PIECE.findall(text))


def _mounts(service: Mapping) -> Iterator[Scalar]:
    node = service.entries.get("volumes")
    for item in node.items if isinstance(node, Sequence) else ():
        if isinstance(item, Scalar) and isinstance(item.value, str):
            yield item


def _mount(name: str, node: Scalar) -> None:
    """Judge ``source:target:options``; a lone letter before a colon is a Windows drive."""
    text = text_of(node) or ""
    if not text:
        raise _refuse(f"services.{name}.volumes: invalid empty volume spec", node)
    parts: list[str] = []
    drive = ""
    for part in text.split(":"):
        if not drive and len(part) == 1 and part.isalpha():
            drive = f"{part}:"
            continue
        parts.append(drive + part)
        drive = ""
    if drive:
        parts.append(drive)
    if len(text) > 2 and "" in parts:
        raise _refuse(f"services.{name}.volumes: invalid spec: empty section between colons", node)
    if len(parts) > _MOST_PARTS:
        raise _refuse(f"services.{name}.volumes: invalid spec: too many colons", node)


def _blank(text: str) -> str:
    return "" if text.strip() else "it is blank, an "


def _refuse(message: str, node: Node) -> ComposeError:
    return ComposeError(message, kind="schema", origin=str(node.mark))
