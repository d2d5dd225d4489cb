"""Phrases: what is declared about a setting, in the sentences that generated files share.

Written for somebody who has never seen the setting. Nothing here shows a secret: a default that
holds one is masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relayconf import wording
from relayconf.setting import Flag, Setting
from relayconf.values import is_blank, mask_userinfo, render
from relayconf.values.words import BOOLEANS

_SCALARS = {
    "integer": "an integer",
    "number": "a number like 2 or 1.5, without exponent",
    "size": "an integer in bytes, or with a unit: kB, MB, GB, KiB, MiB, GiB",
    "rollout": "true, false, or a share of keys from 0% to 100% with at most two decimals",
    "string": "any text",
    "secret": "any text that is not blank",
    "path": "a path",
    "url": "a url with its scheme, like https://example.com/",
}


def accepts(setting: Setting) -> str:
    """Return what texts a setting accepts, its range aside."""
    if setting.type == "list":
        item = _scalar(setting, setting.items)
        return f"items with commas between them, or a JSON array; each is {item}"
    return _scalar(setting, setting.type)


def limits(setting: Setting) -> str | None:
    """Return the range and what becomes of a value outside it; ``None`` where there is none."""
    low, high = (None if b is None else wording.value(setting, b) for b in _bounds(setting))
    outside = "is refused" if setting.reject else "counts as the nearest bound"
    if low is not None and high is not None:
        return f"{low} to {high}; a value outside {outside}"
    if low is not None:
        return f"at least {low}; a value below {outside}"
    return None if high is None else f"at most {high}; a value above {outside}"


def span(setting: Setting) -> str:
    """Return the range alone, short enough for a table."""
    low, high = ("" if b is None else wording.value(setting, b) for b in _bounds(setting))
    return f"{low}..{high}" if low or high else ""


def default(setting: Setting) -> str | None:
    """Return the default as one would say it; ``None`` where nothing is set without a value."""
    if setting.default is None:
        return None
    if setting.default == ():
        return "none (an empty list)"
    return "an empty text" if setting.default == "" else wording.value(setting, setting.default)


def sample(setting: Setting) -> str | None:
    """Return a text that may stand in an example file: the default, else the declared example.

    ``None`` where there is neither, or where it would show a password.
    """
    text = setting.example
    if setting.default is not None:
        own = render(setting, setting.default)
        text = own if own != "[]" and not is_blank(own) else text
    if text is None or setting.secret:
        return None
    urls = "url" in (setting.type, setting.items)
    return None if urls and (mask_userinfo(text) != text or "@" in text) else text


def when(setting: Setting) -> str:
    """Return when a change takes effect."""
    return "live, in a running process" if setting.live else "at the next start"


def jitter(setting: Setting) -> str | None:
    """Return how a value is spread; ``None`` where it is not."""
    if setting.jitter is None:
        return None
    low, high = (f"{fraction * 100:+.4g} %" for fraction in setting.jitter)
    return f"each use is drawn between {low} and {high} of the value, within the range"


def flag(setting: Setting, own: Flag) -> list[tuple[str, str]]:
    """Return what makes a setting a flag, label and text."""
    ends = f"{own.expires} is its last day" if own.expires else f"never: {own.why}"
    if own.expires and own.why:
        ends += f" ({own.why})"
    rows = [("Flag", f"{own.kind}, owned by {own.owner}"), ("Expires", ends)]
    rows.append(("When killed", wording.value(setting, own.kill)))
    if own.breaker is not None:
        rows.append(("Kills itself", _breaker(own)))
    if own.blind != "hold":
        rows.append(("When blind", wording.blind(setting, own)))
    return rows


def groups(settings: Iterable[Setting]) -> dict[str, list[Setting]]:
    """Return settings by their first group, those without one first, under an empty name."""
    found: dict[str, list[Setting]] = {"": []}
    for setting in settings:
        found.setdefault(setting.groups[0] if setting.groups else "", []).append(setting)
    return {name: members for name, members in found.items() if members}


def _bounds(setting: Setting) -> Sequence[float | None]:
    return (setting.minimum, setting.maximum)


def _scalar(setting: Setting, kind: str) -> str:
    if kind == "duration":
        unit = setting.unit or "ms"
        return f"an integer in {unit}, or parts like 1h30m, 25s, 1.5s, 300ms"
    if kind == "enum":
        return f"one of {', '.join(setting.choices)} (in any case)"
    if kind == "boolean":
        return f"one of {', '.join(BOOLEANS)} (in any case)"
    unit = f", in {setting.unit}" if setting.unit else ""
    return _SCALARS[kind] + unit


def _breaker(own: Flag) -> str:
    facts = own.breaker or {}
    share, window = f"{facts['share'] * 100:.4g} %", wording.duration(int(facts["window_ms"]))
    parties = f"at least {facts['at_least']} parties and {share} of the live ones"
    return f"when {parties} report '{facts['event']}' within {window}"
