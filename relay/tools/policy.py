"""The policy: who may call what, how often, and with which arguments.

A policy is a list of rules, read from the top. The first that fits the tool, the session and the
arguments decides; where none does, the default does. Each decision is recorded.

::

    default = "deny"
    audit = "decisions.jsonl"

    [[rules]]
    deny = ["files_write_*"]
    reason = "read only"

    [[rules]]
    allow = ["files_*"]
    sessions = ["team-*"]
    where = { properties = { path = { type = "string", pattern = "^/data/" } } }
    rate = "30/1m"
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from relay.tools.audit import Asked, Audit, Decision
from relay.tools.registry import Failure
from relay.tools.tables import Faults, Table
from relay.tools.validate import Validator
from relayconf.setting import Setting
from relayconf.values import Invalid, parse

_KEYS = ("allow", "deny", "sessions", "where", "rate", "reason")
_WINDOW = Setting("window", "duration", unit="ms")

#: The most calls that a rate may speak of: each within its window is remembered.
_MOST_COUNTED = 100_000

#: Sessions whose calls are counted before those without any in their window are forgotten.
_MANY = 1024


@dataclass(slots=True)
class Rate:
    """So many calls of one session within so many seconds."""

    calls: int
    seconds: float
    text: str
    _times: dict[str, deque[float]] = field(default_factory=dict)

    def take(self, session: str, now: float) -> float:
        """Count a call; return 0, or the seconds until the next one would be let through."""
        times = self._times.get(session)
        if times is None:
            self._forget(now)
            times = self._times[session] = deque()
        while times and now - times[0] >= self.seconds:
            times.popleft()
        if len(times) >= self.calls:
            return self.seconds - (now - times[0])
        times.append(now)
        return 0.0

    def _forget(self, now: float) -> None:
        if len(self._times) >= _MANY:
            old = [s for s, t in self._times.items() if not t or now - t[-1] >= self.seconds]
            for session in old:
                del self._times[session]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; ``where`` are the arguments that it is about, all where it is ``None``."""

    name: str
    allows: bool
    tools: Sequence[str]
    sessions: Sequence[str]
    where: Validator | None
    rate: Rate | None
    reason: str

    def is_about(self, asked: Asked) -> bool:
        """Tell whether the rule is about a call, whatever its arguments are."""
        return any(fnmatchcase(asked.tool, pattern) for pattern in self.tools) and any(
            fnmatchcase(asked.session, pattern) for pattern in self.sessions
        )


class Policy:
    """The rules in force.

    Args:
        rules: from the top.
        allows: what holds where no rule decides.
        audit: where decisions go.
        clock: monotonic seconds, for the rates.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        allows: bool,
        audit: Audit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.audit = audit
        self._rules = tuple(rules)
        self._allows = allows
        self._clock = clock

    def is_quick(self, args: dict[str, Any], size: int) -> bool:
        """Whether arguments, from a request of ``size`` bytes, are decided on within moments."""
        wheres = (rule.where for rule in self._rules)
        return all(where is None or where.is_quick(args, size) for where in wheres)

    def decide(self, asked: Asked) -> None:
        """Let a call pass whose arguments fit its tool's schema, or refuse it.

        Raises:
            Failure: it is refused (``refused``), or comes too soon (``busy``).
        """
        found = None
        for rule in self._rules:
            if rule.is_about(asked) and (
                rule.where is None or rule.where.fault(asked.args) is None
            ):
                found = rule
                break
        self._carry_out(asked, found)

    async def decide_outside(
        self, asked: Asked, fault: Callable[[Validator], Awaitable[str | None]]
    ) -> None:
        """Do the same where arguments may take long to judge; ``fault`` judges them elsewhere.

        Raises:
            Failure: it is refused, comes too soon, or cannot be judged in time.
        """
        found = None
        for rule in self._rules:
            if rule.is_about(asked) and (rule.where is None or await fault(rule.where) is None):
                found = rule
                break
        self._carry_out(asked, found)

    def _carry_out(self, asked: Asked, rule: Rule | None) -> None:
        """Record what follows from the rule that decides, and refuse where it does.

        Raises:
            Failure: so it is.
        """
        by = "default" if rule is None else rule.name
        code, reason = self._verdict(rule, asked.session)
        decision = Decision(asked.session, asked.tool, asked.request, not code, by, reason)
        self.audit.record(decision)
        if code:
            raise Failure(code, reason)

    def _verdict(self, rule: Rule | None, session: str) -> tuple[str, str]:
        """Return a code and a reason; both empty where the call may pass."""
        if rule is None:
            return ("", "") if self._allows else ("refused", "the policy does not allow this call")
        if not rule.allows:
            return "refused", rule.reason or "the policy does not allow this call"
        if rule.rate is not None:
            left = rule.rate.take(session, self._clock())
            if left:
                return "busy", f"more than {rule.rate.text}; again in {left:.1f} s"
        return "", ""


def read_policy(
    path: str, document: Mapping[str, Any], faults: Faults, *, tools: Collection[str]
) -> Policy | None:
    """Read a policy file.

    Args:
        path: where it is; the record's path is relative to its folder.
        document: what is in it.
        faults: takes everything that is wrong with it.
        tools: the names, and patterns of names, of the tools that there are.

    Returns:
        The policy; ``None`` where something is wrong.
    """
    before = len(faults)
    head = Table(document, (), faults, "policy")
    head.only(("default", "audit", "rules"))
    default = head.text("default")
    if default not in (None, "allow", "deny"):
        head.fault('default is "allow" or "deny"', "default")
    record = head.text("audit")
    given = document.get("rules", [])
    if not isinstance(given, list):
        head.fault("rules are written as [[rules]]", "rules")
        given = []
    rules = [_rule(number, table, faults, tools) for number, table in enumerate(given)]
    if len(faults) > before:
        return None
    folder = os.path.dirname(os.path.abspath(path))
    audit = Audit(None if record is None else os.path.join(folder, record))
    return Policy([r for r in rules if r is not None], allows=default == "allow", audit=audit)


def _rule(number: int, data: object, faults: Faults, tools: Collection[str]) -> Rule | None:
    name = f"rule {number + 1}"
    path = ("rules", str(number))
    if not isinstance(data, Mapping):
        faults.add(path, f"{name}: it is not a table; write [[rules]]")
        return None
    table = Table(data, path, faults, name)
    table.only(_KEYS)
    kinds = [key for key in ("allow", "deny") if key in data]
    if len(kinds) != 1:
        table.fault("a rule has one of allow = [...] and deny = [...]")
        return None
    kind = kinds[0]
    patterns = table.words(kind)
    _look_for(patterns, table, kind, tools)
    rate = _rate(table)
    if rate is not None and kind == "deny":
        table.fault("a rate is for what is allowed", "rate")
    return Rule(
        name=name,
        allows=kind == "allow",
        tools=tuple(patterns),
        sessions=tuple(table.words("sessions")) if "sessions" in data else ("*",),
        where=_where(table),
        rate=rate,
        reason=table.text("reason") or "",
    )


def _look_for(patterns: Sequence[str], table: Table, key: str, tools: Collection[str]) -> None:
    """Note each plain name that no tool has: a rule with a slip in it protects nothing."""
    if not patterns:
        table.fault(f'{key} names no tool; "*" is all of them', key)
    for pattern in patterns:
        plain = not any(sign in pattern for sign in "*?[")
        if plain and not any(fnmatchcase(pattern, name) for name in tools):
            table.fault(f"{key}: there is no tool {pattern[:60]!a}", key)


def _where(table: Table) -> Validator | None:
    schema = table.table("where", "a JSON Schema of the arguments that the rule is about")
    if schema is None:
        return None
    try:
        return Validator(schema)
    except ValueError as error:
        table.fault(f"where: {error}", "where")
        return None


def _rate(table: Table) -> Rate | None:
    text = table.text("rate")
    if text is None:
        return None
    calls, slash, window = text.partition("/")
    parsed = parse(_WINDOW, window)
    number = int(calls) if calls.isascii() and calls.isdigit() and len(calls) < 7 else 0
    if not slash or not 0 < number <= _MOST_COUNTED or isinstance(parsed, Invalid):
        table.fault('rate is calls within a time, such as "30/1m"', "rate")
        return None
    seconds = parsed.value / 1000 if isinstance(parsed.value, int) else 0
    if seconds <= 0:
        table.fault("rate: the time is not above zero", "rate")
        return None
    return Rate(number, seconds, f"{number} calls in {window}")
