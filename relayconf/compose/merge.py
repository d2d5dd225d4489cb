"""Puts a later compose document over an earlier one by Compose's rules.

Mappings merge key by key and lists append, save where Compose says otherwise: ``environment`` and
its like merge by variable, ``command`` is replaced, ``env_file`` becomes a list. What loses is kept
as the shadowed value of what wins.
"""

from __future__ import annotations

from collections.abc import Callable

from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Mapping, Mark, Node, Scalar, Sequence, is_null, kind, same
from relayconf.compose.scalars import render

Path = tuple[str, ...]
Rule = Callable[[Node, Node, Path], Node]


def merge(base: Node, override: Node, path: Path = ()) -> Node:
    """Merge two nodes that stand at the same path; ``base`` may be changed and reused.

    Raises:
        ComposeError: a mapping meets a list, or a list meets a scalar (kind ``merge``).
    """
    rule = _rule(path)
    if rule is not None:
        return rule(base, override, path)
    if is_null(override):
        return base
    if isinstance(base, Mapping):
        if not isinstance(override, Mapping):
            raise _cannot(path, override)
        return _merge_mappings(base, override, path)
    if isinstance(base, Sequence):
        if not isinstance(override, Sequence):
            raise _cannot(path, override)
        return _append(base, override)
    return override.over(base) if isinstance(override, Scalar) else override


def entries_of(node: Node) -> list[Node]:
    """A mapping, list or text as the list of ``KEY=VALUE`` texts that Compose makes of it."""
    if isinstance(node, Sequence):
        return list(node.items)
    if isinstance(node, Scalar):
        return [node] if isinstance(node.value, str) else []
    entries: list[Node] = []
    for key, value in node.entries.items():
        values = value.items if isinstance(value, Sequence) else [value]
        entries.extend(_entry(key, item, node.keys[key]) for item in values)
    return entries


def unique_entries(items: list[Node], path: Path) -> list[Node]:
    """One entry a key: the last one counts and stands where the first one stood.

    Raises:
        ComposeError: an item is no text (kind ``schema``).
    """
    kept: list[Node] = []
    index: dict[str, int] = {}
    for number, item in enumerate(items):
        if not (isinstance(item, Scalar) and isinstance(item.value, str)):
            where = ".".join((*path, f"[{number}]"))
            message = f"{where}: unexpected type {kind(item)}, must be text like KEY=VALUE"
            raise ComposeError(message, kind="schema", origin=str(item.mark))
        key = item.value.partition("=")[0]
        if key in index:
            earlier = kept[index[key]]
            kept[index[key]] = item.over(earlier) if isinstance(earlier, Scalar) else item
        else:
            index[key] = len(kept)
            kept.append(item)
    return kept


def _entry(key: str, node: Node, mark: Mark) -> Scalar:
    """One ``KEY=VALUE``, or the bare key for null; it keeps how its value was written."""
    if not isinstance(node, Scalar):
        return Scalar(f"{key}={_printed(node)}", mark)
    entry = node.revalued(
        lambda scalar: key if scalar.value is None else f"{key}={render(scalar.value)}"
    )
    entry.mark = mark
    return entry


def _printed(node: Node) -> str:
    """How Go prints what should have been a scalar."""
    if isinstance(node, Mapping):
        inner = " ".join(f"{key}:{_printed(node.entries[key])}" for key in sorted(node.entries))
        return f"map[{inner}]"
    if isinstance(node, Sequence):
        return f"[{' '.join(_printed(item) for item in node.items)}]"
    return render(node.value)


def _merge_mappings(base: Mapping, override: Mapping, path: Path) -> Mapping:
    for key, value in override.entries.items():
        mine = base.entries.get(key)
        merged = value if mine is None else merge(mine, value, (*path, key))
        base.put(key, merged, override.keys[key])
    return base


def _append(base: Sequence, override: Sequence) -> Sequence:
    return Sequence(base.mark, [*base.items, *override.items])


def _by_variable(base: Node, override: Node, path: Path) -> Node:
    items = [*entries_of(base), *entries_of(override)]
    return Sequence(override.mark, unique_entries(items, path))


def _as_list(base: Node, override: Node, path: Path) -> Node:  # noqa: ARG001  # one signature
    return _append(
        Sequence(base.mark, entries_of(base)), Sequence(override.mark, entries_of(override))
    )


def _replace(base: Node, override: Node, path: Path) -> Node:  # noqa: ARG001  # one signature
    return override


def _as_mapping(base: Node, override: Node, path: Path) -> Node:
    return _merge_mappings(_mapping(base, path), _mapping(override, path), path)


def _mapping(node: Node, path: Path) -> Mapping:
    """``[a, b]`` as ``{a: null, b: null}``; a null as an empty mapping."""
    if isinstance(node, Mapping):
        return node
    mapping = Mapping(node.mark)
    for item in [] if is_null(node) else entries_of(node):
        if not (isinstance(item, Scalar) and isinstance(item.value, str)):
            raise _cannot(path, item)
        mapping.put(item.value, Scalar(None, item.mark), item.mark)
    return mapping


def _build(base: Node, override: Node, path: Path) -> Node:
    return _merge_mappings(_build_mapping(base), _build_mapping(override), path)


def _build_mapping(node: Node) -> Mapping:
    """``build: dir`` as ``build: {context: dir}``."""
    if isinstance(node, Mapping):
        return node
    mapping = Mapping(node.mark)
    if isinstance(node, Scalar) and isinstance(node.value, str):
        mapping.put("context", node, node.mark)
    return mapping


def _logging(base: Node, override: Node, path: Path) -> Node:
    """Options merge only where both name the same driver, or one names none."""
    if not (isinstance(base, Mapping) and isinstance(override, Mapping)):
        raise _cannot(path, override)
    left, right = base.entries.get("driver"), override.entries.get("driver")
    if left is None or right is None or same(left, right):
        return _merge_mappings(base, override, path)
    return override


def _ulimit(base: Node, override: Node, path: Path) -> Node:
    if isinstance(base, Mapping) and isinstance(override, Mapping):
        return _merge_mappings(base, override, path)
    return override


#: Below ``services.NAME`` (and ``jobs.NAME``).
_SERVICE_RULES: dict[Path, Rule] = {
    **dict.fromkeys(
        [
            ("annotations",),
            ("environment",),
            ("labels",),
            ("sysctls",),
            ("build", "args"),
            ("build", "additional_contexts"),
            ("build", "labels"),
            ("deploy", "labels"),
        ],
        _by_variable,
    ),
    **dict.fromkeys(
        [
            ("dns",),
            ("dns_opt",),
            ("dns_search",),
            ("env_file",),
            ("extra_hosts",),
            ("label_file",),
            ("tmpfs",),
            ("build", "extra_hosts"),
        ],
        _as_list,
    ),
    **dict.fromkeys([("command",), ("entrypoint",), ("healthcheck", "test")], _replace),
    **dict.fromkeys([("depends_on",), ("models",), ("networks",)], _as_mapping),
    ("build",): _build,
    ("logging",): _logging,
    ("ulimits", "*"): _ulimit,
}
_LABELLED = frozenset({"networks", "volumes", "secrets", "configs"})


def _rule(path: Path) -> Rule | None:
    if len(path) < 3:
        return None
    if path[0] in ("services", "jobs"):
        below = path[2:]
        if len(below) == 2 and below[0] == "ulimits":
            below = ("ulimits", "*")
        return _SERVICE_RULES.get(below)
    if path[0] in _LABELLED and path[2:] == ("labels",):
        return _by_variable
    return None


def _cannot(path: Path, node: Node) -> ComposeError:
    message = f"cannot override {'.'.join(path)} with a {kind(node)}"
    return ComposeError(message, kind="merge", origin=str(node.mark))
