"""The variables that ``${NAME}`` sees in compose files, each with the layer that it comes from.

Shell first, then ``--env-file`` or ``.env``; an included project sees its parent's, then its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from relayconf.compose.dotenv import EnvEntry, parse_dotenv
from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Source
from relayconf.compose.session import Session


class Variable(NamedTuple):
    """One variable: its value, the layer, where it stands (for a file), and how it stands there."""

    value: str
    layer: str
    origin: str | None = None
    raw: str | None = None

    @property
    def source(self) -> Source:
        """The layer and the place alone, for what takes its value from here."""
        return Source(self.layer, self.origin)


class Variables:
    """Names and records. Immutable in use: ``under`` makes a new one."""

    def __init__(self, records: Mapping[str, Variable]) -> None:
        self.records = dict(records)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Variables:
        """The process environment, the layer that always wins."""
        shell = ((_decoded(name), _decoded(value)) for name, value in environ.items())
        return cls({name: Variable(value, "shell") for name, value in shell})

    def lookup(self, name: str) -> str | None:
        """The value of a variable, or ``None`` where no layer has it."""
        record = self.records.get(name)
        return None if record is None else record.value

    def over(self, lower: Mapping[str, Variable]) -> Variables:
        """These variables, and from ``lower`` those that are missing here."""
        return Variables({**lower, **self.records})


def _decoded(text: str) -> str:
    """Bytes of the environment that are no UTF-8 reach a container as U+FFFD, one for each."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", text)


def read_env_files(
    paths: Iterable[str], above: Variables, session: Session, *, layer: str
) -> dict[str, Variable]:
    """Read env files in order, as Compose reads ``.env`` and ``--env-file``; the last file wins.

    Args:
        paths: absolute paths.
        above: the variables that win over the files in ``$NAME`` and feed their bare keys.
        session: reads the files and collects the notes.
        layer: the name of the layer that the records get.

    Raises:
        ComposeError: a file is missing, is a directory, or does not parse.
    """
    records: dict[str, Variable] = {}
    for path in paths:
        shown = session.display(path)
        if not os.path.exists(path):
            raise ComposeError(f"couldn't find env file: {shown}", kind="missing-file")
        if os.path.isdir(path):
            raise ComposeError(f"{shown} is a directory", kind="missing-file")
        entries = parse_dotenv(
            session.read(path),
            path=shown,
            lookup=above.lookup,
            earlier={name: record.value for name, record in records.items()},
            eager=not session.newest,
        )
        session.took(shown, layer, entries)
        note_entries(entries, shown, session)
        for entry in entries:
            if entry.value is not None:
                origin = f"{shown}:{entry.line}:{entry.column}"
                records[entry.name] = Variable(entry.value, layer, origin, entry.raw)
    return records


def note_entries(entries: Iterable[EnvEntry], path: str, session: Session) -> None:
    """Note what in an env file surely is not what its author meant."""
    for entry in entries:
        origin = f"{path}:{entry.line}:{entry.column}"
        session.note_unset(entry.references, origin)
        if entry.form == "unfinished":
            text = (
                "a key on the last line without a line feed is read as the value of a variable "
                "without name; end the line"
            )
            session.note("unfinished-key", entry.value or "", text, origin)
