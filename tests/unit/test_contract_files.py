"""Contracts as files: YAML beside JSON, positions in what is said, and the guide's own example."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relayconf.contract import yamltext as yamlcontract
from relayconf.contract.properties import KEYS
from relayconf.contract.reading import load, read
from relayconf.errors import ContractError
from relayconf.setting import Setting
from relayconf.targets import find_contract

EXAMPLE = re.compile(r"^```yaml mailer\.schema\.yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fault(make: Callable[[], object]) -> str:
    with pytest.raises(ContractError) as caught:
        make()
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestPositions:
    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ('{\n "x-relayconf": {"version": 2}}', "x:2:29: x-relayconf.version"),
            ('{"a": 1,\n  "a": 2}', "x:2:8: not a JSON document: the key 'a' stands twice"),
            ('{"a": NaN}', "x:1:7: not a JSON document: NaN is no number"),
            ('{"a": "\\', "x:1:7: not a JSON document"),
            ("", "x:1:1: not a JSON document"),
            ('{"x-relayconf": {"version": 1}}', "x:1:17: x-relayconf.target: is missing"),
        ],
    )
    def test_in_json(self, text: str, where: str) -> None:
        """A fault in a JSON contract has line and column."""
        assert fault(lambda: read(text.encode(), origin="x")).startswith(where)

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("x-relayconf:\n  version: 2\n", "x:2:12: x-relayconf.version: must be 1"),
            ("a: 1\nb:\n  c: 1\n  c: 2\n", "x:4:3: the key 'c' stands twice"),
            ("a: [1\nb: 2\n", "x:2:2: not YAML"),
            ("a: *x\n", "x:1:4: not YAML"),
            ("a: !!int 5\n", "x:1:4: the tag"),
            ("? [a]\n: 1\n", "x:1:3: a key must be a text"),
            ("<<: 5\n", "x:1:5: '<<' takes a mapping"),
            ("a: 1\n---\nb: 2\n", "x:2:1: a second document"),
            ("# nothing\n", "x: the file holds nothing"),
            ("a: &a [*a]\n", "x:1:4: nests deeper than"),
            ("a: &a\n  <<: *a\n", "x:1:4: nests deeper than"),
        ],
    )
    def test_in_yaml(self, text: str, where: str) -> None:
        """A fault in a YAML contract has line and column."""
        assert fault(lambda: yamlcontract.read(text.encode(), origin="x")).startswith(where)

    def test_aliases_do_not_explode(self) -> None:
        """A file of a few lines that stands for billions of values is refused."""
        lines = ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
        message = fault(lambda: yamlcontract.read("\n".join(lines).encode(), origin="x"))
        assert "aliases written out" in message


def yaml_setting(body: str) -> Setting:
    text = f"x-relayconf: {{version: 1, target: api, prefix: API}}\nproperties:\n  API_A: {body}\n"
    return yamlcontract.read(text.encode(), origin="x").settings["API_A"]


class TestYaml:
    @pytest.mark.parametrize(
        ("body", "default"),
        [
            ("{type: string, default: 1.10}", "1.10"),
            ("{type: string, default: 0123}", "0123"),
            ("{type: string, default: 0x1F}", "0x1F"),
            ("{type: string, default: yes}", "yes"),
            ("{type: string, default: 2026-01-02}", "2026-01-02"),
            ("{type: string, default: 12:30:45}", "12:30:45"),
            ("{type: string, default: .inf}", ".inf"),
            ("{type: string, default: 'true'}", "true"),
            ("{type: string, default: !!str 5}", "5"),
            ("{type: boolean, default: yes}", True),
            ("{type: boolean, default: FALSE}", False),
            ("{type: integer, default: 5}", 5),
            ("{type: integer, default: ~}", None),
            ("{type: number, default: 1e3}", 1000),
            ("{type: array, default: [a, 'b c']}", ("a", "b c")),
            ("{enum: [on, off], default: on}", "on"),
        ],
    )
    def test_scalars_are_json_or_text(self, body: str, default: Any) -> None:
        """Nothing becomes what it does not look like in every version of YAML."""
        assert default == yaml_setting(body).default

    def test_octal_looking_numbers_are_refused_where_a_number_belongs(self) -> None:
        """A zero in front is a question, not an answer."""
        assert "leading zero" in fault(lambda: yaml_setting("{type: integer, default: 0123}"))

    def test_merge_keys(self) -> None:
        """What properties have in common may be written once."""
        text = """
x-relayconf: {version: 1, target: api}
properties:
  A: &a {type: integer, default: 5, x-relayconf: &x {live: true, min: 1}}
  B: {<<: *a, default: 6}
  C: {<<: [{default: 7}, *a], x-relayconf: {<<: *x, min: 2}}
"""
        settings = yamlcontract.read(text.encode(), origin="x").settings
        assert [(5, 1), (6, 1), (7, 2)] == [(s.default, s.minimum) for s in settings.values()]
        assert {True} == {s.live for s in settings.values()}

    @pytest.mark.parametrize("name", ["api.yaml", "api.yml"])
    def test_a_file_is_a_target(self, tmp_path: Path, name: str) -> None:
        """A command takes the path of a YAML contract like any other target."""
        path = tmp_path / name
        path.write_text(
            "x-relayconf: {version: 1, target: api}\nproperties: {A: {type: integer}}\n"
        )
        assert "api" == find_contract(str(path)).target

    def test_without_its_library(self, tmp_path: Path) -> None:
        """Where no YAML library is installed, the message says so and what to do."""
        (tmp_path / "api.yaml").write_text("x: 1\n")
        code = (
            "import sys; sys.modules['ruamel.yaml'] = None\n"
            "from relayconf.cli import main; sys.exit(main(['show', 'api.yaml']))"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (2, "") == (done.returncode, done.stdout)
        assert "api.yaml: reading YAML needs ruamel.yaml" in done.stderr
        assert "Traceback" not in done.stderr


class TestFiles:
    @pytest.mark.parametrize("name", ["missing.json", "missing.yaml", "folder.json", "folder.yaml"])
    def test_what_cannot_be_read(self, tmp_path: Path, name: str) -> None:
        """A file that is not there, or is none, is named in the message."""
        (tmp_path / "folder.json").mkdir()
        (tmp_path / "folder.yaml").mkdir()
        path = str(tmp_path / name)
        assert fault(lambda: find_contract(path)).startswith(f"{path}: ")

    def test_a_fifo_does_not_block(self, tmp_path: Path) -> None:
        """A named pipe in the place of a contract is refused at once."""
        path = tmp_path / "pipe.json"
        os.mkfifo(path)
        assert str(path) in fault(lambda: load(str(path)))

    def test_a_byte_order_mark_is_no_fault(self) -> None:
        """What Windows editors put in front of a file is not part of the document."""
        whole = {"x-relayconf": {"version": 1, "target": "api"}, "properties": {}}
        data = b"\xef\xbb\xbf" + json.dumps(whole).encode()
        assert "api" == read(data, origin="x").target


class TestGuide:
    def test_explains_every_keyword(self, root: Path) -> None:
        """No keyword is left to be found out."""
        guide = (root / "docs" / "contracts.md").read_text("utf-8")
        tables = "\n".join(line.split("|")[1] for line in guide.splitlines() if line[:1] == "|")
        assert [] == [key for key in KEYS if f"`{key}`" not in tables]

    def test_example_is_complete(self, root: Path) -> None:
        """Each keyword of a property, and each type that needs a word, is seen at work once."""
        text = EXAMPLE.findall((root / "docs" / "contracts.md").read_text("utf-8"))[0]
        contract = yamlcontract.read(text.encode(), origin="mailer.schema.yaml")
        assert [] == [key for key in KEYS if not re.search(rf"\b{key}:", text)]
        kinds = {setting.type for setting in contract.settings.values()}
        assert {"duration", "size", "rollout", "enum", "list", "secret", "url"} <= kinds
        assert [None, ("delivered", "delayed", "refused")] == [
            contract.settings["MAILER_RELAY_PASSWORD"].default,
            contract.settings["MAILER_NOTIFY"].choices,
        ]
