"""Replaces ``$NAME`` and ``${NAME...}`` in one text, exactly as Docker Compose does.

The first operator after the name decides; an unused default is not looked at (unless ``eager``, as
Compose 2.40 did); what was put in is never scanned again. Pure, and linear in the length of the
text: braces are paired in one pass and nesting costs no recursion. Ground floor.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

Lookup = Callable[[str], Optional[str]]

# Compose matches names with ASCII classes and without regard to case, and Unicode folds two more
# characters into that: the long s and the Kelvin sign.
_NAME = re.compile("[_A-Za-z\u017f\u212a][_A-Za-z0-9\u017f\u212a]*")
_OPERATOR = re.compile(":?[-+?]")
_BRACES = re.compile("[{}\n]")

#: A bound on one outcome: a few lines that each repeat the one above would fill any memory.
MOST_CHARACTERS = 4 * 1024 * 1024

#: The text of ``${NAME:?text}`` is shown up to this many characters.
SHOWN = 200


class Reference(NamedTuple):
    """One variable that a text asked for.

    ``offset`` is the index of its ``$``. ``operator`` is one of ``: - + ?`` combined as written,
    or empty. ``value`` is what the lookup answered, ``None`` where it has no such variable.
    """

    name: str
    offset: int
    operator: str
    value: Optional[str]

    @property
    def blank(self) -> bool:
        """Whether Compose would warn: no such variable, and nothing says what to do then."""
        return self.value is None and not self.operator


class TemplateError(ValueError):
    """A text cannot be interpolated. Carries the index of the ``$`` and the kind of refusal.

    ``kind`` is ``template`` (not a valid expression) or ``required`` (``:?`` or ``?`` and the
    variable is missing). ``reason`` is for a person and holds no value.
    """

    def __init__(self, reason: str, *, kind: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.offset = offset


class _Frame(NamedTuple):
    """A stretch of the text being worked on: up to ``end``, then on at ``resume``.

    ``out`` collects it (a discarded list where only its errors count). ``name`` is set where the
    stretch is the message of a required variable, which is refused when the stretch is done.
    """

    end: int
    resume: int
    out: List[str]
    offset: int
    name: Optional[str] = None


def interpolate(
    text: str,
    lookup: Lookup,
    *,
    eager: bool = False,
    references: Optional[List[Reference]] = None,
) -> str:
    """Put the values of variables into ``text``.

    Args:
        text: the template, as Compose sees it (after YAML or quotes were taken off).
        lookup: answers a variable's value, or ``None`` where it is not set (empty is a value).
        eager: evaluate a default even where it is not used, as Compose 2.40 does.
        references: a list that receives each variable asked for, in order.

    Returns:
        The text with everything replaced; ``$$`` is ``$``.

    Raises:
        TemplateError: an expression is not valid, or a required variable is missing.
    """
    if "$" not in text:
        return text
    found: List[Reference] = [] if references is None else references
    return _Scan(text, lookup, found, eager=eager).run()


class _Scan:
    """One pass over one text. A fresh object for each text."""

    def __init__(self, text: str, lookup: Lookup, found: List[Reference], *, eager: bool) -> None:
        self.text = text
        self.lookup = lookup
        self.found = found
        self.eager = eager
        self.room = MOST_CHARACTERS - len(text)
        self.closing: Optional[Dict[int, int]] = None
        self.frames = [_Frame(len(text), len(text), [], 0)]

    def run(self) -> str:
        at = 0
        while True:
            frame = self.frames[-1]
            dollar = self.text.find("$", at, frame.end)
            if dollar >= 0:
                frame.out.append(self.text[at:dollar])
                at = self.expression(dollar, frame)
                continue
            frame.out.append(self.text[at : frame.end])
            if frame.name is not None:
                raise self.missing(frame)
            if len(self.frames) == 1:
                return "".join(frame.out)
            self.frames.pop()
            at = frame.resume

    def expression(self, dollar: int, frame: _Frame) -> int:
        """Work on the ``$`` at ``dollar``; the index where the scan goes on."""
        text, end = self.text, frame.end
        after = text[dollar + 1 : dollar + 2] if dollar + 1 < end else ""
        if after == "$":
            frame.out.append("$")
            return dollar + 2
        if after != "{":
            match = _NAME.match(text, dollar + 1, end)
            if match is None:
                frame.out.append("$")
                return dollar + 1
            frame.out.append(self.ask(match.group(), dollar, "") or "")
            return match.end()
        match = _NAME.match(text, dollar + 2, end)
        if match is None:
            raise _invalid(text, dollar, end)
        name, stop = match.group(), match.end()
        if stop < end and text[stop] == "}":
            frame.out.append(self.ask(name, dollar, "") or "")
            return stop + 1
        operator = _OPERATOR.match(text, stop, end)
        if operator is None:
            raise _invalid(text, dollar, end)
        first, last = operator.end(), self.close(dollar + 1, operator.end(), end)
        if last < 0:
            raise _invalid(text, dollar, end)
        return self.operate(name, operator.group(), dollar, (first, last), frame.out)

    def operate(
        self, name: str, operator: str, dollar: int, inner: Tuple[int, int], out: List[str]
    ) -> int:
        """Decide by the operator whether the text between it and the brace counts."""
        value = self.ask(name, dollar, operator)
        first, last = inner
        there = bool(value) if operator[0] == ":" else value is not None
        sign = operator[-1]
        if sign == "?" and not there:
            self.frames.append(_Frame(last, last + 1, [], dollar, name))
            return first
        if sign != "?" and there == (sign == "+"):
            self.frames.append(_Frame(last, last + 1, out, dollar))
            return first
        # An unset ``+`` leaves nothing; a set ``:+`` that is empty leaves that emptiness.
        out.append(value or "")
        if self.eager:
            self.frames.append(_Frame(last, last + 1, [], dollar))
            return first
        return last + 1

    def ask(self, name: str, dollar: int, operator: str) -> Optional[str]:
        value = self.lookup(name)
        self.found.append(Reference(name, dollar, operator, value))
        self.room -= len(value or "")
        if self.room < 0:
            reason = f"the outcome has more than {MOST_CHARACTERS} characters"
            raise TemplateError(reason, kind="template", offset=dollar)
        return value

    def close(self, brace: int, first: int, end: int) -> int:
        """The index of the ``}`` that ends the expression whose ``{`` is at ``brace``, or -1.

        Where the braces do not add up, Compose takes the last ``}`` of the line.
        """
        if self.closing is None:
            self.closing = _pair(self.text)
        paired = self.closing.get(brace, -1)
        if first <= paired < end:
            return paired
        newline = self.text.find("\n", first, end)
        return self.text.rfind("}", first, end if newline < 0 else newline)

    def missing(self, frame: _Frame) -> TemplateError:
        """The refusal of a required variable, with the text that its author wrote for this case."""
        told = self.text[self.text.index("?", frame.offset) + 1 : frame.end]
        if len(told) > SHOWN:
            told = told[:SHOWN] + "..."
        told = f": {told}" if told and told.isprintable() else ""
        reason = f"required variable {frame.name} is missing a value{told}"
        return TemplateError(reason, kind="required", offset=frame.offset)


def _pair(text: str) -> Dict[int, int]:
    """Pair each ``{`` with its ``}`` on the same line, as Compose counts them.

    Compose steps over the character after a counted ``{``, whatever it is; so ``{}`` and ``{{``
    count as one open brace. All its counts start at a ``${`` and therefore agree.
    """
    pairs: Dict[int, int] = {}
    open_braces: List[int] = []
    skipped = -1
    for match in _BRACES.finditer(text):
        at = match.start()
        character = text[at]
        if character == "\n":
            open_braces.clear()
        elif at == skipped:
            continue
        elif character == "{":
            open_braces.append(at)
            skipped = at + 1
        elif open_braces:
            pairs[open_braces.pop()] = at
    return pairs


def _invalid(text: str, dollar: int, end: int) -> TemplateError:
    """The refusal of the expression at ``dollar``; says which rule it breaks."""
    match = _NAME.match(text, dollar + 2, end)
    # The name is not shown: it may be a piece of a password that holds a '$'.
    if match is None:
        why = "a name must follow ${"
    elif _OPERATOR.match(text, match.end(), end) is not None:
        why = "${ has no closing brace on its line"
    else:
        why = "the name behind ${ must be followed by } or one of :- - :+ + :? ?"
    return TemplateError(f"{why}; a literal $ is written $$", kind="template", offset=dollar)
