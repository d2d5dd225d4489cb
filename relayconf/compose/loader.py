"""Loads the files of one project into one merged document, in Compose's order of steps.

For each document of each file: interpolate, include, reset what earlier files said, extend, merge,
check, bring into canonical form. The order decides what sees what, so it is all in this module.
"""

from __future__ import annotations

from typing import NamedTuple

from relayconf.compose.canonical import (
    canonical_env_files,
    enforce_unique,
    resolve_paths,
    services_of,
)
from relayconf.compose.decode import Path, apply_resets
from relayconf.compose.errors import ComposeError
from relayconf.compose.expand import substitute
from relayconf.compose.extends import Extender
from relayconf.compose.include import Included, import_resources, read_entries
from relayconf.compose.merge import merge
from relayconf.compose.nodes import Mapping, Mark, Node, Scalar, Sequence
from relayconf.compose.schema import validate
from relayconf.compose.session import Session
from relayconf.compose.variables import Variables, read_env_files


class Scope(NamedTuple):
    """Where a project's files are read from and what they see.

    ``folder`` is the project's folder, absolute. ``relative`` is the same as Compose holds it: for
    an included project relative to the including one. ``chain`` are the main files on the way here.
    """

    folder: str
    relative: str
    variables: Variables
    chain: tuple[str, ...] = ()


def load_model(files: tuple[str, ...], scope: Scope, session: Session) -> Mapping:
    """Load a project's files, later ones over earlier ones.

    Args:
        files: absolute paths, at least one.
        scope: the project's folder and variables.
        session: reads files and collects notes.

    Returns:
        The merged document, its paths relative to the including project's folder and its list-style
        pass-through entries filled in from the project's own variables.

    Raises:
        ComposeError: anything that Compose refuses.
    """
    loader = _Loader(scope, session)
    model = Mapping(Mark(session.display(files[0]), 1, 1))
    for file in files:
        model, _ = loader.file(file, model)
    _check_objects(model)
    resolve_paths(model, scope.relative)
    _pass_through(model, scope.variables)
    return model


class _Loader:
    """Loads the files of one project in one scope."""

    def __init__(self, scope: Scope, session: Session) -> None:
        self.scope = scope
        self.session = session
        self.extender = Extender(session, scope.folder, self.extended)

    def file(self, path: str, model: Mapping) -> tuple[Mapping, tuple[Path, ...]]:
        """Put each document of a file over the model; also what the last one resets."""
        resets: tuple[Path, ...] = ()
        for document in self.session.documents(path):
            root, resets = self.prepared(document.root, document.resets, path)
            if self.session.newest:
                self.include(root, path, resets)
            apply_resets(model, resets)
            self.extender.apply(root, path, resets)
            if not self.session.newest:
                self.include(root, path, resets)
            model = self.put_over(model, root)
            validate(model, newest=self.session.newest)
            self.drop_version(model)
            canonical_env_files(model)
            enforce_unique(model)
        return model, resets

    def extended(self, path: str) -> tuple[Mapping, tuple[Path, ...]]:
        """A file that services extend: no include, no extends and no check yet."""
        model = Mapping(Mark(self.session.display(path), 1, 1))
        resets: tuple[Path, ...] = ()
        for document in self.session.documents(path):
            root, resets = self.prepared(document.root, document.resets, path)
            apply_resets(model, resets)
            model = self.put_over(model, root)
            canonical_env_files(model)
            enforce_unique(model)
        return model, resets

    def prepared(
        self, root: Node | None, resets: tuple[Path, ...], path: str
    ) -> tuple[Mapping, tuple[Path, ...]]:
        """The document as an interpolated mapping."""
        if not isinstance(root, Mapping):
            origin = str(root.mark) if root is not None else self.session.display(path)
            message = "top-level object must be a mapping"
            raise ComposeError(message, kind="schema", origin=origin)
        substitute(root, self.scope.variables, self.session)
        return root, resets

    def put_over(self, model: Mapping, root: Mapping) -> Mapping:
        """Merge a document over the model and let no list hold a key twice."""
        merged = merge(model, root)
        if not isinstance(merged, Mapping):
            raise TypeError("two mappings merge into a mapping")
        enforce_unique(merged)
        return merged

    def include(self, root: Mapping, path: str, resets: tuple[Path, ...]) -> None:
        """Load what a document includes and import its resources."""
        scope = self.scope
        chain = (*scope.chain, path)
        for entry in read_entries(root, scope.folder, scope.relative, chain, self.session):
            model = load_model(entry.files, self.scope_of(entry, chain), self.session)
            import_resources(model, root, resets, newest=self.session.newest)

    def scope_of(self, entry: Included, chain: tuple[str, ...]) -> Scope:
        """The scope of an included project: its own env files under these variables."""
        above = self.scope.variables
        layer = "include env_file"
        own = read_env_files(entry.env_files, above, self.session, layer=layer)
        return Scope(entry.folder, entry.relative, above.over(own), chain)

    def drop_version(self, model: Mapping) -> None:
        mark = model.keys.get("version")
        if mark is not None:
            text = "the attribute version is obsolete and ignored; remove it"
            self.session.note("obsolete-version", "version", text, str(mark))
            model.drop("version")


def _pass_through(model: Mapping, variables: Variables) -> None:
    """Fill in ``- NAME`` items of environment lists from a project's own variables.

    Entries of a mapping (``NAME:``) are left: they see the first project's variables only.
    """
    for _, service in services_of(model):
        environment = service.entries.get("environment")
        if not isinstance(environment, Sequence):
            continue
        for index, item in enumerate(environment.items):
            if isinstance(item, Scalar) and isinstance(item.value, str):
                found = variables.records.get(item.value)
                if found is not None:
                    text = f"{item.value}={found.value}"
                    environment.items[index] = item.replaced(text, source=found.source)


_OBJECTS = {
    "configs": ("file", "environment", "content"),
    "secrets": ("file", "environment"),
}


def _check_objects(model: Mapping) -> None:
    """Each config and secret says in exactly one way where its content comes from."""
    for section, ways in _OBJECTS.items():
        entries = model.entries.get(section)
        for name, node in entries.entries.items() if isinstance(entries, Mapping) else ():
            if not isinstance(node, Mapping):
                continue
            where = f"{section}.{name}"
            used = [way for way in ways if way in node.entries]
            if len(used) > 1:
                reason = f"{where}: {'|'.join(ways)} attributes are mutually exclusive"
                raise ComposeError(reason, kind="schema", origin=str(node.mark))
            if not used and not {"external", "driver"} & node.entries.keys():
                reason = f"{where}: one of {'|'.join(ways)} must be set"
                raise ComposeError(reason, kind="schema", origin=str(node.mark))
