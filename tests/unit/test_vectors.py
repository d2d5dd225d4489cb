"""The published vectors, judged by a second reader that knows the contract's JSON and nothing else.

The reader below is written from the grammar's description and shares no code with the package; it
is what somebody would write in another language. It and the package agree on every vector.
"""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,31}")
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,31})(\.[0-9]+)?")
PARTS = re.compile(
    r"(?:([0-9.]+)h)?(?:([0-9.]+)m(?!s))?(?:([0-9.]+)s)?(?:([0-9.]+)ms)?",
)
PART = re.compile(r"(0|[1-9][0-9]{0,31})(\.[0-9]{1,31})?")
SHARE = re.compile(r"(0|[1-9][0-9]?|100)(\.[0-9]{1,2})?%")
SIZE = re.compile(r"(0|-?[1-9][0-9]{0,31})(kB|MB|GB|KiB|MiB|GiB)?")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[!-~]*@)?[A-Za-z0-9._~-]+(:[0-9]+)?([/?#][!-~]*)?")
UNITS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
BYTES = {None: 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
WORDS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(
    ("false", "0", "no", "off"), False
)


class Nothing(Exception):
    """The text is no value."""


def must(match: re.Match[str] | None) -> re.Match[str]:
    if match is None:
        raise Nothing
    return match


def number(text: str) -> Any:
    match = must(NUMBER.fullmatch(text))
    digits = sum(map(str.isdigit, text))
    if digits > 32 or text == "-0":
        raise Nothing
    value = Fraction(match[0])
    return int(value) if value.denominator == 1 else float(value)


def duration(facts: dict[str, Any], text: str) -> Any:
    if INTEGER.fullmatch(text):
        return int(text) * UNITS[facts.get("unit", "ms")]
    given = must(PARTS.fullmatch(text)).groups()
    parts = [(unit, part) for unit, part in zip(UNITS, given, strict=True) if part is not None]
    total = Fraction(0)
    for index, (unit, part) in enumerate(parts):
        fraction = must(PART.fullmatch(part))[2]
        if fraction and index < len(parts) - 1:
            raise Nothing
        total += Fraction(part) * UNITS[unit]
    if not parts or total.denominator != 1:
        raise Nothing
    return int(total)


def rollout(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    must(SHARE.fullmatch(text))
    share = Fraction(text[:-1])
    if share > 100:
        raise Nothing
    return f"{float(share):.2f}".rstrip("0").rstrip(".") + "%"


def items(facts: dict[str, Any], text: str) -> Any:
    if not text.startswith("["):
        parts = [part.strip(" \t\n\r\v\f") for part in text.split(",")]
        return [scalar(facts, facts["items"], must(re.match("[^ ].*|.", p))[0]) for p in parts]
    try:
        array = json.loads(text)
    except ValueError:
        raise Nothing from None
    if not all(isinstance(item, str) for item in array):
        raise Nothing  # of the types that the published lists have, each wants texts
    return [scalar(facts, facts["items"], item) for item in array]


def scalar(facts: dict[str, Any], kind: str, text: str) -> Any:
    if kind == "integer":
        return int(must(INTEGER.fullmatch(text))[0])
    if kind == "number":
        return number(text)
    if kind == "size":
        match = must(SIZE.fullmatch(text))
        return int(match[1]) * BYTES[match[2]]
    if kind == "boolean":
        must(re.fullmatch("|".join(WORDS), text.lower()))
        return WORDS[text.lower()]
    if kind == "enum":
        return {choice.lower(): choice for choice in facts["choices"]}[text.lower()]
    if kind == "url":
        return re.sub("//.*@", "//********@", must(URL.fullmatch(text))[0])
    other = {"duration": duration, "list": items}.get(kind)
    if other is not None:
        return other(facts, text)
    return rollout(text) if kind == "rollout" else text


def meaning(facts: dict[str, Any], text: str) -> dict[str, Any]:
    """What a text means by the contract: its status, and its canonical value."""
    trimmed = text.strip(" \t\n\r\v\f")
    if not trimmed:
        return {"status": "blank"}
    kept = text if facts["type"] == "string" else trimmed
    try:
        value = scalar(facts, facts["type"], kept)
    except (Nothing, KeyError):
        return {"status": "invalid"}
    for key, side in (("min", -1), ("max", 1)):
        if key in facts:
            bound = scalar(facts, facts["type"], str(facts[key]))
            if (value - bound) * side > 0:
                return {"status": "clamped", "value": bound}
    return {"status": "ok", "value": value}


@pytest.fixture(scope="module")
def vectors(root: Path) -> dict[str, Any]:
    """Return the published vectors."""
    document: dict[str, Any] = json.loads((root / "schema" / "vectors.json").read_text("utf-8"))
    return document


@pytest.fixture(scope="module")
def facts(root: Path) -> dict[str, dict[str, Any]]:
    """Return what the published contracts say about each setting, by name."""
    found = {}
    for target in ("relayconf", "relay"):
        contract = json.loads((root / "schema" / f"{target}.schema.json").read_text("utf-8"))
        for name, body in contract["properties"].items():
            found[name] = {**body["x-relayconf"], "default": body.get("default")}
    return found


class TestVectors:
    def test_texts_mean_what_they_say(
        self, vectors: dict[str, Any], facts: dict[str, dict[str, Any]]
    ) -> None:
        """Every parse and clamp vector follows from the contract."""
        given = [*vectors["parse"], *vectors["clamp"]]
        wrong = [
            vector
            for vector in given
            if meaning(facts[vector["name"]], vector["text"])
            != {key: vector[key] for key in ("status", "value") if key in vector}
        ]
        assert [] == wrong

    def test_canonical_texts_mean_the_value(
        self, vectors: dict[str, Any], facts: dict[str, dict[str, Any]]
    ) -> None:
        """The canonical text of a value is a text of the same value."""
        given = [vector for vector in vectors["parse"] if "text_out" in vector]
        wrong = [
            vector
            for vector in given
            if meaning(facts[vector["name"]], vector["text_out"]).get("value") != vector["value"]
        ]
        assert [] == wrong

    def test_rules_move_one_side(
        self, root: Path, vectors: dict[str, Any], facts: dict[str, dict[str, Any]]
    ) -> None:
        """Every rule vector follows from the rules of its contract, in their order."""
        contracts = [
            json.loads((root / "schema" / f"{target}.schema.json").read_text("utf-8"))
            for target in ("relay", "relayconf")
        ]
        rules = [rule for each in contracts for rule in each["x-relayconf"].get("rules", ())]
        defaults = {n: f["default"] for n, f in facts.items() if f["type"] == "duration"}
        for vector in vectors["rules"]:
            values = dict(defaults)
            for name, text in vector["set"].items():
                values[name] = meaning(facts[name], text)["value"]
            for rule in rules * 4:
                low, high = values[rule["low"]], values[rule["high"]]
                step = 1 if rule["strict"] else 0
                if low > high - step:
                    moved = high - step if rule["moves"] == rule["low"] else low + step
                    text = str(moved)
                    values[rule["moves"]] = meaning(facts[rule["moves"]], text)["value"]
            assert vector["values"] == {name: values[name] for name in vector["set"]}

    def test_shares_are_the_hash(self, vectors: dict[str, Any]) -> None:
        """Every share vector is the first 8 bytes of a SHA-256 against the share of 2^64."""
        for vector in vectors["share"]:
            digest = hashlib.sha256(f"{vector['flag']}:{vector['key']}".encode()).digest()
            point = int.from_bytes(digest[:8], "big")
            on = {share: point < Fraction(share[:-1]) / 100 * 2**64 for share in vector["on"]}
            assert vector["on"] == on

    def test_every_kind_is_there(
        self, vectors: dict[str, Any], facts: dict[str, dict[str, Any]]
    ) -> None:
        """Every type that a published setting has can be tried, and every bound."""
        kinds = {body["type"] for body in facts.values()} - {"secret"}
        assert kinds == {vector["type"] for vector in vectors["parse"]}
        bounded = {name for name, body in facts.items() if {"min", "max"} & set(body)}
        assert bounded == {vector["name"] for vector in vectors["clamp"]}
