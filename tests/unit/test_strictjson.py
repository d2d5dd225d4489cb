"""JSON from a stranger: each trap is refused by its own rule, and costs little."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from relay import strictjson
from relay.strictjson import MAX_DEPTH, MAX_NODES, Fault


def nested(depth: int) -> bytes:
    """Return arrays within arrays."""
    return b"[" * depth + b"]" * depth


class TestDepth:
    @pytest.mark.parametrize("data", [nested(MAX_DEPTH), b'{"a":' * MAX_DEPTH + b"1" + b"}" * 100])
    def test_the_deepest_that_is_taken(self, data: bytes) -> None:
        """A document may nest as deep as the bound says."""
        assert json.loads(data) == strictjson.load(data)

    @pytest.mark.parametrize(
        "data",
        [
            nested(MAX_DEPTH + 1),
            nested(20_000),
            b"[" * 5_000_000,
            b'{"a":' * 200_000,
            b'[{"a":' * 1_000,
            b'["\\"",' * 500,
            b'["\\\\",' * 500,
        ],
    )
    def test_deeper_is_refused_without_recursion(self, data: bytes) -> None:
        """Nesting beyond the bound is an ordinary fault, however deep it goes."""
        with pytest.raises(Fault, match=r"nested deeper|more than"):
            strictjson.load(data)

    def test_brackets_inside_strings_do_not_count(self) -> None:
        """Text that only contains brackets is no nesting, escaped quotes included."""
        value = {"a": "[" * 5_000, "b": '"' + "[{" * 5_000 + "\\", "c": "\\" * 301 + '"[['}
        assert value == strictjson.load(json.dumps(value).encode())

    def test_a_nearly_full_stack_is_a_fault_too(self) -> None:
        """A caller deep in its own calls gets a fault, and no RecursionError."""

        def dive(left: int) -> Any:
            return strictjson.load(nested(MAX_DEPTH)) if left == 0 else dive(left - 1)

        outcomes = set()
        for left in range(sys.getrecursionlimit()):
            try:
                dive(left)
                outcomes.add("value")
            except Fault as fault:
                outcomes.add(str(fault))
            except RecursionError:
                # The dive itself was too deep: nothing was asked of the reader yet.
                break
        assert outcomes <= {"value", "nested too deep for the stack that is left"}


class TestCount:
    def values(self, count: int) -> bytes:
        """Return an array with so many values, itself counted, in more than 64 KiB."""
        return b"[" + b" " * 70_000 + b",".join([b"1"] * (count - 1)) + b"]"

    def test_as_many_as_the_bound(self) -> None:
        """A document may hold as many values as the bound says."""
        assert MAX_NODES - 1 == len(strictjson.load(self.values(MAX_NODES)))

    @pytest.mark.parametrize(
        "data",
        [
            b"[" + b"[]," * MAX_NODES + b"[]]",
            b"[" + b'"",' * MAX_NODES + b'""]',
            b'"' * 5_000_000,
            b"[]" * 2_000_000,
            b"]" * 4_000_000,
            b"[" + b",".join(b'{"a":{}}' for _ in range(MAX_NODES // 2)) + b"]",
        ],
    )
    def test_more_are_refused(self, data: bytes) -> None:
        """Too many values are refused before any of them is made."""
        with pytest.raises(Fault, match="more than 100000 values"):
            strictjson.load(data)

    def test_one_more_is_refused(self) -> None:
        """The bound is exact."""
        with pytest.raises(Fault, match="more than 100000 values"):
            strictjson.load(self.values(MAX_NODES + 1))

    def test_commas_inside_strings_do_not_count(self) -> None:
        """A long text is one value."""
        value = [",[{" * 100_000, '","' * 50_000]
        assert value == strictjson.load(json.dumps(value).encode())

    def test_empty_containers_count_once(self) -> None:
        """An empty array is one value, with white space in it too."""
        data = b"[" + b"[ ]," * (MAX_NODES - 2) + b"{\n}]"
        assert MAX_NODES - 1 == len(strictjson.load(data))


class TestRules:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b'{"a":1,"a":1}', "'a' appears twice"),
            (b'{"x":{"a":1,"\\u0061":2}}', "'a' appears twice"),
            (b"[NaN]", "NaN is not a number"),
            (b"[Infinity]", "Infinity is not a number"),
            (b"[-Infinity]", "-Infinity is not a number"),
            (b"[1e400]", "too large to be finite"),
            (b"[-1e400]", "too large to be finite"),
            (b"[" + b"9" * 400 + b"]", "too large to be finite"),
            (b"[" + b"9" * 100_000 + b"]", "too large to be finite"),
            (b'["\\ud800"]', "surrogate"),
            (b'["\\uDBFFx"]', "surrogate"),
            (b'{"\\udc00":1}', "surrogate"),
            (b'["\xed\xa0\x80"]', "not UTF-8"),
            (b'["\xff"]', "not UTF-8"),
            (b"\xef\xbb\xbf[]", "not JSON"),
            (b'["\n"]', "not JSON"),
            (b"[1,]", "not JSON"),
            (b"[01]", "not JSON"),
            (b"['a']", "not JSON"),
            (b"[1] 2", "not JSON"),
            (b"", "not JSON"),
        ],
    )
    def test_each_has_its_own_words(self, data: bytes, reason: str) -> None:
        """Whoever wrote it learns which rule it breaks."""
        with pytest.raises(Fault, match=reason):
            strictjson.load(data)

    @pytest.mark.parametrize(
        "data",
        [
            b"1e308",
            b"-0",
            b"1E-400",
            b"9" * 300,
            b'"\\ud83d\\ude00"',
            b'"\\\\ud800"',
            b' {"a":[]} ',
        ],
    )
    def test_what_looks_like_a_trap_and_is_none(self, data: bytes) -> None:
        """Finite numbers, whole pairs and escaped backslashes pass."""
        assert json.loads(data) == strictjson.load(data)


class TestWriting:
    @pytest.mark.parametrize(
        "value", [float("nan"), float("-inf"), {1, 2}, b"x", "\ud800", {"a": object()}]
    )
    def test_what_is_not_json_is_a_fault(self, value: object) -> None:
        """Nothing that a strict reader would refuse is ever written."""
        with pytest.raises(Fault):
            strictjson.dump(value)

    def test_too_deep_is_a_fault(self) -> None:
        """A value that is nested beyond the stack is a fault, and no RecursionError."""
        value: list[Any] = []
        for _ in range(200_000):
            value = [value]
        with pytest.raises(Fault):
            strictjson.dump(value)
        while value:
            value = value[0]

    def test_text_is_kept_readable(self) -> None:
        """Letters stay letters, and nothing is spaced out."""
        assert '{"a":["é",1]}'.encode() == strictjson.dump({"a": ["é", 1]})

    @pytest.mark.parametrize("character", ["", "é", "\x7f", '"', "\\", *map(chr, range(32))])
    def test_a_long_string(self, character: str) -> None:
        """A string is written the same way however long it is, and wherever an escape is in it."""
        half = "x" * 20_000
        for text in (character + half, half + character, half + character + half):
            for value in (text, {"text": text}, {"args": {"text": text, "n": [text, 1]}}):
                written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
                assert written.encode() == strictjson.dump(value)
