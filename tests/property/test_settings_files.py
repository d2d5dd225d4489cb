"""The readers of settings files: any bytes give texts with positions, or one error with its place.

Each is held against the standard parser of its format: what that one makes a string is the same
string here, and what it makes anything else is here the very text that it made it from.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from relayconf.errors import SourceError
from relayconf.files import json_tokens, toml_tokens, yaml_tokens
from relayconf.files.entries import spell_list
from relayconf.files.tokens import NESTED, NULL, TABLE, Document, Leaf, Token
from relayconf.setting import Setting
from relayconf.values import Parsed, parse

Reader = Callable[..., Document]

READERS = {"toml": toml_tokens.read, "yaml": yaml_tokens.read, "json": json_tokens.read}

#: What the files of each format are made of, and what upsets their parsers.
WORDS_OF = {
    "toml": """[ ] [[ ]] { } = . , # " ' \"\"\" ''' \\ a b "q" a.b 1 0x1F 1_0 true inf - 1e3 é""",
    "yaml": """a b : - { } [ ] , &x *x *y !t !!str !!python/none | > ' " # ~ null 0123 \\ é @ %""",
    "json": """{ } [ ] , : "a" "b" " \\ \\u12 \\n 1 - 01 1.50 1e400 true null NaN Infinity é //""",
}
GAPS_OF = {
    "toml": ["\n", " ", "\t", "\r\n", "\0", "\x1b", "1979-05-27", " 07:32:00", "\\u00e9", "= 1\n"],
    "yaml": [
        ": ",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        "<<: ",
        "|-\n",
        " #",
        "? ",
        "---\n",
        "\t",
        "\0",
        "\x85",
    ],
    "json": [" ", "\n", "\t", "\0", "'a'", '{"a":', '"a":1', "[[[["],
}


def texts_of(form: str) -> st.SearchStrategy[bytes]:
    pieces = st.sampled_from(WORDS_OF[form].split() + GAPS_OF[form])
    return st.lists(pieces, max_size=18).map(lambda drawn: "".join(drawn).encode())


def outcome(read: Reader, data: bytes) -> Document | SourceError:
    try:
        return read(data, path="f")
    except SourceError as error:
        return error


def check(read: Reader, data: bytes) -> None:
    found = outcome(read, data)
    lines = data.decode("utf-8", "replace").count("\n") + 1
    if isinstance(found, SourceError):
        place = re.fullmatch(r"f:([0-9]+):([0-9]+)", found.origin or "")
        assert place is not None, found
        assert 1 <= int(place[1]) <= lines + 1
        assert "\n" not in str(found)
        return
    tokens = [*found.tokens, *(t for section in found.sections for t in section.tokens)]
    assert all(1 <= token.line <= lines and token.column >= 1 for token in tokens)
    assert all(isinstance(token.leaf.text, str) for token in tokens)


class TestAnyBytes:
    @pytest.mark.parametrize("form", READERS)
    @given(data=st.data())
    def test_texts_or_one_error_with_its_place(self, form: str, data: st.DataObject) -> None:
        """Whatever is in a file, it is read, or refused with line and column."""
        check(READERS[form], data.draw(st.one_of(texts_of(form), st.binary(max_size=40))))

    @pytest.mark.parametrize("form", READERS)
    @given(text=st.text(max_size=60))
    def test_any_text(self, form: str, text: str) -> None:
        """Text of any script and any control character is no exception."""
        check(READERS[form], text.encode("utf-8", "surrogatepass"))


KEYS = st.sampled_from(["A", "B", "c-d", "e f", 'q"', "'", "é", "1", "default", "x.y"])
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8
) | st.sampled_from(
    ["@format {this}", "a,b", " x ", "0123", "true", "#", "]", '"', "'", "\\", "\n", "\t\\\n"]
)


def plain(value: Any) -> Leaf | None:
    """Return the leaf of a parsed value as far as the parser kept its text."""
    if isinstance(value, str):
        return Leaf(value)
    if isinstance(value, dict):
        return Leaf(fault=TABLE)
    return Leaf(fault=NULL) if value is None else None


def levels(document: Document) -> tuple[dict[str, Token], dict[str, dict[str, Token]]]:
    outside = {token.key: token for token in document.tokens}
    return outside, {s.key: {t.key: t for t in s.tokens} for s in document.sections}


def compare(document: Document, parsed: dict[str, Any], reparse: Callable[[str], Any]) -> None:
    """Hold a document against what the standard parser made of the same bytes."""
    outside, sections = levels(document)
    assert sorted(parsed) == sorted([*outside, *sections])
    for key, value in parsed.items():
        if isinstance(value, dict):
            assert sorted(value) == sorted(sections[key])
            for name, member in value.items():
                compare_leaf(sections[key][name].leaf, member, reparse)
        else:
            compare_leaf(outside[key].leaf, value, reparse)


def compare_leaf(leaf: Leaf, value: Any, reparse: Callable[[str], Any]) -> None:
    known = plain(value)
    if known is not None:
        assert known == leaf
    elif not isinstance(value, list):
        assert value == reparse(leaf.text)
    elif any(isinstance(item, (dict, list)) or item is None for item in value):
        assert leaf.fault is not None
    else:
        assert leaf.items is not None
        pairs = zip(value, leaf.items, strict=True)
        assert value == [text if isinstance(v, str) else reparse(text) for v, text in pairs]


def toml_string(draw: st.DrawFn) -> str:
    text = draw(WORDS)
    style = draw(st.sampled_from(["basic", "literal", "long basic", "long literal"]))
    if style == "literal" and not re.search(r"['\n]", text):
        return f"'{text}'"
    if style == "long literal" and "'''" not in text and not text.endswith("'"):
        return (
            draw(st.sampled_from(["'''", "'''\n"]))
            + text
            + draw(st.sampled_from(["", "''"]))
            + "'''"
        )
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if style == "long basic":
        head = draw(st.sampled_from(['"""', '"""\n', '"""""', '"""\\\n   ']))
        return head + escaped + draw(st.sampled_from(["", '"', '""', '\\"'])) + '"""'
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


SCALARS = ["1", "0", "+5", "-7", "1_000", "0x1F", "0o17", "0b101", "1.50", "6.02e23", "5e+2", "inf"]
SCALARS += ["true", "false", "1979-05-27", "1979-05-27T07:32:00Z", "1979-05-27 07:32:00.5"]
SCALARS += ["07:32:00", "1979-05-27 00:32:00-07:00", "9" * 4000]


@st.composite
def toml_values(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["scalar", "string", *(["list", "table"] if depth else [])]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "string":
        return toml_string(draw)
    if kind == "list":
        items = draw(st.lists(toml_values(depth=depth - 1), max_size=3))
        gap = draw(st.sampled_from(["", " ", "\n", " # ]\"'\n  "]))
        end = draw(st.sampled_from(["", ","])) if items else ""
        return f"[{gap}" + f"{gap},{gap}".join(items) + f"{gap}{end}{gap}]"
    keys = draw(st.lists(KEYS, max_size=3, unique=True))
    members = (f"{toml_key(draw, [k])} = {draw(toml_values(depth=depth - 1))}" for k in keys)
    return "{ " + ", ".join(members) + " }"


def toml_key(draw: st.DrawFn, parts: list[str]) -> str:
    spelled = []
    for part in parts:
        if re.fullmatch(r"[A-Za-z0-9_-]+", part) and draw(st.booleans()):
            spelled.append(part)
        elif "'" not in part and draw(st.booleans()):
            spelled.append(f"'{part}'")
        else:
            spelled.append('"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return draw(st.sampled_from([".", " . "])).join(spelled)


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    lines = []
    for _ in range(draw(st.integers(0, 7))):
        path = draw(st.lists(KEYS, min_size=1, max_size=3))
        kind = draw(st.sampled_from(["pair", "pair", "pair", "table", "tables", "comment"]))
        end = draw(st.sampled_from(["\n", "\r\n", " # it's\n", "\n\n"]))
        if kind == "pair":
            lines.append(f"{toml_key(draw, path)} = {draw(toml_values())}{end}")
        elif kind == "comment":
            lines.append(f"# [x]{end}")
        else:
            header = toml_key(draw, path)
            lines.append((f"[{header}]" if kind == "table" else f"[[ {header} ]]") + end)
    return "".join(lines)


class TestToml:
    @given(text=toml_files())
    @example(text='a = """""""" # five\nb = "x"\n')
    @example(text="[a]\n[a.b]\nc = 1\n[[d]]\ne = 1\n[d.f]\ng = 2\n")
    def test_as_tomllib_reads_it(self, text: str) -> None:
        """Every string, number, date, list and table is where and what tomllib says it is."""
        try:
            parsed = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            assert isinstance(outcome(toml_tokens.read, text.encode()), SourceError)
            return
        document = toml_tokens.read(text.encode(), path="f")
        compare(document, parsed, lambda source: tomllib.loads(f"v = {source}")["v"])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def no_constant(name: str) -> None:
    raise ValueError(name)


def no_repeat(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(pairs)
    return dict(pairs)


class TestJson:
    @given(
        value=st.dictionaries(WORDS, JSON_VALUES, max_size=4),
        indent=st.sampled_from([None, 0, 2]),
        escaped=st.booleans(),
    )
    def test_as_json_reads_it(
        self, value: dict[str, Any], indent: int | None, *, escaped: bool
    ) -> None:
        """Every value that can be written as JSON is read, with the text that it was written as."""
        text = json.dumps(value, indent=indent, ensure_ascii=escaped, allow_nan=True)
        if "Infinity" in re.sub(r'"(?:\\.|[^"\\])*"', "", text):
            return
        compare(json_tokens.read(text.encode(), path="f"), value, json.loads)

    @given(data=texts_of("json"))
    def test_accepts_what_strict_json_accepts(self, data: bytes) -> None:
        """A file is refused exactly where a strict parser refuses it."""
        try:
            parsed = json.loads(data, parse_constant=no_constant, object_pairs_hook=no_repeat)
        except ValueError:
            parsed = None
        assert isinstance(parsed, dict) is isinstance(outcome(json_tokens.read, data), Document)


YAML_WORDS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0xD7FF, exclude_characters="\x7f\x85"), max_size=8
)


@st.composite
def yaml_merges(draw: st.DrawFn) -> str:
    """Draw mappings that merge those above them, some of their keys set twice over."""
    lines = []
    for number in range(draw(st.integers(1, 5))):
        lines.append(f"s{number}: &a{number}\n")
        merged = draw(st.lists(st.integers(0, number - 1), max_size=3)) if number else []
        if len(merged) == 1:
            lines.append(f"  <<: *a{merged[0]}\n")
        elif merged:
            lines.append(f"  <<: [{', '.join(f'*a{m}' for m in merged)}]\n")
        keys = draw(st.lists(st.sampled_from("ABCD"), unique=True, min_size=0 if merged else 1))
        lines.extend(f"  {key}: v{number}{key}\n" for key in keys)
    return "".join(lines)


class TestYaml:
    @given(
        value=st.dictionaries(YAML_WORDS, st.one_of(YAML_WORDS, st.lists(YAML_WORDS)), max_size=4)
    )
    def test_quoted_as_json(self, value: dict[str, Any]) -> None:
        """A file of quoted strings is the same in YAML as in JSON, which YAML contains."""
        data = json.dumps(value).encode()
        assert levels(json_tokens.read(data, path="f")) == levels(yaml_tokens.read(data, path="f"))

    @given(text=yaml_merges())
    def test_merges_as_the_library_does(self, text: str) -> None:
        """Merge keys bring in what they bring in elsewhere: own keys win, then the first named."""
        expected = YAML(typ="safe", pure=True).load(text)
        _, sections = levels(yaml_tokens.read(text.encode(), path="f"))
        found = {name: {k: t.leaf.text for k, t in s.items()} for name, s in sections.items()}
        assert expected == found


class TestLists:
    @given(items=st.lists(WORDS | st.sampled_from(["", " ", "[", "[]", ",", "a,", "\x0b"])))
    def test_reads_back_exactly(self, items: list[str]) -> None:
        """A list from a settings file reaches the setting item by item, whatever is in them."""
        if any("\0" in item for item in items):
            return
        setting = Setting("A", "list", items="string")
        assert Parsed(tuple(items)) == parse(setting, spell_list(items))

    def test_nested_is_said(self) -> None:
        """A list in a list is a fault of its key, in every format."""
        leaves = [
            toml_tokens.read(b"A = [[1], 2]", path="f").tokens[0].leaf,
            yaml_tokens.read(b"A: [[1], 2]", path="f").tokens[0].leaf,
            json_tokens.read(b'{"A": [[1], 2]}', path="f").tokens[0].leaf,
        ]
        assert [Leaf(fault=NESTED)] * 3 == leaves
