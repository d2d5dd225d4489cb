"""Resolve: layers of raw text in, one effective value per setting out, with the reasons.

For each setting the layers are asked from the highest down; the first valid text wins. A blank is
unset, an invalid text is passed over with a problem, an out-of-range value is clamped to its bound.
Then the rules across settings are applied. Pure: no I/O, no clock, the same layers always give the
same resolution. Ground floor.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from relayconf.hidden import conceal
from relayconf.layers import Entry, Layer
from relayconf.names import unknown_names
from relayconf.problems import Problem
from relayconf.rules import apply_rules
from relayconf.setting import MASK, Contract, Setting, Value
from relayconf.values import (
    Invalid,
    Parsed,
    clamp,
    excerpt,
    is_blank,
    mask_userinfo,
    parse,
    present,
    render,
)
from relayconf.values.spelling import WHITE
from relayconf.wording import value


class Candidate(NamedTuple):
    """One text that was offered for a setting, and what became of it.

    ``verdict`` is ``in force``, ``invalid``, ``blank`` or ``shadowed``; ``name`` is the name it was
    written under, which may be a legacy one. ``text`` is unmasked: show it through ``shown``.
    """

    layer: str
    origin: str
    name: str
    text: str
    verdict: str
    reason: str = ""

    def __repr__(self) -> str:
        return f"Candidate({self.layer!r}, {self.origin!r}, {self.name!r}, {self.verdict!r})"


class Note(NamedTuple):
    """Something worth knowing about one effective value."""

    code: str
    message: str


class Effective(NamedTuple):
    """One setting's value in force, and why.

    ``value`` is canonical, or ``None`` where nothing sets it. ``raw`` is the text in force, or
    ``None`` for a default. ``stack`` holds every text that was offered, highest layer first.
    """

    setting: Setting
    value: Optional[Value]
    layer: str
    origin: Optional[str]
    raw: Optional[str]
    status: str
    notes: Tuple[Note, ...]
    stack: Tuple[Candidate, ...]

    def __repr__(self) -> str:
        shown_value = present(self.setting, self.value)
        return f"Effective({self.setting.name!r}, {shown_value!r}, {self.layer!r}, {self.status!r})"

    @property
    def untouched(self) -> bool:
        """Whether the declared default stands, and no layer and no rule has had a say in it."""
        return self.layer == "default" and self.value == self.setting.default


class Resolution(NamedTuple):
    """Every effective value of one contract, and every problem found on the way.

    ``generation`` is that of the overrides that were taken in, 0 where there are none.
    """

    contract: Contract
    settings: Dict[str, Effective]
    problems: Tuple[Problem, ...]
    generation: int = 0

    def __repr__(self) -> str:
        return f"Resolution({self.contract.target!r}, {list(self.settings.values())!r})"

    @property
    def values(self) -> Dict[str, Optional[Value]]:
        """Canonical values by name."""
        return {name: effective.value for name, effective in self.settings.items()}


def resolve(
    contract: Contract, layers: Sequence[Layer], *, only: Optional[Iterable[str]] = None
) -> Resolution:
    """Resolve a contract against its layers.

    Args:
        contract: what is declared.
        layers: raw text by layer, low to high.
        only: the names to resolve, where not all are needed (rules then apply among these).

    Returns:
        An effective value for each setting asked for. Never raises for any text in any layer.
    """
    names = list(contract.settings if only is None else only)
    drafts = _drafts([contract.settings[name] for name in names], layers)
    values = {n: drafts[n].value if n in drafts else contract.settings[n].default for n in names}
    for repair in apply_rules(contract, values):
        draft = drafts.setdefault(repair.name, _Draft(contract.settings[repair.name], ()))
        draft.repair(repair.value, repair.message)
    finished = {
        n: drafts[n].finish() if n in drafts else _declared(contract.settings[n]) for n in names
    }
    problems = [problem for n in names if n in drafts for problem in drafts[n].problems]
    problems.extend(problem for layer in layers for problem in layer.problems)
    if only is None:
        problems.extend(unknown_names(contract, layers))
    return Resolution(
        contract,
        finished,
        tuple(problems),
        max((layer.generation for layer in layers), default=0),
    )


def shown(setting: Setting, text: str) -> str:
    """Return raw text as any output may show it: a secret is masked, a url loses its userinfo."""
    if setting.secret:
        return MASK
    if setting.type == "url":
        return excerpt(mask_userinfo(text))
    if setting.type == "list" and setting.items == "url":
        return excerpt(",".join(mask_userinfo(item) for item in text.split(",")))
    return excerpt(text)


def _group(entries: Sequence[Entry]) -> Dict[str, List[Entry]]:
    grouped: Dict[str, List[Entry]] = {}
    for entry in entries:
        grouped.setdefault(entry.name, []).append(entry)
    return grouped


def _drafts(settings: Iterable[Setting], layers: Sequence[Layer]) -> Dict[str, _Draft]:
    """Return a draft of each setting that a layer says something of, by its name.

    Most are in no layer at all, and are what they were declared.
    """
    by_name = [(layer.name, _group(layer.entries)) for layer in reversed(layers) if layer.entries]
    said = {name for _, entries in by_name for name in entries}
    said.update(kill.name for layer in layers for kill in layer.kills)
    drafts = {
        setting.name: _Draft(setting, by_name)
        for setting in settings
        if setting.name in said or not said.isdisjoint(setting.legacy)
    }
    for layer in layers:
        for kill in layer.kills:
            if kill.name in drafts:
                drafts[kill.name].kill(layer.name, kill)
    return drafts


def _declared(setting: Setting) -> Effective:
    """Return a setting that no layer and no rule has a say in."""
    return Effective(setting, setting.default, "default", None, None, "default", (), ())


class _Draft:
    """One setting while it is being decided."""

    def __init__(
        self, setting: Setting, layers: Sequence[Tuple[str, Mapping[str, List[Entry]]]]
    ) -> None:
        self.setting = setting
        self.value = setting.default
        self.layer = "default"
        self.origin: Optional[str] = None
        self.raw: Optional[str] = None
        self.codes: List[str] = []
        self.notes: List[Note] = []
        self.problems: List[Problem] = []
        self.stack: List[Candidate] = []
        self.killed = False
        decided = False
        for layer, entries in layers:
            offered = self._offered(layer, entries)
            if decided:
                self._shadow(layer, offered)
            elif offered:
                decided = self._decide(layer, offered)

    def _offered(self, layer: str, entries: Mapping[str, List[Entry]]) -> List[Entry]:
        """Return this layer's texts for the setting, the one that speaks for the layer first."""
        speaking: List[Entry] = []
        rest: List[Entry] = []
        for name in (self.setting.name, *self.setting.legacy):
            written = entries.get(name)
            if not written:
                continue
            last = written[-1]
            rest.extend(reversed(written[:-1]))
            if not speaking and not self._unset(last):
                speaking.append(last)
            else:
                rest.append(last)
        if len(speaking) + len(rest) > 1:
            self._report_duplicates(layer, speaking, rest)
        return speaking + rest

    def _unset(self, entry: Entry) -> bool:
        return entry.fault is None and is_blank(entry.text) and not self.setting.allow_blank

    def _report_duplicates(self, layer: str, speaking: List[Entry], rest: List[Entry]) -> None:
        if not speaking:
            return
        winner = speaking[0]
        for entry in rest:
            if self._unset(entry):
                continue
            if entry.name != winner.name:
                message = f"set under two names in one layer; {winner.name} wins over {entry.name}"
                self._problem("duplicate-name", entry, message, suggestion=self.setting.name)
            elif layer != _STACKED and (entry.text, entry.origin) != (winner.text, winner.origin):
                message = f"set twice in layer {layer}; {winner.origin} wins over {entry.origin}"
                self._problem("shadowed", entry, message)

    def _shadow(self, layer: str, offered: Sequence[Entry]) -> None:
        for entry in offered:
            verdict = "blank" if self._unset(entry) else "shadowed"
            self._offer(layer, entry, verdict)
            if verdict == "shadowed":
                text = shown(self.setting, entry.text)
                by = self.layer if layer != self.layer else self.origin
                message = f"{layer} value {text!r} ({entry.origin}) is shadowed by {by}"
                self.notes.append(Note("shadowed", message))

    def _decide(self, layer: str, offered: Sequence[Entry]) -> bool:
        """Judge the text that speaks for a layer; True where it is in force."""
        rest = list(offered)
        decided = False
        while rest and not decided:
            entry = rest.pop(0)
            verdict, reason = self._judge(entry)
            self._offer(layer, entry, verdict, reason)
            decided = verdict == "in force"
            if decided:
                self.layer, self.origin, self.raw = layer, entry.origin, entry.text
            if layer != _STACKED:
                break
        if layer == _STACKED:
            self._shadow(layer, rest)
            return decided
        for entry in rest:
            self._offer(layer, entry, "blank" if self._unset(entry) else "shadowed")
        return decided

    def _judge(self, entry: Entry) -> Tuple[str, str]:
        setting = self.setting
        if self._unset(entry):
            self._blank(entry)
            return "blank", "a blank is unset"
        if entry.fault is not None:
            self._problem("invalid-value", entry, entry.fault)
            return "invalid", entry.fault
        outcome = self._parse(entry.text)
        if isinstance(outcome, Invalid):
            text = shown(setting, entry.text)
            message = f"{text!r} is not a valid {setting.type}: {outcome.reason}"
            self._problem("invalid-value", entry, message)
            return "invalid", outcome.reason
        if entry.name != setting.name:
            message = f"{entry.name} is the legacy name of {setting.name}; rename it"
            self._problem("legacy-name", entry, message, suggestion=setting.name)
        if outcome.trimmed:
            message = "white space around the value was ignored (a CRLF file is the usual cause)"
            suggestion = shown(setting, entry.text.strip(WHITE))
            self._problem("whitespace", entry, message, suggestion=suggestion)
        moved, bound = clamp(setting, outcome.value)
        self.value = conceal(setting, moved)
        if bound is not None:
            given, limit = value(setting, outcome.value), value(setting, moved)
            message = f"{given} is {_SIDE[bound]} the {bound} {limit}; using {limit}"
            suggestion = render(setting, moved)
            self._problem("clamped-value", entry, message, suggestion=suggestion)
        return "in force", ""

    def _parse(self, text: str) -> Union[Parsed, Invalid]:
        outcome = parse(self.setting, text)
        if isinstance(outcome, Parsed) and self.setting.reject:
            limit, bound = clamp(self.setting, outcome.value)
            if bound is not None:
                return Invalid(f"it is {_SIDE[bound]} the {bound} {value(self.setting, limit)}")
        return outcome

    def _blank(self, entry: Entry) -> None:
        if self.setting.secret:
            self._problem("blank-secret", entry, "the secret is set, and blank; it is not used")
        elif entry.text:
            self.notes.append(Note("blank-value", f"{entry.origin}: only white space; unset"))

    def _offer(self, layer: str, entry: Entry, verdict: str, reason: str = "") -> None:
        self.stack.append(Candidate(layer, entry.origin, entry.name, entry.text, verdict, reason))

    def _problem(
        self, code: str, entry: Entry, message: str, *, suggestion: Optional[str] = None
    ) -> None:
        raw = None if self.setting.secret else entry.fault or entry.text
        self.codes.append(code)
        self.notes.append(Note(code, message))
        self.problems.append(
            Problem(code, self.setting.name, message, entry.origin, suggestion, raw)
        )

    def kill(self, layer: str, entry: Entry) -> None:
        """Take the safe value, whatever any layer says. A later kill speaks for earlier ones."""
        flag = self.setting.flag
        if flag is None:
            return
        by = "shadowed", f"the flag is killed ({entry.origin})"
        self.stack = [
            c._replace(verdict=by[0], reason=by[1]) if c.verdict == "in force" else c
            for c in self.stack
        ]
        self.killed = True
        self.value = flag.kill
        self.layer, self.origin, self.raw = layer, entry.origin, render(self.setting, flag.kill)
        where = (layer, entry.origin, entry.name, self.raw)
        self.stack.insert(0, Candidate(*where, "in force", "the flag is killed"))

    def repair(self, moved: Value, message: str) -> None:
        """Take the value that a rule moved this setting to."""
        if self.killed:
            return
        self.value = moved
        entry = Entry(self.setting.name, self.raw or "", self.origin or "default")
        self._problem("rule-repaired", entry, message, suggestion=render(self.setting, moved))

    def finish(self) -> Effective:
        return Effective(
            self.setting,
            self.value,
            self.layer,
            self.origin,
            self.raw,
            self._status(),
            tuple(self.notes),
            tuple(self.stack),
        )

    def _status(self) -> str:
        if self.killed:
            return "killed"
        if "invalid-value" in self.codes or "blank-secret" in self.codes:
            return "invalid"
        if "rule-repaired" in self.codes:
            return "repaired"
        if "clamped-value" in self.codes:
            return "clamped"
        return "default" if self.layer == "default" else "ok"


#: The layer of settings files, whose sections and files are made to override each other: that one
#: beats another is no finding, and where the highest is invalid the one below it serves.
_STACKED = "file"

_SIDE = {"minimum": "below", "maximum": "above"}
