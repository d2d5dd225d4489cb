"""Problems: what is wrong with a value or a name, each with a stable code and one severity.

The codes are shared by every command and by strict mode, so that one finding has one name wherever
it appears. Ground floor.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional

#: Every code that a value, a name or a file can earn, with its severity.
SEVERITY: Dict[str, str] = {
    "invalid-value": "error",
    "blank-secret": "error",
    "unknown-name": "warning",
    "near-miss": "warning",
    "clamped-value": "warning",
    "rule-repaired": "warning",
    "blank-value": "warning",
    "legacy-name": "warning",
    "duplicate-name": "warning",
    "shadowed": "warning",
    "whitespace": "note",
    "secret-inline": "error",
    "expired-flag": "error",
    "not-forwarded": "error",
    "refused": "error",
    "required-in-inactive-profile": "error",
    "quoted-value": "warning",
    "unit-suspicious": "warning",
    "comment-value": "warning",
    "dollar-eaten": "warning",
    "bare-last-line": "warning",
    "null-shadows-env-file": "warning",
    "mixed-fragments": "warning",
    "shell-vs-env-file": "warning",
    "self-reference": "warning",
    "env-file-in-interpolation": "warning",
    "unset-variable": "warning",
    "yaml-scalar": "warning",
    "bad-suppression": "warning",
    "default-drift": "note",
    "dialect-differs": "note",
    "unused-variable": "note",
    "several-files": "note",
    "overrides-broken": "error",
    "override-quarantined": "error",
    "override-damaged": "warning",
    "state-directory": "error",
    "source-unreadable": "error",
    "settings-refused": "error",
    "instance-problem": "error",
    "fleet-unavailable": "error",
    "fleet-lost": "error",
    "fleet-held": "error",
    "fleet-blind": "error",
    "fleet-damaged": "error",
    "fleet-quarantined": "error",
    "fleet-refused": "error",
    "instance-gone": "warning",
    "fleet-stale": "note",
    "fleet-pending": "note",
}

#: What strict mode refuses: a value that is not used as it was written.
STRICT_CODES = frozenset({"invalid-value", "blank-secret", "clamped-value", "rule-repaired"})


class Problem(NamedTuple):
    """One finding about one name.

    ``origin`` is where the text came from (``file:line``, ``environment``, ``--set``) or ``None``;
    ``suggestion`` is the text or name to write instead, where one is known; ``raw`` is the text
    that caused it (``None`` for a secret), and only identifies the finding: no output prints it.
    """

    code: str
    name: str
    message: str
    origin: Optional[str] = None
    suggestion: Optional[str] = None
    raw: Optional[str] = None

    def __repr__(self) -> str:
        return f"Problem({self.code!r}, {self.name!r}, {self.message!r}, {self.origin!r})"

    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``note``."""
        return SEVERITY[self.code]

    def line(self) -> str:
        """The finding as one line of text for a person."""
        where = f" (from {self.origin})" if self.origin else ""
        hint = f"; try {self.suggestion}" if self.suggestion else ""
        return f"{self.name}: {self.message}{where}{hint}"
