"""The inspection: everything that one check looks at, gathered once and never changed after.

Gathering reads a project as Compose does and remembers each env file on the way. What Compose
refuses does not end it: expressions and env files are passed over, an inconsistent project is taken
as it is, and of anything graver as much is kept as was read before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from relayconf.check.hiding import Hiding
from relayconf.check.texts import Texts
from relayconf.check.uses import Use, uses_of
from relayconf.compose.dotenv import EnvEntry
from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Mapping as Node
from relayconf.compose.project import Project, load_in
from relayconf.compose.session import Session
from relayconf.setting import Contract


class EnvFile(NamedTuple):
    """One reading of an env file. ``layer`` is ``env_file``, or that of the project's variables."""

    path: str
    layer: str
    entries: tuple[EnvEntry, ...]

    @property
    def feeds_project(self) -> bool:
        """Whether compose files see its variables, and containers only what is handed on."""
        return self.layer != "env_file"


class Refusal(NamedTuple):
    """What Compose refuses, and the keys that lead to it in the document, where that is known."""

    error: ComposeError
    path: tuple[str, ...] = ()


class Inspection(NamedTuple):
    """What one check looks at.

    Attributes:
        project: what was read; None where Compose refuses it as a whole.
        texts: every file that was read.
        env_files: each env file, read in Compose's dialect or as raw.
        refusals: what Compose refuses.
        contracts: the contracts of each service that has some.
        environ: the environment of the command.
        today: the day by which flags expire.
        uses: every ``$`` expression of the merged document.
        hiding: which values are not to be shown.
    """

    project: Project | None
    texts: Texts
    env_files: tuple[EnvFile, ...]
    refusals: tuple[Refusal, ...]
    contracts: Mapping[str, tuple[Contract, ...]]
    environ: Mapping[str, str]
    today: date
    uses: tuple[Use, ...]
    hiding: Hiding

    @property
    def model(self) -> Node | None:
        """The merged document, where there is one."""
        return None if self.project is None else self.project.model

    def declared(self) -> list[Contract]:
        """Every contract once."""
        return list({id(c): c for each in self.contracts.values() for c in each}.values())


class Gathered(NamedTuple):
    """A project as far as it could be read, before its services have their contracts."""

    project: Project | None
    session: Recorder

    def inspection(
        self,
        contracts: Mapping[str, tuple[Contract, ...]],
        environ: Mapping[str, str],
        today: date,
    ) -> Inspection:
        """Complete it."""
        session = self.session
        env_files = tuple(session.env_files.values())
        return Inspection(
            self.project,
            Texts(session.contents(), (file.path for file in env_files)),
            env_files,
            tuple(session.refusals),
            contracts,
            environ,
            today,
            () if self.project is None else tuple(uses_of(self.project.model)),
            Hiding(contract for each in contracts.values() for contract in each),
        )


class Recorder(Session):
    """A session that remembers what it read and goes on past what is refused."""

    def __init__(self, directory: str, *, version: str = "newest") -> None:
        super().__init__(directory, version=version)
        self.env_files: dict[tuple[str, str], EnvFile] = {}
        self.refusals: list[Refusal] = []
        self._refused: set[str | None] = set()

    def took(self, path: str, layer: str, entries: Sequence[EnvEntry]) -> None:
        """Keep the first reading of a file in a layer."""
        self.env_files.setdefault((path, layer), EnvFile(path, layer, tuple(entries)))

    def tolerates(self, error: ComposeError, path: tuple[str, ...]) -> bool:
        """Remember what is refused, once for its place, and go on."""
        if error.origin not in self._refused and not self._follows(error, path):
            self._refused.add(error.origin)
            self.refusals.append(Refusal(error, path))
        return True

    def _follows(self, error: ComposeError, path: tuple[str, ...]) -> bool:
        """Whether an error may be due to the stand-in for an expression that was refused before."""
        if not path:
            return bool(self.refusals)
        missing = error.kind == "missing-file" and path[-1] == "env_file"
        return missing and any(
            refusal.error.kind in ("required", "template") and "env_file" in refusal.path
            for refusal in self.refusals
        )

    def contents(self) -> dict[str, bytes]:
        """Every file that was read, by the name that messages use."""
        return {self.display(path): data for path, data in self._bytes.items()}


def gather(
    directory: str,
    *,
    files: Sequence[str],
    env_files: Sequence[str],
    profiles: Sequence[str],
    environ: Mapping[str, str],
    version: str = "newest",
) -> Gathered:
    """Read a project.

    Args:
        directory: the working directory, absolute.
        files: ``-f`` options.
        env_files: ``--env-file`` options.
        profiles: ``--profile`` options.
        environ: the process environment.
        version: whose differences count.

    Raises:
        ComposeError: a file that was named is not there or cannot be read, or there is none.
    """
    session = Recorder(directory, version=version)
    try:
        project = load_in(session, files, env_files, environ=environ, profiles=profiles)
    except ComposeError as error:
        if error.origin is None and error.kind in ("missing-file", "unreadable", "limit"):
            raise
        if not session.refusals:
            session.refusals.append(Refusal(error))
        return Gathered(None, session)
    return Gathered(project, session)
