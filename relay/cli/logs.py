"""The runner's log on stderr: one line for one event, in text or JSON, never in the way.

A line that its reader does not take is dropped and counted, since a full pipe must not stop the
runner. A traceback's further lines are indented, so that no text in it passes for an event.
"""

from __future__ import annotations

import json
import logging
import os
import select
import stat
import time
from datetime import UTC, datetime

from relay.engine.telemetry import escaped, send_events_to
from relay.settings import LogFormat, RelaySettings

#: A pipe takes this much at once, or says that it cannot (PIPE_BUF on Linux).
_LONGEST = 4096

_LOGGERS = ("relay", "relayconf")


class LineHandler(logging.Handler):
    """Writes whole lines to a descriptor, and drops those that would block."""

    def __init__(self, fd: int, level: int) -> None:
        super().__init__(level)
        self._fd = fd
        self._poll: select.poll | None = None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            self._poll = select.poll()
            self._poll.register(fd, select.POLLOUT)
        self._dropped = 0
        self._as_json = False

    def go_by(self, settings: RelaySettings) -> None:
        """Write in the format, and from the level on, that the settings say."""
        self.setLevel(settings.log_level.upper())
        self._as_json = settings.log_format is LogFormat.JSON

    def event(self, line: str) -> None:
        """Write the line of an event."""
        if self.level <= logging.INFO:
            self._put(_json_of_event(line) if self._as_json else line)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._put(_json_of(self, record) if self._as_json else _text_of(self, record))

    def _put(self, line: str) -> None:
        if self._dropped and self._write(f"warning: {self._dropped} log lines were dropped"):
            self._dropped = 0
        if not self._write(line):
            self._dropped += 1

    def _write(self, line: str) -> bool:
        data = line.encode("utf-8", "backslashreplace")
        if len(data) >= _LONGEST:
            data = data[: _LONGEST - 5] + b" ..."
        try:
            if self._poll is not None and not self._poll.poll(0):
                return False
            os.write(self._fd, data + b"\n")
        except OSError:
            # Nobody reads the log any more; the runner goes on.
            return False
        return True


def _text_of(handler: logging.Handler, record: logging.LogRecord) -> str:
    lines = handler.format(record).split("\n")
    text = "\n    ".join(escaped(line, limit=_LONGEST) for line in lines)
    return text if record.levelno <= logging.INFO else f"{record.levelname.lower()}: {text}"


def _json_of(handler: logging.Handler, record: logging.LogRecord) -> str:
    body = {"level": record.levelname.lower(), "message": record.getMessage()}
    if record.exc_info:
        body["traceback"] = handler.format(record)
    return _line(record.created, body)


def _json_of_event(line: str) -> str:
    words = (word.partition("=") for word in line.split(" "))
    return _line(time.time(), {"level": "info", **{name: text for name, _, text in words}})


def _line(when: float, body: dict[str, str]) -> str:
    stamp = datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": stamp, **body})


def log_to(fd: int, *, level: int = logging.INFO) -> LineHandler:
    """Send the log of relay and relayconf to a descriptor, as text until told otherwise."""
    handler = LineHandler(fd, level)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
    send_events_to(handler.event)
    return handler
