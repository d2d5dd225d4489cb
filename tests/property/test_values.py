"""Values, for any text: the grammars against their definitions, and what every type promises."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relayconf.jitter import draw
from relayconf.setting import MASK, ORDERED_TYPES, TYPES, Setting, Value
from relayconf.share import decide
from relayconf.values import Invalid, Parsed, clamp, is_blank, parse, present, render

SCALARS = [kind for kind in TYPES if kind != "list"]
SETTINGS = {kind: Setting("NAME", kind, choices=("auto", "watch", "Poll")) for kind in SCALARS}
LISTS = {kind: SETTINGS[kind]._replace(type="list", items=kind) for kind in SCALARS}
EVERY = [*SETTINGS.values(), *LISTS.values()]
NUMERALS = ("integer", "number", "duration", "size", "rollout")
MOST_DIGITS = 32
UNITS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

few = settings(deadline=None, max_examples=60)
many = settings(deadline=None, max_examples=500)

#: Any character at all, lone surrogates included, with those that matter here more often.
characters = st.one_of(
    st.sampled_from("0123456789.-+_%eE xhmskMGBi,[]\"'#\t\r\0\udcff\ud800\xa0\uff15\u0663\u212a"),
    st.characters(),
)
texts = st.text(characters, max_size=40)
#: What looks like a numeral, and only sometimes is one.
numeralish = st.text(st.sampled_from("0012345.-%hmsskKMGiB"), max_size=9)
#: What a slip makes of a numeral.
slips = st.text(st.sampled_from("0012345.,_-+eExob%hmskKMGiB\u0663\uff15 "), max_size=9)
naturals = st.integers(0, 10**33).map(str) | st.integers(0, 99).map(str)
fractions = st.text(st.sampled_from("0123456789"), min_size=1, max_size=4)
decimals = st.tuples(naturals, fractions).map(".".join)
words = st.sampled_from(["true", "FALSE", "Yes", "no", "on", "OFF", "1", "0"])
plain = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=9)


@st.composite
def durations(draw: st.DrawFn) -> str:
    """Draw parts in order, the last of which may have a fraction."""
    units = [unit for unit in UNITS if draw(st.booleans())] or ["s"]
    parts = [f"{draw(st.integers(0, 10**5))}{unit}" for unit in units[:-1]]
    last = draw(st.sampled_from(["7", "0", "1.5", "0.25", "2.000"]))
    return "".join([*parts, (last if units[-1] != "ms" else "7") + units[-1]])


valid_texts = {
    "integer": st.integers(-(10**32) + 1, 10**32 - 1).map(str),
    "number": st.integers(-9999, 9999).map(str) | decimals.filter(lambda text: len(text) < 33),
    "duration": durations() | st.integers(-99999, 99999).map(str),
    "size": st.tuples(
        st.integers(-99999, 99999).map(str),
        st.sampled_from(["", "kB", "MB", "GB", "KiB", "MiB", "GiB"]),
    ).map("".join),
    "boolean": words,
    "rollout": words | st.integers(0, 10_000).map(lambda n: f"{n // 100}.{n % 100:02d}%"),
    "enum": st.sampled_from(["auto", "WATCH", "poll", "Poll"]),
    "string": plain,
    "secret": plain.filter(lambda text: not is_blank(text)),
    "path": plain.filter(lambda text: not is_blank(text)),
    "url": st.sampled_from(
        ["http://h", "https://u:p@h.example:1/a?b#c", "unix:///a/b", "x://[::1]"]
    ),
}

#: What can never stand at either end of a value: anything for a text, but a NUL and a stray byte.
STRANGE = ["\0", "\udcff"]
GARBAGE = [
    *STRANGE,
    "j",
    "x",
    "#",
    "_",
    '"',
    "'",
    "$",
    "+",
    "é",
    "٣",
    "\xa0",
    "=",
    ";",
    " #",
    "\ufeff",
]


def by_definition(kind: str, text: str) -> Value | None:
    """Read a numeral type as its definition says it, with regular expressions and fractions."""
    numeral = r"(?:0|[1-9][0-9]{0,31})"
    decimal = rf"{numeral}(?:\.[0-9]+)?"
    if kind == "integer":
        found = re.fullmatch(rf"-?{numeral}", text)
        return int(text) if found and text != "-0" else None
    if kind == "number":
        found = re.fullmatch(rf"-?{decimal}", text)
        if found is None or text == "-0" or sum(map(str.isdigit, text)) > MOST_DIGITS:
            return None
        exact = Fraction(text)
        return int(exact) if exact.denominator == 1 else float(text)
    if kind == "size":
        found = re.fullmatch(rf"(-?{numeral})(kB|MB|GB|KiB|MiB|GiB|)", text)
        factor = {"k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
        if found is None or found[1] == "-0":
            return None
        return int(found[1]) * factor.get(found[2][:-1], 1)
    if kind == "rollout":
        found = re.fullmatch(rf"({numeral}(?:\.[0-9]{{1,2}})?)%", text)
        return float(found[1]) if found and float(found[1]) <= 100 else None
    bare = by_definition("integer", text)
    if bare is not None:
        return bare
    parts = "".join(rf"(?:({decimal}){unit})?" for unit in UNITS)
    found = re.fullmatch(parts, text)
    if found is None or not text or re.search(r"\.[0-9]*[a-z]+[0-9]", text):
        return None
    if any(sum(map(str.isdigit, count or "")) > MOST_DIGITS for count in found.groups()):
        return None
    counts = [Fraction(count or 0) for count in found.groups()]
    total = sum(count * size for count, size in zip(counts, UNITS.values(), strict=True))
    return int(total) if total.denominator == 1 else None


def value_of(setting: Setting, text: str) -> Value:
    outcome = parse(setting, text)
    assert isinstance(outcome, Parsed), outcome
    return outcome.value


class TestAnyText:
    @given(st.sampled_from(EVERY), texts | numeralish)
    @many
    def test_gives_a_value_or_a_printable_reason(self, setting: Setting, text: str) -> None:
        """No text raises, for any type; a reason is one line without control characters."""
        outcome = parse(setting, text)
        if isinstance(outcome, Invalid):
            assert outcome.reason.isprintable()
            assert outcome.reason

    @given(st.sampled_from([SETTINGS[kind] for kind in (*NUMERALS, "boolean", "enum")]), slips)
    @many
    def test_what_a_reason_says_to_write_is_right(self, setting: Setting, text: str) -> None:
        """Somebody who writes what the reason tells them has a value, and no second reason."""
        outcome = parse(setting, text)
        told = re.search(r"; write (\S+)$", outcome.reason if isinstance(outcome, Invalid) else "")
        if told is not None:
            assert isinstance(parse(setting, told[1]), Parsed)

    @given(st.sampled_from(EVERY), texts | numeralish)
    @many
    def test_accepted_text_renders_to_itself(self, setting: Setting, text: str) -> None:
        """The canonical text of an accepted value reads as the same value, with nothing trimmed."""
        outcome = parse(setting, text)
        if isinstance(outcome, Invalid):
            return
        canonical = render(setting, outcome.value)
        assert Parsed(outcome.value, trimmed=False) == parse(setting, canonical)
        assert canonical == render(setting, value_of(setting, canonical))

    @given(texts)
    @few
    def test_secrets_stay_secret(self, secret: str) -> None:
        """All that a reason says of a secret is that it is blank or unusable."""
        outcome = parse(SETTINGS["secret"], secret)
        if isinstance(outcome, Invalid):
            assert outcome.reason in {
                "it is blank, and a blank secret protects nothing",
                "it holds a NUL character, or a byte that is not UTF-8",
            }
        else:
            assert MASK == present(SETTINGS["secret"], outcome.value)

    @given(
        st.text(st.sampled_from("/:@%{ é?#[],"), max_size=12),
        st.sampled_from(["", "a:", "http://a:"]),
    )
    @few
    def test_no_reason_holds_a_password(self, rest: str, before: str) -> None:
        """Wherever a url is broken, its password is in neither the reason nor what is shown."""
        for password in ("hunter2", "hün%ter2", "hunt er2"):
            text = f"{before}{password}@{rest}"
            outcome = parse(SETTINGS["url"], text)
            shown = (
                outcome.reason if isinstance(outcome, Invalid) else present(SETTINGS["url"], text)
            )
            assert not any(piece in str(shown) for piece in ("hun", "ter2", "er2"))


class TestDefinition:
    @pytest.mark.parametrize("kind", NUMERALS)
    @given(text=numeralish | texts)
    @many
    def test_numerals(self, kind: str, text: str) -> None:
        """A text is accepted exactly where the written definition accepts it, with that value."""
        assume(text == text.strip(" \t\n\r\v\f"))
        outcome = parse(SETTINGS[kind], text)
        expected = by_definition(kind, text)
        if isinstance(outcome, Invalid):
            assert expected is None
        elif kind == "rollout" and isinstance(outcome.value, str):
            assert expected == float(outcome.value[:-1])
        elif kind != "rollout":
            assert expected == outcome.value


class TestValidText:
    @pytest.mark.parametrize("kind", SCALARS)
    @given(data=st.data())
    @few
    def test_is_accepted_and_trimmed(self, kind: str, data: st.DataObject) -> None:
        """What the grammar describes is accepted, and so it is between ASCII white space."""
        text = data.draw(valid_texts[kind])
        value = value_of(SETTINGS[kind], text)
        if kind not in {"string", "secret"}:
            assert value == value_of(SETTINGS[kind], f" \r\n{text}\t")

    @pytest.mark.parametrize("kind", SCALARS)
    @given(data=st.data())
    @few
    def test_with_garbage_is_refused(self, kind: str, data: st.DataObject) -> None:
        """Nothing is half-read: garbage before or behind a valid text makes it invalid."""
        text = data.draw(valid_texts[kind])
        known = STRANGE if kind in {"string", "secret", "path", "url"} else GARBAGE
        garbage = data.draw(st.sampled_from(known))
        assert isinstance(parse(SETTINGS[kind], garbage + text), Invalid)
        assert isinstance(parse(SETTINGS[kind], text + garbage), Invalid)
        assert isinstance(parse(LISTS[kind], garbage + text), Invalid)
        assert isinstance(parse(LISTS[kind], text + garbage), Invalid)

    @pytest.mark.parametrize("kind", SCALARS)
    @given(data=st.data())
    @few
    def test_makes_a_list(self, kind: str, data: st.DataObject) -> None:
        """Any values of a type are a list of it, whatever characters are in them."""
        found = data.draw(st.lists(valid_texts[kind], max_size=4))
        values = tuple(value_of(SETTINGS[kind], text) for text in found)
        assert values == value_of(LISTS[kind], render(LISTS[kind], values))


class TestRange:
    @pytest.mark.parametrize("kind", sorted(ORDERED_TYPES))
    @given(data=st.data(), bounds=st.tuples(*[st.integers(-99_999, 99_999)] * 2).map(sorted))
    @few
    def test_clamped_value_is_in_range(
        self, kind: str, data: st.DataObject, bounds: list[int]
    ) -> None:
        """Whatever was written, the value is in the range, and stays where it already was."""
        ranged = SETTINGS[kind]._replace(minimum=bounds[0], maximum=bounds[1])
        value = value_of(ranged, data.draw(valid_texts[kind]))
        clamped, bound = clamp(ranged, value)
        assert isinstance(clamped, (int, float))
        assert bounds[0] <= clamped <= bounds[1]
        assert (bound is None) is (clamped == value)
        assert (clamped, None) == clamp(ranged, clamped)

    @given(
        st.sampled_from(sorted(ORDERED_TYPES)),
        st.tuples(*[st.integers(0, 10**9)] * 3).map(sorted),
        st.tuples(*[st.floats(-1, 2)] * 2).map(sorted),
        st.integers(0, 2**32),
    )
    @few
    def test_draw_is_in_range(
        self, kind: str, numbers: list[int], jitter: list[float], seed: int
    ) -> None:
        """A jittered draw never leaves the range, nor the fraction by more than one unit."""
        low, value, high = numbers
        ranged = SETTINGS[kind]._replace(minimum=low, maximum=high, jitter=(jitter[0], jitter[1]))
        drawn = draw(ranged, value, random.Random(seed).random)
        assert low <= drawn <= high
        slack = 1 + value * 1e-6
        assert (
            drawn == value
            or value * jitter[0] - slack <= drawn - value <= value * jitter[1] + slack
        )
        assert kind == "number" or isinstance(drawn, int)


class TestShare:
    @given(texts, texts, st.integers(0, 10_000), st.integers(0, 10_000))
    @few
    def test_is_sticky_and_monotonic(self, flag: str, key: str, one: int, other: int) -> None:
        """A key that is on at some share is on at every larger one, each time it is asked."""
        low, high = (f"{n // 100}.{n % 100:02d}%" for n in sorted((one, other)))
        assert decide(flag, key, low) <= decide(flag, key, high)
        assert decide(flag, key, low) is decide(flag, key, low)
