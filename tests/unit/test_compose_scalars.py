"""YAML scalars as Compose types and writes them."""

from __future__ import annotations

import pytest

from relayconf.compose.scalars import ScalarError, render, resolve, short_tag

WRITTEN = {
    "plain text": ["a", "yes", "No", "on", "y", "22:22", "1:30:00", "_1", "0x", "0b12", "0o8", "-"],
    "not numbers": ["+", ".", "1e400", "0x1p3", "1_a", "12e", "2024-13-01", "2024-02-30", "1.2.3"],
    "times without zone": ["2024-01-02T03:04:05", "24-01-02", "2024-01-02 03:04:05Z"],
}
TYPED = {
    "0755": "493",
    "-0755": "-493",
    "0o17": "15",
    "0O17": "15",
    "0x1F": "31",
    "0X1f": "31",
    "-0x1F": "-31",
    "0b101": "5",
    "1_000": "1000",
    "0_7": "7",
    "00": "0",
    "-0": "-0",
    "+5": "5",
    "0899": "899",
    "08": "8",
    "1.50": "1.5",
    "1.0": "1",
    "1.": "1",
    ".5": "0.5",
    "-.5": "-0.5",
    "-0.0": "-0",
    "1_000.5": "1000.5",
    "1e3": "1000",
    "1e5": "100000",
    "1e6": "1e+06",
    "1e21": "1e+21",
    "1e-4": "0.0001",
    "1e-5": "1e-05",
    "123456.7": "123456.7",
    "1234567.0": "1.234567e+06",
    "123456789.125": "1.23456789125e+08",
    "18446744073709551615": "18446744073709551615",
    "18446744073709551616": "1.8446744073709552e+19",
    "-9223372036854775808": "-9223372036854775808",
    "-9223372036854775809": "-9.223372036854776e+18",
    "+18446744073709551615": "1.8446744073709552e+19",
    "True": "true",
    "FALSE": "false",
    "-.inf": "-Inf",
    ".NaN": "NaN",
    "2024-01-02": "2024-01-02 00:00:00 +0000 UTC",
    "2024-1-2": "2024-01-02 00:00:00 +0000 UTC",
    "2024-02-29 3:4:5.250": "2024-02-29 03:04:05.25 +0000 UTC",
    "2024-01-02T03:04:05Z": "2024-01-02 03:04:05 +0000 UTC",
    "2024-01-02t03:04:05-07:30": "2024-01-02 03:04:05 -0730 -0730",
}


class TestPlainScalars:
    @pytest.mark.parametrize("text", [text for group in WRITTEN.values() for text in group])
    def test_stays_text(self, text: str) -> None:
        """What is no number, word or date of Compose's is kept as it is written."""
        assert ("!!str", text) == resolve(text)

    @pytest.mark.parametrize(("text", "expected"), TYPED.items())
    def test_written_as_go_writes_it(self, text: str, expected: str) -> None:
        """A number, word or date reaches the container in Go's spelling."""
        assert expected == render(resolve(text)[1])

    def test_negative_zero_in_2_40(self) -> None:
        """Compose 2.40 takes -0 for an integer, which has no sign."""
        assert ("!!int", 0) == resolve("-0", newest=False)

    @pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
    def test_null(self, text: str) -> None:
        """The words for nothing are null."""
        assert ("!!null", None) == resolve(text)

    def test_lone_exclamation_mark_is_no_tag(self) -> None:
        """A ``!`` alone says nothing about the type."""
        assert short_tag("!") == short_tag("") == short_tag(None)

    @pytest.mark.parametrize("text", ["0755", "true", "", "2024-01-02"])
    def test_quotes_make_text(self, text: str) -> None:
        """A quoted scalar is text."""
        assert ("!!str", text) == resolve(text, quoted=True)


class TestTags:
    @pytest.mark.parametrize(
        ("text", "tag", "expected"),
        [
            ("12", "!!int", "12"),
            ("0755", "!!str", "0755"),
            ("0755", "!custom", "0755"),
            ("1", "!!float", "1"),
            ("true", "!!bool", "true"),
            ("aGVsbG8=", "!!binary", "hello"),
            ("2024-01-02", "!!timestamp", "2024-01-02 00:00:00 +0000 UTC"),
        ],
    )
    def test_decides(self, text: str, tag: str, expected: str) -> None:
        """A tag decides the type, quoted or not."""
        for quoted in (False, True):
            assert expected == render(resolve(text, tag=tag, quoted=quoted)[1])

    @pytest.mark.parametrize(
        ("text", "tag"), [("abc", "!!int"), ("yes", "!!bool"), ("1.5", "!!int"), ("%", "!!binary")]
    )
    def test_must_fit(self, text: str, tag: str) -> None:
        """A tag that does not fit is refused without quoting the value."""
        with pytest.raises(ScalarError) as caught:
            resolve(text, tag=tag)
        assert text not in str(caught.value).replace(tag, "")
