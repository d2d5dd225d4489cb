"""Declaring: the facts that ride as ``Annotated`` metadata on a field of a settings class.

Each marker states one fact; together with the field's plain type and default they are the whole
declaration of a setting. The type checker and the editor see only the plain type.

    poll: Annotated[
        timedelta,
        Env("APP_POLL_MS"),
        Clamp("10ms", "60s"),
        AppliesLive(),
        Doc("How often the queue is looked at."),
    ] = ms(300)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, PlainSerializer

from relayconf.errors import DeclarationError
from relayconf.hidden import HiddenUserinfo
from relayconf.setting import BLIND_POLICIES, FLAG_KINDS
from relayconf.values import mask_userinfo

__all__ = [
    "AllowBlank",
    "AppliesLive",
    "Bytes",
    "Clamp",
    "Doc",
    "Env",
    "Example",
    "Flag",
    "Groups",
    "Jitter",
    "Kind",
    "LessThan",
    "NotBelow",
    "Owner",
    "Reject",
    "Rollout",
    "Since",
    "Unit",
    "Url",
    "ms",
    "seconds",
]


@dataclass(frozen=True, slots=True)
class Env:
    """The setting's name in the environment, and the legacy names that still work.

    Without it the name is the class's prefix and the field's name in upper case.
    """

    name: str
    legacy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """The value grammar by its name, where the Python type does not say it."""

    type: str


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a bare integer in a duration: ``h``, ``m``, ``s`` or ``ms``.

    Without it the name decides: ``ms`` where it ends in ``_MS``, else ``s``, as pydantic reads it.
    """

    unit: str


@dataclass(frozen=True, slots=True)
class Clamp:
    """The range, as texts of the setting's own grammar; a value outside is moved to the bound."""

    low: str | None = None
    high: str | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """A value outside the range is invalid, instead of being clamped."""


@dataclass(frozen=True, slots=True)
class AllowBlank:
    """A blank text is a value of this string setting, instead of being unset."""


@dataclass(frozen=True, slots=True)
class Jitter:
    """The fractions between which a draw is spread around the value: ``Jitter(-0.2, 0)``."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class AppliesLive:
    """A change takes effect in a running process; without it, at the next start."""


@dataclass(frozen=True, slots=True)
class NotBelow:
    """A rule: this setting is at least the named one, and gives way where it is not."""

    name: str


@dataclass(frozen=True, slots=True)
class LessThan:
    """A rule: this setting stays below the named one, and gives way where it does not."""

    name: str


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that a kill may name with ``@``."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who answers questions about the setting."""

    name: str


@dataclass(frozen=True, slots=True)
class Since:
    """The version in which the setting appeared."""

    version: str


@dataclass(frozen=True, slots=True)
class Doc:
    """One line, and where needed a longer text, for a reader who has never seen the setting."""

    line: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A text that somebody might really set."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """What makes a setting a flag.

    Args:
        kind: ``release``, ``experiment``, ``operational`` or ``kill-switch``.
        kill: the safe value that a kill puts in force.
        owner: who is asked before it is changed, and told when it was.
        expires: the ISO date by which the flag is gone.
        why: the reason for having no expiry date.
        breaker: when the process may kill the flag by itself, or None.
        blind: what the flag does where the process has heard nothing of its fleet for too long:
            ``hold`` what is in force, take the ``safe`` value, or go by what is configured
            (``default``). A kill that is known stays in force whatever this says.

    Raises:
        DeclarationError: a kind or a policy that does not exist, no owner, or neither expiry nor
            reason.
    """

    kind: str
    kill: bool | str
    owner: str = ""
    expires: str | None = None
    why: str | None = None
    breaker: Breaker | None = None
    blind: str = "hold"

    def __post_init__(self) -> None:
        if self.kind not in FLAG_KINDS:
            kinds = ", ".join(FLAG_KINDS)
            raise DeclarationError(f"a flag's kind is one of {kinds}, not {self.kind!r}")
        if self.blind not in BLIND_POLICIES:
            policies = ", ".join(BLIND_POLICIES)
            raise DeclarationError(f"a flag's blind is one of {policies}, not {self.blind!r}")
        if not self.owner:
            raise DeclarationError("a flag needs an owner: add owner='who answers for it'")
        if self.expires is None and not self.why:
            raise DeclarationError(
                "a flag needs an end: add expires='2027-06-01', or why='the reason it has none'"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When a flag may be killed by the process itself, without an operator.

    Args:
        event: what is counted.
        at_least: how many distinct parties must report it within the window.
        share: and which fraction, 0 to 1, of the live ones.
        window: over which time.
    """

    event: str
    at_least: int
    share: float
    window: timedelta


@dataclass(frozen=True, slots=True)
class Bytes:
    """The integer is a size in bytes, and may be written with a unit (``4MiB``)."""


#: A boolean, or a share of keys as text (``"25%"``); decided for one key by ``relayconf.share``.
Rollout: TypeAlias = Annotated[bool | str, Kind("rollout")]

#: An absolute url: text to use as it is, whose repr and JSON have no userinfo.
Url: TypeAlias = Annotated[
    str,
    Kind("url"),
    AfterValidator(HiddenUserinfo),
    PlainSerializer(mask_userinfo, return_type=str, when_used="json"),
]


def ms(milliseconds: int) -> timedelta:
    """Return a duration of so many milliseconds."""
    return timedelta(milliseconds=milliseconds)


def seconds(number: int) -> timedelta:
    """Return a duration of so many seconds."""
    return timedelta(seconds=number)
