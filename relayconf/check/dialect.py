"""The same env file read by somebody else: by the application itself, or by ``docker run``.

python-dotenv is the dialect of an application that reads the file (pydantic-settings does); each
name that it reads differently is a note. ``docker run --env-file`` takes every line as it is, so
quotes alone make a difference: one note a file, and only for files that containers read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from relayconf.check.finding import Finding, Place, place_of
from relayconf.check.hiding import Hiding
from relayconf.check.inspection import EnvFile, Inspection
from relayconf.check.refusal import message_of
from relayconf.check.writing import env_text
from relayconf.compose.dotenv import EnvEntry, decode
from relayconf.compose.errors import ComposeError
from relayconf.compose.rawenv import parse_raw
from relayconf.values import excerpt

# A longer file is not compared: python-dotenv's expressions were not made for what is no env file.
_LONGEST = 256 * 1024

# What Compose, python-dotenv and docker run all take as it stands, without quotes around it.
_PLAIN = re.compile(r"(?:[^\s'\"#$\\](?:[^\n\r$\\]*[^\s$\\])?)?")
_COMMENT = re.compile(r"\s#")

# So many names stand in one note.
_NAMED = 5


class _Foreign(NamedTuple):
    """A value as python-dotenv has it, unresolved, and the line of its statement."""

    text: str | None
    line: int


def check(inspection: Inspection) -> Iterator[Finding]:
    """Compare each env file that is in Compose's own dialect, once for each content."""
    seen: set[str] = set()
    containers = {file.path for file in inspection.env_files if not file.feeds_project}
    for file in inspection.env_files:
        if file.path in seen or any(entry.form == "raw" for entry in file.entries):
            continue
        seen.add(file.path)
        data = inspection.texts.contents.get(file.path, b"")
        if len(data) > _LONGEST:
            continue
        yield from _by_python_dotenv(file, data, inspection.hiding)
        if file.path in containers:
            yield from _by_docker_run(file, data, inspection.hiding)


def _by_python_dotenv(file: EnvFile, data: bytes, hiding: Hiding) -> Iterator[Finding]:
    theirs = _python_dotenv(decode(data))
    ours = {entry.name: entry for entry in file.entries if entry.form != "unfinished"}
    for name, entry in ours.items():
        place = Place(file.path, entry.line, entry.column)
        found = theirs.get(name)
        if found is None:
            message = "python-dotenv does not read this line at all; Compose does"
            yield _finding(message, place, entry, hiding)
            continue
        if found.text is None or entry.value is None:
            continue
        known = {each.name: each.value for each in entry.references if each.value is not None}
        text = _resolved(found.text, known)
        if text != entry.value:
            message = "python-dotenv reads another value than Compose"
            if not hiding.value(name, text, entry.value):
                ours_, theirs_ = excerpt(entry.value), excerpt(text)
                message = f"python-dotenv reads '{theirs_}', and Compose '{ours_}'"
            yield _finding(message, place, entry, hiding)
    lines = {entry.line for entry in ours.values()}
    for name, found in theirs.items():
        if name not in ours and found.text is not None and found.line not in lines:
            message = "python-dotenv reads a variable here that Compose does not"
            place = Place(file.path, found.line, 1)
            yield Finding("dialect-differs", message, place, None, None, "NAME='value'")


def _python_dotenv(text: str) -> dict[str, _Foreign]:
    """What python-dotenv reads, the last of each name."""
    from dotenv.parser import parse_stream  # noqa: PLC0415 - only where an env file is checked

    # The stream's own newline handling would turn a CR inside a value into LF first.
    read = parse_stream(io.StringIO(text, newline=""))
    return {
        binding.key: _Foreign(binding.value, binding.original.line)
        for binding in read
        if binding.key is not None and not binding.error
    }


def _resolved(text: str, known: Mapping[str, str]) -> str:
    """Expand as python-dotenv does, with what Compose saw for each variable."""
    from dotenv.variables import parse_variables  # noqa: PLC0415 - as above

    return "".join(atom.resolve(known) for atom in parse_variables(text))


def _by_docker_run(file: EnvFile, data: bytes, hiding: Hiding) -> Iterator[Finding]:
    last = {entry.name: entry for entry in file.entries if entry.value is not None}
    try:
        read = parse_raw(data, path=file.path, lookup=lambda _: None)
    except ComposeError as error:
        line = place_of(error.origin).line or 0
        before = [entry for entry in file.entries if entry.line <= line]
        if before:
            # The refused line may be the middle of a value, which is then not to be shown.
            entry = before[-1]
            told = f": {message_of(error)}" if entry.line == line else ""
            message = f"docker run --env-file refuses the file here{told}"
            yield _of_docker_run(message, file, entry, hiding)
        return
    theirs = {entry.name: entry.value for entry in read}
    differing = [e for name, e in last.items() if theirs.get(name) != e.value]
    if not differing:
        return
    names = ", ".join(entry.name for entry in differing[:_NAMED])
    more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    message = (
        f"docker run --env-file reads {names}{more} differently: "
        "it keeps quotes, comments and $ as they are"
    )
    yield _of_docker_run(message, file, differing[0], hiding)


def _of_docker_run(message: str, file: EnvFile, entry: EnvEntry, hiding: Hiding) -> Finding:
    place = Place(file.path, entry.line, entry.column)
    found = _finding(message, place, entry, hiding)
    if _is_plain(entry.value or ""):
        return found
    # Quotes are all that helps the others, and docker run takes them as they are.
    return found._replace(fix=f"docker run --env-file {file.path} --env {entry.name}")


def _finding(message: str, place: Place, entry: EnvEntry, hiding: Hiding) -> Finding:
    name, value = entry.name, entry.value or ""
    if hiding.value(name, value):
        how = "without quotes" if _is_plain(value) else "in single quotes"
        fix = f"write the value of {name} {how}"
    else:
        fix = f"{name}={value if _is_plain(value) else env_text(value)}"
    return Finding("dialect-differs", message, place, name or None, None, fix)


def _is_plain(value: str) -> bool:
    return _PLAIN.fullmatch(value) is not None and _COMMENT.search(value) is None
