"""From settings files to the entries of a layer: read each file, order the sections, judge no text.

A key's text goes on as it is written; a list goes on in a spelling that the list grammar reads back
exactly. What is no text at all (a table, null) goes on as a fault of that one key, so that the rest
of the file serves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from relayconf.errors import SourceError
from relayconf.files import json_tokens, toml_tokens, yaml_tokens
from relayconf.files.order import DEFAULT, applying
from relayconf.files.regular import read_regular, shown_path
from relayconf.files.tokens import MAX_BYTES, NULL, TABLE, Document, Leaf, Section, Token
from relayconf.layers import Entry, concerns
from relayconf.setting import Contract, Setting
from relayconf.values import is_blank

_READERS: dict[str, Callable[..., Document]] = {
    "toml": toml_tokens.read,
    "yaml": yaml_tokens.read,
    "yml": yaml_tokens.read,
    "json": json_tokens.read,
}

#: Keys by which dynaconf's own users pull in other files. Here the files that apply are known from
#: their names alone, so that nobody has to read one to know which others count.
_INCLUDES = frozenset({"dynaconf_include", "includes_for_dynaconf", "preload_for_dynaconf"})


def read_entries(
    contract: Contract, paths: Sequence[str], deployment: str | None
) -> tuple[Entry, ...]:
    """Read settings files, lowest first, into the assignments that apply.

    Raises:
        SourceError: one of the files cannot be read or parsed, or a section is no table.
    """
    declared = {
        name: setting
        for setting in contract.settings.values()
        for name in (setting.name, *setting.legacy)
    }
    names = {DEFAULT, (deployment or DEFAULT).lower(), "global"}
    files = {path: _sections(contract, path, names) for path in paths}
    return tuple(
        _entry(declared, shown_path(path), token)
        for path, section in applying(files, deployment)
        for token in section.tokens
    )


def _sections(contract: Contract, path: str, names: set[str]) -> dict[str, Section]:
    """Read one file into its sections; keys outside of any section belong to the default one."""
    extension = path.rpartition(".")[2]
    document = _READERS[extension](read_regular(path, limit=MAX_BYTES), path=path)
    outside = tuple(_outside(contract, path, document, names))
    sections: dict[str, Section] = {}
    for section in document.sections:
        name = section.key.lower()
        if name not in names:
            continue
        if name in sections:
            message = f"the section [{name}] stands twice, in two spellings"
            raise _error(message, path, section)
        _no_includes(path, section.tokens)
        sections[name] = section
    default = sections.get(DEFAULT) or Section(DEFAULT, 1, 1)
    sections[DEFAULT] = default._replace(tokens=(*outside, *default.tokens))
    return sections


def _outside(contract: Contract, path: str, document: Document, names: set[str]) -> Iterator[Token]:
    """Yield the keys that stand outside of the sections that may apply."""
    _no_includes(path, document.tokens)
    for token in document.tokens:
        # [global] is dynaconf's alone; where it is no table it is some other program's key.
        if token.key.lower() not in names - {"global"}:
            yield token
        elif token.leaf.fault != NULL:
            message = f"{token.key} is the name of a section here, so it must be a table"
            raise _error(message, path, token)
    for section in document.sections:
        # Another deployment's section, or another program's table; a setting cannot be one.
        if section.key.lower() not in names and concerns(contract, section.key):
            yield Token(section.key, section.line, section.column, Leaf(fault=TABLE))


def _no_includes(path: str, tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.key.lower() in _INCLUDES:
            message = (
                f"{token.key}: a settings file includes no other; what it would include belongs "
                "into settings.<deployment>.* beside it"
            )
            raise _error(message, path, token)


def _error(message: str, path: str, place: Token | Section) -> SourceError:
    return SourceError(message, origin=f"{shown_path(path)}:{place.line}:{place.column}")


def _entry(declared: dict[str, Setting], path: str, token: Token) -> Entry:
    origin = f"{path}:{token.line}:{token.column}"
    setting = declared.get(token.key)
    leaf = token.leaf
    if leaf.items is None or leaf.fault is not None:
        return Entry(token.key, leaf.text, origin, leaf.fault)
    if setting is not None and setting.type != "list":
        kind = setting.type
        return Entry(token.key, "", origin, f"it is a list, and {setting.name} is one {kind}")
    return Entry(token.key, spell_list(leaf.items), origin)


def spell_list(items: Sequence[str]) -> str:
    """Return items in a spelling that the list grammar reads back as exactly these.

    Between commas each item is read by its own grammar, as it would be alone; what commas cannot
    hold (white space around an item, a comma in it) goes into a JSON array of strings.
    """
    plain = ",".join(items)
    if all(map(_stands_between_commas, items)) and not plain.startswith("[") and items:
        return plain
    return json.dumps(list(items), ensure_ascii=False)


def _stands_between_commas(item: str) -> bool:
    return not is_blank(item) and "," not in item and item == item.strip(" \t\n\r\v\f")
