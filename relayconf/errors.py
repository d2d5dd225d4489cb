"""The errors of relayconf.

::

    RelayconfError
     +-- DeclarationError   a settings class that cannot be right; raised at import
     +-- ContractError      a contract file that cannot be read as one
     +-- SourceError        an env, settings or secret file that cannot be read or parsed
     +-- TargetError        a target that names nothing known
     +-- StateError         a state directory that cannot be used or trusted
     +-- WriteError         a change of the overrides that could not be written
     +-- FleetUnavailable   the fleet's store gives no answer that could be used
     +-- StrictError        ``--strict`` found problems; carries all of them
     +-- FlagError          a question to a flag that it has no answer to

Every error has a stable ``code``. Its text is one message for a person: what happened, to which
name, where it came from, and what to do. No message holds a secret. Ground floor.
"""

from __future__ import annotations

from typing import Optional, Sequence


class RelayconfError(Exception):
    """Base of every error that relayconf raises on purpose."""

    code = "error"


class DeclarationError(RelayconfError):
    """A settings class is declared in a way that cannot be right."""

    code = "declaration"


class ContractError(RelayconfError):
    """A contract document is not one."""

    code = "contract"


class SourceError(RelayconfError):
    """A file that was named as a source of values cannot be read or parsed.

    ``origin`` is ``path``, ``path:line`` or ``path:line:column``, as precise as is known.
    """

    code = "source"

    def __init__(self, message: str, *, origin: Optional[str] = None) -> None:
        super().__init__(message if origin is None else f"{origin}: {message}")
        self.origin = origin


class TargetError(RelayconfError):
    """A target names no installed settings class, no importable class and no contract file."""

    code = "target"


class StateError(RelayconfError):
    """The state directory cannot be made or opened, or others than its owner could write it."""

    code = "state"


class WriteError(RelayconfError):
    """A change of the overrides could not be written; nothing was changed."""

    code = "write"


class FleetUnavailable(RelayconfError):
    """The fleet's store cannot be reached, refuses, or answers nonsense.

    Whether a change that was under way took place is not known. The text never holds a password.
    """

    code = "fleet"


class FlagError(RelayconfError):
    """There is no such flag, or it is neither on nor off as it was asked."""

    code = "flag"


class StrictError(RelayconfError):
    """Strict mode refused to start. ``problems`` holds one line of text for each problem."""

    code = "strict"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = f"strict mode refuses to start: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  {line}" for line in self.problems)]))
