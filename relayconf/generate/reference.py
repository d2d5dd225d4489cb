"""The reference: a page for a person, with a table at the top and one heading for each variable."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayconf import wording
from relayconf.generate import phrases
from relayconf.generate.env_example import dotenv_text
from relayconf.names import fileable
from relayconf.setting import Contract, Setting

_NAME = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*\b")
_SPECIAL = re.compile(r"[\\`*{}\[\]<>|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_AT_START = re.compile(r"^(?:[#+=-]|[0-9]+[.)])")


def reference(contract: Contract) -> str:
    """Return the whole page, in GitHub's Markdown."""
    return "\n".join(_lines(contract)) + "\n"


def escaped(text: str) -> str:
    """Return plain text as Markdown that shows exactly it, in one paragraph."""
    plain = " ".join(text.split())
    plain = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in plain)
    plain = _SPECIAL.sub(lambda match: f"\\{match.group()}", plain)
    return _AT_START.sub(lambda match: f"{match.group()[:-1]}\\{match.group()[-1]}", plain)


def code(text: str) -> str:
    """Return text as an inline code span, whatever backticks are in it."""
    if not text:
        return ""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    longest = max(map(len, re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if "`" in (shown[0], shown[-1]) or shown.isspace() else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _lines(contract: Contract) -> Iterator[str]:
    yield f"# Settings of {escaped(contract.target)}"
    yield ""
    yield "<!-- Generated from the declaration by `relayconf generate`; edit that instead. -->"
    yield ""
    yield (
        "A value is text, and the whole of it is valid or it is not used: then the next lower "
        "layer decides. A blank is unset. White space around a value does not count, except in a "
        f"string or a secret. {code(f'relayconf explain {_first(contract)}')} says what a setting "
        "is now, and why."
    )
    yield ""
    yield from _table(contract)
    for setting in contract.settings.values():
        yield ""
        yield from _section(setting, contract)


def _first(contract: Contract) -> str:
    return next(iter(contract.settings), "NAME")


def _table(contract: Contract) -> Iterator[str]:
    yield "| name | type | default | range | applies |"
    yield "|---|---|---|---|---|"
    for setting in contract.settings.values():
        kind = f"list of {setting.items}" if setting.type == "list" else setting.type
        default = "" if setting.default is None else wording.value(setting, setting.default)
        cells = (
            _link(setting.name),
            f"{kind}, flag" if setting.flag else kind,
            _cell(default),
            _cell(phrases.span(setting)),
            "live" if setting.live else "next start",
        )
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    # A table's cells are split before code spans are looked for.
    return code(text).replace("|", "\\|")


def _section(setting: Setting, contract: Contract) -> Iterator[str]:
    yield f"## {escaped(setting.name)}"
    for text in (setting.doc, *re.split(r"\n\s*\n", setting.description.strip())):
        if text.strip():
            yield ""
            yield _linked(text, setting, contract)
    yield ""
    for label, shown in _facts(setting, contract):
        yield f"* **{label}**: {shown}"
    sample = setting.example or phrases.sample(setting)
    if sample is not None and not setting.secret:
        yield ""
        yield from _block(f"{setting.name}={dotenv_text(sample)}")


def _facts(setting: Setting, contract: Contract) -> Iterator[tuple[str, str]]:
    yield "Valid values", escaped(phrases.accepts(setting))
    limits, default = phrases.limits(setting), phrases.default(setting)
    if limits:
        yield "Range", escaped(limits)
    for rule in wording.rules(setting, contract):
        yield "Rule", _linked(rule, setting, contract)
    yield "Default", code(default) if default else "none"
    unit = setting.unit or ("bytes" if setting.type == "size" else None)
    if unit:
        yield "Unit of a bare number", escaped(unit)
    if phrases.jitter(setting):
        yield "Jitter", escaped(phrases.jitter(setting) or "")
    yield "Applies", phrases.when(setting)
    if fileable(setting):
        name = code(f"{setting.name}_FILE")
        yield "As a file", f"{name} names it, or a Compose secret is called {code(setting.name)}"
    if setting.allow_blank:
        yield "Blank", "is a value"
    for label, values in (("Legacy name", setting.legacy), ("Groups", setting.groups)):
        if values:
            mark = "@" if label == "Groups" else ""
            yield label, ", ".join(code(f"{mark}{value}") for value in values)
    for label, value in (("Owner", setting.owner), ("Since", setting.since)):
        if value:
            yield label, escaped(value)
    if setting.flag is not None:
        yield from ((label, escaped(text)) for label, text in phrases.flag(setting, setting.flag))


def _block(text: str) -> Iterator[str]:
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}sh"
    yield text
    yield fence


def _link(name: str) -> str:
    return f"[{code(name)}](#{name.lower()})"


def _linked(text: str, own: Setting, contract: Contract) -> str:
    """Return prose in which the names of other settings lead to them."""
    parts = []
    end = 0
    plain = " ".join(text.split())
    for match in _NAME.finditer(plain):
        name = match.group()
        if name not in contract.settings:
            continue
        before = plain[end : match.start()]
        parts.append(_kept(before) + (code(name) if name == own.name else _link(name)))
        end = match.end()
    return "".join([*parts, _kept(plain[end:])]) if parts else escaped(plain)


def _kept(text: str) -> str:
    """Escape a piece of a paragraph, keeping the white space at its ends."""
    lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return lead + escaped(text) + tail if text.strip() else text
