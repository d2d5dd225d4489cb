"""What a drain is asked and what it tells, as records; and its output judged before it is believed.

The program runs inside the sandbox, so its output is the writer's word: it is bounded, every field
is checked, and what does not fit makes the whole report worthless.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from relay.hosts.host import Faulty
from relay.protocol import REQUEST_SUFFIX, parse_claim, request_id

#: How a drain may end, and ``batch``, after which it goes on. ``failed`` and ``unread`` are
#: failures, ``superseded`` mostly; ``changed`` ends a census.
STATUSES = frozenset(
    {
        *("batch", "changed", "claimed", "expired", "failed", "gone", "idle", "released"),
        *("superseded", "unread"),
    }
)

#: How the line that ends a batch begins.
_BATCH = b'{"status":"batch"'

#: Longest text of a refusal, and most lines of one output.
_SENTENCE = 200
_LINES = 20_000


class Order(NamedTuple):
    """What one drain is to do.

    Attributes:
        generation: of the lease under which it claims.
        window: seconds that it may wait; 0 only looks.
        rescan: seconds after which it looks by itself while it has a watch.
        poll: the same without a watch.
        most: claims that it may print.
        room: bytes of requests that it may print.
        known: keys of claims that are not to be printed again.
        keep: seconds that unfetched responses are kept; 0 leaves all.
        take: take the lease first: ``force`` from anybody, ``free`` from nobody else.
        make: make the directory where it is missing.
    """

    generation: int
    window: float = 0.0
    rescan: float = 2.0
    poll: float = 0.3
    most: int = 0
    room: int = 0
    known: tuple[str, ...] = ()
    keep: float = 0.0
    take: str = ""
    make: bool = False


class Claim(NamedTuple):
    """A request that this runner has claimed. ``age`` is seconds by the sandbox's own clock.

    ``data`` is ``None`` where it was too large to print; ``bad`` says why it is refused.
    """

    request: str
    ino: int
    mtime: int
    size: int
    age: float
    data: bytes | None = None
    bad: str = ""

    @property
    def key(self) -> str:
        """What tells this publication from another one under the same id."""
        return f"{self.request}:{self.ino}:{self.mtime}"


class Foreign(NamedTuple):
    """A request that another runner has claimed."""

    request: str
    runner: str
    age: float


class Report(NamedTuple):
    """What a drain tells.

    Attributes:
        status: one of ``STATUSES``.
        claims: requests that this runner has now.
        foreign: claims of others.
        cancelled: ids of requests that this runner had, and that their callers took back.
        holder: whose lease is in force, where it is not this one.
        before: whose lease was in force before it was taken.
        watched: whether it had a watch while it waited.
        now: the sandbox's clock in seconds; 0 where it is unknown.
        error: what failed.
        mtime: of the directory, in nanoseconds, where a census tells.
        linked: whether the path is a link.
    """

    status: str
    claims: tuple[Claim, ...] = ()
    foreign: tuple[Foreign, ...] = ()
    cancelled: tuple[str, ...] = ()
    holder: str = ""
    before: str = ""
    watched: bool = False
    now: float = 0.0
    error: str = ""
    mtime: int = 0
    linked: bool = False


class Batches:
    """Takes a drain's output apart while it comes: each batch is told as soon as it is whole.

    Args:
        tell: called with each.
    """

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self._tell = tell
        self._rest = b""

    def take(self, piece: bytes) -> None:
        """Take a piece of the output, which may end anywhere.

        Raises:
            Faulty: a batch makes no sense.
        """
        self._rest += piece
        while (end := self._rest.find(_BATCH)) >= 0:
            # The line that ends a batch is looked for from where it begins.
            stop = self._rest.find(b"\n", end)
            if stop < 0:
                return
            whole, self._rest = self._rest[: stop + 1], self._rest[stop + 1 :]
            self._tell(read_report(whole.decode("ascii", "replace")))

    @property
    def rest(self) -> str:
        """What came after the last batch: once the drain has ended, its report."""
        return self._rest.decode("ascii", "replace")


def read_report(output: str) -> Report:
    """Return what a drain's output says.

    Raises:
        Faulty: it says nothing that can be believed: truncated, repeated, or not a drain's.
    """
    lines = output.split("\n")
    if len(lines) < 2 or lines[-1] or len(lines) > _LINES:
        raise Faulty("the drain's output is incomplete")
    try:
        found = [json.loads(line) for line in lines[:-1]]
        end = found.pop()
        claims = [_claim(line) for line in found if "claim" in line]
        foreign = [_foreign(line) for line in found if "foreign" in line]
        cancelled = [_request(line["cancel"]) for line in found if "cancel" in line]
        status, others = end["status"], len(foreign) + len(cancelled)
        _consistent(status, len(found) - others, [claim.request for claim in claims])
        return Report(
            status,
            tuple(claims),
            tuple(foreign),
            tuple(cancelled),
            holder=_runner(end.get("holder", "")),
            before=_runner(end.get("before", "")),
            watched=end.get("watch") == 1,
            now=_number(end["now"]) / 1000,
            error=_sentence(end.get("error", "")),
            mtime=_number(end.get("mtime", 0)),
            linked=end.get("link") == 1,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Faulty("the drain's output makes no sense") from None


def _claim(line: dict[str, Any]) -> Claim:
    data = line.get("data")
    size = _number(line["size"])
    decoded = None if data is None else binascii.a2b_base64(data, strict_mode=True)
    if decoded is not None and len(decoded) != size:
        raise ValueError
    return Claim(
        _request(line["claim"]),
        _number(line["ino"]),
        _number(line["mtime"]),
        size,
        _number(line["age"]) / 1000,
        decoded,
        _sentence(line.get("bad", "")),
    )


def _foreign(line: dict[str, Any]) -> Foreign:
    return Foreign(_request(line["foreign"]), _runner(line["runner"]), _number(line["age"]) / 1000)


def _request(text: Any) -> str:
    if not isinstance(text, str) or request_id(text + REQUEST_SUFFIX) != text:
        raise ValueError
    return text


def _runner(text: Any) -> str:
    if text != "" and (not isinstance(text, str) or parse_claim(f"x.claim.{text}") is None):
        raise ValueError
    return str(text)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 64:
        raise ValueError
    return value


def _sentence(text: Any) -> str:
    if not isinstance(text, str) or not text.isprintable() or len(text) > _SENTENCE:
        raise ValueError
    return text


def _consistent(status: Any, expected: int, requests: list[str]) -> None:
    if status not in STATUSES or len(requests) != expected or len(set(requests)) != expected:
        raise ValueError
