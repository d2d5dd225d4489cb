"""Refuses a project whose parts are right and whose whole is not: references that lead nowhere.

Only services of active profiles are judged, as in Compose.
"""

from __future__ import annotations

from collections.abc import Mapping as Named

from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Mapping, Mark, Node, Scalar, Sequence, is_null, text_of


def check(model: Mapping, enabled: Named[str, Mapping], disabled: frozenset[str]) -> None:
    """Judge the enabled services of a merged model.

    Args:
        model: the whole document, for its networks, volumes, secrets and configs.
        enabled: the services of active profiles.
        disabled: the names of the others.

    Raises:
        ComposeError: kind ``project``, at the first service that is inconsistent.
    """
    for name, service in enabled.items():
        _image(name, service)
        _networks(name, service, model)
        _dependencies(name, service, enabled, disabled)
        _volumes(name, service, model)
        for section, word in (("configs", "config"), ("secrets", "secret")):
            _references(name, service, model, section, word)
    _cycles(enabled)


def _image(name: str, service: Mapping) -> None:
    image = text_of(service.entries.get("image"))
    if not image and not {"build", "provider"} & service.entries.keys():
        reason = f'service "{name}" has neither an image nor a build context specified'
        raise _refuse(reason, service.mark)


def _networks(name: str, service: Mapping, model: Mapping) -> None:
    used = _names(service.entries.get("networks"))
    if used and text_of(service.entries.get("network_mode")):
        reason = f"service {name} declares mutually exclusive `network_mode` and `networks`"
        raise _refuse(reason, service.mark)
    known = {"default", *_names(model.entries.get("networks"))}
    for network, mark in used.items():
        if network not in known:
            raise _refuse(f'service "{name}" refers to undefined network {network}', mark)


def _dependencies(
    name: str, service: Mapping, enabled: Named[str, Mapping], disabled: frozenset[str]
) -> None:
    node = service.entries.get("depends_on")
    for other, mark in {**_implied(service), **_names(node)}.items():
        if other in enabled:
            continue
        entry = node.entries.get(other) if isinstance(node, Mapping) else None
        required = entry.entries.get("required") if isinstance(entry, Mapping) else None
        if other in disabled and isinstance(required, Scalar) and required.value is False:
            continue
        raise _refuse(f'service "{name}" depends on undefined service "{other}"', mark)


def _implied(service: Mapping) -> dict[str, Mark]:
    """The services that a service depends on without saying so."""
    found: dict[str, Mark] = {}
    for key in ("network_mode", "ipc", "pid", "uts", "cgroup"):
        node = service.entries.get(key)
        kind, _, other = (text_of(node) or "").partition(":")
        if node is not None and kind == "service":
            found[other] = node.mark
    for key in ("links", "volumes_from"):
        for text, mark in _names(service.entries.get(key)).items():
            other = text.partition(":")[0]
            if not (key == "volumes_from" and other == "container"):
                found[other] = mark
    return found


def _volumes(name: str, service: Mapping, model: Mapping) -> None:
    known = _names(model.entries.get("volumes"))
    node = service.entries.get("volumes")
    for item in node.items if isinstance(node, Sequence) else ():
        source = _volume_source(item)
        if source and source not in known:
            raise _refuse(f'service "{name}" refers to undefined volume {source}', item.mark)


def _volume_source(item: Node) -> str | None:
    """The named volume that a mount uses, if it is one."""
    if isinstance(item, Mapping):
        kind = text_of(item.entries.get("type"))
        return text_of(item.entries.get("source")) if kind == "volume" else None
    source, separator, _ = (text_of(item) or "").partition(":")
    if not separator or source[:1] in ("", ".", "/", "~", "\\"):
        return None
    return None if len(source) == 1 and source.isalpha() else source


def _references(name: str, service: Mapping, model: Mapping, section: str, word: str) -> None:
    known = _names(model.entries.get(section))
    node = service.entries.get(section)
    for item in node.items if isinstance(node, Sequence) else ():
        source = text_of(item.entries.get("source") if isinstance(item, Mapping) else item)
        if source is not None and source not in known:
            raise _refuse(f'service "{name}" refers to undefined {word} {source}', item.mark)


def _cycles(enabled: Named[str, Mapping]) -> None:
    """Walk ``depends_on`` without recursion; a service met again on its own way is a cycle."""
    done: set[str] = set()
    for start in enabled:
        trail: dict[str, list[str]] = {}
        current: str | None = start
        while current is not None:
            if current not in trail:
                service = enabled[current]
                others = {**_implied(service), **_names(service.entries.get("depends_on"))}
                trail[current] = [other for other in others if other in enabled]
            pending = trail[current]
            if not pending:
                done.add(current)
                del trail[current]
                current = next(reversed(trail), None)
                continue
            following = pending.pop()
            if following in trail:
                names = [*trail, following]
                way = " -> ".join(names[names.index(following) :])
                raise _refuse(f"dependency cycle detected: {way}", enabled[start].mark)
            if following not in done:
                current = following


def _names(node: Node | None) -> dict[str, Mark]:
    """The names in a list of texts or the keys of a mapping, with their places."""
    if isinstance(node, Mapping):
        return dict(node.keys)
    if node is None or is_null(node) or not isinstance(node, Sequence):
        return {}
    texts = ((text_of(item), item.mark) for item in node.items)
    return {text: mark for text, mark in texts if text is not None}


def _refuse(reason: str, mark: Mark) -> ComposeError:
    return ComposeError(f"{reason}: invalid compose project", kind="project", origin=str(mark))
