"""Testing: settings of a test's own, away from the machine that it runs on, and restored after.

``isolated`` takes everything out of the environment that any of the classes reads and points
relayconf at empty directories; ``overridden`` gives a ``Live`` other values for a while. Both are
context managers, and work as decorators and inside pytest fixtures. The environment belongs to the
whole process, so tests that run in threads side by side cannot each have their own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from relayconf import report
from relayconf.classes.pythontexts import text_of
from relayconf.errors import DeclarationError, RelayconfError
from relayconf.layers import Entry, Layer, collect, concerns
from relayconf.live.snapshot import Live
from relayconf.names import pointers
from relayconf.nearest import nearest
from relayconf.resolve import Effective, resolve
from relayconf.setting import Contract
from relayconf.settings import Settings, contract_of
from relayconf.targets import find_contract

S = TypeVar("S", bound=Settings)


class Place(NamedTuple):
    """Where an isolated test may put files: absolute paths of directories that are empty at first.

    Attributes:
        config_dir: settings files, ``settings.toml`` and the others.
        secrets_dir: secrets, one file for each, called like the setting.
        state_dir: overrides and what else processes share.
    """

    config_dir: str
    secrets_dir: str
    state_dir: str


@contextmanager
def isolated(
    *classes: type[Settings], env: Mapping[str, str] | None = None, **values: Any
) -> Iterator[Place]:
    """Give the classes nothing but their defaults and what is said here.

    Args:
        classes: the settings classes that the test uses.
        env: variables to set, exactly as they would stand in the environment.
        values: fields of any of the classes, as text or as Python objects; each must be a value
            that is used as it is written. ``None`` leaves a field unset.

    Raises:
        RelayconfError: a field that none of the classes has, or a value that would not be used.
    """
    contracts = [contract_of(cls) for cls in classes]
    texts = {**_texts(classes, values), **(env or {})}
    before, said = dict(os.environ), set(report.said)
    with tempfile.TemporaryDirectory(prefix="relayconf-") as folder:
        place = Place(*(os.path.join(folder, name) for name in ("config", "secrets", "state")))
        try:
            for path in place:
                os.mkdir(path, 0o700)
            for name in _concerning([*contracts, find_contract("relayconf")], before):
                del os.environ[name]
            os.environ["RELAYCONF_CONFIG_DIR"] = place.config_dir
            os.environ["RELAYCONF_SECRETS_DIR"] = place.secrets_dir
            os.environ["RELAYCONF_STATE_DIR"] = place.state_dir
            os.environ.update(texts)
            report.said.clear()
            yield place
        finally:
            os.environ.clear()
            os.environ.update(before)
            report.said.clear()
            report.said.update(said)


@contextmanager
def overridden(live: Live[S], **values: Any) -> Iterator[S]:
    """Put other values in force in a ``Live``, also those that otherwise wait for a start.

    Args:
        live: what the code under test reads; its subscribers are called, as for any change.
        values: fields, as text or as Python objects; each must be a value that is used as it is
            written.

    Yields:
        The settings with these values.

    Raises:
        RelayconfError: a field that the class does not have, or a value that would not be used.
    """
    cls = type(live.current)
    contract = contract_of(cls)
    texts = _texts([cls], values)
    before, sources = live.snapshot.resolution, live.sources
    options = tuple(f"{name}={text}" for name, text in texts.items())
    other = sources._replace(options=(*sources.options, *options))
    resolution = resolve(contract, collect(contract, other))
    for name in texts:
        _demand_use(resolution.settings[name])
    live.put(resolution, other)
    try:
        yield live.current
    finally:
        live.put(before, sources)


def _texts(classes: Any, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each value by its setting's name."""
    fields = {
        field: (contract_of(cls), name) for cls in classes for field, name in cls.__names__.items()
    }
    texts = {}
    for field, value in values.items():
        if value is None:
            continue
        if field not in fields:
            near = nearest(field, list(fields))
            hint = f"; did you mean {near}?" if near else ""
            raise RelayconfError(f"none of the classes has a field {field!r}{hint}")
        contract, name = fields[field]
        texts[name] = _text(contract, name, value)
    return texts


def _text(contract: Contract, name: str, value: Any) -> str:
    setting = contract.settings[name]
    try:
        text = value if isinstance(value, str) else text_of(setting, value)
    except DeclarationError as error:
        raise RelayconfError(f"{name}: {error}") from None
    layer = Layer("option", (Entry(name, text, "test"),))
    _demand_use(resolve(contract, [layer], only=[name]).settings[name])
    return text


def _demand_use(effective: Effective) -> None:
    if effective.status != "ok":
        reasons = "; ".join(note.message for note in effective.notes) or "a blank is unset"
        raise RelayconfError(f"{effective.setting.name}: not used as it is written: {reasons}")


def _concerning(contracts: list[Contract], environ: Mapping[str, str]) -> list[str]:
    files = {name for contract in contracts for name in pointers(contract)}
    return [n for n in environ if n in files or any(concerns(c, n) for c in contracts)]
