"""Properties: one property of a contract's schema, read into the record of a setting.

What plain JSON Schema says is understood where ``x-relayconf`` is silent: type, enum, format,
writeOnly, minimum and maximum, items, title, examples. Everything that resolving relies on is
checked here: a default or an example that its own grammar refuses never gets further. Ground floor.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union, cast

from relayconf.contract.literal import literal
from relayconf.contract.place import Place
from relayconf.setting import (
    BLIND_POLICIES,
    FLAG_KINDS,
    ORDERED_TYPES,
    TYPES,
    Flag,
    Setting,
    Value,
)
from relayconf.values import Invalid, clamp, excerpt, is_blank, parse
from relayconf.values.spelling import WHITE, ascii_lower

Number = Union[int, float]

#: What a target or a group may hold beside letters and digits, and what it may not start with.
_WORD_MARKS = "_-."
_NO_START = ("", "-", ".")
_WITHOUT_MARKS = str.maketrans("", "", _WORD_MARKS)

#: The keys of ``x-relayconf`` in a property.
KEYS = (
    *("type", "unit", "items", "choices", "min", "max", "jitter", "reject", "allow_blank", "live"),
    *("legacy", "groups", "owner", "since", "example", "description", "flag"),
)
#: What others call them.
_MEANT = {
    "minimum": "min",
    "maximum": "max",
    "enum": "choices",
    "aliases": "legacy",
    "deprecated_names": "legacy",
    "default": "'default' beside x-relayconf",
    "secret": '"type": "secret"',
    "sensitive": '"type": "secret"',
}

_SCHEMA_TYPES = {
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
    "string": "string",
}
_ELSEWHERE = ("$ref", "$dynamicRef", "anyOf", "oneOf", "allOf")

#: A draw of ten times a value is no jitter any more; the bound keeps the arithmetic finite.
_MOST_JITTER = 10

#: Bounds on a breaker: parties, and a window of about four months in ms.
_MOST_PARTIES = 10**6
_LONGEST_WINDOW = 10**10

#: Units in which a bare integer of a duration may be.
_UNITS = ("h", "m", "s", "ms")
_BYTES = ("B", "byte", "bytes")


def name(place: Place, text: Any) -> str:
    """Return a name that an environment variable can have.

    Raises:
        ContractError: it has other characters than letters, digits and ``_``.
    """
    # In ASCII, Python's identifiers are what shells and Compose take for a variable.
    if not isinstance(text, str) or not (text.isascii() and text.isidentifier()):
        shown = excerpt(str(text))
        raise place.error(f"{shown!r} is not a name (letters, digits and '_', no digit first)")
    return text


def word(place: Place) -> str:
    """Return the name of a target or a group: what ``name`` allows, and ``-``, ``.`` and digits.

    Raises:
        ContractError: it has other characters, or starts with ``-`` or ``.``.
    """
    text = place.text()
    plain = text.translate(_WITHOUT_MARKS)
    if not text.isascii() or text[:1] in _NO_START or not (plain.isalnum() or not plain):
        raise place.error(f"{excerpt(text)!r} is not a name (letters, digits, '_', '-' and '.')")
    return text


def read_setting(place: Place) -> Setting:
    """Read one property; its name is the last step of the place's path.

    Raises:
        ContractError: the first thing in it that cannot be right, with its place.
    """
    own_name = name(place, place.path[-1])
    if not isinstance(place.value, dict):
        raise place.error("must be an object")
    extra = place["x-relayconf"]
    extra.known_keys(KEYS, _MEANT)
    setting = Setting(own_name, _type(place, extra))
    setting = _grammar(setting, place, extra)
    setting = _range(setting, place, extra)
    setting = _document(setting, place, extra)
    if not extra["flag"].absent:
        setting = setting._replace(flag=_flag(setting, extra["flag"]))
    default, example = _default(setting, place), _example(setting, place, extra)
    return setting._replace(default=default, example=example)


def read_value(setting: Setting, place: Place) -> Value:
    """Read a JSON value by the setting's own grammar, as a settings file would be.

    Raises:
        ContractError: it is none of the setting's values.
    """
    value = place.value
    if isinstance(value, dict) or (isinstance(value, list) and setting.type != "list"):
        kind = "object" if isinstance(value, dict) else "array"
        raise place.error(f"is an {kind}, and no {setting.type}")
    outcome = parse(setting, literal(value))
    if isinstance(outcome, Invalid):
        raise place.error(f"is not a valid {setting.type}: {outcome.reason}")
    return outcome.value


def _type(schema: Place, extra: Place) -> str:
    """Return the declared type; where only the schema speaks, what that means."""
    if not extra["type"].absent:
        declared = extra["type"].text()
        if declared not in TYPES:
            raise extra["type"].error(f"{excerpt(declared)!r} is none of {', '.join(TYPES)}")
        return declared
    if not schema["enum"].absent:
        return "enum"
    kind = _SCHEMA_TYPES.get(_schema_type(schema))
    if kind is None:
        raise schema["type"].error("no setting is of that type; say which in x-relayconf.type")
    if kind == "string" and schema["writeOnly"].value is True:
        return "secret"
    return "url" if kind == "string" and schema["format"].value == "uri" else kind


def _schema_type(schema: Place) -> str:
    """Return the one JSON type that the schema means: ``["integer", "string"]`` is an integer."""
    named = schema["type"].value
    if named is None:
        elsewhere = next((key for key in _ELSEWHERE if key in schema.mapping()), None)
        if elsewhere is not None:
            raise schema[elsewhere].error("is not followed; say the type in x-relayconf.type")
        if not isinstance(schema["default"].value, (str, type(None))):
            raise schema.error('has a default that is not text, and no "type"')
        return "string"
    types = [str(item) for item in (named if isinstance(named, list) else [named])]
    narrow = [kind for kind in types if kind not in ("null", "string")]
    if len(narrow) > 1:
        raise schema["type"].error("names several types; say which it is in x-relayconf.type")
    return narrow[0] if narrow else "string"


def _grammar(setting: Setting, schema: Place, extra: Place) -> Setting:
    """Fill in what the type's grammar needs beside its name."""
    choices = schema
    if setting.type == "list":
        items, choices = extra["items"].optional_text(), schema["items"]
        if not isinstance(choices.value, (dict, type(None))):
            choices = Place({}, choices.source)  # `true`: anything
        if items is None:
            items = "string" if choices.absent else _type(choices, choices["x-relayconf"])
        if items not in TYPES or items in ("list", "secret"):
            raise extra["items"].error(f"{excerpt(items)!r} cannot be the type of an item")
        setting = setting._replace(items=items)
    elif not extra["items"].absent:
        raise extra["items"].error("only a list has items")
    setting = setting._replace(unit=_unit(setting, extra["unit"]))
    given = choices["enum"] if extra["choices"].absent else extra["choices"]
    if "enum" in (setting.type, setting.items):
        return setting._replace(choices=_choices(given))
    if not given.absent:
        wanted = '"items": "enum"' if setting.type == "list" else '"type": "enum"'
        raise given.error(f"only an enum has choices; write {wanted} in x-relayconf")
    return setting


def _unit(setting: Setting, place: Place) -> Optional[str]:
    unit = place.optional_text()
    kind = setting.items if setting.type == "list" else setting.type
    if kind == "duration":
        if unit is None:
            return "ms" if setting.type == "duration" else None
        if unit not in _UNITS:
            raise place.error(f"{excerpt(unit)!r} is none of {', '.join(_UNITS)}")
        return unit
    if unit is None or (kind == "size" and unit in _BYTES):
        return None
    if kind not in ("integer", "number"):
        raise place.error(f"no {kind} has a unit of its own")
    return unit


def _choices(place: Place) -> Tuple[str, ...]:
    members = []
    for item in place.items():
        if item.absent:
            continue  # a schema allows null by it; for a setting that is being unset
        if isinstance(item.value, (list, dict)):
            raise item.error("must be a text")
        member = literal(item.value)
        outcome = parse(Setting("member", "string"), member)
        if is_blank(member) or member.strip(WHITE) != member or isinstance(outcome, Invalid):
            raise item.error("can never be set: it is blank, or has white space around it")
        members.append(member)
    if not members or len({ascii_lower(member) for member in members}) != len(members):
        raise place.error("must be distinct in any case, at least one")
    return tuple(members)


def _range(setting: Setting, schema: Place, extra: Place) -> Setting:
    if setting.type not in ORDERED_TYPES:
        for key in ("min", "max", "jitter"):
            if not extra[key].absent:
                raise extra[key].error(f"no {setting.type} has a range")
        return setting
    low = _bound(setting, extra["min"], schema["minimum"], schema["exclusiveMinimum"], inward=1)
    high = _bound(setting, extra["max"], schema["maximum"], schema["exclusiveMaximum"], inward=-1)
    if low is not None and high is not None and low > high:
        raise extra.error(f"the range is empty: min {low} is above max {high}")
    return setting._replace(minimum=low, maximum=high, jitter=_jitter(extra["jitter"]))


def _bound(
    setting: Setting, own: Place, closed: Place, opened: Place, *, inward: int
) -> Optional[Number]:
    for place in (own, closed):
        if not place.absent:
            return cast(Number, read_value(setting, place))
    if opened.absent:
        return None
    if setting.type != "integer":
        raise opened.error(
            "a value is clamped to its bound, so it must be a value itself; use min or max"
        )
    return cast(int, read_value(setting, opened)) + inward


def _jitter(place: Place) -> Optional[Tuple[float, float]]:
    if place.absent:
        return None
    pair = [item.number(-1, _MOST_JITTER) for item in place.items()]
    if len(pair) != 2 or pair[0] > pair[1]:
        raise place.error("must be two fractions, low to high")
    return (float(pair[0]), float(pair[1]))


def _document(setting: Setting, schema: Place, extra: Place) -> Setting:
    """Fill in how the setting is handled and described."""
    facts: Dict[str, Any] = {
        "doc": schema["description"].optional_text() or schema["title"].optional_text() or "",
        "description": extra["description"].optional_text() or "",
        "owner": extra["owner"].optional_text(),
        "since": extra["since"].optional_text(),
        "legacy": tuple(name(item, item.value) for item in extra["legacy"].items()),
        "groups": tuple(word(item) for item in extra["groups"].items()),
    }
    facts.update({key: extra[key].boolean() for key in ("reject", "allow_blank", "live")})
    if facts["allow_blank"] and setting.type != "string":
        raise extra["allow_blank"].error(f"no blank {setting.type} is a value")
    return setting._replace(**facts)


def _default(setting: Setting, schema: Place) -> Optional[Value]:
    place = schema["default"]
    if place.absent:
        return None
    if setting.secret:
        raise place.error("a secret cannot have a default: everybody could read it here")
    value = read_value(setting, place)
    if clamp(setting, value)[1] is not None:
        raise place.error("is out of range")
    return value


def _example(setting: Setting, schema: Place, extra: Place) -> Optional[str]:
    """Return the text that somebody might really set; it has to be a value in range."""
    given = extra["example"]
    if setting.secret:
        if not given.absent:
            raise given.error("a secret has no example")
        return None
    if given.absent:
        given = next(iter(schema["examples"].items()), given)
    if given.absent:
        return None
    value, text = read_value(setting, given), literal(given.value)
    if clamp(setting, value)[1] is not None:
        raise given.error("is out of range")
    if is_blank(text) and not setting.allow_blank:
        raise given.error("is blank, which is unset")
    return text


def _flag(setting: Setting, place: Place) -> Flag:
    if setting.type not in ("boolean", "rollout", "enum"):
        raise place.error("a flag is a boolean, a rollout or an enum")
    kind = place["kind"].text()
    if kind not in FLAG_KINDS:
        raise place["kind"].error(f"must be one of {', '.join(FLAG_KINDS)}")
    if place["kill"].absent:
        raise place["kill"].error("is missing; it is the safe value that a kill puts in force")
    owner = place["owner"].text()
    if is_blank(owner):
        raise place["owner"].error("must name somebody")
    expires, why = place["expires"].optional_text(), place["why"].optional_text()
    if expires is None and is_blank(why or ""):
        raise place["expires"].error("needs a date, or a reason for having none in 'why'")
    if expires is not None and not _is_date(expires):
        raise place["expires"].error(f"{excerpt(expires)!r} is not a date like 2027-03-01")
    kill = read_value(setting, place["kill"])
    blind = place["blind"].optional_text() or "hold"
    if blind not in BLIND_POLICIES:
        raise place["blind"].error(f"must be one of {', '.join(BLIND_POLICIES)}")
    return Flag(kind, kill, owner, expires, why, _breaker(place["breaker"]), blind)


def _is_date(text: str) -> bool:
    from datetime import date  # noqa: PLC0415 - few settings have one

    try:
        # Later Pythons read other spellings as well.
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _breaker(place: Place) -> Optional[Dict[str, Any]]:
    """Read when a flag may be killed by the process itself."""
    if place.absent:
        return None
    facts: Dict[str, Any] = dict(place.mapping(), event=place["event"].text())
    facts["share"] = float(place["share"].number(0, 1))
    for key, most in (("at_least", _MOST_PARTIES), ("window_ms", _LONGEST_WINDOW)):
        if not isinstance(place[key].value, int):
            raise place[key].error("must be an integer")
        facts[key] = place[key].number(1, most)
    return facts
