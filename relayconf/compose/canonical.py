"""Brings a merged document into the one form that the next file is merged into.

Lists of variables and of env files hold each key once; ``env_file`` is a list of mappings,
whichever form was written; relative paths are put under their project's folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from relayconf.compose.errors import ComposeError
from relayconf.compose.merge import unique_entries
from relayconf.compose.nodes import Mapping, Node, Scalar, Sequence, text_of

# Lists of a service that hold each KEY (or KEY=VALUE) once.
_UNIQUE = (
    "annotations",
    "cap_add",
    "cap_drop",
    "dns",
    "dns_opt",
    "dns_search",
    "environment",
    "labels",
    "links",
    "profiles",
    "sysctls",
    "tmpfs",
)


def services_of(root: Mapping) -> Iterator[tuple[str, Mapping]]:
    """Each service that is a mapping."""
    services = root.entries.get("services")
    if isinstance(services, Mapping):
        for name, service in services.entries.items():
            if isinstance(service, Mapping):
                yield name, service


def enforce_unique(root: Mapping) -> None:
    """Let the last of equal keys win in every list that may hold a key once only.

    Raises:
        ComposeError: an item of such a list is no text, or an env file has no path.
    """
    for name, service in services_of(root):
        for key in _UNIQUE:
            node = service.entries.get(key)
            if isinstance(node, Sequence):
                node.items = unique_entries(node.items, ("services", name, key))
        node = service.entries.get("env_file")
        if isinstance(node, Sequence):
            node.items = _unique_files(node.items, f"services.{name}.env_file")


def canonical_env_files(root: Mapping) -> None:
    """Turn each service's ``env_file`` into a list of mappings with ``path`` and ``required``."""
    for _, service in services_of(root):
        node = service.entries.get("env_file")
        if isinstance(node, Scalar) and isinstance(node.value, str):
            service.entries["env_file"] = Sequence(node.mark, [_long_form(node)])
        elif isinstance(node, Sequence):
            node.items = [_long_form(item) for item in node.items]


def resolve_paths(root: Mapping, folder: str) -> None:
    """Put relative paths of env files, and of extended files, under ``folder``."""
    for _, service in services_of(root):
        files = service.entries.get("env_file")
        for item in files.items if isinstance(files, Sequence) else ():
            _resolve(item, "path", folder)
        extends = service.entries.get("extends")
        if extends is not None:
            _resolve(extends, "file", folder)


def join(folder: str, path: str) -> str:
    """A path under a folder as Compose joins them: ``~`` expanded, absolute and empty kept."""
    path = os.path.expanduser(path) if path.startswith("~") else path
    if not path or os.path.isabs(path):
        return path
    return os.path.normpath(os.path.join(folder, path))


def _resolve(node: Node, key: str, folder: str) -> None:
    if isinstance(node, Mapping):
        path = node.entries.get(key)
        text = text_of(path)
        if isinstance(path, Scalar) and text is not None:
            node.entries[key] = path.replaced(join(folder, text))


def _long_form(node: Node) -> Node:
    if isinstance(node, Scalar):
        form = Mapping(node.mark)
        form.put("path", node, node.mark)
        node = form
    if isinstance(node, Mapping) and "required" not in node.entries:
        node.put("required", Scalar(True, node.mark), node.mark)
    return node


def _unique_files(items: list[Node], where: str) -> list[Node]:
    kept: dict[str, Node] = {}
    for number, item in enumerate(items):
        path = text_of(item) or ""
        if isinstance(item, Mapping):
            if "path" not in item.entries:
                message = f"environment path attribute {where}.[{number}] is missing"
                raise ComposeError(message, kind="schema", origin=str(item.mark))
            path = text_of(item.entries["path"]) or ""
        kept[path] = item
    return list(kept.values())
