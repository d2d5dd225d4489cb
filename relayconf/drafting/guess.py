"""Guessing what a variable is from its name and the values that it has somewhere.

A guess is only made where every value that was seen is valid under it, so that a draft never
contradicts the files that it was made from. What may be a secret is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from relayconf.check.hiding import HASH
from relayconf.secretnames import may_be_secret
from relayconf.setting import Setting
from relayconf.values import Parsed, is_blank, mask_userinfo, parse

_WORDS = frozenset({"true", "false", "yes", "no", "on", "off"})
_SWITCH = re.compile(r"(?:^|_)(?:ENABLED?|DISABLED?|DEBUG|VERBOSE|DRY_RUN)\Z")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S")
_PATH_NAME = re.compile(r"(?:^|_)(?:PATH|DIR|DIRECTORY|FILE|FOLDER|ROOT|HOME)\Z")
_TIME_NAME = re.compile(
    r"_(?P<ms>MS|MSEC|MILLIS|MILLISECONDS)\Z|_(?P<s>S|SEC|SECS|SECONDS)\Z"
    r"|_(?P<m>MINS?|MINUTES)\Z|_(?P<h>HOURS?)\Z"
)
_TIME_VALUE = re.compile(r"(?:\d+(?:\.\d+)?(?:h|m|s|ms))+\Z", re.ASCII)
_SIZE_NAME = re.compile(r"_BYTES\Z")
_SIZE_VALUE = re.compile(r"\d+(?:kB|MB|GB|KiB|MiB|GiB)\Z", re.ASCII)
_INTEGER = re.compile(r"-?\d+\Z", re.ASCII)
_NUMBER = re.compile(r"-?\d+\.\d+\Z", re.ASCII)
_LIST = re.compile(r"[^,\s\[]+(?:,[^,\s]+)+\Z")
_LEVELS = ("trace", "debug", "info", "notice", "warn", "warning", "error", "critical", "fatal")
_LEVEL_NAME = re.compile(r"(?:^|_)LOG_?LEVEL\Z|_LOGLEVEL\Z")

Guess = Callable[[str, Sequence[str]], "Setting | None"]


def guessed(name: str, texts: Sequence[str]) -> Setting:
    """Guess a setting.

    Args:
        name: the variable.
        texts: the values that it has, anywhere; blank ones say nothing.

    Returns:
        A setting without default and documentation; a string where nothing else fits.
    """
    if may_be_secret(name) and not _PATH_NAME.search(name):
        return Setting(name, "secret")
    seen = [text for text in texts if not is_blank(text)]
    for guess in (_boolean, _level, _duration, _size, _number, _url, _path, _list):
        setting = guess(name, seen)
        if setting is not None and all(isinstance(parse(setting, t), Parsed) for t in seen):
            return setting
    return Setting(name, "string", allow_blank=bool(texts) and not seen)


def holds_secret(setting: Setting, text: str) -> bool:
    """Whether a value is not to be written down."""
    return setting.secret or mask_userinfo(text) != text or HASH.search(text) is not None


def _boolean(name: str, texts: Sequence[str]) -> Setting | None:
    words = {text.strip().lower() for text in texts}
    named = _SWITCH.search(name) is not None and words <= _WORDS | {"0", "1"}
    return Setting(name, "boolean") if named or (words and words <= _WORDS) else None


def _level(name: str, texts: Sequence[str]) -> Setting | None:
    words = {text.strip().lower() for text in texts}
    if _LEVEL_NAME.search(name) is None or not words or not words <= set(_LEVELS):
        return None
    usual = {"debug", "info", "error", "warn" if "warn" in words else "warning"}
    return Setting(name, "enum", choices=tuple(w for w in _LEVELS if w in words | usual))


def _duration(name: str, texts: Sequence[str]) -> Setting | None:
    match = _TIME_NAME.search(name)
    if match is not None:
        return Setting(name, "duration", unit=match.lastgroup)
    if any(_TIME_VALUE.match(text) for text in texts):
        return Setting(name, "duration", unit="ms")
    return None


def _size(name: str, texts: Sequence[str]) -> Setting | None:
    sized = any(_SIZE_VALUE.match(text) for text in texts)
    return Setting(name, "size") if sized or _SIZE_NAME.search(name) else None


def _number(name: str, texts: Sequence[str]) -> Setting | None:
    if texts and all(_INTEGER.match(text) for text in texts):
        return Setting(name, "integer")
    numeric = texts and all(_INTEGER.match(text) or _NUMBER.match(text) for text in texts)
    return Setting(name, "number") if numeric else None


def _url(name: str, texts: Sequence[str]) -> Setting | None:
    is_one = texts and all(_URL.match(text) for text in texts)
    return Setting(name, "url") if is_one else None


def _path(name: str, texts: Sequence[str]) -> Setting | None:
    there = texts and all(text.startswith(("/", "./", "../", "~/")) for text in texts)
    return Setting(name, "path") if there and _PATH_NAME.search(name) else None


def _list(name: str, texts: Sequence[str]) -> Setting | None:
    is_one = texts and any(_LIST.match(text) for text in texts)
    return Setting(name, "list", items="string") if is_one else None
