"""Reasons: what an operator reads about a text that is refused."""

from __future__ import annotations

import pytest

from relayconf.setting import Setting
from relayconf.values import Invalid, parse

ORDER = "units are h m s ms"
SIZES = "units are kB MB GB KiB MiB GiB, spelled so"
EMPTY = 'is empty; drop the comma, or write a JSON array for an empty text: ["a", ""]'
POLL = "it is none of auto, watch, poll; did you mean poll?"
QUOTES = ": the quotes are part of the value; write it without them"
WORDS = "true, false, 1, 0, yes, no, on, off"


def reason(kind: str, text: str, unit: str | None = None) -> str:
    kind, _, items = kind.partition("/")
    choices = ("auto", "watch", "poll")
    setting = Setting("NAME", kind, items=items or "string", choices=choices, unit=unit)
    outcome = parse(setting, text)
    assert isinstance(outcome, Invalid), outcome
    return outcome.reason


class TestNumerals:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("30000junk", "'j' at position 6 is not a digit"),
            ("junk", "'j' at position 1 is not a digit"),
            ("1_000", "'_' at position 2 is not a digit; write 1000"),
            ("1_0", "'_' at position 2 is not a digit"),
            ("1,000", "',' at position 2 is not a digit; write 1000"),
            ("1 000", "a space at position 2 is inside the value; write 1000"),
            ("5 6", "a space at position 2 is inside the value"),
            ("5\t6", "a tab at position 2 is inside the value"),
            ("+5", "a '+' is not read; write 5"),
            ("0x10", "'x' at position 2 is not a digit; write 16"),
            ("-0b11", "'b' at position 3 is not a digit; write -3"),
            ("1e3", "'e' at position 2 is not a digit: an exponent is not read; write 1000"),
            ("-1.5E3", "'e' at position 5 is not a digit: an exponent is not read; write -1500"),
            ("5.0", "'.' at position 2: a fraction is not read here; write 5"),
            ("5.5", "'.' at position 2: a fraction is not read here"),
            ("08", "'0' at position 1 is a leading zero; write 8"),
            ("-010", "'0' at position 2 is a leading zero; write -10"),
            ("-0", "there is no minus zero; write 0"),
            ("-", "a digit is missing at position 2"),
            ("NaN", "it is not a finite number"),
            ("-inf", "it is not a finite number"),
            ('"5"', "the quotes are part of the value; write it without them"),
            ("5'", "the quotes are part of the value; write it without them"),
            (
                "30 #note",
                "'#' at position 4: a comment is not stripped, so it is part of the value",
            ),
            ("${PORT}", "'$' at position 1: nothing in a value is expanded"),
            ("9" * 5000, "it has 5000 digits in one numeral, and 32 are the most"),
            ("5\0", "a NUL character at position 2 cannot be part of the value"),
            ("5\udcff", "the byte 0xFF (not UTF-8) at position 2 cannot be part of the value"),
            ("5\xa0", "U+00A0 NO-BREAK SPACE at position 2 is not ASCII"),
            ("\xb2", "'\xb2' (U+00B2 SUPERSCRIPT TWO) at position 1 is not ASCII"),
        ],
    )
    def test_names_what_is_wrong(self, text: str, expected: str) -> None:
        """The reason names the character or the rule, and what to write where that is certain."""
        assert expected == reason("integer", text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "\uff15",
                "(U+FF15 FULLWIDTH DIGIT FIVE) at position 1 is not an ASCII digit; write 5",
            ),
            ("\u0663\u0660", "(U+0663 ARABIC-INDIC DIGIT THREE) at position 1"),
            ("\ufeff5", "a byte order mark: save the file without one"),
        ],
    )
    def test_tells_look_alikes_apart(self, text: str, expected: str) -> None:
        """A digit of another script, and what cannot be seen at all, is called by its name."""
        assert expected in reason("integer", text)

    def test_fraction(self) -> None:
        """A number wants a digit on both sides of its point."""
        assert "a digit is missing at position 1; write 0.5" == reason("number", ".5")
        assert "a digit is missing behind the '.' at position 2" == reason("number", "1.")
        assert "'.' at position 4 is not a digit" == reason("number", "1.5.2")
        assert "',' at position 2 is not a digit" == reason("number", "1,5")


class TestDuration:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("5sjunk", f"'sjunk' at position 2 is not a unit; {ORDER}, lower case"),
            ("junk5s", "'j' at position 1 is not a digit"),
            ("1S", f"'S' at position 2 is not a unit; {ORDER}, lower case"),
            ("-5s", "'-' at position 1: a duration with units has no minus"),
            ("1s1h", "'h' at position 4 comes after 's'; the order is h m s ms"),
            ("1m1m", "'m' at position 4 is given twice"),
            ("1h30", f"'30' at position 3 has no unit; {ORDER}"),
            ("1.5h3m", "only the last part may have a fraction, and '1.5h' is not"),
            ("0.5ms", "it is not a whole number of milliseconds"),
            ("1h05m", "'0' at position 3 is a leading zero; write 1h5m"),
            ("01s", "'0' at position 1 is a leading zero; write 1s"),
            ("1h.5m", "a digit is missing at position 3; write 1h0.5m"),
            ("01h05m", "'0' at position 1 is a leading zero"),
            ("1h-5m", "'-' at position 3 is not a digit"),
            ("5%s", "'%' at position 2 is not a digit or a unit"),
            ("5 s", "a space at position 2 is inside the value"),
            ("5%", "'%' at position 2 is not a digit"),
        ],
    )
    def test_names_what_is_wrong(self, text: str, expected: str) -> None:
        """The reason names the part, and the rule about parts that it breaks."""
        assert expected == reason("duration", text)

    @pytest.mark.parametrize(("unit", "name"), [(None, "milliseconds"), ("h", "hours")])
    def test_bare_fraction(self, unit: str | None, name: str) -> None:
        """A fraction without a unit is told the unit in force, and how to have one."""
        expected = f"without a unit it is a whole number of {name}; write like 1.5s"
        assert expected == reason("duration", "1.5", unit)


class TestSize:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("10kb", f"'kb' at position 3 is not a unit; {SIZES}; did you mean kB?"),
            ("4mib", f"'mib' at position 2 is not a unit; {SIZES}; did you mean MiB?"),
            ("10K", f"'K' at position 3 is not a unit; {SIZES}"),
            ("10B", "'B' at position 3 is not a unit: bytes have none; write 10"),
            ("1.5MiB", "'.' at position 2: a fraction is not read here"),
            ("10 kB", "a space at position 3 is inside the value"),
            ("kB", "'k' at position 1 is not a digit"),
            ("08kB", "'0' at position 1 is a leading zero; write 8kB"),
            ("1.5B", "'B' at position 4 is not a unit: bytes have none"),
        ],
    )
    def test_names_what_is_wrong(self, text: str, expected: str) -> None:
        """The reason names the unit, and the one that was probably meant."""
        assert expected == reason("size", text)


class TestWords:
    @pytest.mark.parametrize(
        ("text", "ending"),
        [("truee", "; did you mean true?"), ("disabled", "; write false"), ("2", "")],
    )
    def test_boolean(self, text: str, ending: str) -> None:
        """The reason lists the words, and the one that was probably meant."""
        assert f"it is none of {WORDS}{ending}" == reason("boolean", text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("100.5%", "a share is 0% to 100%"),
            ("-1%", "a share is 0% to 100%"),
            ("12.255%", "a share has at most two decimals"),
            ("25", "it is no boolean, and a share ends with '%'; write 25%"),
            ("0.25", "it is no boolean, and a share ends with '%'"),
            ("05%", "'0' at position 1 is a leading zero; write 5%"),
            (".5%", "a digit is missing at position 1; write 0.5%"),
            ("-0%", "there is no minus zero; write 0%"),
            ("1 000", "a space at position 2 is inside the value"),
            ("off%", "'o' at position 1 is not a digit"),
            ("onn", f"it is neither a boolean ({WORDS}) nor a share like 25%; did you mean on?"),
        ],
    )
    def test_rollout(self, text: str, expected: str) -> None:
        """The reason tells the two ways to write a rollout apart."""
        assert expected == reason("rollout", text)

    @pytest.mark.parametrize(
        ("text", "ending"),
        [
            ("pol", "; did you mean poll?"),
            ("wacth", "; did you mean watch?"),
            ("xyz", ""),
            ("'auto'", f"{QUOTES}; did you mean auto?"),
            ("'xyz'", QUOTES),
            ("au to", ": a space at position 3 is inside the value; did you mean auto?"),
        ],
    )
    def test_enum(self, text: str, ending: str) -> None:
        """The reason lists the members, and the one that was probably meant."""
        assert f"it is none of auto, watch, poll{ending}" == reason("enum", text)


class TestTexts:
    def test_string(self) -> None:
        """A text that cannot be handed on says which character keeps it."""
        assert "a NUL character at position 2 cannot be part of a text" == reason("string", "a\0")
        byte = "the byte 0xFF (not UTF-8) at position 1 cannot be part of a text"
        assert byte == reason("path", "\udcff")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("hunter2\0", "it holds a NUL character, or a byte that is not UTF-8"),
            ("\udcffhunter2", "it holds a NUL character, or a byte that is not UTF-8"),
            ("  ", "it is blank, and a blank secret protects nothing"),
        ],
    )
    def test_secret_is_silent(self, text: str, expected: str) -> None:
        """Nothing about a secret's text is in the reason, not even a position."""
        assert expected == reason("secret", text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("h", "it has no '://'; a url starts with a scheme, like https://"),
            ("http://", "it has no host behind '://'"),
            ("http://h:x", "what follows the ':' of the host is not a port, 1 to 65535"),
            (
                "http://{h}/",
                "'{' at position 8 is not allowed in a url; nothing in a value is expanded",
            ),
            ("http://h/a b", "a space at position 11 is not allowed in a url; percent-encode it"),
            ("http://h/%zz", "'%' at position 10 does not start two hexadecimal digits; write %25"),
            ("'http://h'", "the quotes are part of the value; write it without them"),
        ],
    )
    def test_url(self, text: str, expected: str) -> None:
        """The reason names the part of the url."""
        assert expected == reason("url", text)

    @pytest.mark.parametrize("kind", ["url", "list/url"])
    @pytest.mark.parametrize(
        "text",
        [
            "a:hunter2@h",
            "redis://a:hunter2",
            "redis://a:hunter2/x@h",
            "redis://a:hunter2 @h",
            "redis://hunter2é@h",
            "redis://:hunter2%@h",
            "redis://a:hunter2{",
            "hunter2 ://h",
        ],
    )
    def test_url_keeps_a_password(self, kind: str, text: str) -> None:
        """No part of a password is in the reason, wherever the url is broken."""
        found = reason(kind, text)
        assert "hunter" not in found
        assert not {"é", "{", "%"} & set(found)


class TestLists:
    @pytest.mark.parametrize(
        ("kind", "text", "expected"),
        [
            ("list", "a,,b", f"item 2 {EMPTY}"),
            ("list", "[1]", "item 1 is a JSON number where a string belongs"),
            ("list/duration", "[null]", "item 1 is a JSON null where a number or a string belongs"),
            ("list/integer", "1,x", "item 2 is no integer ('x'): 'x' at position 1 is not a digit"),
            ("list/enum", '["pol"]', f"item 1 is no enum ('pol'): {POLL}"),
        ],
    )
    def test_names_the_item(self, kind: str, text: str, expected: str) -> None:
        """The reason says which item, what it is, and what is wrong with it."""
        assert expected == reason(kind, text)

    @pytest.mark.parametrize(
        ("text", "ending"), [('["a"', "at position 5"), ("[" * 100_000, "holds plain items")]
    )
    def test_array(self, text: str, ending: str) -> None:
        """Broken JSON is told where it breaks, and why it was read as JSON at all."""
        found = reason("list", text)
        assert found.startswith("a list that starts with '[' is read as a JSON array, and ")
        assert found.endswith(ending)
