"""Settings files that cannot be read as they are meant: one line each, and never a value in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relayconf.errors import SourceError
from relayconf.files import settings_entries
from relayconf.files.tokens import MAX_BYTES, NESTED
from relayconf.setting import Contract, Setting

API = Contract(
    "api",
    "API_",
    {s.name: s for s in (Setting("API_TOKEN", "secret"), Setting("API_HOSTS", "list"))},
)


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)


def refusal(folder: Path, deployment: str | None = None) -> str:
    with pytest.raises(SourceError) as caught:
        settings_entries(API, str(folder), deployment)
    return str(caught.value).replace(f"{folder}/", "")


SECRET = "hunter2canary"

MALFORMED = [
    ("settings.toml", f"API_TOKEN = {SECRET}", "1:13: not TOML"),
    ("settings.toml", f"API_TOKEN = '{SECRET}", "1:"),
    ("settings.toml", "A = 1\nA = 2", "2:6: a key or a table stands twice"),
    ("settings.toml", "[a]\n[a]", "2:3: a key or a table stands twice"),
    ("settings.toml", "A = 0123", "1:6: not TOML: something follows the value"),
    ("settings.toml", b"A = 1\nB = '\xff'", "2:6: not UTF-8: a byte 0xFF"),
    ("settings.toml", "default = 5", "1:1: default is the name of a section here"),
    ("settings.toml", "[Default]\n[default]", "2:2: the section [default] stands twice"),
    ("settings.toml", "A = " + "[" * 60 + "]" * 60, "1:55: it nests deeper than 50 levels"),
    ("settings.toml", "A = " + "{a=" * 300 + "1" + "}" * 300, "it nests deeper than 50 levels"),
    ("settings.toml", "a." * 60 + "b = 1", "1:1: a key of more than 50 parts"),
    ("settings.toml", "#" * (MAX_BYTES + 1), f"the file is larger than {MAX_BYTES} bytes"),
    ("settings.yaml", f"API_TOKEN: *{SECRET}", "1:12: not YAML: '*' starts an alias"),
    ("settings.yaml", f"API_TOKEN: '{SECRET}", "1:26: not YAML: found unexpected end"),
    ("settings.yaml", f"API_TOKEN: @{SECRET}", "1:12: not YAML: found character '@'"),
    ("settings.yaml", f"API_TOKEN: !{SECRET}!x y", "1:12: not YAML: found undefined tag handle"),
    ("settings.yaml", "A: 1\nB: 2\nA: 3", "3:1: the key 'A' stands twice"),
    ("settings.yaml", "x: {y: [{a: 1, a: 2}]}", "1:16: the key 'a' stands twice"),
    ("settings.yaml", "- a\n- b", "1:1: not a YAML mapping of settings"),
    ("settings.yaml", "A: 1\n---\nB: 2", "2:1: a second document starts here"),
    ("settings.yaml", b"A: 1\n\xff", "2:1: not UTF-8"),
    ("settings.yaml", "A: \x01", "1:4: not YAML: a character that YAML does not allow"),
    ("settings.yaml", "[" * 90_000, "1:51: it nests deeper than 50 levels"),
    ("settings.yaml", "a: &a\n  <<: *a", "1:4: a merge key ('<<') brings in its own mapping"),
    ("settings.yaml", "<<: 5", "1:5: a merge key ('<<') takes a mapping"),
    ("settings.yaml", "prod: 5\ndefault: 5", "2:1: default is the name of a section here"),
    ("settings.json", f'{{"API_TOKEN": "{SECRET}', "1:15: not JSON: unterminated string"),
    ("settings.json", f'{{"API_TOKEN": {SECRET}}}', "1:15: not JSON: a value was expected here"),
    ("settings.json", '{"A": 1,\n "A": 2}', "2:2: the key 'A' stands twice"),
    ("settings.json", '{"x": {"A": 1, "A": 2}}', "1:16: the key 'A' stands twice"),
    ("settings.json", '{"A": NaN}', "1:7: not JSON: a value was expected here"),
    ("settings.json", '{"A": 1,}', "1:9: not JSON: a key in double quotes"),
    ("settings.json", '{"A": 1} // x', "1:10: not JSON: something follows the end"),
    ("settings.json", "", "1:1: not a JSON object of settings"),
    ("settings.json", '{"A": ' + "[" * 90_000, "1:57: it nests deeper than 50 levels"),
    ("settings.json", b'{"A": "\xff"}', "1:8: not UTF-8"),
]


class TestRefusals:
    @pytest.mark.parametrize(("name", "text", "words"), MALFORMED, ids=lambda t: str(t)[:30])
    def test_one_error_with_its_place(
        self, tmp_path: Path, name: str, text: str | bytes, words: str
    ) -> None:
        """A file that cannot be read as it is meant is one line: where, what, and no value."""
        write(tmp_path, {name: text})
        message = refusal(tmp_path)
        assert message.startswith(f"{name}:")
        assert words in message
        assert 1 == len(message.splitlines())
        assert SECRET not in message

    @pytest.mark.parametrize("key", ["dynaconf_include", "DYNACONF_INCLUDE"])
    def test_includes_are_refused(self, tmp_path: Path, key: str) -> None:
        """A file that would include another (or itself) is refused at the key that says so."""
        write(tmp_path, {"settings.toml": f"[default]\n{key} = ['settings.toml']\n"})
        assert f"settings.toml:2:1: {key}: a settings file includes no other" in refusal(tmp_path)

    def test_bomb_of_aliases(self, tmp_path: Path) -> None:
        """Aliases that multiply cost what the file is long, not what they would unfold to."""
        lines = ["a0: &a0 [x, x]"]
        lines.extend(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40))
        write(tmp_path, {"settings.yaml": "\n".join([*lines, "API_HOSTS: *a39"])})
        entry = settings_entries(API, str(tmp_path), None)[-1]
        assert ("API_HOSTS", NESTED) == (entry.name, entry.fault)

    def test_bomb_of_merges(self, tmp_path: Path) -> None:
        """Merge keys that bring in each other's keys over and over are stopped."""
        lines = [f"a{n}: &a{n} {{k{n}: 1}}" for n in range(400)]
        names = ", ".join(f"*a{n}" for n in range(400))
        lines.extend(f"b{n}: &b{n} {{<<: [{names}]}}" for n in range(1))
        lines.extend(f"c{n}: {{<<: [{', '.join(['*b0'] * 100)}]}}" for n in range(4))
        write(tmp_path, {"settings.yaml": "\n".join(lines)})
        assert "bring in more than 100000 keys" in refusal(tmp_path)

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        """A directory, a named pipe or a dangling link in its place is said; nothing blocks."""
        path = tmp_path / "settings.toml"
        path.mkdir()
        assert "settings.toml: cannot read the file: it is a directory" == refusal(tmp_path)
        path.rmdir()
        os.mkfifo(path)
        assert "settings.toml: cannot read the file: it is not a regular file" == refusal(tmp_path)
        path.unlink()
        path.symlink_to("nowhere")
        assert "settings.toml: cannot read the file: No such file or directory" == refusal(tmp_path)

    def test_unreadable_file(self, tmp_path: Path) -> None:
        """A file that this user may not read is an error that names it."""
        code = (
            "import os\nfrom relayconf.errors import SourceError\n"
            "from relayconf.files.regular import read_regular\n"
            "os.geteuid() or os.setuid(65534)\n"
            "try:\n    read_regular('settings.toml', limit=9)\n"
            "except SourceError as error:\n    print(error)"
        )
        write(tmp_path, {"settings.toml": "A = 1"})
        (tmp_path / "settings.toml").chmod(0)
        tmp_path.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout.endswith("cannot read the file: Permission denied\n"), done.stderr

    def test_missing_dependency(self, tmp_path: Path) -> None:
        """Where only the standard library is, a settings file is one clear error."""
        write(tmp_path, {"settings.toml": "A = 1"})
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from relayconf.errors import SourceError\n"
            "from relayconf.files import settings_entries\n"
            "from relayconf.setting import Contract\n"
            "try:\n    settings_entries(Contract('a', 'A_', {}), sys.argv[2], None)\n"
            "except SourceError as error:\n    print(error)"
        )
        root = str(Path(__file__).parents[2])
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, root, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "which this Python does not have" in done.stdout, done.stderr
        assert done.stdout.startswith(f"{tmp_path}/settings.toml: reading a settings file needs")
