"""The two text dialects of Compose: whatever is in a file, an answer or one clear refusal.

The models here say the rules a second time, in the slow and recursive way that they are easiest to
check against what was observed; the readers must agree with them on every text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relayconf.compose.dotenv import EnvEntry, last_values, parse_dotenv
from relayconf.compose.errors import ComposeError
from relayconf.compose.interpolate import Reference, TemplateError, interpolate
from relayconf.compose.rawenv import parse_raw

Failure = TypeVar("Failure", bound=Exception)

SHELL = {"A": "a", "E": "", "LONG": "${A}$B", "_x": "under"}

SIGNS = ["$", "{", "}", "${", "$$", ":-", "-", ":?", "?", ":+", "+", ":", "}}", "#", "\\"]
NAMES = ["${A", "${E", "${X", "${LONG}", "${A:-", "${X:-{", "A", "X", "_x", "é", "1", " ", "\n"]
TEMPLATES = st.lists(st.sampled_from(SIGNS + NAMES), max_size=14).map("".join)

MARKS = ["=", "=", ":", "#", " #", "'", '"', "\\", "\\n", "\\0101", "\\033", "\\$", "-", ".", "[s]"]
WORDS = ["A", "B", "export", "export ", "x y", "$A", "${X:-d}", "${", "$$", "é", "1", "\x00"]
BLANKS = [" ", "\t", "\n", "\r\n", "\ufeff", "\u2028", "\u00a0"]
ENV_TEXTS = st.lists(st.sampled_from(MARKS + WORDS + BLANKS), max_size=16).map("".join)


class Refused(Exception):
    """What the models raise."""


def model(text: str, lookup: Callable[[str], str | None]) -> str:
    """Interpolate as observed: the widest match on a line, then the brace that closes the first."""
    pattern = re.compile(
        r"\$(?:(?P<escaped>\$)|(?P<named>[_A-Za-z]\w*)"
        r"|\{(?:(?P<braced>[_A-Za-z]\w*(?::?[-+?].*)?)\}|(?P<invalid>)))",
        re.ASCII,
    )

    def replace(match: re.Match[str]) -> str:
        found, rest = match.group(), ""
        end = closing(found)
        if end >= 0:
            found, rest = found[: end + 1], found[end + 1 :]
        groups = pattern.match(found)
        assert groups is not None
        if groups["escaped"]:
            return "$"
        if groups["named"]:
            return lookup(groups["named"]) or ""
        if not groups["braced"]:
            raise Refused
        return braced(groups["braced"], lookup) + model(rest, lookup)

    return pattern.sub(replace, text)


def closing(text: str) -> int:
    depth, at = 0, 0
    while at < len(text):
        if text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        if text[at] == "{":
            depth += 1
            at += 1
        at += 1
    return -1


def braced(inside: str, lookup: Callable[[str], str | None]) -> str:
    parts = re.match(r"(\w+)(?:(:?)([-+?])(.*))?$", inside, re.DOTALL | re.ASCII)
    assert parts is not None
    name, colon, sign, word = parts.groups()
    value = lookup(name)
    there = bool(value) if colon else value is not None
    if sign == "?" and not there:
        model(word, lookup)
        raise Refused
    if (sign == "-" and not there) or (sign == "+" and there):
        return model(word, lookup)
    return value or ""


def outcome(act: Callable[[], Any], *refusals: type[Exception]) -> Any:
    try:
        return act()
    except refusals:
        return Refused


def failure(act: Callable[[], Any], refusal: type[Failure]) -> Failure | None:
    try:
        act()
    except refusal as error:
        return error
    return None


def judge(read: Callable[[], list[EnvEntry]]) -> None:
    """Assert that a reader answers in file order, or refuses in one line with a position."""
    error = failure(read, ComposeError)
    if error is None:
        entries = read()
        assert entries == sorted(entries, key=lambda entry: (entry.line, entry.column))
    else:
        assert re.fullmatch(r"x\.env:[1-9]\d*:[1-9]\d*", error.origin or "")
        assert str(error).startswith(f"{error.origin}: ")
        assert str(error).isprintable()


class TestInterpolation:
    @given(TEMPLATES)
    @example("${X:-{}}")
    @example("[${X:-{}}] ${A}")
    @example("${X-a} ${X:?b}")
    @example("${A:-${X:?needed}}")
    @example("${X:-a\nb}")
    def test_agrees_with_the_model(self, text: str) -> None:
        """Every template has the value, or is refused, that the rules say."""
        expected = outcome(lambda: model(text, SHELL.get), Refused)
        assert expected == outcome(lambda: interpolate(text, SHELL.get), TemplateError)

    @given(TEMPLATES)
    def test_error_points_at_a_dollar(self, text: str) -> None:
        """A refusal names the place of the expression that is wrong."""
        error = failure(lambda: interpolate(text, SHELL.get), TemplateError)
        if error is not None:
            assert text[error.offset] == "$"

    @given(TEMPLATES)
    def test_eager_refuses_at_least_as_much(self, text: str) -> None:
        """Compose 2.40 gives the same value as the newest, or refuses."""
        eager = outcome(lambda: interpolate(text, SHELL.get, eager=True), TemplateError)
        if eager is not Refused:
            assert interpolate(text, SHELL.get) == eager

    @given(TEMPLATES)
    def test_references_are_what_was_looked_up(self, text: str) -> None:
        """Each variable that decided something is reported once for each time it was asked."""
        asked: list[str] = []
        found: list[Reference] = []

        def lookup(name: str) -> str | None:
            asked.append(name)
            return SHELL.get(name)

        outcome(lambda: interpolate(text, lookup, references=found), TemplateError)
        assert asked == [reference.name for reference in found]

    @given(st.text())
    def test_text_without_dollar_is_kept(self, text: str) -> None:
        """What has no dollar sign is what it was."""
        plain = text.replace("$", "")
        assert plain == interpolate(plain, SHELL.get)


class TestEnvFile:
    @given(st.binary() | ENV_TEXTS.map(str.encode))
    @example(b'A="\\')
    @example(b"export")
    @example(b"export ")
    @example(b"\xef\xbb\xbfA=1")
    @example(b"A=\xff\xfe\n\xff=1")
    def test_any_bytes(self, data: bytes) -> None:
        """Any file gives assignments in order, or one refusal that says where in the file."""
        judge(lambda: parse_dotenv(data, path="x.env", lookup=SHELL.get))

    @given(st.binary() | ENV_TEXTS.map(str.encode))
    def test_any_bytes_raw(self, data: bytes) -> None:
        """Any file in the raw format gives assignments in order, or one refusal."""
        judge(lambda: parse_raw(data, path="x.env", lookup=SHELL.get))

    @given(ENV_TEXTS)
    def test_positions_are_where_the_keys_stand(self, text: str) -> None:
        """Line and column of an assignment are those of its key in the file."""
        body = text.removeprefix("\ufeff")
        lines = body.split("\n")
        try:
            entries = parse_dotenv(text.encode(), path="x.env", lookup=SHELL.get)
        except ComposeError:
            return
        for entry in entries:
            if entry.form != "unfinished":
                assert lines[entry.line - 1].startswith(entry.name, entry.column - 1)

    @given(st.text(st.characters(exclude_characters="'\\\r", exclude_categories=["Cs"])))
    def test_single_quotes_keep_everything(self, value: str) -> None:
        """Between single quotes a value without quote or backslash is what it is."""
        data = f"A='{value}'\n".encode()
        entries = parse_dotenv(data, path="x.env", lookup=SHELL.get)
        assert {"A": value} == last_values(entries)

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
    def test_double_quotes_escape_everything(self, value: str) -> None:
        """Any text can be written between double quotes, with backslashes where they are needed."""
        written = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        entries = parse_dotenv(f'A="{written}"'.encode(), path="x.env", lookup=SHELL.get)
        assert {"A": value} == last_values(entries)


GROWING: dict[str, Callable[[int], str]] = {
    "assignments": lambda size: "A=$B\n" * size,
    "comments": lambda size: "#\n \n" * size,
    "escapes": lambda size: 'A="' + "\\\\" * size + '"',
    "unclosed quote": lambda size: 'A="' + "x\n" * size,
    "quotes": lambda size: "A=''" * size,
    "nested defaults": lambda size: "A=" + "${A:-" * size + "}" * size,
    "defaults in a row": lambda size: "A=" + "${A:-x}" * size,
    "unclosed braces": lambda size: "A=" + "${A:-x" * size,
    "unbalanced braces": lambda size: "A=" + "${A:-{" * size + "}",
    "dollars": lambda size: "A=" + "$" * size,
    "long key": lambda size: "é" * size + "=1",
}


def steps(data: bytes) -> int:
    """Count the calls, Python's and C's, that reading a file takes."""
    count = 0

    def tick(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(tick)
    try:
        outcome(lambda: parse_dotenv(data, path="x.env", lookup=lambda _: None), ComposeError)
    finally:
        sys.setprofile(None)
    return count


class TestEffort:
    @pytest.mark.parametrize("shape", GROWING)
    def test_grows_with_the_size_alone(self, shape: str) -> None:
        """Four times the file takes about four times the steps, whatever it consists of."""
        small, large = (steps(GROWING[shape](size).encode()) for size in (500, 2000))
        assert large <= 4 * small + 400
