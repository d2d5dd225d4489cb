"""Lines of an env file that surely do not mean what they do: comments as values, a lost end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayconf.check.finding import Finding, Place
from relayconf.check.inspection import EnvFile, Inspection
from relayconf.compose.dotenv import EnvEntry

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# A comment is cut off at a space before its #. What stands right after the = has none, since white
# space there belongs to no value; ``#fff`` right after it is a colour.
_COMMENT = re.compile(r"\s+#|#\s")
_BEHIND_TAB = re.compile(r"\S\t+#\s")
_BEHIND = re.compile(r"\s#\s")


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at each line of each env file."""
    for file in inspection.env_files:
        for entry in file.entries:
            if entry.form == "unfinished":
                yield _unfinished(file, entry)
            elif _is_comment(entry):
                message = "the value is or ends with a comment, which is not cut off here"
                place = Place(file.path, entry.line, entry.column)
                fix = f"{entry.name}="
                yield Finding("comment-value", message, place, entry.name, None, fix)


def _is_comment(entry: EnvEntry) -> bool:
    if entry.form == "raw":
        return _BEHIND.search(entry.raw) is not None
    if entry.form != "plain" or "#" not in entry.raw:
        return False
    if _COMMENT.match(entry.raw) is not None:
        return True
    return _BEHIND_TAB.search(entry.raw.partition(" #")[0]) is not None


def _unfinished(file: EnvFile, entry: EnvEntry) -> Finding:
    name = entry.raw.strip()
    named = name if _NAME.match(name) else None
    message = (
        "the last line is a name without a line feed, which Compose reads as the value of a "
        "variable that has no name"
    )
    place = Place(file.path, entry.line, entry.column)
    return Finding("bare-last-line", message, place, named, None, f"echo >> {file.path}")
