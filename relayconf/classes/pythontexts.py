"""Python texts: the text that means a Python object, as somebody would write it in an env file.

The inverse of ``relayconf.classes.pythontypes``: defaults, bounds and constructor arguments are
objects, and become text so that one grammar judges them all.
"""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from relayconf.contract.reading import literal
from relayconf.errors import DeclarationError
from relayconf.setting import Setting, Value
from relayconf.values import Invalid, parse


def canonical(setting: Setting, value: Any) -> Value:
    """Return the canonical form of a Python value of the field's type.

    Raises:
        DeclarationError: the setting's grammar has no such value.
    """
    outcome = parse(setting, text_of(setting, value))
    if isinstance(outcome, Invalid):
        raise DeclarationError(f"{value!r} is not a {setting.type}: {outcome.reason}")
    return outcome.value


def text_of(setting: Setting, value: Any) -> str:
    """Return the text that means a Python value of the field's type.

    Raises:
        DeclarationError: no text means it.
    """
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, SecretBytes):
        return value.get_secret_value().decode()
    if isinstance(value, timedelta):
        whole, rest = divmod(value, timedelta(milliseconds=1))
        if rest:
            raise DeclarationError(f"{value!r} is not a whole number of milliseconds")
        return literal(whole) + ("ms" if setting.unit != "ms" else "")
    if isinstance(value, enum.Enum):
        return literal(value.value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (set, frozenset)):
        # A set has no order of its own, and what is generated from it must not change by itself.
        value = sorted(value, key=lambda item: text_of(setting, item))
    if isinstance(value, (list, tuple)) and setting.type == "list":
        return f"[{', '.join(_item(setting, item) for item in value)}]"
    if isinstance(value, (bool, int, float, str)):
        return literal(value)
    return _other(value)


def _item(setting: Setting, item: Any) -> str:
    item = item.value if isinstance(item, enum.Enum) else item
    if isinstance(item, (bool, int, float)):
        return literal(item)
    return json.dumps(text_of(setting, item), ensure_ascii=False)


def _other(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    try:
        document = to_jsonable_python(value)
    except (ValueError, TypeError):
        raise DeclarationError(f"no text means a {type(value).__name__}") from None
    if isinstance(document, str):
        return document
    if isinstance(value, (Mapping, list, tuple, BaseModel)) or isinstance(document, (dict, list)):
        return json.dumps(document, ensure_ascii=False)
    return literal(document)
