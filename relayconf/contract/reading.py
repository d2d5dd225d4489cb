"""Contracts: read a published JSON contract into records, and name it by its fingerprint.

A contract is a JSON Schema document that validates a settings file, with one extra keyword,
``x-relayconf``. Numbers in it are what a person would write in a settings file: in the setting's
own unit. Reading checks everything that resolving relies on, so that a contract that was read
cannot surprise anybody later. Ground floor.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, cast

from relayconf.contract.jsontext import NotJson, locate, parse
from relayconf.contract.literal import literal
from relayconf.contract.place import Place, Source
from relayconf.contract.properties import name, read_setting, word
from relayconf.errors import ContractError, SourceError
from relayconf.layers import read_bytes
from relayconf.nearest import nearest
from relayconf.rules import Number, broken
from relayconf.setting import ORDERED_TYPES, Contract, Rule, Setting
from relayconf.values.spelling import ascii_lower, excerpt

__all__ = [
    "VERSION",
    "fingerprint",
    "from_document",
    "installed_path",
    "literal",
    "load",
    "load_installed",
    "read",
    "whole_prefix",
]

#: The version of the ``x-relayconf`` keyword that this module reads.
VERSION = 1

_KEYS = ("version", "target", "prefix", "rules")


def installed_path(target: str) -> Optional[str]:
    """Return the path of the contract that ships for ``target``, or ``None``.

    A wheel carries the contracts inside the package; a checkout has them beside it.
    """
    if not target or os.path.basename(target) != target or target.startswith("."):
        return None
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (os.path.join(package, "schema"), os.path.join(package, os.pardir, "schema")):
        path = os.path.normpath(os.path.join(folder, f"{target}.schema.json"))
        if os.path.isfile(path):
            return path
    return None


def load_installed(target: str) -> Optional[Contract]:
    """Read the contract that ships for ``target``; ``None`` where there is none.

    Raises:
        ContractError: the file is damaged.
    """
    path = installed_path(target)
    return _load_packed(target) if path is None else load(path)


def _load_packed(target: str) -> Optional[Contract]:
    """Read a contract that lies beside this module in an archive, which no path leads into."""
    get_data = getattr(__spec__.loader, "get_data", None)
    if get_data is None or os.path.basename(target) != target:
        return None
    package = os.path.dirname(os.path.dirname(__file__))
    path = os.path.join(package, "schema", f"{target}.schema.json")
    try:
        data = get_data(path)
    except OSError:
        return None
    return read(data, origin=path)


def load(path: str) -> Contract:
    """Read a JSON contract from a file.

    Raises:
        ContractError: it cannot be read, is not JSON, or is not a contract.
    """
    try:
        data = read_bytes(path)
    except SourceError as error:
        raise ContractError(str(error)) from None
    return read(data, origin=path)


def read(data: bytes, *, origin: str) -> Contract:
    """Read a JSON contract from its bytes; ``origin`` names them in errors.

    Raises:
        ContractError: not UTF-8 JSON, a repeated key, or not a contract; with line and column.
    """
    try:
        document, text = parse(data)
    except NotJson as error:
        at = "" if error.position is None else ":{}:{}".format(*error.position)
        raise ContractError(f"{origin}{at}: not a JSON document: {error}") from None
    return from_place(Place(document, Source(origin, lambda path: locate(text, path))))


def from_document(document: Any, *, origin: str) -> Contract:
    """Read a contract from a parsed document; ``origin`` names it in errors.

    Raises:
        ContractError: the first thing in it that cannot be right, with its place.
    """
    return from_place(Place(document, Source(origin)))


def from_place(root: Place) -> Contract:
    """Read a contract from the root of a document.

    Raises:
        ContractError: the first thing in it that cannot be right, with its place.
    """
    if not isinstance(root.value, dict):
        raise root.error("must be an object: the JSON Schema of a settings file")
    head = root["x-relayconf"]
    if head.absent:
        raise head.error('is missing; add {"version": 1, "target": "NAME", "prefix": "NAME_"}')
    head.known_keys(_KEYS, {"name": "target", "service": "target"})
    version = head["version"]
    if isinstance(version.value, bool) or version.value != VERSION:
        raise version.error(f"must be {VERSION}")
    target = word(head["target"])
    prefix = head["prefix"].optional_text() or ""
    if prefix:
        name(head["prefix"], prefix)
    properties = root["properties"]
    if properties.absent:
        raise properties.error("is missing; it holds one property for each setting")
    settings = {key: read_setting(properties[key]) for key in properties.mapping()}
    _no_shared_names(properties, settings)
    rules = tuple(_rule(item, settings) for item in head["rules"].items())
    return Contract(target, whole_prefix(prefix, settings), settings, rules)


def whole_prefix(prefix: str, names: Iterable[str]) -> str:
    """Return a prefix with the ``_`` that was meant: ``API`` is ``API_`` where the names say so.

    It stays as it is where a name goes on without one, as ``PGHOST`` and ``PGPORT`` do.
    """
    if not prefix or prefix.endswith("_"):
        return prefix
    goes_on = [n for n in names if n.startswith(prefix) and not n.startswith(f"{prefix}_")]
    return prefix if goes_on else f"{prefix}_"


def fingerprint(contract: Contract) -> str:
    """Return 16 hex digits that change whenever anything that affects a value changes."""
    import hashlib  # noqa: PLC0415 - most readers of a contract never name it

    settings = [
        s._replace(doc="", description="", example=None) for s in contract.settings.values()
    ]
    text = repr((contract.target, contract.prefix, settings, contract.rules))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _no_shared_names(place: Place, settings: Mapping[str, Setting]) -> None:
    spelled: Dict[str, str] = {}
    for known in settings:
        other = spelled.setdefault(ascii_lower(known), known)
        if other != known:
            raise place[known].error(f"differs from {other} in nothing but case")
    taken = set(settings)
    for setting in settings.values():
        for old in setting.legacy:
            if old in taken:
                raise place[setting.name].error(f"{old} already names a setting")
            taken.add(old)


def _rule(place: Place, settings: Mapping[str, Setting]) -> Rule:
    if not isinstance(place.value, dict):
        raise place.error("must be an object with low, high and moves")
    place.known_keys(Rule._fields, {})
    low, high, moves = (_side(place[key], settings) for key in ("low", "high", "moves"))
    if settings[low].type != settings[high].type or low == high:
        raise place.error(f"{low} and {high} cannot be compared")
    if moves not in (low, high):
        raise place["moves"].error(f"must be {low} or {high}")
    rule = Rule(low, high, place["strict"].boolean(), moves)
    defaults: List[Any] = [settings[side].default for side in (low, high)]
    if None not in defaults and broken(rule, *cast(List[Number], defaults)):
        raise place.error(f"the defaults of {low} and {high} break it")
    return rule


def _side(place: Place, settings: Mapping[str, Setting]) -> str:
    text = place.text()
    ordered = [known for known, setting in settings.items() if setting.type in ORDERED_TYPES]
    if text not in ordered:
        # A class names its fields without the prefix.
        meant = [known for known in ordered if known.endswith(f"_{text.upper()}")]
        near = meant[0] if len(meant) == 1 else nearest(text, ordered)
        hint = f"; did you mean {near}?" if near else ""
        raise place.error(f"{excerpt(text)!r} is not a declared setting with an order{hint}")
    return text
