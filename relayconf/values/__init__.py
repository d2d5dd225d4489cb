"""Values: the text of a setting in, one typed value or one reason out.

Each type has exactly one grammar, and the whole text is of it or is invalid; nothing is ever
half-parsed, expanded, evaluated or cast by shape. Pure functions without I/O. Ground floor.
"""

from __future__ import annotations

from relayconf.values.grammars import clamp, parse, present, render
from relayconf.values.result import JSON, Invalid, Parsed
from relayconf.values.spelling import excerpt, is_blank
from relayconf.values.url import mask_userinfo

__all__ = [
    "JSON",
    "Invalid",
    "Parsed",
    "clamp",
    "excerpt",
    "is_blank",
    "mask_userinfo",
    "parse",
    "present",
    "render",
]
