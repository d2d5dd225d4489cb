"""What sandboxes answer in the tests of waiting, and how times are compared there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from relay.hosts.host import Faulty
from relay.remote.report import Claim, Report

#: Plays a story in a time of its own; returns the sandbox.
Play = Callable[[Any], Any]

EXPIRED = Report("expired", watched=True)


def claimed(*requests: str, age: float = 0.0) -> Report:
    """Return a report that brings requests."""
    return Report("claimed", tuple(Claim(r, 1, 1, 2, age, b"{}") for r in requests))


def failing(_asked: Any) -> Faulty:
    """Answer a window with a rejection."""
    return Faulty("it is broken")


def finding(request: str, _asked: Any) -> Report:
    """Answer a window with a request."""
    return claimed(request)


def never(_asked: Any) -> None:
    """Never answer a window."""


def gaps(times: list[float]) -> list[float]:
    """Return the pauses between times."""
    return [round(b - a, 3) for a, b in pairwise(times)]
