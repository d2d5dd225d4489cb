"""The runner's log on stderr: one line for one event, in text or JSON, never in the way.

A line that its reader does not take is dropped and counted, since a full pipe must not stop the
runner. A traceback's further lines are indented, so that no text in it passes for an event.
"""

from __future__ import annotations

import json
import logging
import os
import select
from datetime import UTC, datetime

from relay.settings import LogFormat, RelaySettings

#: A pipe takes this much at once, or says that it cannot (PIPE_BUF on Linux).
_LONGEST = 4096

_LOGGERS = ("relay", "relayconf")


class LineHandler(logging.Handler):
    """Writes whole lines to a descriptor, and drops those that would block."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        if self._dropped and self._write(f"warning: {self._dropped} log lines were dropped"):
            self._dropped = 0
        if not self._write(self.format(record)):
            self._dropped += 1

    def _write(self, text: str) -> bool:
        data = text.encode("utf-8", "backslashreplace")
        if len(data) >= _LONGEST:
            data = data[: _LONGEST - 5] + b" ..."
        try:
            if not self._poll.poll(0):
                return False
            os.write(self._fd, data + b"\n")
        except OSError:
            # Nobody reads the log any more; the runner goes on.
            return False
        return True


class TextFormatter(logging.Formatter):
    """An event as it is; anything worse with its level in front."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one record as text."""
        if record.exc_info is None and record.levelno <= logging.INFO:
            return record.getMessage()
        text = super().format(record).replace("\n", "\n    ")
        if record.levelno <= logging.INFO:
            return text
        return f"{record.levelname.lower()}: {text}"


class JsonFormatter(logging.Formatter):
    """One object a line; the ``name=value`` words of an event are its members."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one record as JSON."""
        message = record.getMessage()
        when = datetime.fromtimestamp(record.created, UTC)
        body: dict[str, str] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        if message.startswith("stage="):
            body.update(word.partition("=")[::2] for word in message.split(" "))
        else:
            body["message"] = message
        if record.exc_info:
            body["traceback"] = self.formatException(record.exc_info)
        return json.dumps(body, ensure_ascii=True)


_FORMATTERS = {LogFormat.TEXT: TextFormatter, LogFormat.JSON: JsonFormatter}


def log_to(fd: int, *, level: int = logging.INFO) -> None:
    """Send the log of relay and relayconf to a descriptor, as text, until ``apply``."""
    _record_only_what_is_shown()
    handler = LineHandler(fd)
    handler.setFormatter(TextFormatter())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level)


def _record_only_what_is_shown() -> None:
    """Leave caller, thread and process out of every record, as logging's own manual advises.

    A runner writes a line for each call; this halves what the line costs.
    """
    setattr(logging, "_srcfile", None)  # noqa: B010 - documented, and not in the stubs
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False


def apply(settings: RelaySettings) -> None:
    """Go by RELAY_LOG_FORMAT and RELAY_LOG_LEVEL from now on."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(settings.log_level.upper())
        for handler in logger.handlers:
            handler.setFormatter(_FORMATTERS[settings.log_format]())
