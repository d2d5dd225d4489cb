"""Plain: an instance whose fields are read as quickly as any attribute, also on Python 3.11.

pydantic's classes define ``__getattr__``, and before 3.12 an interpreter takes the long way to each
attribute of such a class: a flag took three times as long as one of a plain object. There an
instance is wrapped in an object with a slot for each field. It says that it is of the instance's
class, and hands whatever is no field to the instance.
"""

from __future__ import annotations

import sys
from copy import copy
from typing import Any, TypeVar

from pydantic import BaseModel

S = TypeVar("S", bound=BaseModel)

#: Whether the interpreter itself reads the fields of pydantic's classes the short way.
IS_QUICK = sys.version_info >= (3, 12)

#: The slot with the wrapped instance.
_INSTANCE = "__relayconf_instance__"

#: What a class has of its own: how it is made, and what reads its slots.
_OWN = frozenset(
    {
        *("__class__", "__class_getitem__", "__del__", "__delattr__", "__dict__", "__doc__"),
        *("__getattr__", "__getattribute__", "__init__", "__init_subclass__", "__module__"),
        *("__new__", "__setattr__", "__slots__", "__subclasshook__", "__weakref__"),
    }
)


def plain(settings: S) -> S:
    """Return an immutable instance, or what stands for it where that is read more quickly."""
    return settings if IS_QUICK else wrapped(settings)


def wrapped(settings: S) -> S:
    """Return an object with the fields of an instance in slots, whatever the interpreter.

    It equals the instance, and is one of its class for ``isinstance``; its methods are the
    instance's. Only ``type()`` tells it apart. An instance whose attributes can change, or are not
    known from its class, is returned as it is.
    """
    cls = type(settings)
    if hasattr(cls, _INSTANCE) or not _is_fixed(cls):
        return settings
    view: Any = cls.__dict__.get("__plain__")
    if view is None:
        view = _view_of(cls)
        cls.__plain__ = view  # type: ignore[attr-defined]  # an attribute pydantic need not see
    held: S = view.__new__(view)
    object.__setattr__(held, _INSTANCE, settings)
    for name, value in vars(settings).items():
        object.__setattr__(held, name, value)
    return held


class _Of:
    """An attribute of the wrapped instance; asked of the class, one of the instance's class."""

    def __init__(self, name: str, cls: type[BaseModel]) -> None:
        self.name, self.cls = name, cls

    def __get__(self, held: object | None, owner: type) -> Any:
        return getattr(self.cls if held is None else getattr(held, _INSTANCE), self.name)


def _view_of(cls: type[BaseModel]) -> type[Any]:
    """Make the class of what stands for the instances of a settings class."""
    fields = tuple(cls.model_fields)
    names = {name for base in cls.__mro__ for name in vars(base)} | set(cls.__private_attributes__)
    body: dict[str, Any] = {name: _Of(name, cls) for name in names - _OWN - set(fields)}
    body["__slots__"] = (*fields, _INSTANCE, "__weakref__")
    body["__class__"] = property(lambda _: cls)
    body["__dict__"] = property(lambda held: vars(getattr(held, _INSTANCE)))
    # Refused in the words of the class, which is frozen.
    body["__setattr__"] = lambda held, name, value: setattr(getattr(held, _INSTANCE), name, value)
    body["__delattr__"] = lambda held, name: delattr(getattr(held, _INSTANCE), name)
    # copy asks the class, whose own way would make another one of these.
    body["__copy__"] = lambda held: copy(getattr(held, _INSTANCE))
    body["__module__"], body["__doc__"] = cls.__module__, cls.__doc__
    return type(cls.__name__, (), body)


def _is_fixed(cls: type[BaseModel]) -> bool:
    """Whether the attributes of an instance are those of its class, and stay as they are."""
    own = cls.__mro__[: cls.__mro__.index(BaseModel)]
    hooked = any("__getattr__" in vars(base) or "__getattribute__" in vars(base) for base in own)
    config = cls.model_config
    return not hooked and bool(config.get("frozen")) and config.get("extra") != "allow"
