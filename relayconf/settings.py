"""Settings: the base class of a declaration, and how one is filled.

A subclass is an ordinary pydantic-settings class whose fields carry facts (``relayconf.declare``).
relayconf resolves text to finished values layer by layer and hands pydantic one source of them, so
that one bad value never hides the good one below it. Instances are immutable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, ClassVar, Self, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from relayconf.classes import build_contract, text_of
from relayconf.errors import RelayconfError
from relayconf.layers import Entry, Layer, collect
from relayconf.process import read_process
from relayconf.resolve import Resolution, resolve
from relayconf.setting import Contract, Setting, Value

_resolved: ContextVar[Resolution | None] = ContextVar("relayconf_resolved", default=None)


class InvalidSettingsError(RelayconfError):
    """The class's own validators refuse values that every grammar accepts."""

    code = "invalid-settings"


class Settings(BaseSettings):
    """Base of a settings class: ``class AppSettings(Settings, target="app", prefix="APP_")``.

    Calling the class without arguments reads the process environment; keyword arguments, by field
    name, are the layer ``option`` above it.

    Raises:
        DeclarationError: at import, when a field's declaration cannot be right.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    __contract__: ClassVar[Contract]
    __names__: ClassVar[Mapping[str, str]]

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
        target = target or cls.__name__.removesuffix("Settings").lower() or cls.__name__.lower()
        prefix = f"{target.upper()}_" if prefix is None else prefix
        cls.__contract__, cls.__names__ = build_contract(
            cls.__qualname__, cls.model_fields, target=target, prefix=prefix
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Replace every source of pydantic-settings by the one that resolves."""
        del env_settings, dotenv_settings, file_secret_settings
        return (_FinishedValues(settings_cls, init_settings()),)

    @classmethod
    def from_resolution(cls, resolution: Resolution) -> Self:
        """Build an instance from values that are already resolved.

        Raises:
            InvalidSettingsError: a validator of the class refuses one of them; no input is shown.
        """
        token = _resolved.set(resolution)
        try:
            return cls()
        except ValidationError as error:
            raise InvalidSettingsError(_lines(cls, error)) from None
        finally:
            _resolved.reset(token)


def contract_of(cls: type[Settings]) -> Contract:
    """Return the contract that a settings class declares."""
    return cls.__contract__


class _FinishedValues(PydanticBaseSettingsSource):
    """The one source: finished Python values for the fields that some layer sets."""

    def __init__(self, settings_cls: type[BaseSettings], arguments: Mapping[str, Any]) -> None:
        super().__init__(settings_cls)
        self._arguments = arguments

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Unused: the values are resolved together."""
        del field
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        cls = self.settings_cls
        if not issubclass(cls, Settings):  # pragma: no cover - only Settings installs this source
            raise TypeError(cls)
        resolution = _resolved.get()
        values: dict[str, Any] = {}
        if resolution is None:
            resolution = _from_process(cls, self._arguments)
            # A name that is no field goes on to pydantic, which refuses it by name.
            values = {k: v for k, v in self._arguments.items() if k not in cls.__names__}
        for field, name in cls.__names__.items():
            effective = resolution.settings[name]
            if effective.value is not None and effective.status != "default":
                values[field] = python_value(effective.setting, effective.value)
        return values


def _from_process(cls: type[Settings], arguments: Mapping[str, Any]) -> Resolution:
    contract = cls.__contract__
    options = tuple(
        Entry(name, text_of(contract.settings[name], arguments[field]), f"{cls.__name__}({field}=)")
        for field, name in cls.__names__.items()
        if arguments.get(field) is not None
    )
    layers = [*collect(contract, read_process(os.environ).sources), Layer("option", options)]
    return resolve(contract, layers)


def python_value(setting: Setting, value: Value) -> Any:
    """Return a canonical value in the Python type that a field of its kind is declared with."""
    if setting.type == "duration":
        return timedelta(milliseconds=cast(int, value))
    return list(value) if isinstance(value, tuple) else value


def _lines(cls: type[Settings], error: ValidationError) -> str:
    lines = []
    for item in error.errors(include_input=False, include_url=False, include_context=False):
        field = str(item["loc"][0]) if item["loc"] else ""
        lines.append(f"{cls.__names__.get(field, field or cls.__name__)}: {item['msg']}")
    return "\n".join(lines)
