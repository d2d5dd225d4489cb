"""Finds what makes up a project: its compose files, its folder, its variables, profiles and name.

The order is Compose's: the shell first; ``--env-file`` or the ``.env`` of the first file's folder;
with ``COMPOSE_FILE`` also the ``.env`` of the working directory, which may itself have set it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from relayconf.compose.errors import ComposeError
from relayconf.compose.session import Session
from relayconf.compose.variables import Variable, Variables, read_env_files

#: The names Compose looks for, best first, here and then in each parent folder.
DEFAULT_FILES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
#: The override that joins a default file of the same folder, best first.
DEFAULT_OVERRIDES = (
    "compose.override.yml",
    "compose.override.yaml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
)

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class Located(NamedTuple):
    """What was found. Paths are absolute; ``name`` is set where the environment fixes it."""

    files: tuple[str, ...]
    folder: str
    variables: Variables
    profiles: tuple[str, ...]
    name: str | None


def locate(
    session: Session,
    *,
    files: Sequence[str],
    env_files: Sequence[str],
    environ: Mapping[str, str],
    profiles: Sequence[str],
) -> Located:
    """Settle files, folder, variables and profiles as the ``docker compose`` command does.

    Args:
        session: knows the working directory and reads files.
        files: ``-f`` options; relative ones are under the working directory.
        env_files: ``--env-file`` options.
        environ: the process environment.
        profiles: ``--profile`` options; any of them replaces ``COMPOSE_PROFILES``.

    Raises:
        ComposeError: no compose file, a missing env file, or an env file that does not parse.
    """
    return _Locator(session, env_files, environ).run(files, profiles)


class _Locator:
    def __init__(
        self, session: Session, env_files: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        self.session = session
        self.environ = {"PWD": session.directory, **environ}
        listed = env_files or _split(self.environ.get("COMPOSE_ENV_FILES", ""), ",")
        self.chosen = tuple(session.absolute(os.path.expanduser(path)) for path in listed)
        self.variables = Variables.from_environ(self.environ)

    def run(self, files: Sequence[str], profiles: Sequence[str]) -> Located:
        session = self.session
        if "-" in files:
            reason = "reading a compose file from standard input is not supported; name a file"
            raise ComposeError(reason, kind="missing-file")
        named = [session.absolute(path) for path in files]
        folder = os.path.dirname(named[0]) if named else session.directory
        self.take_compose_settings(folder)
        self.take_env_files(folder)
        found = named or self.from_setting() or self.from_defaults()
        if not found:
            reason = f"no configuration file provided: not found in {session.directory}"
            raise ComposeError(reason, kind="missing-file")
        for path in found:
            session.read(path)
        folder = os.path.dirname(found[0])
        self.take_env_files(folder)
        asked = tuple(profiles) or self.profiles_setting()
        name = self.variables.lookup("COMPOSE_PROJECT_NAME") or None
        return Located(tuple(found), folder, self.variables, asked, name)

    def take_compose_settings(self, folder: str) -> None:
        """Let ``COMPOSE_`` names in the env file act as if the shell had set them."""
        for name, record in self.read(folder).items():
            if name.startswith("COMPOSE_") and name not in self.environ:
                self.environ[name] = record.value
                self.variables.records[name] = record

    def take_env_files(self, folder: str) -> None:
        self.variables = self.variables.over(self.read(folder))

    def read(self, folder: str) -> dict[str, Variable]:
        """The chosen env files, else the folder's ``.env`` where it is a file."""
        if self.chosen:
            return read_env_files(self.chosen, self.variables, self.session, layer="--env-file")
        default = os.path.join(folder, ".env")
        if self.disabled() or not os.path.exists(default) or os.path.isdir(default):
            return {}
        return read_env_files((default,), self.variables, self.session, layer=".env")

    def disabled(self) -> bool:
        word = self.environ.get("COMPOSE_DISABLE_ENV_FILE")
        if word is None or word in _FALSE:
            return False
        if word in _TRUE:
            return True
        reason = "COMPOSE_DISABLE_ENV_FILE: invalid syntax, must be true or false"
        raise ComposeError(reason, kind="schema")

    def from_setting(self) -> list[str]:
        """The files that ``COMPOSE_FILE`` lists."""
        listed = self.variables.lookup("COMPOSE_FILE")
        if listed is None:
            return []
        separator = self.variables.lookup("COMPOSE_PATH_SEPARATOR") or os.pathsep
        return [self.session.absolute(path) for path in listed.split(separator)]

    def from_defaults(self) -> list[str]:
        """The best default file of the nearest folder that has one, and its best override."""
        folder = self.session.directory
        while True:
            present = _existing(folder, DEFAULT_FILES)
            if present:
                if len(present) > 1:
                    text = f"several default files; {os.path.basename(present[0])} is used"
                    origin = self.session.display(present[0])
                    self.session.note("several-files", present[0], text, origin)
                return present[:1] + _existing(folder, DEFAULT_OVERRIDES)[:1]
            parent = os.path.dirname(folder)
            if parent == folder:
                return []
            folder = parent

    def profiles_setting(self) -> tuple[str, ...]:
        listed = self.variables.lookup("COMPOSE_PROFILES") or ""
        return tuple(profile.strip() for profile in listed.split(","))


def normalize_name(name: str) -> str:
    """A project name as Compose makes one: lower case, letters, digits, ``_`` and ``-`` only."""
    return "".join(re.findall("[a-z0-9_-]", name.lower())).lstrip("_-")


def _existing(folder: str, names: tuple[str, ...]) -> list[str]:
    paths = (os.path.join(folder, name) for name in names)
    return [path for path in paths if os.path.exists(path)]


def _split(text: str, separator: str) -> list[str]:
    return [part for part in text.split(separator) if part]
