"""What the quick commands share: options read by hand, one answer on stdout, one line on stderr.

stdout is written through its descriptor, whole or with an error that is told; what is printed of
other people's texts holds nothing that a terminal would act on. Ground floor.
"""

from __future__ import annotations

import os
import sys
from typing import Collection, Dict, List, NamedTuple, Sequence

#: Exit status: the command line cannot be understood, or something it names is not there.
USAGE_ERROR = 2

#: Exit status: the answer could not be written.
NOT_WRITTEN = 1

#: How the program is called in what it says of itself. A bundle puts its own in this place.
program = "relay"


class UsageError(Exception):
    """The command line cannot be understood."""


class Line(NamedTuple):
    """A command line: its words in order, and its options, a flag with an empty value."""

    words: List[str]
    options: Dict[str, str]


def read_line(argv: Sequence[str], *, flags: Collection[str], valued: Collection[str]) -> Line:
    """Read the arguments of a command.

    Args:
        argv: the arguments after the command's name. After ``--`` all are words; ``-`` is one.
        flags: the options without a value.
        valued: the options with one, as ``--name value`` or ``--name=value``. The last one counts.

    Raises:
        UsageError: an unknown option, or one without its value.
    """
    line = Line([], {})
    rest = iter(argv)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            line.words.extend(rest)
        elif word in flags:
            line.options[word] = ""
        elif name in valued:
            found = value if equals else next(rest, None)
            if found is None:
                raise UsageError(f"{name} needs a value")
            line.options[name] = found
        elif word.startswith("-") and word != "-":
            raise UsageError(f"there is no option {name!a}")
        else:
            line.words.append(word)
    return line


def answer(command: str, text: str) -> int:
    """Write a text to stdout, ended by a newline, and return the exit status."""
    data = text.encode("utf-8", "replace")
    if not data.endswith(b"\n"):
        data += b"\n"
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError as error:
        return complain(command, f"stdout cannot be written: {error.strerror}", NOT_WRITTEN)
    return 0


def explain(command: str, usage: str) -> int:
    """Print a command's help, with the name by which this program is called."""
    return answer(command, usage.replace(f"relay {command}", f"{program} {command}"))


def misused(command: str, error: UsageError) -> int:
    """Say what is wrong with a command line, and where to read on; return the exit status."""
    return complain(command, f"{error}; see {program} {command} --help", USAGE_ERROR)


def complain(command: str, message: str, status: int) -> int:
    """Say on stderr what is wrong, and return the exit status that was given.

    Args:
        command: the one that complains; empty for the program itself.
        message: what is wrong.
        status: the exit status.
    """
    who = f"{program} {command}".rstrip()
    lines = "\n".join(plain(line) for line in message.split("\n"))
    try:
        os.write(2, f"{who}: {lines}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        # Nobody listens; the exit status has to do.
        return status
    return status


def plain(text: str) -> str:
    """Escape what a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)


def stdout_is_closed() -> bool:
    """Tell whether the process began without a stdout; its descriptor may be anything by now."""
    return sys.stdout is None
