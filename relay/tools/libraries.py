"""What the libraries below say and log: no credential, nothing at length, and not without end.

A library of HTTP logs each address that it asks, and one of MCP each message that it cannot use,
with a piece of it. A program that embeds a runner may show all that, and a process without a log
of its own has it on stderr; so their own loggers mask, shorten, and leave out what is too much.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from weakref import WeakSet

from pydantic import ValidationError

from relay.engine.telemetry import escaped
from relay.mcp.messages import PARSE_ERROR
from relay.tools.credentials import Credentials

_LIBRARIES = ("client", "httpcore", "httpcore2", "httpx", "httpx2", "mcp")

#: Loggers whose modules the libraries load when they first need them.
_LATER = tuple(
    f"{library}.{part}"
    for library in ("httpcore", "httpcore2")
    for part in ("connection", "http11", "http2", "proxy", "socks")
)

#: Warnings in a minute: a server that sends nonsense without end fills no disk with them.
_MOST = 30
_MINUTE = 60.0

#: Characters of one record.
_LONGEST = 2000


def reason(error: BaseException) -> str:
    """Return one line for what a library ended with, without what its peer has sent.

    Of something that it could not use, a library shows a piece from the middle: half a credential
    is none that a mask would find.
    """
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"it sends what cannot be used: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    said = str(error)
    if getattr(error, "code", None) == PARSE_ERROR:
        said = said.partition(": ")[0]
    return f"{type(error).__name__}: {said}"


class _Masking(logging.Filter):
    """Masks the credentials of every tools file that is in use, and keeps warnings at a pace."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.known: WeakSet[Credentials] = WeakSet()
        self._clock = clock
        self._since = clock()
        self._warnings = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING and not self._is_in_time():
            return False
        said = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            said = f"{said}: {reason(record.exc_info[1])}"
        record.exc_info = record.exc_text = None
        for credentials in self.known:
            said = credentials.masked(said)
        record.msg, record.args = escaped(said, limit=_LONGEST), ()
        return True

    def _is_in_time(self) -> bool:
        now = self._clock()
        if now - self._since >= _MINUTE:
            self._since, self._warnings = now, 0
        self._warnings += 1
        return self._warnings <= _MOST


_masking = _Masking()


def mask_logs(credentials: Credentials) -> None:
    """Mask credentials in what the libraries will log."""
    _masking.known.add(credentials)
    for name in (*logging.root.manager.loggerDict, *_LATER):
        if name.partition(".")[0] in _LIBRARIES:
            # A filter that is there already is not added again.
            logging.getLogger(name).addFilter(_masking)
