"""Contracts, whatever is in them: refused in one message, or read, and then all the rest works."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from relayconf.compose.dotenv import last_values, parse_dotenv
from relayconf.contract import yamltext as yamlcontract
from relayconf.contract.document import to_document
from relayconf.contract.literal import literal
from relayconf.contract.reading import fingerprint, from_document, load_installed, read
from relayconf.errors import ContractError
from relayconf.generate import plan
from relayconf.generate.env_example import dotenv_text, env_example
from relayconf.generate.reference import code, escaped
from relayconf.layers import Entry, Layer
from relayconf.resolve import Resolution, resolve
from relayconf.rules import broken
from relayconf.setting import (
    BLIND_POLICIES,
    ORDERED_TYPES,
    TYPES,
    Contract,
    Flag,
    Rule,
    Setting,
    Value,
)
from relayconf.values import Invalid, clamp, is_blank, parse, render
from relayconf.values.spelling import WHITE, ascii_lower

few = settings(deadline=None, max_examples=50)
many = settings(deadline=None, max_examples=100)

SCALARS = [kind for kind in TYPES if kind not in ("list", "secret")]
PROSE = st.text(st.characters(codec="utf-8"), max_size=30)
FILLED = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
WORDS = FILLED.filter(lambda text: text == text.strip(WHITE) and not is_blank(text))
NAMES = st.from_regex(r"[A-Z][A-Z0-9]{0,5}(_[A-Z0-9]{1,4}){0,2}", fullmatch=True)
GROUPS = st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,6}", fullmatch=True)
URLS = st.sampled_from(["https://h/x", "https://u:p@h:1/a?b", "unix:///a", "postgres://u@a,b/db"])
TEXTS: dict[str, st.SearchStrategy[str]] = {
    "integer": st.integers(-(10**9), 10**20).map(str),
    "number": st.integers(-(10**6), 10**6).map(str)
    | st.tuples(st.integers(-999, 999), st.integers(0, 999)).map(lambda t: f"{t[0]}.{t[1]:03d}"),
    "duration": st.integers(-(10**6), 10**12).map(str) | st.integers(0, 10**9).map("{}ms".format),
    "size": st.integers(-(10**6), 10**12).map(str) | st.integers(0, 99).map("{}MiB".format),
    "boolean": st.sampled_from(["true", "false"]),
    "rollout": st.integers(0, 10_000).map(lambda n: f"{n // 100}.{n % 100:02d}%"),
    "string": FILLED.filter(lambda text: not is_blank(text)),
    "path": FILLED.filter(lambda text: not is_blank(text)),
    "url": URLS,
}


def texts_of(setting: Setting) -> st.SearchStrategy[str]:
    """Texts of the setting's own grammar, most of them canonical."""
    if setting.type == "enum":
        return st.sampled_from(setting.choices)
    if setting.type == "list":
        item = texts_of(setting._replace(type=setting.items))
        numbers = setting.items in ("integer", "number", "boolean")
        array = ", ".join if numbers else (lambda items: ", ".join(map(json.dumps, items)))
        return st.lists(item, max_size=3).map(lambda items: f"[{array(items)}]")
    return TEXTS[setting.type]


def value_of(setting: Setting, text: str) -> Value:
    outcome = parse(setting, text)
    assume(not isinstance(outcome, Invalid))
    assert not isinstance(outcome, Invalid)
    return clamp(setting, outcome.value)[0]


@st.composite
def any_setting(draw: st.DrawFn, name: str) -> Setting:
    kind = draw(st.sampled_from(TYPES))
    setting = Setting(name, kind, doc=draw(PROSE), description=draw(PROSE))
    if kind == "list":
        setting = setting._replace(items=draw(st.sampled_from(SCALARS)))
    if "duration" in (kind, setting.items):
        units = ["h", "m", "s", "ms"] if kind == "duration" else ["s", "ms", None]
        setting = setting._replace(unit=draw(st.sampled_from(units)))
    elif kind in ("integer", "number"):
        setting = setting._replace(unit=draw(st.sampled_from([None, "rows"])))
    if "enum" in (kind, setting.items):
        choices = draw(st.lists(WORDS, min_size=1, max_size=4, unique_by=ascii_lower))
        setting = setting._replace(choices=tuple(choices))
    setting = setting._replace(
        allow_blank=kind == "string" and draw(st.booleans()),
        reject=draw(st.booleans()),
        live=draw(st.booleans()),
        legacy=tuple(f"OLD_{name}_{n}" for n in range(draw(st.integers(0, 2)))),
        groups=tuple(draw(st.lists(GROUPS, max_size=2))),
        owner=draw(st.none() | PROSE),
        since=draw(st.none() | PROSE),
    )
    if kind == "secret":
        return setting
    return draw(with_values(setting))


@st.composite
def with_values(draw: st.DrawFn, setting: Setting) -> Setting:
    """The setting with a range, a jitter, a default, an example and a flag, each or none."""
    if setting.type in ORDERED_TYPES:
        values: list[Any] = [value_of(setting, draw(TEXTS[setting.type])) for _ in range(2)]
        low, high = (draw(st.sampled_from([None, bound])) for bound in sorted(values))
        setting = setting._replace(minimum=low, maximum=high)
        setting = setting._replace(jitter=draw(st.sampled_from([None, (-0.2, 0.0), (-1.0, 10.0)])))
    if draw(st.booleans()):
        setting = setting._replace(default=value_of(setting, draw(texts_of(setting))))
    if draw(st.booleans()):
        example = value_of(setting, draw(texts_of(setting)))
        setting = setting._replace(example=render(setting, example))
    if setting.type in ("boolean", "rollout", "enum") and draw(st.booleans()):
        kill = value_of(setting, draw(texts_of(setting)))
        ends = draw(
            st.sampled_from([("2027-02-28", None), (None, "a reason"), ("2030-12-31", "x")])
        )
        facts = {"event": "failure", "share": 0.25, "at_least": 3, "window_ms": 60_000}
        breaker = draw(st.sampled_from([None, facts]))
        blind = draw(st.sampled_from(BLIND_POLICIES))
        setting = setting._replace(flag=Flag("experiment", kill, "team", *ends, breaker, blind))
    return setting


@st.composite
def any_contract(draw: st.DrawFn) -> Contract:
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    declared = {f"X_{name}": draw(any_setting(f"X_{name}")) for name in names}
    rules = []
    for low, high in zip(declared.values(), list(declared.values())[1:], strict=False):
        rule = Rule(
            low.name, high.name, draw(st.booleans()), draw(st.sampled_from([low, high])).name
        )
        defaults: list[Any] = [low.default, high.default]
        comparable = low.type == high.type and low.type in ORDERED_TYPES
        if comparable and (None in defaults or not broken(rule, *defaults)):
            rules.append(rule)
    return Contract("x-1", draw(st.sampled_from(["", "X_"])), declared, tuple(rules))


class TestRoundTrip:
    @many
    @given(any_contract())
    def test_what_is_written_is_read_back(self, contract: Contract) -> None:
        """A contract that goes through its document comes back the same, and keeps its name."""
        again = read(json.dumps(to_document(contract)).encode(), origin="x")
        assert contract == again
        assert fingerprint(contract) == fingerprint(again)

    @few
    @given(any_contract())
    def test_a_document_in_memory_is_as_good(self, contract: Contract) -> None:
        """A document that was parsed by somebody else gives the same contract."""
        assert contract == from_document(json.loads(json.dumps(to_document(contract))), origin="x")

    @few
    @given(any_contract())
    def test_yaml_says_the_same_as_json(self, contract: Contract) -> None:
        """A contract written in YAML is the contract that it is in JSON."""
        text = json.dumps(to_document(contract), ensure_ascii=False, indent=1)
        plain = "".join(c if c == "\n" or " " <= c <= "~" else f"\\U{ord(c):08x}" for c in text)
        assert contract == yamlcontract.read(plain.encode(), origin="x")


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        [*TYPES, "ms", "X_A", "http://h", "object", "2027-01-01", "kill-switch", "#/x"]
    ),
)
KEYWORDS = [
    *("x-relayconf", "properties", "type", "default", "enum", "items", "minimum", "examples"),
    *("min", "max", "unit", "jitter", "legacy", "flag", "kill", "owner", "choices", "rules", "low"),
]
KEYS = st.sampled_from(KEYWORDS) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)
RELAY = to_document(load_installed("relay") or pytest.fail("no contract"))


def containers(document: Any) -> list[Any]:
    """Every object and array in a document that has something in it."""
    found = [document] if isinstance(document, (dict, list)) and document else []
    inner = document.values() if isinstance(document, dict) else document
    if isinstance(document, (dict, list)):
        for part in inner:
            found.extend(containers(part))
    return found


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A right document with a few parts of it replaced, removed or moved."""
    document = copy.deepcopy(RELAY) if draw(st.booleans()) else to_document(draw(any_contract()))
    for _ in range(draw(st.integers(1, 3))):
        places = containers(document) or [{"": 0}]
        place = places[draw(st.integers(0, len(places) - 1))]
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[draw(st.integers(0, len(keys) - 1))]
        if draw(st.booleans()):
            place[key] = draw(JSON)
        else:
            del place[key]
    return document


def read_or_refuse(make: Callable[[], Contract]) -> Contract | None:
    """A contract, or one line that starts with the origin."""
    try:
        return make()
    except ContractError as error:
        message = str(error)
        assert message.startswith("the file")
        assert message.isprintable(), message
        return None


def fault_of(text: str) -> str | None:
    try:
        read(text.encode(), origin="the file")
    except ContractError as error:
        return str(error)
    return None


def check_usable(contract: Contract, texts: list[str]) -> None:
    """Whatever was let in can be resolved, published and described."""
    names = [*contract.settings, "X_A", *(o for s in contract.settings.values() for o in s.legacy)]
    entries = tuple(Entry(n, t, "env") for n, t in zip(names * 2, texts, strict=False))
    resolution = resolve(contract, [Layer("environment", entries)])
    assert set(contract.settings) == set(resolution.values)
    assert contract == from_document(to_document(contract), origin="again")
    assert 5 == len(plan([contract]))


class TestAnyDocument:
    @many
    @given(JSON, st.lists(st.text(max_size=6)))
    def test_json_gives_a_contract_or_one_message(self, document: Any, texts: list[str]) -> None:
        """Whatever a file holds, the answer is a contract or a sentence."""
        contract = read_or_refuse(lambda: from_document(document, origin="the file"))
        if contract is not None:
            check_usable(contract, texts)

    @many
    @given(damaged(), st.lists(st.text(max_size=6) | FILLED, max_size=20))
    def test_a_damaged_contract_is_refused_or_works(self, document: Any, texts: list[str]) -> None:
        """A mistake in a contract is found when it is read, or does no harm."""
        contract = read_or_refuse(lambda: from_document(document, origin="the file"))
        if contract is not None:
            check_usable(contract, texts)

    @few
    @given(damaged())
    def test_a_fault_has_a_line(self, document: Any) -> None:
        """A fault in a file is found again by its line and column."""
        text = json.dumps(document, indent=2)
        fault = fault_of(text)
        if fault is not None:
            where = re.match(r"the file:(\d+):(\d+): ", fault)
            assert where, fault
            line = text.split("\n")[int(where[1]) - 1]
            assert line[int(where[2]) - 1 :].strip()

    @many
    @given(st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode))
    def test_bytes_give_a_contract_or_one_message(self, data: bytes) -> None:
        """No bytes in the place of a contract lead to anything but a sentence."""
        read_or_refuse(lambda: read(data, origin="the file"))
        read_or_refuse(lambda: yamlcontract.read(data, origin="the file"))


TRIED = [
    "", " ", "0", "-1", "5", "5.0", "-0", "007", "1e3", "1_000", "9" * 32, "9" * 33, " 5 ", "5\r\n",
    "true", "TRUE", "oN", "yes", "2", "truee", "25%", "0.5%", "100%", "100.01%", "1.234%", "25s",
    "1h30m", "1.5s", "300ms", "1.5ms", "1s1h", "1m1m", "-5s", "1S", "5m", "5MiB", "5mib", "1.5MiB",
    "-5kB", "auto", "AUTO", "a,b", "a,,b", "5,6", "5, 6", "[5, 6]", '["a"]', "[", "https://h/x",
    "h", "https://u:p@h:1/a?b#c", "\t", "\u0665", "5\u2028", "true,off", "25%,on",
]  # fmt: skip


class TestSchema:
    @many
    @given(any_setting("X_A"), st.sampled_from(TRIED) | FILLED)
    def test_never_refuses_what_is_valid(self, setting: Setting, text: str) -> None:
        """An editor does not complain of a text that would be in force."""
        contract = Contract("x", "X_", {"X_A": setting}, ())
        validator = jsonschema.Draft202012Validator(to_document(contract))
        outcome = parse(setting, text)
        blank = is_blank(text) and not setting.secret
        if blank or not isinstance(outcome, Invalid):
            assert [] == [e.message for e in validator.iter_errors({"X_A": text})]

    @many
    @given(any_setting("X_A"), st.booleans() | st.integers(-9, 10**6) | st.floats(-9, 9))
    def test_never_refuses_what_needs_no_quotes(self, setting: Setting, value: float) -> None:
        """A bare number or boolean passes where its text is a value."""
        assume(
            setting.type not in ("string", "secret", "path", "list") or value not in (True, False)
        )
        contract = Contract("x", "X_", {"X_A": setting}, ())
        validator = jsonschema.Draft202012Validator(to_document(contract))
        outcome = parse(setting, literal(value))
        if isinstance(outcome, Invalid) or (setting.reject and clamp(setting, outcome.value)[1]):
            return
        assert [] == [e.message for e in validator.iter_errors({"X_A": value})]

    @many
    @given(any_setting("X_A"), st.sampled_from(TRIED) | FILLED)
    def test_refuses_what_is_not_a_value(self, setting: Setting, text: str) -> None:
        """Where a grammar can be written as a pattern, an editor finds what it refuses."""
        assume(setting.type in ("integer", "duration", "size", "boolean", "rollout", "enum"))
        assume(not is_blank(text) and isinstance(parse(setting, text), Invalid))
        assume(not re.fullmatch(r".*\.[0-9]*[1-9][0-9]*ms\s*", text, re.DOTALL))  # whole ms only
        contract = Contract("x", "X_", {"X_A": setting}, ())
        validator = jsonschema.Draft202012Validator(to_document(contract))
        assert not validator.is_valid({"X_A": text})

    @few
    @given(any_contract())
    def test_accepts_its_own_defaults_and_examples(self, contract: Contract) -> None:
        """What the contract shows as right is right, also in the table of a deployment."""
        document = to_document(contract)
        jsonschema.Draft202012Validator.check_schema(document)
        validator = jsonschema.Draft202012Validator(document)
        for key in ("default", "examples"):
            found = {n: p[key] for n, p in document["properties"].items() if key in p}
            values = {n: v[0] if key == "examples" else v for n, v in found.items()}
            errors = validator.iter_errors({**values, "prod": values, "foreign": 1})
            assert [] == [e.message for e in errors]


def unset(_name: str) -> None:
    """Know no variable."""


def resolved(contract: Contract, env_file: str) -> Resolution:
    read = parse_dotenv(env_file.encode(), path="x.env", lookup=unset)
    entries = tuple(Entry(name, text, "x.env") for name, text in last_values(read).items())
    return resolve(contract, [Layer("env-file", entries)])


class TestEnvExample:
    @few
    @given(any_contract())
    def test_is_all_comments(self, contract: Contract) -> None:
        """A copy of the file changes nothing, whatever stands in the documentation."""
        text = env_example(contract)
        assert [] == parse_dotenv(text.encode(), path="x.env", lookup=unset)

    @few
    @given(any_contract())
    def test_uncommented_it_is_right(self, contract: Contract) -> None:
        """Every entry is a value of its setting: the default where there is one."""
        loose = re.sub(r"^#(?=\w+=)", "", env_example(contract), flags=re.MULTILINE)
        resolution = resolved(contract, loose)
        wrong = [p.line() for p in resolution.problems if p.code != "blank-secret"]
        rules = [p.line() for p in resolution.problems if p.code == "rule-repaired"]
        assert rules == wrong
        for name, effective in resolution.settings.items():
            given = contract.settings[name].default
            shown = any(c.verdict == "in force" for c in effective.stack)
            if given not in (None, ()) and shown and not rules:
                assert given == effective.value

    @many
    @given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r")))
    def test_any_text_can_be_written(self, text: str) -> None:
        """What an entry shows is read back as it was meant, whatever is in it."""
        line = f"X={dotenv_text(text)}\nY=1\n"
        assert "\n" not in dotenv_text(text)
        read = last_values(parse_dotenv(line.encode(), path="x.env", lookup=unset))
        assert {"X": text, "Y": "1"} == read


class TestReference:
    @few
    @given(any_contract())
    def test_documentation_cannot_break_the_page(self, contract: Contract) -> None:
        """There is one heading and one row for each setting, whatever its documentation holds."""
        lines = plan([contract])["docs/reference/x-1.md"].split("\n")
        headings = [line for line in lines if line.startswith("## ")]
        assert [f"## {name}" for name in contract.settings] == headings
        rows = [line for line in lines if line.startswith("| [")]
        assert len(contract.settings) == len(rows)
        assert {6} >= {len(re.findall(r"(?<!\\)\|", row)) for row in rows}

    @given(st.text())
    def test_a_paragraph_stays_one(self, text: str) -> None:
        """Prose is one line without markup of its own."""
        shown = escaped(text)
        assert shown.isprintable()
        assert not re.search(r"(?<!\\)[`*<\[]", re.sub(r"\\\\", "", shown))

    @given(st.text(min_size=1))
    def test_a_code_span_holds_its_text(self, text: str) -> None:
        """No backtick in a value ends its span."""
        shown = code(text)
        fence = re.match("`+", shown)
        assert fence
        inner = shown[len(fence[0]) : -len(fence[0])]
        assert fence[0] not in re.findall("`+", inner)


class TestLiteral:
    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_a_float_is_written_out(self, value: float) -> None:
        """A number of a document keeps its value when it becomes text, without an exponent."""
        text = literal(value)
        assert value == float(text)
        assert "e" not in text or not 1e-60 < abs(value) < 1e60
