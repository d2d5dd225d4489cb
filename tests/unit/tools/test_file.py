"""The tools file: what it declares, and every fault in it at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.tools import ToolsError, load_tools


@pytest.fixture(autouse=True)
def path() -> Iterator[None]:
    """Leave the module path as it was."""
    before = list(sys.path)
    yield
    sys.path[:] = before


def problems(folder: Path, text: str) -> list[str]:
    """Return the faults of a file, without its path."""
    file = folder / "tools.toml"
    file.write_text(text)
    with pytest.raises(ToolsError) as raised:
        load_tools(str(file))
    assert str(raised.value) == "\n".join(raised.value.problems)
    return [problem.removeprefix(f"{file}:") for problem in raised.value.problems]


class TestTools:
    def test_both_kinds(self, tmp_path: Path) -> None:
        """A callable beside the file, and a command, with what the sandbox is told of each."""
        (tmp_path / "tools_of_test_file.py").write_text(
            "class Shop:\n    @staticmethod\n    def buy(what: str) -> str:\n        'Buy it.'\n"
        )
        (tmp_path / "tools.toml").write_text(
            """
            [tools.buy]
            python = "tools_of_test_file:Shop.buy"
            timeout = 1500
            [tools."up.per"]
            command = ["tr", "a-z", "A-Z"]
            description = "Upper-case."
            timeout = "1m30s"
            input = { type = "object", required = ["text"] }
            pass_env = ["TOKEN"]
            """
        )
        tools = load_tools(str(tmp_path / "tools.toml"))
        assert ["buy", "up.per"] == list(tools)
        assert ("Buy it.", 1.5, True) == (
            tools["buy"].description,
            tools["buy"].timeout,
            tools["buy"].blocking,
        )
        assert {"type": "object", "required": ["text"]} == tools["up.per"].input
        assert ("Upper-case.", 90.0) == (tools["up.per"].description, tools["up.per"].timeout)

    def test_an_empty_file(self, tmp_path: Path) -> None:
        """A file without tools offers none."""
        (tmp_path / "tools.toml").write_text("")
        assert [] == list(load_tools(str(tmp_path / "tools.toml")))


class TestFaults:
    def test_all_at_once(self, tmp_path: Path) -> None:
        """Every fault of every tool is named, with line, tool and what to do."""
        text = """\
top = 1
guard = "no colon"
policy = "no-such.toml"
[tools.a]
command = ["true"]
colour = "red"
timeout = "1s1h"
[tools.b]
description = "nothing to run"
[tools.c]
python = "no.such.module:name"
[tools.d.http]
url = "ftp://example.com"
method = "BREW"
body = 1
headers = { "a b" = "x", Authorization = "Bearer ${NO_SUCH_TOKEN}", X = "$nothing" }
[tools.e]
command = "ls -l"
input = { type = "array" }
[tools.f]
command = ["true"]
input = { type = "nonsense" }
[tools.g]
python = "os:name"
command = ["true"]
[tools."h i"]
command = ["true"]
[tools.j]
command = ["true"]
pass_env = ["A B"]
input = { "$ref" = "https://example.com/schema" }
[tools.k]
http = { }
[mcp.files]
command = ["no-such-program"]
url = "http://localhost"
[mcp."x y"]
command = ["no-such-program"]
env = { TOKEN = "${NO_SUCH_TOKEN}" }
nonsense = true
[http]
allow_private = ["10.0.0.1/8"]
[tools.l]
command = ["no-such-program", "argument"]
"""
        said = problems(tmp_path, text)
        expected = [
            "1: tools file: 'top' is not known here; tools stand under [tools.NAME]",
            '2: tools file: guard is not of the form "module:name"',
            "6: tool a: 'colour' is not known here; it takes command, description, input, pass_en",
            "7: tool a: timeout: 'h' at position 4 comes after 's'; the order is h m s ms",
            "8: tool b: a tool has one of python = ..., command = ... and http = ...; this one ha",
            "11: tool c: python: cannot import no.such.module:name: ModuleNotFoundError: No modul",
            "13: tool d: http: url is no address that begins with http:// or https://",
            "14: tool d: http: method is one of GET, HEAD, POST, PUT, PATCH, DELETE",
            "15: tool d: http: 'body' is not known here; it takes allow_hosts, headers, method, u",
            "16: tool d: http: headers: 'a b' cannot be a header here",
            "16: tool d: http: headers.Authorization: ${NO_SUCH_TOKEN} is not set: set NO_SUCH_TO",
            "16: tool d: http: headers.X: a '$' begins ${NAME}, or is written '$$'",
            '18: tool e: command is not a list of texts; write command = ["first", "second"]',
            '19: tool e: input: the schema of arguments has type = "object"',
            "22: tool f: input: no JSON Schema (type): 'nonsense' is not valid under any of the g",
            "23: tool g: a tool has one of python = ..., command = ... and http = ...; this one h",
            "26: tool h i: a name is 1 to 128 letters, digits, '_', '-' or '.'",
            "30: tool j: pass_env: 'A B' is no variable's name",
            "31: tool j: input: the reference 'https://example.com/schema' leads out of the schem",
            "33: tool k: http: url is missing",
            '34: mcp files: a server has one of command = [...] and url = "https://..."',
            "37: mcp x y: a name is 1 to 64 letters, digits, '_', '-' or '.'",
            "38: mcp x y: command: there is no program 'no-such-program'",
            "39: mcp x y: env.TOKEN: ${NO_SUCH_TOKEN} is not set: set NO_SUCH_TOKEN in the runner",
            "40: mcp x y: 'nonsense' is not known here; it takes command, env, headers, pass_env,",
            "42: http: allow_private: 10.0.0.1/8 has host bits set",
            "44: tool l: command: there is no program 'no-such-program'",
            f"{tmp_path}/no-such.toml: the policy file cannot be read: No such file",
        ]
        assert [True] * len(expected) == [
            line.startswith(start) for line, start in zip(said, expected, strict=True)
        ]

    def test_schemas_that_cannot_be_applied(self, tmp_path: Path) -> None:
        """A schema of something else than an object, and one that leads elsewhere, are faults."""
        text = (
            '[tools.a]\ncommand = ["true"]\ninput = { type = "array" }\n'
            '[tools.b]\ncommand = ["true"]\ninput = { "$ref" = "https://example.com/s" }\n'
        )
        assert [
            '3: tool a: input: the schema of arguments has type = "object"',
            "6: tool b: input: the reference 'https://example.com/s' leads out of the schema",
        ] == problems(tmp_path, text)

    def test_a_name_twice(self, tmp_path: Path) -> None:
        """A tool that is declared twice is a fault of the file."""
        said = problems(tmp_path, '[tools.a]\ncommand = ["a"]\n[tools.a]\ncommand = ["b"]\n')
        assert "this is not TOML" in said[0]

    @pytest.mark.parametrize("module", ["raise SystemExit(3)", "1/0", "name = 3", "import json"])
    def test_modules_that_do_not_give_a_callable(self, tmp_path: Path, module: str) -> None:
        """Whatever importing a module does is a fault of its tool, and nothing more."""
        name = f"faulty_{abs(hash(module))}"
        (tmp_path / f"{name}.py").write_text(module + "\n")
        assert 1 == len(problems(tmp_path, f'[tools.a]\npython = "{name}:name"\n'))

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        """A missing file, a folder, a pipe and bytes that are no text: one message each."""
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "bytes").write_bytes(b"\xff")
        (tmp_path / "large").write_bytes(b" " * (1024 * 1024 + 1))
        for name, wanted in (
            ("missing", "cannot be read: No such file"),
            (".", "cannot be read: Is a directory"),
            ("bytes", "is not UTF-8 (byte 0)"),
            ("large", "is larger than"),
            ("pipe", "is not a regular file"),
        ):
            with pytest.raises(ToolsError, match=r".*") as raised:
                load_tools(str(tmp_path / name))
            assert wanted in str(raised.value)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("a = " + "[" * 100_000, "nested too deep"),
            ("a = " + "9" * 5000, "this is not TOML"),
        ],
    )
    def test_texts_that_overtax_a_reader(self, tmp_path: Path, text: str, reason: str) -> None:
        """Endless brackets and endless digits are one message, like anything that is no TOML."""
        said = problems(tmp_path, text)
        assert (1, True) == (len(said), reason in said[0])

    @pytest.mark.parametrize("default", ["nan", "1979-05-27"])
    def test_schemas_that_json_cannot_say(self, tmp_path: Path, default: str) -> None:
        """What TOML can say and JSON cannot would leave writers without a word: it is a fault."""
        schema = f"{{ properties = {{ x = {{ default = {default} }} }} }}"
        said = problems(tmp_path, f'[tools.a]\ncommand = ["true"]\ninput = {schema}\n')
        start = "1: tool a: writers cannot be told of its description and input: not JSON: "
        assert [True] == [line.startswith(start) for line in said]

    def test_a_mark_at_the_beginning(self, tmp_path: Path) -> None:
        """A file that begins with a byte order mark is read like any other."""
        (tmp_path / "tools.toml").write_bytes(b'\xef\xbb\xbf[tools.a]\r\ncommand = ["true"]\r\n')
        assert ["a"] == list(load_tools(str(tmp_path / "tools.toml")))

    def test_what_an_import_says(self, tmp_path: Path) -> None:
        """An exception's text stays in its line, and moves no cursor."""
        (tmp_path / "says_much.py").write_text("raise ValueError('one\\ntwo\\x1b[31m')\n")
        said = problems(tmp_path, '[tools.a]\npython = "says_much:name"\n')
        assert [True] == [line.endswith("ValueError: one\\ntwo\\x1b[31m") for line in said]
