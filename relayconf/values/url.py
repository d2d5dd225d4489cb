"""Urls: ``scheme://authority`` and what follows, by RFC 3986 with a few things settled.

* The scheme is a letter, then letters, digits, ``+ - .``; ``://`` follows it.
* The authority ends at the first ``/``, ``?`` or ``#``. What stands before its last ``@`` is the
  userinfo, which is a secret: it is masked wherever a url is shown, and no reason holds any of it.
* The rest of the authority is one host, or several with commas between (as database clients write
  them), each with an optional ``:port`` of 1 to 65535. A host is letters, digits, ``- . _ ~`` and
  percent escapes, or an IPv6 address in ``[ ]``. It may be missing only where a path follows and
  the scheme is not one of the web's: ``unix:///run/api.sock``, never ``https:///api``.
* Every character is printable ASCII that RFC 3986 allows; ``%`` starts two hexadecimal digits.

The value is the text, unchanged. Ground floor.
"""

from __future__ import annotations

from typing import Optional, Tuple

from relayconf.setting import MASK, Setting, Value
from relayconf.values.numerals import is_numeral
from relayconf.values.result import Grammar
from relayconf.values.spelling import is_blank, name_character
from relayconf.values.text import write_text

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"
_HEX = frozenset(_DIGITS + "abcdefABCDEF")
_ADDRESS = _HEX | frozenset(":.")
_SCHEME = frozenset(_LETTERS + _DIGITS + "+-.")
_HOST = frozenset(_LETTERS + _DIGITS + "-._~%")
_ALLOWED = frozenset(_LETTERS + _DIGITS + "-._~:/?#[]@!$&'()*+,;=%")
_WEB = frozenset({"http", "https", "ws", "wss"})
_LAST_PORT = 65535


#: Scheme, userinfo (None where there is no ``@``), hosts with ports, and the path and what follows.
_Parts = Tuple[str, Optional[str], str, str]


def mask_userinfo(text: str) -> str:
    """Return a url as any output may show it; ``text`` need not be a valid one.

    A valid url loses its userinfo only. In any other text nobody knows where a password ends, so
    everything goes up to the last ``@``, or all of it where a ``:`` might start a password.
    """
    if url_fault(text) is None:
        scheme, userinfo, hosts, rest = _split(text)
        return text if userinfo is None else f"{scheme}://{MASK}@{hosts}{rest}"
    scheme, found, rest = text.partition("://")
    head, rest = (scheme + found, rest) if found and _is_scheme(scheme) else ("", text)
    _, at, shown = rest.rpartition("@")
    if at:
        return f"{head}{MASK}@{shown}"
    return f"{head}{MASK}" if ":" in rest else text


def url_fault(text: str) -> Optional[str]:
    """Return the rule that a text breaks, or None; nothing in it might be part of a password."""
    if is_blank(text):
        return "it is blank"
    if text[0] in "'\"":
        return "the quotes are part of the value; write it without them"
    scheme, found, _ = text.partition("://")
    if not found:
        return "it has no '://'; a url starts with a scheme, like https://"
    if not _is_scheme(scheme):
        return "what stands before '://' is not a scheme like https"
    if not _ALLOWED.issuperset(text) or "%" in text:
        fault = _character_fault(text)
        if fault is not None:
            return fault
    return _authority_fault(_split(text))


def _read(_setting: Setting, text: str) -> Optional[Value]:
    return text if url_fault(text) is None else None


def _is_scheme(text: str) -> bool:
    return text[:1] in _LETTERS and text != "" and _SCHEME.issuperset(text)


def _split(text: str) -> _Parts:
    scheme, _, rest = text.partition("://")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    userinfo, at, hosts = rest[:end].rpartition("@")
    return scheme, userinfo if at else None, hosts, rest[end:]


def _character_fault(text: str) -> Optional[str]:
    start = text.index("://") + 3
    for index, char in enumerate(text):
        if char == "%" and len(text) > index + 2 and _HEX.issuperset(text[index + 1 : index + 3]):
            continue
        if char in _ALLOWED and char != "%":
            continue
        # A raw '/' in a password ends the authority early, and a forgotten host leaves it at the
        # end: whatever has a ':' before it or an '@' behind it may belong to a password.
        if ":" in text[start:index] or "@" in text[index:]:
            return "a character in it is not allowed; a password has to be percent-encoded"
        if char == "%":
            return f"'%' at position {index + 1} does not start two hexadecimal digits; write %25"
        hint = "nothing in a value is expanded" if char in "{}" else "percent-encode it"
        return f"{name_character(char)} at position {index + 1} is not allowed in a url; {hint}"
    return None


def _authority_fault(parts: _Parts) -> Optional[str]:
    scheme, userinfo, hosts, rest = parts
    if not hosts:
        local = scheme.lower() not in _WEB and userinfo is None
        named = rest.startswith("/") and len(rest) > 1
        return None if local and named else "it has no host behind '://'"
    for entry in hosts.split(","):
        end = entry.rfind("]") + 1
        name, colon, port = entry[end:].partition(":")
        if end:
            address = entry[1 : end - 1]
            if name or entry[0] != "[" or ":" not in address or not _ADDRESS.issuperset(address):
                return "what stands in '[ ]' is not an IPv6 address"
        elif not name or not _HOST.issuperset(name):
            return "the host behind '://' is not a name or an address"
        if colon and not (is_numeral(port) and 1 <= int(port) <= _LAST_PORT):
            return f"what follows the ':' of the host is not a port, 1 to {_LAST_PORT}"
    return None


URL = Grammar(_read, write_text)
