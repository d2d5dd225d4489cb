"""Resolves ``extends``: a service takes over another one, of its own file or of another.

Paths in an extended file are relative to that file; its variables are those of the project that
extends it. Cycles are refused, and so is a chain deeper than any person would write.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from relayconf.compose.canonical import join, resolve_paths
from relayconf.compose.decode import Path, apply_resets
from relayconf.compose.errors import ComposeError
from relayconf.compose.merge import merge
from relayconf.compose.nodes import Mapping, Node, clone, is_null, text_of
from relayconf.compose.session import Session

#: Longer chains are refused; each link costs stack frames here.
MAX_CHAIN = 50

Load = Callable[[str], tuple[Mapping, tuple[Path, ...]]]


class _Base(NamedTuple):
    """The services of an extended file, as it holds them, and what its last document resets."""

    services: Mapping
    resets: tuple[Path, ...]


class Extender:
    """Resolves the services of the documents of one project.

    Args:
        session: names files in messages.
        folder: where relative files are looked for, absolute.
        load: reads an extended file without its own ``extends``, ``include`` and validation.
    """

    def __init__(self, session: Session, folder: str, load: Load) -> None:
        self.session = session
        self.folder = folder
        self.load = load
        self.bases: dict[str, _Base] = {}

    def apply(self, root: Mapping, file: str, resets: tuple[Path, ...]) -> None:
        """Resolve every service of a document in place.

        Raises:
            ComposeError: a base is missing, a cycle, or parts that do not merge.
        """
        services = root.entries.get("services")
        if services is None:
            return
        if not isinstance(services, Mapping):
            raise _refuse("services must be a mapping", services, "schema")
        for name in list(services.entries):
            services.entries[name] = self.service(name, services, file, resets, ())

    def service(
        self,
        name: str,
        services: Mapping,
        file: str,
        resets: tuple[Path, ...],
        chain: tuple[tuple[str, str], ...],
    ) -> Node:
        """One service, merged over what it extends; its base is resolved first."""
        service = services.entries[name]
        if is_null(service):
            return service
        if not isinstance(service, Mapping):
            raise _refuse(f"services.{name} must be a mapping", service, "schema")
        extends = service.entries.get("extends")
        if extends is None:
            return service
        reference, other = _target(extends, name)
        if (file, name) in chain or len(chain) > MAX_CHAIN:
            raise _circular((*chain, (file, name)), extends)
        chain = (*chain, (file, name))
        pool, pool_file, pool_resets = services, file, resets
        if other is not None:
            pool_file = join(self.folder, other)
            pool, pool_resets = self.base(pool_file, name, extends)
        if reference not in pool.entries:
            shown = self.session.display(file)
            message = f'cannot extend service "{name}" in {shown}: service "{reference}" not found'
            if other is not None:
                message += f" in {self.session.display(pool_file)}"
            raise _refuse(message, extends, "extends")
        base_node = self.service(reference, pool, pool_file, pool_resets, chain)
        if is_null(base_node):
            return service
        return self.put_over(base_node, service, name, services, resets)

    def put_over(
        self,
        base: Node,
        service: Mapping,
        name: str,
        services: Mapping,
        resets: tuple[Path, ...],
    ) -> Node:
        """Merge a service over a copy of its resolved base and remember the outcome."""
        source = clone(base)
        wrapper, holder = Mapping(source.mark), Mapping(source.mark)
        holder.put(name, source, source.mark)
        wrapper.put("services", holder, source.mark)
        apply_resets(wrapper, resets)
        if name not in holder.entries:
            merged: Node = service
        else:
            merged = merge(source, service, ("services", name))
        if isinstance(merged, Mapping):
            merged.drop("extends")
        services.entries[name] = merged
        return merged

    def base(self, path: str, name: str, extends: Node) -> _Base:
        """The services of another file. It is loaded once; a service of it is resolved once."""
        if path not in self.bases:
            root, resets = self.load(path)
            services = root.entries.get("services")
            if not isinstance(services, Mapping):
                shown = self.session.display(path)
                message = f'cannot extend service "{name}" in {shown}: no services section'
                raise _refuse(message, extends, "extends")
            resolve_paths(root, os.path.relpath(os.path.dirname(path), self.folder))
            self.bases[path] = _Base(services, resets)
        return self.bases[path]


def _target(extends: Node, name: str) -> tuple[str, str | None]:
    """The service and the file that an ``extends`` names."""
    if not isinstance(extends, Mapping):
        return text_of(extends) or "", None
    reference = text_of(extends.entries.get("service"))
    if reference is None:
        raise _refuse(f"extends.{name}.service is required", extends, "schema")
    file = extends.entries.get("file")
    if file is None or is_null(file):
        return reference, None
    path = text_of(file)
    if path is None:
        raise _refuse(f"services.{name}.extends.file must be a string", file, "schema")
    return reference, path


def _circular(chain: tuple[tuple[str, str], ...], extends: Node) -> ComposeError:
    names = " extends ".join(name for _, name in chain)
    return _refuse(f"Circular reference: {names}", extends, "extends")


def _refuse(message: str, node: Node, kind: str) -> ComposeError:
    return ComposeError(message, kind=kind, origin=str(node.mark))
