"""The record of decisions about calls: who may what was asked, and what was answered.

One line of JSON for each decision, appended to a file that only the runner's user can read. It
holds names and reasons, and never an argument, which may be anything. A decision that cannot be
recorded is not carried out.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any, NamedTuple

from relay.engine.telemetry import escaped
from relay.tools.registry import Failure

_log = logging.getLogger("relay.tools")

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Asked(NamedTuple):
    """A call that is decided about: by its tool, its arguments, its session and its id."""

    tool: str
    args: dict[str, Any]
    session: str
    request: str


class Decision(NamedTuple):
    """One decision. ``by`` names the rule, the default or the guard; ``reason`` may be empty."""

    session: str
    tool: str
    request: str
    allowed: bool
    by: str
    reason: str = ""


class Audit:
    """Records decisions in a file; without one, refusals go to the log."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path

    def record(self, decision: Decision) -> None:
        """Record a decision.

        Raises:
            Failure: it cannot be recorded, so the call is refused.
        """
        if self._path is None:
            if not decision.allowed:
                _log.info(
                    "refused: session %s, tool %s, by %s: %s",
                    *(escaped(text) for text in (decision.session, decision.tool)),
                    *(escaped(text) for text in (decision.by, decision.reason)),
                )
            return
        try:
            self._append(self._path, decision)
        except OSError as error:
            _log.error("%s: decisions cannot be recorded: %s", self._path, error.strerror)
            raise Failure(
                "refused", "the call was refused: the decision cannot be recorded"
            ) from None

    @staticmethod
    def _append(path: str, decision: Decision) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        body = {"time": now, **decision._asdict()}
        line = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        fd = os.open(path, _APPEND, 0o600)
        try:
            if os.write(fd, line) != len(line):
                raise OSError(0, "it was written in part")
        finally:
            os.close(fd)
