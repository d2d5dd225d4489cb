"""The whole reader on projects of any content: an answer or one clear refusal with a position."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from relayconf.compose import ComposeError, load

PLAIN = ["", "~", "a", "A=1", "A", "0755", "1.50", "true", ".inf", "2024-01-02", "<<", "app"]
FILES = ["x.env", "./b.yaml", "{path: x.env}"]
MARKED = ["${A}", "${X:?x}", "'q'", '"\\x24A"', "*one", "*two", "|\n          block"]
TAGGED = ["!reset null", "!override x", "!!int 7", "!!int x"]
FLOW = ["[]", "{}", "[a, A=2]", "{A: 1, B: }"]
SCALARS = st.sampled_from(PLAIN + FILES + MARKED + TAGGED + FLOW)
VARIABLES = ["A", "B", "<<", "5", "'A'", "? [k]"]
KEYS = ["image", "environment", "env_file", "extends", "profiles", "depends_on", "<<", "build"]


@st.composite
def nodes(draw: st.DrawFn, indent: int) -> str:
    """A scalar, a block mapping or a block list, at some indentation."""
    pad = "\n" + " " * indent
    kind = draw(st.sampled_from(["scalar", "mapping", "list"]))
    if kind == "scalar":
        return " " + draw(SCALARS)
    parts = draw(st.lists(SCALARS, max_size=4))
    if kind == "list":
        return "".join(f"{pad}- {part}" for part in parts)
    names = draw(st.lists(st.sampled_from(VARIABLES), min_size=len(parts), max_size=len(parts)))
    tag = draw(st.sampled_from(["", " &two", " !override", " !reset"]))
    return tag + "".join(f"{pad}{name}: {part}" for name, part in zip(names, parts, strict=True))


@st.composite
def files(draw: st.DrawFn) -> str:
    """A compose file of up to two services, with an anchor and perhaps an include."""
    lines = ["x-one: &one {A: 1, B: two}"]
    lines.append("include:" + draw(nodes(2)) if draw(st.booleans()) else "name: p")
    lines.append("services:")
    for name in draw(st.lists(st.sampled_from(["app", "web"]), max_size=2)):
        lines.append(f"  {name}:")
        keys = draw(st.lists(st.sampled_from(KEYS), max_size=4))
        lines.extend(f"    {key}:" + draw(nodes(6)) for key in keys)
    return "\n".join(lines) + "\n"


def judge(contents: dict[str, bytes], names: list[str]) -> None:
    """Read a project and accept any answer, or a refusal of one line that names its place."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in contents.items():
            (Path(folder) / name).write_bytes(data)
        try:
            project = load(names, environ={"A": "shell"}, directory=folder)
        except ComposeError as error:
            message = str(error)
            origin = error.origin or ""
        else:
            values = [v for env in project.environments().values() for v in env.values()]
            assert all(value is None or isinstance(value, str) for value in values)
            return
    assert message.isprintable()
    assert re.fullmatch(r"|[^:]+(:[1-9]\d*){0,2}", origin)


class TestAnyProject:
    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        """A compose file of any bytes gives a project, or one refusal."""
        judge({"compose.yaml": data}, [])

    @given(st.text("ab:-#\n \t'\"[]{}&*!|>%@`?,$0.~<\r\u2028é", max_size=60))
    def test_any_yaml_marks(self, text: str) -> None:
        """A compose file of any characters that mean something to YAML gives one or the other."""
        judge({"compose.yaml": text.encode()}, [])

    @given(files(), files(), st.binary(max_size=30))
    def test_any_structure(self, first: str, second: str, env: bytes) -> None:
        """Two files of any structure, one over the other, give a project, or one refusal."""
        contents = {"a.yaml": first.encode(), "b.yaml": second.encode(), "x.env": env}
        judge(contents, ["a.yaml", "b.yaml"])
