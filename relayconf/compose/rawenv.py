"""Reads an env file in Compose's raw format, which is also that of ``docker run --env-file``.

No quotes, no variables, no comments behind a value: a line is a key, ``=`` and the rest as it is.
Any bytes give entries or one ``ComposeError``. No message quotes a value.
"""

from __future__ import annotations

from relayconf.compose.dotenv import SPACE, EnvEntry, Lookup, named
from relayconf.compose.errors import ComposeError

#: Compose reads lines through a Go scanner whose buffer is this long, line feed included.
LONGEST_LINE = 65536


def parse_raw(data: bytes, *, path: str, lookup: Lookup) -> list[EnvEntry]:
    """Parse an env file in the raw format.

    Args:
        data: the content of the file, any bytes.
        path: how messages and origins name the file.
        lookup: answers the variables of the layer above; the only source of a bare key.

    Returns:
        Every assignment in file order; ``form`` is ``raw`` or ``bare``.

    Raises:
        ComposeError: a key is missing or has white space in it, a line is too long or not UTF-8.
    """
    entries: list[EnvEntry] = []
    for number, encoded in enumerate(data.split(b"\n"), start=1):
        entry = _line(encoded, number, path, lookup)
        if entry is not None:
            entries.append(entry)
    return entries


def _line(encoded: bytes, number: int, path: str, lookup: Lookup) -> EnvEntry | None:
    if len(encoded) >= LONGEST_LINE:
        raise _refuse(f"token too long: a line has {len(encoded)} bytes", path, number, 1)
    if encoded.endswith(b"\r"):
        encoded = encoded[:-1]
    try:
        text = encoded.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(encoded[: error.start].decode("utf-8")) + 1
        raise _refuse("invalid utf8 bytes", path, number, column) from None
    if number == 1 and text.startswith("\ufeff"):
        text = text[1:]
    stripped = text.lstrip(SPACE)
    if not stripped or stripped[0] == "#":
        return None
    column = len(text) - len(stripped) + 1
    key, separator, value = stripped.partition("=")
    if not key:
        raise _refuse("no variable name before =", path, number, column)
    if " " in key or "\t" in key:
        raise _refuse(f"variable {named(key)} contains whitespaces", path, number, column)
    if not separator:
        return EnvEntry(key, lookup(key), "", number, column, "bare")
    return EnvEntry(key, value, value, number, column, "raw")


def _refuse(message: str, path: str, line: int, column: int) -> ComposeError:
    return ComposeError(message, kind="raw", origin=f"{path}:{line}:{column}")
