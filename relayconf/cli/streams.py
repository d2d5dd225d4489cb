"""The standard streams of a command: whatever state they are in, the command does its work.

What a command does counts more than what it says: a kill has to land although nobody reads the
answer. A stream that is closed is read and written as an empty one; a character that the stream's
encoding does not have is escaped; a reader that has gone away has had what it wanted. An answer
that could not be written for any other reason is one message and exit code 1.
"""

from __future__ import annotations

import io
import os
import sys

from relayconf.values import excerpt

EX_FAILED = 1

#: Why parts of the answer were not written.
_unsaid: list[str] = []


def prepare() -> None:
    """Make stdout and stderr fit to be written to."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - kept open
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def has_unicode() -> bool:
    """Whether stdout has every character, so that a JSON answer may hold them as they are."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def say(text: str) -> None:
    """Print a part of the answer."""
    try:
        print(text)  # noqa: T201 - the answer
    except OSError as error:
        _give_up(error)


def complain(text: object) -> None:
    """Write a message to stderr, its control characters escaped."""
    lines = (excerpt(line, len(line)) for line in str(text).splitlines())
    sys.stderr.write("relayconf: {}\n".format("\n".join(lines)))


def finish(code: int) -> int:
    """Write out what was said.

    Args:
        code: the exit code that the command came to.

    Returns:
        The same; a failure where the command succeeded and its answer is lost.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _give_up(error)
    if not _unsaid:
        return code
    complain(f"cannot write the answer: {_unsaid[0]}")
    _unsaid.clear()
    return code or EX_FAILED


def _give_up(error: OSError) -> None:
    # Nothing more can be said, and the interpreter must not try again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        _unsaid.append(error.strerror or str(error))
