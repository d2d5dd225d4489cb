"""Contracts written by hand: what JSON Schema means in one, and what is said of each mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from relayconf.contract.reading import from_document, read
from relayconf.errors import ContractError
from relayconf.layers import Sources, collect
from relayconf.resolve import resolve
from relayconf.setting import Setting

HEAD = {"version": 1, "target": "api", "prefix": "API_"}


def document(*, head: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {"x-relayconf": {**HEAD, **(head or {})}, "properties": properties}


def setting(body: Any) -> Setting:
    return from_document(document(API_A=body), origin="x").settings["API_A"]


def own(**facts: Any) -> dict[str, Any]:
    return {"x-relayconf": facts}


def fault(make: Callable[[], object]) -> str:
    with pytest.raises(ContractError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestPlainJsonSchema:
    @pytest.mark.parametrize(
        ("body", "facts"),
        [
            ({}, {"type": "string", "default": None, "live": False}),
            ({"type": "integer", "minimum": 1, "maximum": 9}, {"minimum": 1, "maximum": 9}),
            ({"type": "integer", "exclusiveMinimum": 0}, {"minimum": 1}),
            ({"type": "integer", "exclusiveMaximum": 10}, {"maximum": 9}),
            ({"type": "number", "minimum": 0.5, "default": 1}, {"minimum": 0.5, "default": 1}),
            ({"type": ["integer", "string"]}, {"type": "integer"}),
            ({"type": ["null", "number"]}, {"type": "number"}),
            ({"type": ["string", "null"]}, {"type": "string"}),
            ({"type": "boolean", "default": False}, {"type": "boolean", "default": False}),
            ({"type": "string", "format": "uri"}, {"type": "url"}),
            ({"type": "string", "format": "date"}, {"type": "string"}),
            ({"type": "string", "writeOnly": True}, {"type": "secret"}),
            ({"type": "string", "format": "uri", "writeOnly": True}, {"type": "secret"}),
            ({"enum": ["a", "B"], "default": "b"}, {"choices": ("a", "B"), "default": "B"}),
            ({"type": "integer", "enum": [1, 2, None]}, {"type": "enum", "choices": ("1", "2")}),
            ({"type": "array"}, {"type": "list", "items": "string"}),
            ({"type": "array", "items": True}, {"items": "string"}),
            ({"type": "array", "items": {"type": "integer"}, "default": [1]}, {"default": (1,)}),
            ({"type": "array", "items": {"format": "uri"}}, {"items": "url"}),
            (
                {"type": "array", "items": {"enum": ["a", "b"]}, "default": "A,b"},
                {"items": "enum", "choices": ("a", "b"), "default": ("a", "b")},
            ),
            ({"title": "A title.", "$comment": "x", "pattern": "y"}, {"doc": "A title."}),
            ({"title": "A title.", "description": "Said."}, {"doc": "Said."}),
            ({"type": "integer", "examples": [5, 6]}, {"example": "5"}),
            ({"type": "integer", "default": None, "description": None}, {"default": None}),
        ],
    )
    def test_means_what_it_says(self, body: dict[str, Any], facts: dict[str, Any]) -> None:
        """A property without x-relayconf is understood as JSON Schema understands it."""
        found = setting(body)
        assert facts == {key: getattr(found, key) for key in facts}

    def test_other_keywords_do_no_harm(self) -> None:
        """Definitions, draft, title and further keywords of the document are other people's."""
        whole = {
            **document(API_A={"type": "integer"}),
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "https://example.com/api",
            "$defs": {"API_B": {"type": "nothing"}},
            "required": ["API_A"],
            "additionalProperties": False,
        }
        assert ["API_A"] == list(from_document(whole, origin="x").settings)


class TestOwnKeywords:
    @pytest.mark.parametrize(
        ("facts", "default", "value"),
        [
            ({"type": "duration"}, "1h30m", 5_400_000),
            ({"type": "duration"}, 250, 250),
            ({"type": "duration", "unit": "s"}, 5, 5000),
            ({"type": "duration", "unit": "s"}, "300ms", 300),
            ({"type": "duration", "unit": "h", "min": 1, "max": "2h"}, "90m", 5_400_000),
            ({"type": "size", "max": "1GiB"}, "4MiB", 4 << 20),
            ({"type": "size"}, 10, 10),
            ({"type": "number", "unit": "percent"}, "0.50", 0.5),
            ({"type": "rollout"}, "12.50%", "12.5%"),
            ({"type": "rollout"}, True, True),
            ({"type": "list", "items": "integer"}, "1, 2", (1, 2)),
            ({"type": "list", "items": "duration", "unit": "s"}, ["1m", 2], (60_000, 2000)),
            ({"type": "url"}, "postgres://u:p@h/d", "postgres://u:p@h/d"),
            ({"type": "path"}, "/a b", "/a b"),
        ],
    )
    def test_values_are_read_by_the_grammar(
        self, facts: dict[str, Any], default: Any, value: Any
    ) -> None:
        """A default is what the same text would be in a settings file, in the setting's unit."""
        assert value == setting({"default": default, **own(**facts)}).default

    def test_a_bound_is_read_by_the_grammar(self) -> None:
        """A range may be written with units, or in the setting's own unit."""
        found = setting(own(type="duration", unit="s", min=1, max="2m", jitter=[-0.2, 0]))
        assert (1000, 120_000, (-0.2, 0.0)) == (found.minimum, found.maximum, found.jitter)

    def test_a_number_counts_as_it_is_written(self) -> None:
        """A version number in JSON does not lose its zero, and an exponent is written out."""
        texts = {"API_A": "1.10", "API_B": "1e3", "API_C": "0.0000001"}
        body = ", ".join(
            f'"{name}": {{"default": {text}, "type": "string"}}' for name, text in texts.items()
        )
        data = f'{{"x-relayconf": {json.dumps(HEAD)}, "properties": {{{body}}}}}'
        settings = read(data.encode(), origin="x").settings
        assert ["1.10", "1000", "0.0000001"] == [s.default for s in settings.values()]

    @pytest.mark.parametrize(
        ("prefix", "names", "expected"),
        [
            ("API_", ["API_A"], "API_"),
            ("API", ["API_A", "DATABASE_URL"], "API_"),
            ("PG", ["PGHOST", "PG_X"], "PG"),
            ("", ["A"], ""),
            (None, ["A"], ""),
        ],
    )
    def test_prefix(self, prefix: str | None, names: list[str], expected: str) -> None:
        """A prefix may leave out the underscore that the names have."""
        properties: dict[str, Any] = {name: {} for name in names}
        found = from_document(document(head={"prefix": prefix}, **properties), origin="x")
        assert expected == found.prefix

    def test_foreign_variables_stay_foreign_without_a_prefix(self) -> None:
        """A contract without a prefix claims nothing but what it declares."""
        contract = from_document(
            document(head={"prefix": ""}, PORT={"type": "integer"}), origin="x"
        )
        environ = {"PORT": "1", "PATH": "/bin", "PROT": "2", "HOME": "/"}
        assert () == resolve(contract, collect(contract, Sources(environ))).problems

    @pytest.mark.parametrize("target", ["payments-api", "a.b", "9lives", "a_b"])
    def test_target_may_be_a_service_name(self, target: str) -> None:
        """Whatever Compose takes for a service is a target."""
        assert target == from_document(document(head={"target": target}), origin="x").target


class TestFaults:
    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ("text", "API_A: must be an object"),
            ({"type": "object"}, "API_A.type: no setting is of that type"),
            ({"type": ["integer", "boolean"]}, "names several types"),
            ({"$ref": "#/$defs/x"}, "API_A.$ref: is not followed"),
            ({"anyOf": [{"type": "integer"}]}, "API_A.anyOf: is not followed"),
            ({"default": 5}, "has a default that is not text"),
            ({"type": "integer", "default": "five"}, "default: is not a valid integer"),
            ({"type": "integer", "default": 5.5}, "default: is not a valid integer"),
            ({"type": "string", "default": {}}, "default: is an object"),
            ({"type": "string", "default": [1]}, "default: is an array"),
            ({"type": "integer", "default": 5, "maximum": 4}, "default: is out of range"),
            ({"type": "integer", "examples": [5], "maximum": 4}, "examples[0]: is out of range"),
            ({"type": "integer", "examples": ["x"]}, "examples[0]: is not a valid integer"),
            ({"type": "number", "exclusiveMinimum": 0}, "use min or max"),
            ({"type": "integer", "minimum": "x"}, "minimum: is not a valid integer"),
            ({"writeOnly": True, "default": "x"}, "a secret cannot have a default"),
            ({"enum": []}, "enum: must be distinct"),
            ({"enum": ["a", "A"]}, "enum: must be distinct"),
            ({"enum": ["a "]}, "enum[0]: can never be set"),
            ({"enum": "a"}, "enum: must be an array"),
            ({"description": 5}, "description: must be a string; write it in quotes"),
            (own(type="text"), "x-relayconf.type: 'text' is none of integer"),
            (own(type=5), "x-relayconf.type: must be a string"),
            (own(mim=5, type="integer"), "x-relayconf.mim: means nothing here; did you mean min?"),
            (own(minimum=5, type="integer"), "did you mean min?"),
            (own(secret=True), 'did you mean "type": "secret"?'),
            (own(default=5, type="integer"), "did you mean 'default' beside x-relayconf?"),
            (own(live="yes"), "live: must be true or false"),
            (own(type="integer", min=5, max=4), "the range is empty"),
            (own(type="string", min=5), "min: no string has a range"),
            (own(type="boolean", jitter=[0, 1]), "jitter: no boolean has a range"),
            (own(type="integer", jitter=[1, 0]), "jitter: must be two fractions"),
            (own(type="integer", jitter=[-2, 0]), "jitter[0]: must be from -1"),
            (own(type="integer", jitter=[True, 1]), "jitter[0]: must be a number"),
            (own(type="integer", jitter=[0, 10**400]), "jitter[1]: must be from -1"),
            (own(type="duration", unit="d"), "unit: 'd' is none of h, m, s, ms"),
            (own(type="boolean", unit="s"), "unit: no boolean has a unit"),
            (own(type="size", unit="MiB"), "unit: no size has a unit"),
            (own(type="list", items="list"), "items: 'list' cannot be the type of an item"),
            (own(type="integer", items="integer"), "items: only a list has items"),
            (own(type="string", choices=["a"]), "choices: only an enum has choices"),
            (own(type="integer", allow_blank=True), "allow_blank: no blank integer is a value"),
            (own(legacy="OLD"), "legacy: must be an array"),
            (own(legacy=["A-B"]), "legacy[0]: 'A-B' is not a name"),
            (own(legacy=["API_A"]), "API_A already names a setting"),
            (own(groups=["@x"]), "groups[0]: '@x' is not a name"),
            (own(type="secret", example="x"), "example: a secret has no example"),
            (own(type="integer", flag={}), "flag: a flag is a boolean"),
        ],
    )
    def test_of_a_property(self, body: Any, words: str) -> None:
        """Each mistake in a property gives one line with its place."""
        message = fault(lambda: setting(body))
        assert message.startswith("x: properties.API_A")
        assert words in message

    @pytest.mark.parametrize(
        ("flag", "words"),
        [
            ({"kind": "other"}, "flag.kind: must be one of release"),
            ({"kill": None}, "flag.kill: is missing"),
            ({"kill": "maybe"}, "flag.kill: is not a valid boolean"),
            ({"owner": " "}, "flag.owner: must name somebody"),
            ({"owner": None}, "flag.owner: is missing"),
            ({"expires": None}, "flag.expires: needs a date"),
            ({"expires": "2027-02-30"}, "'2027-02-30' is not a date"),
            ({"expires": "20270301"}, "is not a date"),
            ({"breaker": {"event": "x", "share": 2}}, "breaker.share: must be from 0 to 1"),
            ({"breaker": {"event": "x", "share": 1}}, "breaker.at_least: must be an integer"),
            ({"blind": "panic"}, "blind: must be one of hold, safe, default"),
        ],
    )
    def test_of_a_flag(self, flag: dict[str, Any], words: str) -> None:
        """A flag without owner, end or safe value is refused."""
        right = {"kind": "release", "kill": False, "owner": "me", "expires": "2027-03-01"}
        body = {"type": "boolean", **own(flag={**right, **flag})}
        assert words in fault(lambda: setting(body))

    @pytest.mark.parametrize(
        ("rule", "words"),
        [
            (5, "rules[0]: must be an object"),
            ({"low": "API_C"}, "rules[0].low: 'API_C' is not a declared setting"),
            ({"low": "API_S"}, "rules[0].low: 'API_S' is not a declared setting with an order"),
            ({"low": "a"}, "'a' is not a declared setting with an order; did you mean API_A?"),
            ({"low": "API_AA"}, "with an order; did you mean API_A?"),
            ({"high": "API_N"}, "API_A and API_N cannot be compared"),
            ({"moves": "API_N"}, "rules[0].moves: must be API_A or API_B"),
            ({"strict": "no"}, "rules[0].strict: must be true or false"),
            ({"strict": True}, "the defaults of API_A and API_B break it"),
        ],
    )
    def test_of_a_rule(self, rule: Any, words: str) -> None:
        """A rule that cannot be applied is refused."""
        right = {"low": "API_A", "high": "API_B", "moves": "API_B"}
        head = {"rules": [{**right, **rule} if isinstance(rule, dict) else rule]}
        number = {"type": "integer", "default": 5}
        whole = document(head=head, API_A=number, API_B=number, API_S={}, API_N={"type": "number"})
        assert words in fault(lambda: from_document(whole, origin="x"))

    @pytest.mark.parametrize(
        ("whole", "words"),
        [
            ([], "the document: must be an object"),
            ({}, "x-relayconf: is missing"),
            ({"x-relayconf": 5}, "x-relayconf: must be an object"),
            ({"x-relayconf": HEAD}, "properties: is missing"),
            ({"x-relayconf": HEAD, "properties": []}, "properties: must be an object"),
            (document(head={"version": 2}), "x-relayconf.version: must be 1"),
            (document(head={"version": True}), "x-relayconf.version: must be 1"),
            (document(head={"target": None}), "x-relayconf.target: is missing"),
            (document(head={"target": "../x"}), "x-relayconf.target: '../x' is not a name"),
            (document(head={"prefix": "API-"}), "x-relayconf.prefix: 'API-' is not a name"),
            (document(head={"rule": []}), "x-relayconf.rule: means nothing here"),
            (document(**{"API.A": {}}), "properties.API.A: 'API.A' is not a name"),
            (document(API_A={}, api_a={}), "api_a: differs from API_A in nothing but case"),
            (document(API_A={}, API_B=own(legacy=["API_A"])), "API_A already names a setting"),
            (document(A=own(legacy=["O"]), B=own(legacy=["O"])), "O already names a setting"),
        ],
    )
    def test_of_the_document(self, whole: Any, words: str) -> None:
        """What is no contract is refused, and the message says what is missing."""
        assert words in fault(lambda: from_document(whole, origin="x"))

    def test_a_secret_is_not_quoted(self) -> None:
        """A secret that stands in the wrong place does not get into the message."""
        for body in (
            {"writeOnly": True, "default": "canary"},
            own(type="secret", example="canary"),
        ):
            assert "canary" not in fault(lambda body=body: setting(body))  # type: ignore[misc]  # bound at once
