"""What one reading of a project shares: files read once, their names, bounds, notes, the version.

A file is read at most once and its bare YAML graph is kept; nothing outside the files that the
project names is touched. Every failure to read is one ``ComposeError`` that names the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence as Listed
from typing import TYPE_CHECKING, NamedTuple

from relayconf.compose import VERSIONS
from relayconf.compose.decode import Document, decode
from relayconf.compose.document import RawNode, read_documents
from relayconf.compose.dotenv import EnvEntry
from relayconf.compose.errors import ComposeError, printable
from relayconf.compose.interpolate import Reference

if TYPE_CHECKING:
    from relayconf.compose.environment import Binding

#: A larger file is refused: no env or compose file of a person's making comes near it.
MAX_BYTES = 16 * 1024 * 1024
#: More loads of compose files are refused: includes that each include two more double each time.
MAX_LOADS = 2_000

# Where a shell's ``<(command)`` shows up: the one pipe that surely has a writer.
_PASSED = ("/dev/fd/", "/proc/self/fd/")


class Note(NamedTuple):
    """Something Compose warns of, or should: a stable code, the name it is about, and where."""

    code: str
    name: str
    message: str
    origin: str | None


class Session:
    """The shared state of one reading. ``directory`` is the working directory, absolute."""

    def __init__(self, directory: str, *, version: str = "newest") -> None:
        if version not in VERSIONS:
            known = ", ".join(VERSIONS)
            raise ComposeError(f"unknown Compose version {version!r}; known: {known}", kind="limit")
        self.directory = directory
        self.newest = version == "newest"
        self._notes: dict[Note, None] = {}
        self._bytes: dict[str, bytes] = {}
        self._graphs: dict[str, list[RawNode]] = {}
        self._loaded = 0
        #: Env files whose assignments depend on nothing outside of them, by path and format.
        self.settled: dict[tuple[str, str], list[Binding]] = {}

    def display(self, path: str) -> str:
        """How messages name a file: relative to the working directory where it is inside."""
        if os.path.isabs(path) and "\0" not in path:
            relative = os.path.relpath(path, self.directory)
            path = path if relative.startswith("..") else relative
        return printable(path)

    def absolute(self, path: str) -> str:
        """A path as a command line means it: relative to the working directory."""
        return os.path.normpath(os.path.join(self.directory, path))

    def read(self, path: str) -> bytes:
        """The content of a file.

        Raises:
            ComposeError: it is not there, is a directory, is too large, or cannot be read.
        """
        if path in self._bytes:
            return self._bytes[path]
        shown = self.display(path)
        try:
            if stat.S_ISFIFO(os.stat(path).st_mode) and not path.startswith(_PASSED):
                raise ComposeError(f"{shown} is a named pipe, not a file", kind="unreadable")
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            reason = "no such file or directory"
            raise ComposeError(f"open {shown}: {reason}", kind="missing-file") from None
        except IsADirectoryError:
            raise ComposeError(f"read {shown}: is a directory", kind="missing-file") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ComposeError(f"open {shown}: {reason.lower()}", kind="unreadable") from None
        if len(data) > MAX_BYTES:
            raise ComposeError(f"{shown} is larger than {MAX_BYTES} bytes", kind="limit")
        self._bytes[path] = data
        return data

    def documents(self, path: str) -> list[Document]:
        """The typed documents of a YAML file, fresh each time, since they will be changed."""
        self._loaded += 1
        if self._loaded > MAX_LOADS:
            raise ComposeError(f"includes load more than {MAX_LOADS} files", kind="limit")
        if path not in self._graphs:
            self._graphs[path] = read_documents(
                self.read(path), self.display(path), newest=self.newest
            )
        return [decode(root, newest=self.newest) for root in self._graphs[path]]

    def took(self, path: str, layer: str, entries: Listed[EnvEntry]) -> None:
        """Told of every env file once it is parsed; a subclass may look at the lines itself.

        Args:
            path: the file as messages name it.
            layer: ``env_file``, or the layer of project variables that it feeds.
            entries: its assignments in file order.
        """

    def tolerates(self, error: ComposeError, path: tuple[str, ...]) -> bool:  # noqa: ARG002  # a hook
        """Whether to go on after something that Compose refuses.

        A refused expression gets a stand-in for its value, a refused env file sets nothing, and a
        document that is inconsistent is taken as it is. A subclass that reports faults may remember
        the error, and where in the document it is.
        """
        return False

    def note(self, code: str, name: str, message: str, origin: str | None) -> None:
        """Remember a note once, however often its place is read."""
        self._notes[Note(code, name, message, origin)] = None

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes so far, each once, in the order they came up."""
        return tuple(self._notes)

    def note_unset(self, references: tuple[Reference, ...], origin: str) -> None:
        """Remember each variable that became nothing because no layer has it."""
        for name in dict.fromkeys(ref.name for ref in references if ref.blank):
            text = f"the {name} variable is not set and becomes a blank string"
            self.note("unset", name, text, origin)
