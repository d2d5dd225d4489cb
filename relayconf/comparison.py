"""Comparison: two resolutions of one contract, setting by setting, by effective value.

Two values differ where a program would see the difference; where they come from, and how they were
written, does not count. A secret is compared and never shown.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from relayconf import answers, wording
from relayconf.resolve import Effective, Resolution


class Difference(NamedTuple):
    """One setting that has two values."""

    left: Effective
    right: Effective

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.left.setting.name

    @property
    def masked(self) -> bool:
        """Whether what differs is not to be seen: a secret, or the userinfo of a url."""
        return self.words(self.left) == self.words(self.right)

    @staticmethod
    def words(effective: Effective) -> str:
        """Return a value for a person."""
        return wording.value(effective.setting, effective.value)

    def document(self) -> dict[str, Any]:
        """Return the difference as JSON output has it."""
        setting = self.left.setting
        return {
            "name": setting.name,
            "type": setting.type,
            "masked": self.masked,
            "a": _side(self.left),
            "b": _side(self.right),
        }


def compare(left: Resolution, right: Resolution) -> list[Difference]:
    """Return every setting whose values differ, in the order of the declaration."""
    pairs = ((left.settings[name], right.settings[name]) for name in left.settings)
    return [Difference(a, b) for a, b in pairs if a.value != b.value]


def _side(effective: Effective) -> dict[str, Any]:
    document = answers.setting_document(effective)
    return {key: document[key] for key in ("value", "source", "status")}
