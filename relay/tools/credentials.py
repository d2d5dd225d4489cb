"""Credentials: what ``${NAME}`` in a tools file stands for, and that no answer repeats it.

A name is looked for in the runner's environment, then in the file that ``NAME_FILE`` names there,
then in a file of that name in the directory of secrets, as ``relayconf`` finds secrets. Files are
read at each use, so that a rotated secret is in force at once. ``$$`` is a dollar sign.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from relay.tools.tables import Table
from relayconf.errors import SourceError
from relayconf.files.regular import read_regular, shown_path
from relayconf.files.secret import MAX_SECRET_BYTES
from relayconf.hidden import Hidden
from relayconf.secretnames import may_be_secret
from relayconf.setting import MASK

#: Where secrets arrive as files unless RELAYCONF_SECRETS_DIR says otherwise, as Compose has it.
SECRETS_DIR = "/run/secrets"

_REFERENCE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)\}|)")

#: Where something is may be a variable, too, and links in an answer lead there. One with a user, a
#: question, or a long or mixed word in its path may hold a key, as those of webhooks do.
_PLAIN_ADDRESS = re.compile(r"https?://[^@?/]*(?:/[a-z0-9._-]{0,12}){0,4}")

#: A shorter text is in many answers by chance, and masking it would only disfigure them.
_SHORTEST_MASKED = 4

#: So is a common word, a port or a folder; under a name that sounds like a secret's it is one yet.
_COMMON = re.compile(r"[a-z]{1,8}|[0-9]{1,5}|(?:/[a-z0-9._-]{0,12}){1,8}")


def is_credential(name: str, text: str) -> bool:
    """Tell whether what a name stands for is to be masked, as far as name and text tell."""
    return may_be_secret(name) or _COMMON.fullmatch(text) is None


class Unresolvable(ValueError):
    """A name stands for nothing, or for something that cannot be used; the message says why."""


class Credentials:
    """Resolves names against one environment, read when it is asked."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        #: Replaced as a whole, never changed: commands are masked in threads.
        self._seen: frozenset[str] = frozenset()

    def value(self, name: str) -> str:
        """Return what a name stands for.

        Raises:
            Unresolvable: nothing, or something empty or unreadable.
        """
        found = Hidden(self._find(name))
        if not found.strip():
            raise Unresolvable(f"${{{name}}} is blank")
        if any(ord(c) < 32 or ord(c) == 127 for c in found):
            raise Unresolvable(f"${{{name}}} holds a control character, such as a line end")
        if is_credential(name, found):
            self.never_show(found)
        return found

    def never_show(self, text: str) -> None:
        """Take a text for a secret that no answer may hold; a plain address is none."""
        if len(text) >= _SHORTEST_MASKED and _PLAIN_ADDRESS.fullmatch(text) is None:
            # Also as an answer may spell it: inside of JSON, or of a url.
            spelled = {text, json.dumps(text)[1:-1], quote(text, safe="")}
            if not spelled <= self._seen:
                self._seen |= spelled

    def never_show_variables(self, names: Iterable[str]) -> None:
        """Take the variables among these for secrets whose names say so."""
        for name in filter(may_be_secret, names):
            self.never_show(self._environ.get(name, ""))

    def longest(self) -> int:
        """Return the bytes of the longest text that is masked."""
        return max((len(secret.encode("utf-8", "replace")) for secret in self._seen), default=0)

    def masked(self, text: str) -> str:
        """Return a text without any secret that has been used so far."""
        # The longest first: a header's whole value may hold a secret that was named by itself.
        for secret in sorted(self._seen, key=len, reverse=True):
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def masked_within(self, value: Any) -> Any:
        """Return something that JSON can hold without any secret in its texts."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            return {self.masked(name): self.masked_within(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.masked_within(each) for each in value]
        return value

    def _find(self, name: str) -> str:
        own = self._environ.get(name, "")
        if own:
            return own
        path = self._environ.get(f"{name}_FILE", "").strip()
        if path:
            return _content(name, path)
        folder = self._environ.get("RELAYCONF_SECRETS_DIR", "").strip() or SECRETS_DIR
        for file in _named_like(name, folder):
            return _content(name, file)
        raise Unresolvable(
            f"${{{name}}} is not set: set {name} in the runner's environment, or {name}_FILE to a "
            f"file that holds it, or put it into {shown_path(folder)}/{name.lower()}"
        )


def _named_like(name: str, folder: str) -> Iterator[str]:
    """Yield the files of a directory that are called like a name, the exact one first."""
    try:
        files = os.listdir(folder)
    except (OSError, ValueError):
        return
    for file in sorted(files, key=lambda file: (file != name, file)):
        if file.upper() == name.upper():
            yield os.path.join(folder, file)


def _content(name: str, path: str) -> str:
    try:
        text = read_regular(path, limit=MAX_SECRET_BYTES).decode("utf-8")
    except SourceError as error:
        raise Unresolvable(f"${{{name}}}: {error}") from None
    except UnicodeDecodeError as error:
        where = f"{shown_path(path)}: not UTF-8 at byte {error.start}"
        raise Unresolvable(f"${{{name}}}: {where}") from None
    return text.removesuffix("\n").removesuffix("\r")


class Template:
    """A text with ``${NAME}`` in it.

    Raises:
        ValueError: a dollar sign in it begins no such name.
    """

    def __init__(self, text: str, credentials: Credentials) -> None:
        self._text = text
        self._credentials = credentials
        if any(match[0] == "$" for match in _REFERENCE.finditer(text)):
            raise ValueError("a '$' begins ${NAME}, or is written '$$'")
        self.names = [match[2] for match in _REFERENCE.finditer(text) if match[2]]

    def fill(self) -> str:
        """Return the text with what its names stand for now.

        Raises:
            Unresolvable: one of them stands for nothing.
        """
        if "$" not in self._text:
            return self._text
        values = {name: self._credentials.value(name) for name in self.names}
        filled = _REFERENCE.sub(lambda match: "$" if match[1] else values[match[2]], self._text)
        if any(is_credential(name, text) for name, text in values.items()):
            self._credentials.never_show(filled)
        return Hidden(filled) if self.names else filled


def template(text: str, credentials: Credentials, table: Table, key: str) -> Template | None:
    """Read a template of a tools file, and see that its names stand for something now."""
    try:
        made = Template(text, credentials)
    except ValueError as error:
        table.fault(f"{key}: {error}", key.partition(".")[0])
        return None
    for name in made.names:
        try:
            credentials.value(name)
        except Unresolvable as error:
            table.fault(f"{key}: {error}", key.partition(".")[0])
    return made
