"""What the libraries below log: nothing of it holds a credential, whoever listens.

A library of HTTP logs each address that it asks, and one of MCP each message. A program that embeds
a runner may show all that; so their own loggers mask what a tools file's names stand for.
"""

from __future__ import annotations

import logging
from weakref import WeakSet

from relay.tools.credentials import Credentials

_LIBRARIES = ("client", "httpcore", "httpcore2", "httpx", "httpx2", "mcp")

#: Loggers whose modules the libraries load when they first need them.
_LATER = tuple(
    f"{library}.{part}"
    for library in ("httpcore", "httpcore2")
    for part in ("connection", "http11", "http2", "proxy", "socks")
)

_FORMATTER = logging.Formatter()


class _Masking(logging.Filter):
    """Masks the credentials of every tools file that is in use."""

    def __init__(self) -> None:
        super().__init__()
        self.known: WeakSet[Credentials] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._masked(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = self._masked(_FORMATTER.formatException(record.exc_info))
        return True

    def _masked(self, text: str) -> str:
        for credentials in self.known:
            text = credentials.masked(text)
        return text


_masking = _Masking()


def mask_logs(credentials: Credentials) -> None:
    """Mask credentials in what the libraries will log."""
    _masking.known.add(credentials)
    for name in (*logging.root.manager.loggerDict, *_LATER):
        if name.partition(".")[0] in _LIBRARIES:
            # A filter that is there already is not added again.
            logging.getLogger(name).addFilter(_masking)
