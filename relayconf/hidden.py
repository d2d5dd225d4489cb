"""Hidden text: a secret's value, which shows nothing where it is shown by accident.

It is text like any other for a program that uses it, so it protects nothing from ``str()``, from
``format()`` or from a program that writes it down. It protects from ``repr``, and so from a
traceback with local variables, a debugger's view, and the repr of whatever holds it. Ground floor.
"""

from __future__ import annotations

from typing import Any

from relayconf.setting import MASK, Setting
from relayconf.values import mask_userinfo


class Hidden(str):
    """A text whose ``repr`` is a mask."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


class HiddenUserinfo(str):
    """A url whose ``repr`` has no userinfo."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(mask_userinfo(str(self)))


def conceal(setting: Setting, value: Any) -> Any:
    """Return a canonical value so that its ``repr`` shows no secret; it is equal to what came in.

    Args:
        setting: whose value it is; a secret is hidden as a whole, a url's userinfo alone.
        value: canonical, or None.
    """
    if value is None:
        return None
    if setting.secret:
        return Hidden(value)
    if setting.type == "url":
        return _url(value)
    if setting.type == "list" and setting.items == "url":
        return tuple(_url(item) for item in value)
    return value


def _url(text: str) -> str:
    return HiddenUserinfo(text) if "@" in text else text
