"""What the tests of overrides share: a state directory, and changes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relayconf.overrides import audit, changes
from relayconf.overrides.document import Document, parse
from relayconf.overrides.reading import audit_lines
from relayconf.overrides.store import Outcome, Store
from relayconf.state.clock import SYSTEM, Clock
from relayconf.state.directory import StateDirectory, make


class State:
    """A state directory, and what operators do in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory: StateDirectory = make(str(path))

    def store(self, **options: Any) -> Store:
        """Return the store of the directory."""
        return Store(self.directory, **options)

    def kill(
        self, name: str = "APP_FAST", *, ttl_ms: int | None = None, clock: Clock = SYSTEM
    ) -> Outcome:
        """Kill a flag."""
        because = changes.Because("a reason", "me", ttl_ms=ttl_ms)
        editing = changes.kill([changes.Assignment("app", name, "false")], because, clock=clock)
        return self.store(clock=clock).change(editing)

    def set(self, name: str, value: str) -> Outcome:
        """Set a value."""
        because = changes.Because("a reason", "me")
        return self.store().change(
            changes.assign([changes.Assignment("app", name, value)], because)
        )

    def restore(self, name: str | None = None, *, everything: bool = False) -> Outcome:
        """Restore a setting, or all."""
        because = changes.Because("a reason", "me")

        def wanted(_target: str, its_name: str) -> bool:
            return name is None or name == its_name

        return self.store().change(changes.restore(wanted, because, everything=everything))

    def file(self, name: str = "overrides.json") -> Path:
        """Return the path of a file in it."""
        return self.path / name

    def document(self) -> Document:
        """Return what stands there."""
        return parse(self.file().read_bytes())

    def in_force(self) -> list[tuple[str, str]]:
        """Return the names that are overridden, and how."""
        return sorted((o.name, o.kind) for o in self.document().overrides)

    def faults(self) -> list[str]:
        """Return what is wrong with the audit."""
        return audit.verify(list(audit_lines(self.directory)), self.document().audit)

    def actions(self) -> list[str]:
        """Return what the audit says was done."""
        lines = [audit.parse(text) for text in audit_lines(self.directory)]
        return [str(line["action"]) for line in lines if line is not None]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """Return a state directory of the test's own."""
    made = State(tmp_path / "state")
    yield made
    made.directory.close()
