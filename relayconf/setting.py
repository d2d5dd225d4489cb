"""What is known about one setting, one rule and one service: plain records, no behaviour.

This is the vocabulary that the rest of the package shares. A declaration (a settings class) and a
published contract (JSON) both become these records; the value grammars, the layers and the engine
read nothing else. Ground floor: stdlib only, Python 3.9 syntax.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple, Union

#: A canonical value, as section 2 of the design writes it in JSON: milliseconds for a duration,
#: bytes for a size, ``True``/``False`` or ``"25%"`` for a rollout, a tuple of items for a list.
Value = Union[bool, int, float, str, Tuple[Any, ...]]

#: The types a setting may have, each with exactly one grammar (see ``relayconf.values``).
TYPES = (
    "integer",
    "number",
    "duration",
    "size",
    "boolean",
    "rollout",
    "enum",
    "string",
    "secret",
    "path",
    "url",
    "list",
)

#: Types whose values have an order, so that a range and a rule make sense.
ORDERED_TYPES = frozenset({"integer", "number", "duration", "size"})

FLAG_KINDS = ("release", "experiment", "operational", "kill-switch")

#: What a flag does where its process has heard nothing of its fleet for too long: keep what is in
#: force, take its safe value, or go by what is configured below the fleet.
BLIND_POLICIES = ("hold", "safe", "default")

#: What stands in every output where a secret would.
MASK = "********"


class Flag(NamedTuple):
    """What makes a setting a flag: it has an owner, an end, and a safe value under ``kill``.

    ``expires`` is an ISO date (``2027-03-01``); where it is ``None``, ``why`` holds the written
    reason for having none. ``breaker`` is the declaration of an automatic kill, or ``None``.
    ``blind`` is one of ``BLIND_POLICIES``.
    """

    kind: str
    kill: Value
    owner: str
    expires: Optional[str] = None
    why: Optional[str] = None
    breaker: Optional[Mapping[str, Any]] = None
    blind: str = "hold"


class Setting(NamedTuple):
    """One setting: its name, its grammar, its range, and how it is documented.

    ``default``, ``minimum`` and ``maximum`` are canonical values (a duration in milliseconds,
    whatever ``unit`` says); ``None`` means there is none. ``unit`` is the unit of a bare integer
    and of a jitter-free canonical text: ``h m s ms`` for a duration, otherwise ``None``.
    ``jitter`` is a pair of fractions, ``(-0.2, 0.0)``. ``choices`` are an enum's members;
    ``items`` is the type of a list's items.
    """

    name: str
    type: str
    default: Optional[Value] = None
    doc: str = ""
    description: str = ""
    unit: Optional[str] = None
    minimum: Optional[Union[int, float]] = None
    maximum: Optional[Union[int, float]] = None
    reject: bool = False
    allow_blank: bool = False
    jitter: Optional[Tuple[float, float]] = None
    choices: Tuple[str, ...] = ()
    items: str = "string"
    live: bool = False
    legacy: Tuple[str, ...] = ()
    groups: Tuple[str, ...] = ()
    owner: Optional[str] = None
    since: Optional[str] = None
    example: Optional[str] = None
    flag: Optional[Flag] = None

    @property
    def secret(self) -> bool:
        """Whether no output may show the value."""
        return self.type == "secret"


class Rule(NamedTuple):
    """``low <= high`` between two settings of one contract, or ``low < high`` where strict.

    ``moves`` names the one that gives way, by the smallest step.
    """

    low: str
    high: str
    strict: bool
    moves: str


class Contract(NamedTuple):
    """Everything one service declares. ``settings`` keeps the order of the declaration."""

    target: str
    prefix: str
    settings: Dict[str, Setting]
    rules: Tuple[Rule, ...] = ()
