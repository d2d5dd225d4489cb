"""Settings: the base class of a declaration, and how one is filled.

A subclass is an ordinary pydantic-settings class whose fields may carry facts
(``relayconf.declare``). relayconf resolves text to finished values layer by layer and hands
pydantic one source of them, so that one bad value never hides the good one below it. Instances are
immutable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from relayconf import report
from relayconf.classes import unread
from relayconf.classes.arguments import Arguments, sort
from relayconf.classes.build import Declared, own_prefix, read_class
from relayconf.classes.finished import finished
from relayconf.classes.pythontypes import hand_value as python_value
from relayconf.classes.refusal import lines, masked_fields, secrets_in, without_inputs
from relayconf.errors import DeclarationError, RelayconfError
from relayconf.layers import ORDER, Layer, collect
from relayconf.process import read_process
from relayconf.resolve import Resolution, resolve
from relayconf.setting import Contract

__all__ = ["InvalidSettingsError", "Settings", "contract_of", "python_value"]

_resolved: ContextVar[tuple[type, Resolution] | None] = ContextVar(
    "relayconf_resolved", default=None
)


class InvalidSettingsError(RelayconfError):
    """The class's own validators refuse values that every grammar accepts."""

    code = "invalid-settings"


class _Part:
    """A class attribute that is read off the class's fields, at the latest when it is asked for.

    A class whose annotations cannot be resolved yet (a name that is defined further down) is read
    then; any other when it is defined.
    """

    def __init__(self, part: Callable[[Declared], Any]) -> None:
        self.part = part

    def __get__(self, instance: object, owner: type[Settings]) -> Any:
        return self.part(_declared(owner))


class Settings(BaseSettings):
    """Base of a settings class: ``class AppSettings(Settings, target="app", prefix="APP_")``.

    The class arguments ``target`` (the contract's name; without it, the class's in lower case) and
    ``prefix`` (without it, ``env_prefix`` of ``model_config``) are optional, so that a class that
    has ``BaseSettings`` as its base can have this one instead, or as well.

    Calling the class without arguments reads the process environment and the files it names;
    keyword arguments, by field name or alias, are the layer ``option`` above it. ``_env_file`` and
    ``_secrets_dir`` replace what relayconf's own settings say.

    Raises:
        DeclarationError: at import, when a field's declaration cannot be right.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    __contract__: ClassVar[Contract] = cast(Contract, _Part(lambda found: found.contract))
    __names__: ClassVar[Mapping[str, str]] = cast(
        "dict[str, str]", _Part(lambda found: found.names)
    )
    __identity__: ClassVar[tuple[str, str]] = ("", "")
    __unread__: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(
        cls, *, target: str | None = None, prefix: str | None = None, **kwargs: Any
    ) -> None:
        # Python's own hook gets the class arguments too; pydantic's, below, has the fields.
        del target, prefix
        super().__init_subclass__(**kwargs)

    @classmethod
    def __pydantic_init_subclass__(
        cls, *, target: str | None = None, prefix: str | None = None, **kwargs: Any
    ) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        _no_other_sources(cls)
        if prefix is None:
            prefix = own_prefix(cls) or cls.__identity__[1]
        elif prefix and not prefix.endswith("_"):
            prefix += "_"
        name = cls.__name__
        cls.__identity__ = (target or name.removesuffix("Settings").lower() or name.lower(), prefix)
        cls.__unread__ = {**cls.__unread__, **unread.take(cls.model_config)}
        if cls.__pydantic_complete__:
            _declared(cls)

    def __init__(self, /, **values: Any) -> None:
        cls = type(self)
        unread.say(cls.__name__, cls.__unread__)
        declared = _declared(cls)
        held = _resolved.get()
        if held is not None and held[0] is cls:
            resolution = held[1]
            found = finished(declared.fields, resolution)
        else:
            places = {name: values.pop(name) for name in list(values) if name.startswith("_")}
            arguments = sort(cls, declared, values)
            values.clear()  # a traceback that shows local variables comes through here
            resolution = _from_process(cls, arguments, places)
            found = finished(declared.fields, resolution, arguments.fixed) | arguments.extra
        try:
            # Past the base class's own sources, of which none is left: looking for them took half
            # of a reload's time.
            BaseModel.__init__(self, **found)
        except ValidationError as error:
            refusal = without_inputs(error, secrets_in(resolution))
        else:
            return
        found.clear()
        # Outside the handler: pydantic's error holds what it refused, and must not travel along.
        raise refusal

    if not TYPE_CHECKING:  # a type checker is to see which attributes there are

        def __setattr__(self, name: str, value: Any) -> None:
            try:
                super().__setattr__(name, value)
            except ValidationError as error:
                # pydantic shows what was assigned to a frozen instance, whatever it is told.
                refusal = without_inputs(error, [str(value)])
            else:
                return
            del value
            raise refusal

        def __delattr__(self, name: str) -> None:
            try:
                super().__delattr__(name)
            except ValidationError as error:
                refusal = without_inputs(error, [])
            else:
                return
            raise refusal

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return masked_fields(_declared(type(self)), super().__repr_args__())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leave one source: what ``__init__`` hands over, which is finished."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @classmethod
    def from_resolution(cls, resolution: Resolution) -> Self:
        """Build an instance from values that are already resolved.

        Raises:
            InvalidSettingsError: a validator of the class refuses one of them; no input is shown.
        """
        token = _resolved.set((cls, resolution))
        try:
            return cls()
        except ValidationError as error:
            refusal = lines(cls.__name__, _declared(cls), resolution, error)
        finally:
            _resolved.reset(token)
        raise InvalidSettingsError(refusal)


def contract_of(cls: type[Settings]) -> Contract:
    """Return the contract that a settings class declares."""
    return cls.__contract__


def _declared(cls: type[Settings]) -> Declared:
    """Read a class once; its fields do not change.

    Raises:
        DeclarationError: a field cannot be right, or an annotation names nothing.
    """
    found = cls.__dict__.get("__declared__")
    if isinstance(found, Declared):
        return found
    if not cls.__pydantic_complete__:
        cls.model_rebuild(raise_errors=False)
    if not cls.__pydantic_complete__:
        raise DeclarationError(f"{cls.__qualname__}: an annotation names a type that is not there")
    target, prefix = cls.__identity__
    declared = read_class(cls, target=target, prefix=prefix)
    cls.__declared__ = declared  # type: ignore[attr-defined]  # an attribute pydantic need not see
    return declared


def _no_other_sources(cls: type[Settings]) -> None:
    if cls.settings_customise_sources.__func__ is not (  # type: ignore[attr-defined]  # a method's
        Settings.settings_customise_sources.__func__  # type: ignore[attr-defined]  # own function
    ):
        raise DeclarationError(
            f"{cls.__qualname__}: settings_customise_sources would go past every layer; remove it"
        )


def _from_process(
    cls: type[Settings], arguments: Arguments, places: Mapping[str, Any]
) -> Resolution:
    process = read_process(os.environ)
    contract = cls.__contract__
    sources = unread.with_places(cls.__name__, process.sources, places)
    layers = [*collect(contract, sources), Layer("option", arguments.options)]
    layers.sort(key=lambda layer: ORDER.index(layer.name))  # below the overrides: a kill wins
    resolution = resolve(contract, layers)
    if process.strict:
        report.refuse(resolution.problems)
    report.once(resolution.problems)
    return resolution
