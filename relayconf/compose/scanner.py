"""ruamel.yaml's scanner, with white space and escapes as in the library that Compose reads YAML by.

Tabs may separate tokens there wherever no indentation is at stake (``A:<tab>1``, ``A: 1<tab># c``),
while ruamel.yaml forbids them in block context. U+0085, U+2028 and U+2029 end a line there, as they
did in YAML 1.1. Nothing else differs.
"""

from __future__ import annotations

from typing import Any

from ruamel.yaml.reader import Reader
from ruamel.yaml.scanner import Scanner, ScannerError

_BREAKS = "\r\n\x85\u2028\u2029"
_BLANKS = " \t"


class BreakReader(Reader):
    """A reader that counts lines as YAML 1.1 does, whatever version a document names."""

    def forward(self, length: int = 1) -> None:
        """Move on; every kind of line break begins a line."""
        self.forward_1_1(length)


class TabScanner(Scanner):
    """A scanner for ``YAML(typ="safe", pure=True)``; hooks where the base skips white space."""

    ESCAPE_REPLACEMENTS = {  # noqa: RUF012  # as the base class has it
        **{code: text for code, text in Scanner.ESCAPE_REPLACEMENTS.items() if code != "/"},
        "'": "'",
    }

    def scan_to_next_token(self) -> Any:
        """Skip white space, line breaks and comments; a tab only where no key may start."""
        peek, forward = self.reader.peek, self.reader.forward
        if self.reader.index == 0 and peek() == "\ufeff":
            forward()
        while True:
            while peek() == " " or (
                peek() == "\t" and (self.flow_level or not self.allow_simple_key)
            ):
                forward()
            if peek() == "#":
                while peek() not in "\0" + _BREAKS:
                    forward()
            if not self.scan_line_break():
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> Any:
        """Skip what stands between two words of a plain scalar, and fold its line breaks."""
        reader = self.reader
        length = 0
        while reader.peek(length) in _BLANKS:
            length += 1
        blanks = reader.prefix(length)
        reader.forward(length)
        if reader.peek() not in _BREAKS:
            return [blanks] if blanks else []
        first = self.scan_line_break()
        self.allow_simple_key = True
        breaks: list[str] = []
        while not self._at_document_mark():
            character = reader.peek()
            if character == "\t" and reader.column < indent:
                reason = "found a tab character that violates indentation"
                raise ScannerError(
                    "while scanning a plain scalar", start_mark, reason, reader.get_mark()
                )
            if character in _BLANKS:
                reader.forward()
            elif character in _BREAKS:
                breaks.append(self.scan_line_break())
            elif first != "\n":
                return [first, *breaks]
            else:
                return breaks or [" "]
        return []

    def _at_document_mark(self) -> bool:
        """Whether a line starts with ``---`` or ``...``, which ends any plain scalar."""
        reader = self.reader
        if reader.column != 0 or reader.prefix(3) not in ("---", "..."):
            return False
        return reader.peek(3) in "\0" + _BREAKS + _BLANKS
