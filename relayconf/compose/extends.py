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


class _Pool(NamedTuple):
    """The services of one file, and what that file resets of the services they extend."""

    services: Mapping
    file: str
    resets: tuple[Path, ...]


class _Trail(NamedTuple):
    """The way to a service: where each link starts, and how Compose names the link.

    Compose names a link by the extending service and by the file it leads to; without ``file:``
    that is the project's file, whichever file the link is in. So it sees a circle where two files
    on one way use the same names, and this reader has to as well.
    """

    starts: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, str], ...] = ()


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
        self.bases: dict[str, _Pool] = {}

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
        own = _Pool(services, file, resets)
        for name in list(services.entries):
            services.entries[name] = self.service(name, own, own, _Trail())

    def service(self, name: str, pool: _Pool, own: _Pool, trail: _Trail) -> Node:
        """One service, merged over what it extends; its base is resolved first.

        ``own`` are the services of the project's file, ``pool`` those of the file this one is in.
        """
        service = pool.services.entries[name]
        if is_null(service):
            return service
        if not isinstance(service, Mapping):
            raise _refuse(f"services.{name} must be a mapping", service, "schema")
        extends = service.entries.get("extends")
        if extends is None:
            return service
        reference, other = _target(extends, name)
        trail = _longer(trail, name, pool, own.file if other is None else other, extends)
        source = self.source(name, extends, other, pool)
        if reference not in source.services.entries:
            shown = self.session.display(pool.file)
            message = f'cannot extend service "{name}" in {shown}: service "{reference}" not found'
            if other is not None:
                message += f" in {self.session.display(source.file)}"
            raise _refuse(message, extends, "extends")
        if source.services is own.services:
            # Compose may have resolved the project's own services before, in no fixed order.
            trail = trail._replace(names=())
        base = self.service(reference, source, own, trail)
        return service if is_null(base) else self.put_over(base, service, name, pool)

    def source(self, name: str, extends: Node, other: str | None, pool: _Pool) -> _Pool:
        """The services among which the base is. A file is loaded once."""
        if other is None:
            # Compose 2.40 forgot the resets on the way to a base in the same file.
            return pool if self.session.newest else pool._replace(resets=())
        path = join(self.folder, other)
        if path not in self.bases:
            root, resets = self.load(path)
            services = root.entries.get("services")
            if not isinstance(services, Mapping):
                shown = self.session.display(path)
                message = f'cannot extend service "{name}" in {shown}: no services section'
                raise _refuse(message, extends, "extends")
            resolve_paths(root, os.path.relpath(os.path.dirname(path), self.folder))
            self.bases[path] = _Pool(services, path, resets)
        return self.bases[path]

    def put_over(self, base: Node, service: Mapping, name: str, pool: _Pool) -> Node:
        """Merge a service over a copy of its resolved base.

        The outcome is remembered for the next service that extends this one, as in Compose; 2.40
        resolved it anew.
        """
        source = clone(base)
        wrapper, holder = Mapping(source.mark), Mapping(source.mark)
        holder.put(name, source, source.mark)
        wrapper.put("services", holder, source.mark)
        apply_resets(wrapper, pool.resets)
        merged: Node = service
        if name in holder.entries:
            merged = merge(source, service, ("services", name))
        if isinstance(merged, Mapping):
            merged.drop("extends")
        if self.session.newest:
            pool.services.entries[name] = merged
        return merged


def _longer(trail: _Trail, name: str, pool: _Pool, leads_to: str, extends: Node) -> _Trail:
    """The trail with one more link; refused where it closes a circle or grows too long."""
    starts = (*trail.starts, (pool.file, name))
    names = (*trail.names, (leads_to, name))
    if starts[-1] in trail.starts or names[-1] in trail.names or len(starts) > MAX_CHAIN:
        way = " extends ".join(each for _, each in starts)
        raise _refuse(f"Circular reference: {way}", extends, "extends")
    return _Trail(starts, names)


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


def _refuse(message: str, node: Node, kind: str) -> ComposeError:
    return ComposeError(message, kind=kind, origin=str(node.mark))
