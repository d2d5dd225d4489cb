"""Wording: values and finds in the words that a person reads on a terminal.

For people only; programs read ``relayconf.answers``. Nothing here shows a secret. Ground floor.
"""

from __future__ import annotations

from typing import List, Optional, Tuple, cast

from relayconf.setting import Contract, Flag, Rule, Setting, Value
from relayconf.values import excerpt, present, render

_DURATION_STEPS = ((3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))
_SIZE_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def value(setting: Setting, canonical: Optional[Value]) -> str:
    """Return a value as one would say it: ``1m30s``, ``4MiB``, ``true``; ``-`` where unset."""
    if canonical is None:
        return "-"
    if setting.secret or setting.type == "url":
        return str(present(setting, canonical))
    if setting.type == "list" and setting.items == "url":
        return excerpt(",".join(cast("List[str]", present(setting, canonical)))) or "''"
    if setting.type == "duration":
        return duration(cast(int, canonical))
    if setting.type == "size":
        return size(cast(int, canonical))
    text = render(setting, canonical)
    return excerpt(text) if text else "''"


def duration(milliseconds: int) -> str:
    """Return a duration with units, each part at most once."""
    rest = abs(milliseconds)
    parts = []
    for step, unit in _DURATION_STEPS:
        count, rest = divmod(rest, step)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if milliseconds < 0 else "") + ("".join(parts) or "0ms")


def size(number: int) -> str:
    """Return a size in the largest unit that divides it."""
    for step, unit in _SIZE_STEPS:
        if number and number % step == 0:
            return f"{number // step}{unit}"
    return str(number)


def allowed(setting: Setting) -> str:
    """Return what a setting accepts, in one phrase."""
    kind = {"enum": f"one of {', '.join(setting.choices)}"}.get(setting.type, setting.type)
    if setting.type == "list":
        kind = f"list of {setting.items}"
    if setting.unit:
        kind += f", a bare number is in {setting.unit}"
    low, high = setting.minimum, setting.maximum
    if low is not None and high is not None:
        kind += f", {value(setting, low)} to {value(setting, high)}"
    elif low is not None:
        kind += f", at least {value(setting, low)}"
    elif high is not None:
        kind += f", at most {value(setting, high)}"
    return kind


def source(layer: str, origin: Optional[str]) -> str:
    """Return where a value comes from, without saying the same word twice."""
    if origin is None or origin in ("", layer):
        return layer
    return origin if origin.startswith(f"{layer}#") else f"{layer} {origin}"


def facts(setting: Setting) -> List[Tuple[str, str]]:
    """Return what is declared about a setting, label and text, for a person to read."""
    rows = [("accepts", allowed(setting))]
    if setting.minimum is not None or setting.maximum is not None:
        outside = "is invalid" if setting.reject else "counts as the nearest bound"
        rows.append(("outside", f"a value outside the range {outside}"))
    rows.append(("default", value(setting, setting.default)))
    rows.append(("applies", "live" if setting.live else "at the next start"))
    if setting.legacy:
        rows.append(("legacy name", ", ".join(setting.legacy)))
    if setting.groups:
        rows.append(("groups", ", ".join(f"@{group}" for group in setting.groups)))
    if setting.jitter:
        low, high = (f"{fraction:+.0%}" for fraction in setting.jitter)
        rows.append(("jitter", f"each draw between {low} and {high}"))
    if setting.example:
        rows.append(("example", f"{setting.name}={setting.example}"))
    if setting.flag:
        flag = setting.flag
        rows.append(("flag", f"{flag.kind}, owned by {flag.owner}"))
        rows.append(("expires", flag.expires or f"never: {flag.why}"))
        rows.append(("when killed", value(setting, flag.kill)))
        if flag.blind != "hold":
            rows.append(("when blind", blind(setting, flag)))
    return rows


def blind(setting: Setting, flag: Flag) -> str:
    """Return what a flag does where its process has heard nothing of its fleet for too long."""
    if flag.blind == "safe":
        return f"its safe value, {value(setting, flag.kill)}"
    return "what is configured" if flag.blind == "default" else "what was in force"


def rules(setting: Setting, contract: Contract) -> List[str]:
    """Return the rules that tie a setting to another one."""
    own = (rule for rule in contract.rules if setting.name in (rule.low, rule.high))
    return [_rule(rule, setting.name) for rule in own]


def _rule(rule: Rule, name: str) -> str:
    relation = ("below" if rule.strict else "at most", "above" if rule.strict else "at least")
    other = rule.high if name == rule.low else rule.low
    how = relation[0] if name == rule.low else relation[1]
    moved = "this one" if rule.moves == name else "the other"
    return f"{how} {other}; where it is not, {moved} is moved"
