"""Characters: which are white space, which letters are alike, and how a text is shown in a message.

White space and letter case are ASCII's and nothing else, so that a value means the same to every
implementation in every locale. What is shown is one line of printable characters, whatever was in
the text. Ground floor.
"""

from __future__ import annotations

#: What is trimmed around a value: ASCII white space.
WHITE = " \t\n\r\v\f"

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_KNOWN = {
    "\0": "a NUL character",
    "\t": "a tab",
    "\n": "a line feed",
    "\r": "a carriage return",
    " ": "a space",
    "\ufeff": "U+FEFF (a byte order mark: save the file without one)",
}


def is_blank(text: str) -> bool:
    """Whether a text is empty or nothing but ASCII white space, which means unset."""
    return not text.strip(WHITE)


def ascii_lower(text: str) -> str:
    """Return the text with ASCII capitals made small; every other character stays.

    ``str.lower`` would make a ``k`` of the Kelvin sign, and two characters of a dotted capital I.
    """
    return text.lower() if text.isascii() else text.translate(_LOWER)


def excerpt(text: str, limit: int = 60) -> str:
    """Return a text as a message may show it: printable, on one line, and bounded.

    Args:
        text: anything at all.
        limit: characters; a longer text is only counted (``<5000 characters>``).

    Returns:
        The text with control characters, surrogates and other unprintable ones escaped as Python
        writes them. What looks printable (quotes, backslashes, letters of any script) stays.
    """
    if len(text) > limit:
        return f"<{len(text)} characters>"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quote(text: str, limit: int = 60) -> str:
    """Return ``excerpt`` in quotes, or bare where it only counts."""
    return f"'{excerpt(text, limit)}'" if len(text) <= limit else excerpt(text, limit)


def name_character(char: str) -> str:
    """Return what to call one character in a message, so that look-alikes can be told apart."""
    if char in _KNOWN:
        return _KNOWN[char]
    if char.isascii() and char.isprintable():
        return f"'{char}'"
    code = ord(char)
    if is_stray_byte(char):
        return f"the byte 0x{code - 0xDC00:02X} (not UTF-8)"
    import unicodedata  # noqa: PLC0415 - a large table, and only wanted when a text is wrong

    name = unicodedata.name(char, "")
    coded = f"U+{code:04X} {name}".rstrip()
    return f"'{char}' ({coded})" if char.isprintable() else coded


def is_stray_byte(char: str) -> bool:
    """Whether a character stands for a byte that is not UTF-8, as ``os.environ`` hands it over."""
    return "\udc80" <= char <= "\udcff"
