"""Field names: under which variables a field is read, by its markers, aliases and the class.

They are the names that pydantic-settings reads, as somebody writes them in an env file: in upper
case where the class does not care for case. The first name is the setting's own and the others are
legacy names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, AliasPath
from pydantic.fields import FieldInfo

from relayconf.declare import Env
from relayconf.errors import DeclarationError

#: Variables that a login, a shell or a container runtime sets by itself. A field that is called so
#: by accident would take a value that nobody meant for it.
AMBIENT = frozenset(
    (
        *("HOME", "HOSTNAME", "LANG", "LOGNAME", "MAIL", "OLDPWD", "PATH", "PWD", "SHELL"),
        *("SHLVL", "TERM", "TMPDIR", "USER", "USERNAME"),
    )
)


def variables(
    field: str, info: FieldInfo, config: Mapping[str, Any], *, prefix: str, env: Env | None
) -> tuple[str, ...]:
    """Return the variables that a field of a class is read from, the current one first.

    Args:
        field: the attribute's name.
        info: pydantic's view of it; its aliases are names in full, without the prefix.
        config: the class's ``model_config``.
        prefix: what the names of the class begin with.
        env: the field's own marker, which settles it.

    Raises:
        DeclarationError: an alias that no variable can have, or a name that means something else.
    """
    if env is not None:
        return (env.name, *env.legacy)
    spell = _spelling(config)
    target = config.get("env_prefix_target", "variable")
    aliased = [
        (prefix if target in ("alias", "all") else "") + spell(alias)
        for alias in aliases(info, config)
    ]
    own = (prefix if target in ("variable", "all") else "") + spell(field)
    if not aliased and own in AMBIENT:
        raise DeclarationError(
            f"the variable {own} has a meaning of its own in every shell or container; give the "
            f"class a prefix, or the field a name: Env('APP_{own}'), or Env('{own}') if it is meant"
        )
    names = aliased if aliased and not _by_name(config) else [*aliased, own]
    return tuple(dict.fromkeys(names))


def segments(field: str, info: FieldInfo, config: Mapping[str, Any], *, outer: Any) -> list[str]:
    """Return what a field of a nested model is called behind the delimiter, the best first."""
    spell = _spelling(outer)
    names = aliases(info, config)
    if not names or _by_name(config):
        names = [*names, field]
    return list(dict.fromkeys(map(spell, names)))


def input_key(field: str, info: FieldInfo, config: Mapping[str, Any]) -> str:
    """Return the key under which pydantic takes the field's value in a mapping."""
    names = aliases(info, config)
    return names[0] if names else field


def aliases(info: FieldInfo, config: Mapping[str, Any]) -> list[str]:
    """Return the field's aliases that are plain names.

    Raises:
        DeclarationError: it has aliases, and none of them is one.
    """
    alias = info.validation_alias
    if alias is None or config.get("validate_by_alias") is False:
        return []
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    names = []
    for choice in choices:
        name = choice.path[0] if isinstance(choice, AliasPath) else choice
        if isinstance(name, str) and not (isinstance(choice, AliasPath) and choice.path[1:]):
            names.append(name)
    if not names:
        raise DeclarationError("an AliasPath leads into a document; give the field Env('A_NAME')")
    return names


def _by_name(config: Mapping[str, Any]) -> bool:
    return bool(config.get("populate_by_name") or config.get("validate_by_name"))


def _spelling(config: Mapping[str, Any]) -> Any:
    return str if config.get("case_sensitive") else str.upper
