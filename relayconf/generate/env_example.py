"""The example env file: every setting as a commented-out entry, with all that is known about it.

An entry is ``#NAME=text``, without a space, and shows the default, or an example where there is
none; prose is ``# text``. A secret has no text.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from relayconf import wording
from relayconf.generate import phrases
from relayconf.names import fileable
from relayconf.setting import Contract, Setting

_WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z0-9_./:,+%@~^=-]*")
_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "$": "\\$",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def env_example(contract: Contract) -> str:
    """Return the whole file, in the dialect in which Compose reads env files."""
    return "\n".join([*_head(contract), *_body(contract)]) + "\n"


def dotenv_text(text: str) -> str:
    """Return a text as an env file has to write it, on one line, so that it is read as it is."""
    if _PLAIN.fullmatch(text):
        return text
    if "'" not in text and "\\" not in text and text.isprintable():
        return f"'{text}'"
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'


def _head(contract: Contract) -> Iterator[str]:
    yield from _prose(
        f"Every setting of {contract.target}. Generated from its declaration by 'relayconf "
        "generate'; copy it, and edit the copy.",
        indent="",
    )
    yield "#"
    yield from _prose(
        "An entry that is commented out shows the default, or an example where there is none; a "
        "secret shows nothing. 'relayconf show TARGET --env-file FILE' says what a file sets.",
        indent="",
    )


def _body(contract: Contract) -> Iterator[str]:
    for group, settings in phrases.groups(contract.settings.values()).items():
        if group:
            yield ""
            yield f"# ---- @{group} " + "-" * max(4, 60 - len(group))
        for setting in settings:
            yield ""
            yield from _prose(setting.doc or setting.name, indent="")
            yield from _prose(setting.description, indent="")
            for label, text in _facts(setting, contract):
                yield from _prose(f"{label}: {text}", indent="  ")
            yield _entry(setting)


def _entry(setting: Setting) -> str:
    return f"#{setting.name}={dotenv_text(phrases.sample(setting) or '')}"


def _facts(setting: Setting, contract: Contract) -> Iterator[tuple[str, str]]:
    yield "accepts", phrases.accepts(setting)
    limits, default = phrases.limits(setting), phrases.default(setting)
    if limits:
        yield "range", limits
    for rule in wording.rules(setting, contract):
        yield "rule", rule
    yield "default", default or "none"
    yield "applies", phrases.when(setting)
    if fileable(setting):
        yield "as a file", f"{setting.name}_FILE=/path, or a Compose secret called {setting.name}"
    if setting.legacy:
        yield "legacy name", ", ".join(setting.legacy)
    if setting.flag is not None:
        yield from ((label.lower(), text) for label, text in phrases.flag(setting, setting.flag))


def _prose(text: str, *, indent: str) -> Iterator[str]:
    """Yield comment lines; a line that continues one with a label is indented further."""
    first, rest = f"# {indent}", f"# {indent}{'  ' if indent else ''}"
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        shown = "".join(c if c.isprintable() or c.isspace() else ascii(c)[1:-1] for c in paragraph)
        yield from textwrap.wrap(
            shown, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
