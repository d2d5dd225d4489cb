"""Vectors: texts with their right answers, for implementations in other languages.

Every answer is computed by this package from the declared settings, so the file never claims more
than the code does. Parse vectors come for one setting of each type, clamp vectors for each bound,
rule vectors by pair, share vectors by flag and key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from relayconf.layers import Entry, Layer
from relayconf.resolve import resolve
from relayconf.setting import ORDERED_TYPES, Contract, Setting
from relayconf.share import decide
from relayconf.values import Invalid, Parsed, clamp, is_blank, parse, present, render
from relayconf.values.duration import UNITS

#: Texts that other libraries are known to misread; each is tried on every type.
_TEXTS = (
    *("0", "1", "-1", "5", "250", "-5", "007", "08", "010", "1_000", "+5", "0x10", "1e3", "5.0"),
    *(
        "1.5",
        "-0",
        "\u0663\u0660",
        "\uff15",
        "\u00b2",
        "NaN",
        "inf",
        "1e400",
        '"5"',
        "30 #note",
        "30000junk",
    ),
    *("25s", "1h30m", "1.5s", "300ms", "1m30s", "1s1h", "1m1m", "-5s", "5sjunk", "junk5s", "1S"),
    *("64KiB", "10kB", "1GiB", "10 kB", "4mib", "1.5MiB"),
    *("true", "FALSE", "Yes", "off", "truee", "disabled", "2"),
    *("25%", "12.25%", "12.50%", "0%", "100%", "100.5%", "-1%", "1.234%"),
    *("a,b", "a, b", "a,,b", '["a","b"]', "[1]", " 250\r", "\t", ""),
    *("https://example.com/x", "https://user:pass@example.com", "example.com", "/srv/data"),
    "9" * 33,
)

#: Keys whose share is worth pinning: plain, empty, long, and not ASCII.
_KEYS = ("session-1", "session-2", "a", "", "0123456789" * 10, "sitzung-ä")
_SHARES = ("0%", "0.01%", "12.25%", "25%", "50%", "99.99%", "100%")


def vectors(contracts: Sequence[Contract]) -> dict[str, Any]:
    """Return the whole document."""
    settings = [s for contract in contracts for s in contract.settings.values()]
    flags = [s for s in settings if s.type == "rollout"]
    return {
        "about": "Generated: texts and what they mean. 'value' is canonical (milliseconds, bytes); "
        "'status' is ok, clamped, blank or invalid.",
        "parse": [vector for setting in _one_of_each(settings) for vector in _parse(setting)],
        "clamp": [vector for setting in settings for vector in _clamp(setting)],
        "rules": [vector for contract in contracts for vector in _rules(contract)],
        "share": [vector for flag in flags for vector in _share(flag)],
    }


def _one_of_each(settings: Iterable[Setting]) -> Iterable[Setting]:
    """Yield one setting for each type and unit, the first declared; secrets have no vectors."""
    seen = set()
    for setting in settings:
        kind = (setting.type, setting.unit, setting.items)
        if kind not in seen and not setting.secret:
            seen.add(kind)
            yield setting


def _parse(setting: Setting) -> Iterable[dict[str, Any]]:
    # Of an enum its members, in another case, and what is nearly one.
    words = [word for c in setting.choices for word in (c, c.swapcase(), c[:-1], f"{c}s")]
    for text in dict.fromkeys((*_TEXTS, *words)):
        yield {"name": setting.name, "type": setting.type, "text": text, **_meaning(setting, text)}


def _clamp(setting: Setting) -> Iterable[dict[str, Any]]:
    """Yield what becomes of each bound, and of the value one bare unit beyond it."""
    step = UNITS[setting.unit or "ms"] if setting.type == "duration" else 1
    for bound, beyond in ((setting.minimum, -step), (setting.maximum, step)):
        for value in () if bound is None else (bound, bound + beyond):
            text = render(setting, value)
            if parse(setting, text) == Parsed(value):
                yield {"name": setting.name, "text": text, **_meaning(setting, text)}


def _meaning(setting: Setting, text: str) -> dict[str, Any]:
    if is_blank(text) and not setting.allow_blank:
        return {"status": "blank"}
    outcome = parse(setting, text)
    if isinstance(outcome, Invalid):
        return {"status": "invalid"}
    value, bound = clamp(setting, outcome.value)
    if bound is not None and setting.reject:
        return {"status": "invalid"}
    answer = {"value": present(setting, value), "text_out": render(setting, value)}
    return {"status": "ok" if bound is None else "clamped", **answer}


def _rules(contract: Contract) -> Iterable[dict[str, Any]]:
    for rule in contract.rules:
        low, high = contract.settings[rule.low], contract.settings[rule.high]
        if low.type not in ORDERED_TYPES or low.maximum is None or high.minimum is None:
            continue
        for low_value, high_value in ((low.maximum, high.minimum), (low.minimum, high.maximum)):
            if low_value is None or high_value is None:
                continue
            given = {rule.low: render(low, low_value), rule.high: render(high, high_value)}
            entries = tuple(Entry(name, text, "vector") for name, text in given.items())
            values = resolve(contract, [Layer("option", entries)]).values
            yield {"set": given, "values": {name: values[name] for name in given}}


def _share(flag: Setting) -> Iterable[dict[str, Any]]:
    for key in _KEYS:
        on = {share: decide(flag.name, key, share) for share in _SHARES}
        yield {"flag": flag.name, "key": key, "on": on}
