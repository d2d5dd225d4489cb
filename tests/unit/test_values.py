"""Values by example: what each type accepts and refuses, ranges, canonical text, what is shown."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from relayconf.setting import MASK, Setting, Value
from relayconf.values import (
    Invalid,
    Parsed,
    clamp,
    excerpt,
    is_blank,
    mask_userinfo,
    parse,
    present,
    render,
)

GRAMMAR = json.loads((Path(__file__).parents[1] / "data" / "grammar.json").read_text("utf-8"))
ACCEPTED: list[tuple[str, str, Any]] = [
    (kind, text, value)
    for kind, cases in GRAMMAR.items()
    if kind != "about"
    for text, value in cases["accepts"]
]
REFUSED: list[tuple[str, str]] = [
    (kind, text) for kind, cases in GRAMMAR.items() if kind != "about" for text in cases["refuses"]
]
LONGEST = "9" * 32

#: Reads what stdin lists and prints what comes out differently.
PROBE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from relayconf.setting import Setting
from relayconf.values import Parsed, parse
for_all = Setting("NAME", "", choices=("auto", "watch", "poll", "kept"))
wrong = []
for kind, text, expected in json.load(sys.stdin):
    kind, _, items = kind.partition("/")
    outcome = parse(for_all._replace(type=kind, items=items or "string"), text)
    found = repr(outcome.value) if isinstance(outcome, Parsed) else None
    if found != expected:
        wrong.append((kind, text, expected, found))
print(wrong)
"""


def setting(kind: str, **facts: Any) -> Setting:
    """Return a setting of a type; ``list/integer`` names the type of the items too."""
    kind, _, items = kind.partition("/")
    choices = ("auto", "watch", "poll", "kept")
    return Setting("NAME", kind, items=items or "string", choices=choices, **facts)


def value_of(kind: str, text: str, **facts: Any) -> Value:
    outcome = parse(setting(kind, **facts), text)
    assert isinstance(outcome, Parsed), outcome
    return outcome.value


def same(value: object) -> object:
    """Return a value with its type, since True equals 1 and 5.0 equals 5."""
    return [same(item) for item in value] if isinstance(value, (list, tuple)) else repr(value)


class TestGrammar:
    @pytest.mark.parametrize(("kind", "text", "value"), ACCEPTED)
    def test_accepts(self, kind: str, text: str, value: Value) -> None:
        """Each type turns what its grammar says into the canonical value."""
        assert same(value) == same(value_of(kind, text))

    @pytest.mark.parametrize(("kind", "text", "value"), ACCEPTED)
    def test_renders_what_it_accepted(self, kind: str, text: str, value: Value) -> None:
        """The canonical text of an accepted value reads as that value."""
        canonical = render(setting(kind), value_of(kind, text))
        assert same(value) == same(value_of(kind, canonical))

    @pytest.mark.parametrize(("kind", "text"), REFUSED)
    def test_refuses(self, kind: str, text: str) -> None:
        """Anything else is invalid as a whole, with a reason of one printable line."""
        outcome = parse(setting(kind), text)
        assert isinstance(outcome, Invalid), outcome
        assert outcome.reason
        assert outcome.reason.isprintable()

    @pytest.mark.parametrize("kind", [k for k in GRAMMAR if k not in {"about", "string", "secret"}])
    def test_a_blank_is_no_value(self, kind: str) -> None:
        """A blank that reaches a grammar is refused, and called blank."""
        assert Invalid("it is blank") == parse(setting(kind), " \t")

    @pytest.mark.parametrize("kind", ["integer", "number", "duration", "size", "rollout"])
    @pytest.mark.parametrize("text", ["9" * 5000, "0" * 5000, "1" * 33, "-" + "9" * 5000])
    def test_no_numeral_is_endless(self, kind: str, text: str) -> None:
        """Digits by the thousand are refused at once, and are not repeated in the reason."""
        for whole in (text, f"{text}s", f"{text}kB", f"{text}%"):
            outcome = parse(setting(kind), whole)
            assert isinstance(outcome, Invalid)
            assert len(outcome.reason) < 200

    @pytest.mark.parametrize("text", ["[" * 100_000, f"[{'9' * 5000}]", '[{"a":' * 10_000])
    def test_no_array_is_too_deep(self, text: str) -> None:
        """An array that nests without end is refused like any other nested one."""
        assert isinstance(parse(setting("list/integer"), text), Invalid)


class TestSandbox:
    def test_every_python_reads_alike(self, root: Path, sandbox_python: str) -> None:
        """The oldest Python that a sandbox may have gives the same values and refusals."""
        answers: list[list[str | None]] = [[k, t, repr(value_of(k, t))] for k, t, _ in ACCEPTED]
        answers += [[k, t, None] for k, t in REFUSED]
        command = [sandbox_python, "-I", "-S", "-c", PROBE, str(root)]
        done = subprocess.run(
            command, input=json.dumps(answers), capture_output=True, text=True, check=False
        )
        assert ("[]\n", "") == (done.stdout, done.stderr)


class TestDurationUnit:
    @pytest.mark.parametrize(
        ("unit", "value"), [("h", 18_000_000), ("m", 300_000), ("s", 5_000), ("ms", 5)]
    )
    def test_bare_integer_is_in_the_own_unit(self, unit: str, value: int) -> None:
        """What ``5`` means is the setting's own affair; ``5s`` means the same everywhere."""
        assert value == value_of("duration", "5", unit=unit)
        assert -value == value_of("duration", "-5", unit=unit)
        assert 5_000 == value_of("duration", "5s", unit=unit)


class TestRender:
    @pytest.mark.parametrize(
        ("value", "unit", "text"),
        [
            (1500, "ms", "1500"),
            (1500, "s", "1500ms"),
            (2000, "s", "2"),
            (7_200_000, "h", "2"),
            (-3000, "s", "-3"),
            (0, "m", "0"),
        ],
    )
    def test_duration(self, value: int, unit: str, text: str) -> None:
        """A duration is an integer in the setting's own unit, else in ms."""
        assert text == render(setting("duration", unit=unit), value)

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("duration", f"{LONGEST}h"),
            ("duration", f"{LONGEST}h{LONGEST}m{LONGEST}s{LONGEST}ms"),
            ("duration", f"{LONGEST}m1ms"),
            ("size", f"{LONGEST}GiB"),
            ("size", f"-{LONGEST}MB"),
        ],
    )
    def test_the_largest(self, kind: str, text: str) -> None:
        """What is too large for one numeral in the smallest unit is written in larger ones."""
        value = value_of(kind, text)
        assert value == value_of(kind, render(setting(kind), value))

    def test_longest_bare_duration(self) -> None:
        """A negative one has no parts, and keeps the unit it was written in."""
        hours = setting("duration", unit="h")
        assert f"-{LONGEST}" == render(hours, value_of("duration", f"-{LONGEST}", unit="h"))

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1e-05, "0.00001"),
            (-1.25e-07, "-0.000000125"),
            (0.1, "0.1"),
            (1e22, "1" + "0" * 22),
            (3, "3"),
            (-2.5, "-2.5"),
            (5.0, "5"),
        ],
    )
    def test_number(self, value: float, text: str) -> None:
        """Very small and very large numbers are written out, never with an exponent."""
        assert text == render(setting("number"), value)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (("a", "b"), "a,b"),
            ((), "[]"),
            (("",), '[""]'),
            (("a,b",), '["a,b"]'),
            ((" a",), '[" a"]'),
            (("[x",), '["[x"]'),
            (("a", "", "é"), '["a", "", "é"]'),
            (("a", "b\n"), '["a", "b\\n"]'),
        ],
    )
    def test_list(self, value: Value, text: str) -> None:
        """A list has commas, and is an array where commas would change it."""
        assert text == render(setting("list"), value)

    @pytest.mark.parametrize(
        ("kind", "value", "text"),
        [("boolean", True, "true"), ("rollout", False, "false"), ("rollout", "5%", "5%")],
    )
    def test_word(self, kind: str, value: Value, text: str) -> None:
        """A boolean is true or false, a share its percent."""
        assert text == render(setting(kind), value)


class TestWhiteSpace:
    @pytest.mark.parametrize("kind", sorted(set(GRAMMAR) - {"about", "string", "secret"}))
    def test_around_a_value_is_trimmed_and_noted(self, kind: str) -> None:
        """The carriage return of a CRLF file does no harm, and does not pass in silence."""
        text, value = GRAMMAR[kind]["accepts"][0]
        value = tuple(value) if isinstance(value, list) else value
        assert Parsed(value, trimmed=False) == parse(setting(kind), text)
        assert Parsed(value, trimmed=True) == parse(setting(kind), f"\t \v\f{text}\r\n")

    @pytest.mark.parametrize("kind", ["string", "secret"])
    def test_belongs_to_a_text(self, kind: str) -> None:
        """A string and a secret keep it: a password may end in a blank."""
        assert Parsed(" a\r", trimmed=False) == parse(setting(kind), " a\r")

    @pytest.mark.parametrize(
        "white", ["\xa0", "\u2003", "\u3000", "\x85", "\u2028", "\x1c", "\ufeff"]
    )
    @pytest.mark.parametrize("kind", ["integer", "duration", "boolean", "rollout"])
    def test_is_ascii_only(self, kind: str, white: str) -> None:
        """A no-break space is a character like any other, and none of a number's."""
        assert isinstance(parse(setting(kind), f"1{white}"), Invalid)
        assert not is_blank(white)

    @pytest.mark.parametrize("text", ["", " ", "\t\r\n", "\v\f"])
    def test_blank(self, text: str) -> None:
        """Nothing, and nothing but white space, is blank."""
        assert is_blank(text)


class TestClamp:
    @pytest.mark.parametrize(
        ("kind", "value", "low", "high", "expected"),
        [
            ("integer", 5, 0, 10, (5, None)),
            ("integer", -1, 0, 10, (0, "minimum")),
            ("integer", int(LONGEST), None, 10, (10, "maximum")),
            ("duration", 60_001, 10, 60_000, (60_000, "maximum")),
            ("duration", 10, 10, 60_000, (10, None)),
            ("size", 0, 1024, None, (1024, "minimum")),
            ("size", 7, None, None, (7, None)),
            ("number", 0.1, 0.1, 0.1, (0.1, None)),
            ("number", 0.3, None, 0.25, (0.25, "maximum")),
            ("number", 2**53 + 1, None, float(2**53), (2**53, "maximum")),
        ],
    )
    def test_moves_to_the_bound(
        self, kind: str, value: Value, low: float, high: float, expected: tuple[Value, str | None]
    ) -> None:
        """A value outside the range becomes the bound, and the bound is named."""
        assert expected == clamp(setting(kind, minimum=low, maximum=high), value)

    def test_whole_bound_of_a_number_is_an_integer(self) -> None:
        """A range declared as 5.0 gives 5, as every whole number is written."""
        value, _ = clamp(setting("number", maximum=5.0), 9.5)
        assert same(5) == same(value)

    @pytest.mark.parametrize(
        ("kind", "value"), [("boolean", True), ("rollout", "50%"), ("string", "z"), ("list", (1,))]
    )
    def test_types_without_an_order_stay(self, kind: str, value: Value) -> None:
        """A word or a text is never out of range."""
        assert (value, None) == clamp(setting(kind, minimum=5, maximum=6), value)


class TestPresent:
    def test_hides_secrets(self) -> None:
        """No output holds a secret, alone, in a list or in a url."""
        url, masked = "redis://me:hunter2@h:6379/0", f"redis://{MASK}@h:6379/0"
        assert MASK == present(setting("secret"), "hunter2")
        assert [MASK] == present(setting("list/secret"), ("hunter2",))
        assert masked == present(setting("url"), url)
        assert [masked] == present(setting("list/url"), (url,))

    @pytest.mark.parametrize(
        ("kind", "value", "shown"),
        [
            ("duration", 5, 5),
            ("rollout", "5%", "5%"),
            ("boolean", False, False),
            ("list/integer", (1, 2), [1, 2]),
            ("string", None, None),
            ("secret", None, None),
            ("url", "http://h/@x", "http://h/@x"),
        ],
    )
    def test_shows_the_canonical_value(self, kind: str, value: Value | None, shown: object) -> None:
        """What is unset is null, a list is an array, and everything else is itself."""
        assert shown == present(setting(kind), value)

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("me:hunter2@h", f"{MASK}@h"),
            ("redis://me:hunter2", f"redis://{MASK}"),
            ("redis://:hun/ter2@h x", f"redis://{MASK}@h x"),
            ("http://a:hunter2@b@h", f"http://{MASK}@h"),
            ("me:hunter2", MASK),
            ("no url", "no url"),
            ("http://h ost/", "http://h ost/"),
        ],
    )
    def test_masks_urls_that_are_none(self, text: str, shown: str) -> None:
        """A password in a malformed url is masked too, wherever it may end."""
        assert shown == mask_userinfo(text)


class TestExcerpt:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain", "plain"),
            ("", ""),
            ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
            ("\udcff", "\\udcff"),
            ("é", "é"),
            ("\u202e", "\\u202e"),
            ("x" * 60, "x" * 60),
            ("x" * 61, "<61 characters>"),
            ("9" * 5000, "<5000 characters>"),
        ],
    )
    def test_is_short_and_printable(self, text: str, shown: str) -> None:
        """What is shown is one line without control characters; a long text is only counted."""
        assert shown == excerpt(text)

    def test_limit(self) -> None:
        """The caller may want less."""
        assert "<5 characters>" == excerpt("12345", limit=4)
