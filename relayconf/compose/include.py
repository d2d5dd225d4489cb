"""Follows ``include``: other projects whose resources become part of this one.

An included project reads its own ``.env`` or ``env_file`` underneath its parent's variables, and
its paths are relative to its own folder. Cycles are refused; depth is bounded.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from relayconf.compose.canonical import join
from relayconf.compose.decode import Path, apply_resets
from relayconf.compose.errors import ComposeError
from relayconf.compose.merge import merge
from relayconf.compose.nodes import Mapping, Node, Sequence, is_null, kind, same, text_of
from relayconf.compose.session import Session

#: Deeper includes are refused; each level costs stack frames here.
MAX_LEVELS = 20

_RESOURCES = ("services", "jobs", "volumes", "networks", "secrets", "configs", "models")


class Included(NamedTuple):
    """One entry of ``include``, with its paths settled.

    ``files`` are absolute, the main one first. ``folder`` is the included project's own, absolute;
    ``relative`` the same as Compose holds it, relative to the including project. ``env_files`` are
    absolute.
    """

    files: tuple[str, ...]
    folder: str
    relative: str
    env_files: tuple[str, ...]


def read_entries(
    root: Mapping, folder: str, relative: str, chain: tuple[str, ...], session: Session
) -> list[Included]:
    """Take the ``include`` section out of a document.

    Args:
        root: the document; its ``include`` is removed.
        folder: the folder of the including project, absolute; files are relative to it.
        relative: that folder as Compose holds it. Compose looks for the env files and the project
            folder of an entry there, and for a nested project that is relative to the working
            directory; a nested entry may therefore look in an unexpected place, as in Compose.
        chain: the main files from the first project down to this one.
        session: says what is relative to the working directory.

    Raises:
        ComposeError: an entry of the wrong kind, a missing env file, or a cycle.
    """
    node = root.entries.get("include")
    root.drop("include")
    if node is None or is_null(node):
        return []
    if not isinstance(node, Sequence):
        message = f"`include` must be a list, not a {kind(node)}"
        raise ComposeError(message, kind="schema", origin=str(node.mark))
    near = session.absolute(relative)
    # A null, like an entry without a path, includes nothing, in Compose as well.
    entries = [_long_form(item) for item in node.items if not is_null(item)]
    paths = [entry for entry in entries if _texts(entry, "path")]
    return [_entry(entry, folder, near, chain, session) for entry in paths]


def import_resources(
    source: Mapping, target: Mapping, resets: tuple[Path, ...], *, newest: bool
) -> None:
    """Bring what an included project defines into the including document.

    What both define is merged, the including file winning; Compose 2.40 refused it.

    Raises:
        ComposeError: a conflict that is not allowed.
    """
    for section in _RESOURCES:
        imported = source.entries.get(section)
        if not isinstance(imported, Mapping):
            continue
        mine = target.entries.setdefault(section, Mapping(imported.mark))
        target.keys.setdefault(section, imported.mark)
        if not isinstance(mine, Mapping):
            raise _refuse(f"schema: {section} must be a mapping", mine, "schema")
        for name, node in imported.entries.items():
            present = mine.entries.get(name)
            if present is None:
                mine.put(name, node, imported.keys[name])
            elif not same(node, present):
                if not newest:
                    reason = f"{section}.{name} conflicts with imported resource"
                    raise _refuse(reason, present, "include")
                mine.entries[name] = _merged(section, name, node, present, resets)


def _merged(
    section: str, name: str, imported: Node, present: Node, resets: tuple[Path, ...]
) -> Node:
    wrapper, holder = Mapping(imported.mark), Mapping(imported.mark)
    holder.put(name, imported, imported.mark)
    wrapper.put(section, holder, imported.mark)
    apply_resets(wrapper, resets)
    if name not in holder.entries:
        return present
    return merge(imported, present, (section, name))


def _long_form(node: Node) -> Mapping:
    """``- file`` as ``- path: file``."""
    if isinstance(node, Mapping):
        return node
    if text_of(node) is None:
        raise _refuse(f"include must name a file, not a {kind(node)}", node, "schema")
    entry = Mapping(node.mark)
    entry.put("path", node, node.mark)
    return entry


def _entry(
    entry: Mapping, folder: str, near: str, chain: tuple[str, ...], session: Session
) -> Included:
    files = tuple(join(folder, path) for path in _texts(entry, "path"))
    if files[0] in chain:
        shown = " includes ".join(session.display(path) for path in (*chain, files[0]))
        raise _refuse(f"include cycle detected: {shown}", entry, "include")
    if len(chain) > MAX_LEVELS:
        raise _refuse(f"more than {MAX_LEVELS} levels of include", entry, "limit")
    own = text_of(entry.entries.get("project_directory"))
    if own:
        project, relative = join(near, own), os.path.relpath(join(folder, own), folder)
        relative = own if os.path.isabs(own) else relative
    else:
        project = os.path.dirname(files[0])
        relative = os.path.relpath(project, folder)
    return Included(files, project, relative, _env_files(entry, project, near, session))


def _env_files(entry: Mapping, project: str, near: str, session: Session) -> tuple[str, ...]:
    """The env files an entry names, else the included project's own ``.env`` where it is a file."""
    named = _texts(entry, "env_file")
    if not named:
        default = os.path.join(project, ".env")
        return (default,) if os.path.isfile(default) else ()
    paths = []
    for name in named:
        if name == "/dev/null":
            continue
        path = join(near, name)
        shown, mark = session.display(path), entry.entries["env_file"]
        if not os.path.exists(path):
            raise _refuse(f"stat {shown}: no such file or directory", mark, "missing-file")
        if os.path.isdir(path):
            raise _refuse(f"{shown} is not a file", mark, "missing-file")
        paths.append(path)
    return tuple(paths)


def _texts(entry: Mapping, key: str) -> list[str]:
    """A text or a list of texts."""
    node = entry.entries.get(key)
    if node is None or is_null(node):
        return []
    items = node.items if isinstance(node, Sequence) else [node]
    texts = [text_of(item) for item in items]
    if not all(texts):
        raise _refuse(f"include {key} must be a string or a list of strings", node, "schema")
    return [text for text in texts if text]


def _refuse(message: str, node: Node, kind_: str) -> ComposeError:
    return ComposeError(message, kind=kind_, origin=str(node.mark))
