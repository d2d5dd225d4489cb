"""Which sections of which files apply, and in which order: dynaconf's decision, and nothing else.

dynaconf's loader is given opaque sections instead of values, and an object that only records what
it would apply. So nothing of it that reads the environment, searches, casts, merges, evaluates or
runs hooks ever sees a settings file, and its decision is the same in every process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from relayconf.files.tokens import Section

#: The section that holds in every deployment.
DEFAULT = "default"

#: What dynaconf is told where it asks for an option of its own.
_ANSWERS: Mapping[str, Any] = {
    "ENVIRONMENTS_FOR_DYNACONF": True,
    "DEFAULT_ENV_FOR_DYNACONF": DEFAULT,
    # Without a prefix of its own dynaconf would look for a section [dynaconf] too.
    "ENVVAR_PREFIX_FOR_DYNACONF": DEFAULT,
}

_importing = threading.Lock()


@contextmanager
def _own_variables_hidden() -> Iterator[None]:
    """Keep dynaconf from its variables, which it reads and casts while it is imported.

    One of them that is not what it expects would raise there.
    """
    with _importing:
        hidden = {name: os.environ.pop(name) for name in list(os.environ) if _is_its_own(name)}
        # RACE: a thread that reads or sets one of these meanwhile does not see it, or loses.
        try:
            yield
        finally:
            os.environ.update(hidden)


def _is_its_own(name: str) -> bool:
    return name.endswith("_FOR_DYNACONF")


with _own_variables_hidden():
    from dynaconf.loaders.base import (  # type: ignore[import-untyped]  # it ships no types
        BaseLoader,
    )


def applying(
    files: Mapping[str, Mapping[str, Section]], deployment: str | None
) -> list[tuple[str, Section]]:
    """Return the sections that apply, lowest first.

    Args:
        files: for each path, lowest first, its sections by name.
        deployment: the name of the section that applies beside ``default``.

    Returns:
        Pairs of path and section. In each file: ``default``, then the deployment's, then
        ``global``; a file as a whole before (below) the next one.
    """
    record = _Record(deployment or DEFAULT)
    _Sections(record, files).load(filename=list(files))
    return record.applied


class _Record:
    """Stands where dynaconf has its settings: answers what it asks, keeps what it applies."""

    filter_strategy = None

    def __init__(self, deployment: str) -> None:
        self.current_env = deployment
        self.applied: list[tuple[str, Section]] = []

    def get(self, key: str, default: Any = None) -> Any:
        return _ANSWERS.get(key, default)

    def update(self, data: Mapping[str, Any], **_how: Any) -> None:
        self.applied.extend(data.values())


class _Sections(BaseLoader):  # type: ignore[misc]  # as above
    """dynaconf's loader, reading what has already been read."""

    def __init__(self, record: _Record, files: Mapping[str, Mapping[str, Section]]) -> None:
        super().__init__(
            obj=record,
            env=record.current_env,
            identifier="relayconf",
            extensions=(),
            file_reader=None,
            string_reader=None,
        )
        self._files = files

    def get_source_data(self, files: Sequence[str]) -> dict[str, Any]:
        """Return for each file its sections, each as the one value of a made-up key."""
        return {
            path: {
                name: {"section": (path, section)} for name, section in self._files[path].items()
            }
            for path in files
        }
