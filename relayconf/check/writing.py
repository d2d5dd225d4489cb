"""Fixes: the one line to paste, in the style of what stands at the place.

Nothing that may be a secret is written into one: the caller passes such a text as None.
"""

from __future__ import annotations

import json
import re

from relayconf.check.finding import Place
from relayconf.check.texts import Texts
from relayconf.compose.scalars import ScalarError, render, resolve

_PLAIN_ENV = re.compile(r"[\w./:@%+,=-]*", re.ASCII)
_PLAIN_YAML = re.compile(r"[A-Za-z0-9_./][\w./:%+,@=-]*", re.ASCII)
_SETTINGS = (".toml", ".json", ".yaml", ".yml")


def is_listed(texts: Texts, place: Place, name: str) -> bool:
    """Whether a variable stands in a compose file as an item (``- NAME=value``), not as a key."""
    pattern = rf"""["']?{re.escape(name)}["']?\s*:(?:\s|\Z)"""
    return re.match(pattern, texts.after(place)) is None


def assignment(
    texts: Texts, place: Place, name: str, text: str, *, written: str | None = None
) -> str:
    """The line that gives a variable a text.

    Args:
        texts: the files.
        place: where the line goes; its style is that of what stands there.
        name: the variable.
        text: its value.
        written: the name that stands there now, where it is another one.
    """
    if texts.is_env_file(place.file):
        return f"{name}={env_text(text)}"
    if place.file in texts.contents:
        doubled = text.replace("$", "$$")
        if is_listed(texts, place, written or name):
            whole = f"{name}={doubled}"
            return f"- {whole if _is_plain_yaml(whole) else json.dumps(whole, ensure_ascii=False)}"
        return f"{name}: {_yaml_text(doubled)}"
    if place.file.endswith(_SETTINGS):
        return f"{name} = {json.dumps(text, ensure_ascii=False)}"
    return f"export {name}={env_text(text)}"


def passed_on(texts: Texts, place: Place, name: str) -> str:
    """The entry without a value, in the style of what stands at the place."""
    return f"- {name}" if is_listed(texts, place, name) else f"{name}:"


def left_out(texts: Texts, place: Place, name: str) -> str:
    """The line that takes a variable out, so that its default is in force."""
    if place.file in texts.contents:
        return f"# {name}"
    return f"unset {name}"


def env_text(text: str) -> str:
    """A text as an env file holds it, read the same by Compose and by python-dotenv."""
    if _PLAIN_ENV.fullmatch(text):
        return text
    if "'" not in text and "\n" not in text and "\\" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"{}"'.format(escaped.replace("$", "\\$"))


def _yaml_text(text: str) -> str:
    return text if _is_plain_yaml(text) else json.dumps(text, ensure_ascii=False)


def _is_plain_yaml(text: str) -> bool:
    """Whether a text stands for itself without quotes, typing included."""
    if not _PLAIN_YAML.fullmatch(text) or text.endswith(":"):
        return False
    try:
        return render(resolve(text)[1]) == text
    except ScalarError:
        return False
