"""Settings files: which apply, in which order, what is in them, and how each mistake is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dynaconf import Dynaconf  # type: ignore[import-untyped]  # it ships no types
from dynaconf.constants import (  # type: ignore[import-untyped]  # as above
    DEFAULT_SETTINGS_FILES,
)

from relayconf.errors import SourceError
from relayconf.files import settings_entries
from relayconf.files.tokens import NESTED, NULL, NULL_ITEM, TABLE
from relayconf.files.which import EXTENSIONS
from relayconf.layers import Entry, Layer
from relayconf.resolve import resolve
from relayconf.setting import Contract, Setting

API = Contract(
    "api",
    "API_",
    {
        s.name: s
        for s in (
            Setting("API_TTL_MS", "duration", 3000, unit="ms", legacy=("OLD_TTL",)),
            Setting("API_NAME", "string", "n"),
            Setting("API_ON", "boolean", False),
            Setting("API_HOSTS", "list", ()),
            Setting("API_PORTS", "list", (), items="integer"),
            Setting("API_TOKEN", "secret"),
        )
    },
)


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)


def entries(folder: Path, deployment: str | None = None) -> list[tuple[str, str, str]]:
    """Name, text, and origin without the folder."""
    found = settings_entries(API, str(folder), deployment)
    assert [] == [entry for entry in found if entry.fault is not None]
    return [(e.name, e.text, e.origin.removeprefix(f"{folder}/")) for e in found]


def faults(folder: Path) -> list[tuple[str, str | None]]:
    return [(e.name, e.fault) for e in settings_entries(API, str(folder), None)]


def value(folder: Path, name: str, deployment: str | None = None) -> object:
    layer = Layer("file", settings_entries(API, str(folder), deployment))
    return resolve(API, [layer]).settings[name].value


class TestWhichFiles:
    def test_order(self, tmp_path: Path) -> None:
        """Default section, deployment's section, its file, secrets: each beats the one before."""
        write(
            tmp_path,
            {
                "settings.toml": "API_NAME='0'\n[default]\nAPI_NAME='1'\n[prod]\nAPI_NAME='2'\n",
                "settings.prod.toml": "API_NAME='3'\n[prod]\nAPI_NAME='4'\n",
                ".secrets.toml": "API_NAME='5'\n",
                ".secrets.prod.toml": "API_NAME='6'\n",
            },
        )
        assert list("0123456") == [text for _, text, _ in entries(tmp_path, "prod")]
        assert list("015") == [text for _, text, _ in entries(tmp_path)]
        assert list("015") == [text for _, text, _ in entries(tmp_path, "staging")]
        assert "6" == value(tmp_path, "API_NAME", "prod")

    def test_sections_stand_in_any_order_and_case(self, tmp_path: Path) -> None:
        """Where a section stands, and how it is spelled, does not matter; [global] is above all."""
        text = "[Global]\nAPI_NAME='3'\n[PROD]\nAPI_NAME='2'\n[Default]\nAPI_NAME='1'\n"
        write(tmp_path, {"settings.toml": text})
        assert list("123") == [text for _, text, _ in entries(tmp_path, "prod")]

    def test_extensions_beat_each_other_as_in_dynaconf(self, tmp_path: Path) -> None:
        """Two formats side by side: the later in dynaconf's own list wins as a whole."""
        own = [name.removeprefix("settings.") for name in DEFAULT_SETTINGS_FILES[:9]]
        assert list(EXTENSIONS) == [extension for extension in own if extension in EXTENSIONS]
        write(
            tmp_path,
            {
                "settings.json": '{"API_NAME": "json"}',
                "settings.yml": "API_NAME: yml",
                "settings.yaml": "API_NAME: yaml",
                "settings.toml": "prod = {API_NAME = 'toml'}",
            },
        )
        assert ["toml", "yaml", "yml", "json"] == [text for _, text, _ in entries(tmp_path, "prod")]

    def test_agrees_with_dynaconf(self, tmp_path: Path) -> None:
        """What wins is what wins for a program that hands the same files to dynaconf."""
        write(
            tmp_path,
            {
                "settings.toml": "[prod]\nA='t-prod'\nB='t'\n[default]\nA='t-default'\nC='t'\n",
                "settings.yaml": "default: {B: y-default, D: y}\nglobal: {D: y-global}\n",
                "settings.json": '{"prod": {"D": "j"}, "staging": {"D": "no"}}',
            },
        )
        paths = [str(tmp_path / f"settings.{extension}") for extension in EXTENSIONS]
        theirs = Dynaconf(settings_files=paths, environments=True, env="prod", loaders=[])
        ours = {name: text for name, text, _ in entries(tmp_path, "prod")}
        assert ours == {name: theirs[name] for name in "ABCD"}

    def test_other_files_are_not_read(self, tmp_path: Path) -> None:
        """No parent, no .local, no .env, no Python file, no other deployment's file counts."""
        folder = tmp_path / "config"
        (folder / "config").mkdir(parents=True)
        other = {"settings.local.toml": "]", "settings.py": "]", ".env": "]", "settings.ini": "]"}
        write(folder, {**other, "settings.staging.toml": "]", "settings.tml": "]"})
        write(folder / "config", {"settings.toml": "]"})
        write(tmp_path, {"settings.toml": "]"})
        assert [] == entries(folder, "prod")

    def test_nothing_is_imported_for_nothing(self, tmp_path: Path) -> None:
        """Where no settings file is, neither dynaconf nor a YAML parser is loaded."""
        code = (
            "import sys\nfrom relayconf.layers import Sources, collect\n"
            "from relayconf.setting import Contract\n"
            "collect(Contract('a', 'A_', {}), Sources({}, config_dir='.', secrets_dir='.'))\n"
            "print(sorted({'dynaconf', 'ruamel.yaml', 'tomllib'} & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ("[]\n", "") == (done.stdout, done.stderr)

    @pytest.mark.parametrize("name", ["../prod", "a/b", "prod,eu", "a b", "\0", "@jinja {{ 1 }}"])
    def test_deployment_that_is_no_part_of_a_name(self, tmp_path: Path, name: str) -> None:
        """A deployment never leads out of the directory, nor means two."""
        with pytest.raises(SourceError, match=r"letters, digits and _ - \. only"):
            settings_entries(API, str(tmp_path), name)

    def test_missing_directory(self, tmp_path: Path) -> None:
        """A directory that was named and is not there is an error, not an absence of settings."""
        with pytest.raises(SourceError, match="cannot search the directory: No such file"):
            settings_entries(API, str(tmp_path / "nowhere"), None)

    def test_deleted_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process whose working directory is gone starts all the same."""
        folder = tmp_path / "gone"
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        assert () == settings_entries(API, ".", "prod")

    def test_origin_in_the_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In the working directory an origin is the file's bare name."""
        write(tmp_path, {"settings.toml": "API_ON=true"})
        monkeypatch.chdir(tmp_path)
        assert (Entry("API_ON", "true", "settings.toml:1:1"),) == settings_entries(API, ".", None)


class TestIsolation:
    def test_no_hook_no_variable_no_dotenv(self, tmp_path: Path) -> None:
        """Nothing that steers dynaconf elsewhere steers it here, nor runs, nor is lost."""
        write(
            tmp_path,
            {
                "settings.toml": "[default]\nAPI_NAME='@format {env[HOME]}'\n[eu]\nAPI_NAME='no'\n",
                "dynaconf_hooks.py": "raise SystemExit('ran')\n",
                ".env": "ENV_FOR_DYNACONF=eu\n",
            },
        )
        code = (
            "import os, sys\nfrom relayconf.files import settings_entries\n"
            "from relayconf.setting import Contract\n"
            "print([e.text for e in settings_entries(Contract('a', 'A_', {}), '.', None)])\n"
            "print(os.environ['REDIS_PORT_FOR_DYNACONF'])"
        )
        steering = {
            "ENV_FOR_DYNACONF": "eu",
            "FORCE_ENV_FOR_DYNACONF": "eu",
            "ENVIRONMENTS_FOR_DYNACONF": "false",
            "SETTINGS_FILE_FOR_DYNACONF": "other.toml",
            "REDIS_PORT_FOR_DYNACONF": "no number",
            "ROOT_PATH_FOR_DYNACONF": "/",
            "API_NAME": "no",
            "DYNACONF_API_NAME": "no",
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, **steering},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ("['@format {env[HOME]}']\nno number\n", "") == (done.stdout, done.stderr)


TOML_TEXTS = {
    "'0123'": "0123",
    "1.50": "1.50",
    "0x1F": "0x1F",
    "1_000": "1_000",
    "true": "true",
    "2026-11-30": "2026-11-30",
    "2026-11-30 07:32:00": "2026-11-30 07:32:00",
    "07:32:00": "07:32:00",
    '"a\\tb"': "a\tb",
    "'''\na\nb'''": "a\nb",
    "'@format {this}'": "@format {this}",
    '"@jinja {{ 1 }}" # no': "@jinja {{ 1 }}",
    "9" * 5000: "9" * 5000,
    "['a', \"b\"]": "a,b",
    "[ # one\n 1, # two\n 2,\n]": "1,2",
    "['a,b', ' c ']": '["a,b", " c "]',
    "[]": "[]",
}

YAML_TEXTS = {
    "0123": "0123",
    "1.50": "1.50",
    "1_000": "1_000",
    "yes": "yes",
    "0o17": "0o17",
    "12:30:45": "12:30:45",
    "2026-11-30": "2026-11-30",
    "2026-11-30T07:32:00Z": "2026-11-30T07:32:00Z",
    "'null'": "null",
    "!!str 5": "5",
    '"a\\tb"': "a\tb",
    "|\n  a\n  b": "a\nb\n",
    "a # b": "a",
    "'@format {this}'": "@format {this}",
    "[a, 0123, no]": "a,0123,no",
    "\n  - a\n  - b": "a,b",
    "[]": "[]",
}

JSON_TEXTS = {
    '"0123"': "0123",
    "1.50": "1.50",
    "1e400": "1e400",
    "false": "false",
    '"a\\tb\\u00e9"': "a\tbé",
    '"@format {this}"': "@format {this}",
    "9" * 5000: "9" * 5000,
    '["a", 1, true]': "a,1,true",
    "[]": "[]",
}


class TestTexts:
    @pytest.mark.parametrize(("source", "text"), TOML_TEXTS.items(), ids=lambda t: t[:20])
    def test_toml(self, tmp_path: Path, source: str, text: str) -> None:
        """A TOML value is the text that is written; a string is its content."""
        write(tmp_path, {"settings.toml": f"\n[default]\n  API_HOSTS = {source}\n"})
        assert [("API_HOSTS", text, "settings.toml:3:3")] == entries(tmp_path)

    @pytest.mark.parametrize(("source", "text"), YAML_TEXTS.items(), ids=lambda t: t[:20])
    def test_yaml(self, tmp_path: Path, source: str, text: str) -> None:
        """A YAML value is the text that is written, whatever YAML would make of it."""
        write(tmp_path, {"settings.yaml": f"# c\nAPI_HOSTS: {source}\n"})
        assert [("API_HOSTS", text, "settings.yaml:2:1")] == entries(tmp_path)

    @pytest.mark.parametrize(("source", "text"), JSON_TEXTS.items(), ids=lambda t: t[:20])
    def test_json(self, tmp_path: Path, source: str, text: str) -> None:
        """A JSON value is the text that is written; a string is its content."""
        write(tmp_path, {"settings.json": '{\n "default": {"API_HOSTS": ' + source + "}}"})
        assert [("API_HOSTS", text, "settings.json:2:14")] == entries(tmp_path)

    @pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b""])
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("settings.toml", b"API_NAME = 'a'\r\nAPI_ON = true\r\n"),
            ("settings.yaml", b"API_NAME: a\r\nAPI_ON: true\r\n"),
            ("settings.json", b'{"API_NAME": "a",\r\n"API_ON": true}\r\n'),
        ],
    )
    def test_windows_line_ends(self, tmp_path: Path, name: str, text: bytes, head: bytes) -> None:
        """A file saved on Windows, with or without a byte order mark, means the same."""
        write(tmp_path, {name: head + text})
        found = entries(tmp_path)
        assert [("API_NAME", "a"), ("API_ON", "true")] == [entry[:2] for entry in found]
        assert f"{name}:2:1" == found[1][2]

    def test_anchors_and_merges(self, tmp_path: Path) -> None:
        """YAML's anchors and merge keys give the place where the value really stands."""
        text = "default: &d\n  API_TTL_MS: &t 5s\nprod:\n  <<: *d\n  API_NAME: *t\n"
        write(tmp_path, {"settings.yaml": text})
        assert entries(tmp_path, "prod") == [
            ("API_TTL_MS", "5s", "settings.yaml:2:3"),
            ("API_NAME", "5s", "settings.yaml:5:3"),
            ("API_TTL_MS", "5s", "settings.yaml:2:3"),
        ]

    def test_lists_reach_the_setting(self, tmp_path: Path) -> None:
        """A list of numbers or texts is the setting's list, item by item."""
        write(tmp_path, {"settings.toml": "API_PORTS = [80, 443]\nAPI_HOSTS = ['a,b', 'c ']\n"})
        assert (80, 443) == value(tmp_path, "API_PORTS")
        assert ("a,b", "c ") == value(tmp_path, "API_HOSTS")

    def test_editor_hints_are_ignored(self, tmp_path: Path) -> None:
        """What tells an editor where the schema is has no other effect."""
        write(tmp_path, {"settings.json": '{"$schema": "./api.schema.json", "API_ON": true}'})
        assert (
            resolve(API, [Layer("file", settings_entries(API, str(tmp_path), None))]).problems == ()
        )


class TestFaults:
    @pytest.mark.parametrize(
        ("name", "text", "fault"),
        [
            ("settings.toml", "API_NAME = { a = 1 }", TABLE),
            ("settings.toml", "[API_NAME]\na = 1", TABLE),
            ("settings.toml", "default.API_NAME.a = 1", TABLE),
            ("settings.toml", "API_HOSTS = [['a']]", NESTED),
            (
                "settings.toml",
                "[[API_HOSTS]]\na = 1",
                "it is a list of tables; a list holds plain items",
            ),
            ("settings.toml", "API_NAME = ['a']", "it is a list, and API_NAME is one string"),
            ("settings.toml", "OLD_TTL = [5]", "it is a list, and API_TTL_MS is one duration"),
            ("settings.yaml", "API_NAME:", NULL),
            ("settings.yaml", "API_NAME: ~", NULL),
            ("settings.yaml", "API_HOSTS: [a, ]\nAPI_NAME: {a: 1}", TABLE),
            ("settings.yaml", "API_HOSTS: [a, null]", NULL_ITEM),
            ("settings.json", '{"API_NAME": null}', NULL),
            ("settings.json", '{"API_HOSTS": [null]}', NULL_ITEM),
            ("settings.json", '{"default": {"API_NAME": {}}}', TABLE),
        ],
    )
    def test_what_is_no_text(self, tmp_path: Path, name: str, text: str, fault: str) -> None:
        """A table, a null or a nested list is a fault of its own key, and of no other."""
        write(tmp_path, {name: text})
        assert fault == faults(tmp_path)[-1][1]

    @pytest.mark.parametrize("tag", ["!env", "!!python/object/apply:os.abort", "!!binary", "!!set"])
    def test_tags_are_not_run(self, tmp_path: Path, tag: str) -> None:
        """A YAML tag on a value is refused for that value, and never run."""
        write(tmp_path, {"settings.yaml": f"API_NAME: {tag} HOME\nother: !x {{a: !y b}}\n"})
        (name, fault), *_ = faults(tmp_path)
        assert ("API_NAME", "it has a tag") == (name, (fault or "")[:12])

    def test_falls_to_the_section_below(self, tmp_path: Path) -> None:
        """An invalid value in a higher section never hides the good one of a lower section."""
        text = "[default]\nAPI_TTL_MS=5\n[prod]\nAPI_TTL_MS='junk'\nAPI_NAME={}\n"
        write(tmp_path, {"settings.toml": text})
        resolution = resolve(API, [Layer("file", settings_entries(API, str(tmp_path), "prod"))])
        ttl = resolution.settings["API_TTL_MS"]
        assert (5, "invalid", f"{tmp_path}/settings.toml:2:1") == (
            ttl.value,
            ttl.status,
            ttl.origin,
        )
        assert [(p.code, p.name) for p in resolution.problems] == [
            ("invalid-value", "API_TTL_MS"),
            ("invalid-value", "API_NAME"),
        ]

    def test_overriding_is_no_finding(self, tmp_path: Path) -> None:
        """That a deployment's section beats the default one is a note, not a problem."""
        write(tmp_path, {"settings.toml": "[default]\nAPI_TTL_MS=5\n[prod]\nAPI_TTL_MS=6\n"})
        resolution = resolve(API, [Layer("file", settings_entries(API, str(tmp_path), "prod"))])
        ttl = resolution.settings["API_TTL_MS"]
        assert (6, (), ["shadowed"]) == (
            ttl.value,
            resolution.problems,
            [n.code for n in ttl.notes],
        )
        assert ["in force", "shadowed"] == [candidate.verdict for candidate in ttl.stack]

    def test_blank_lets_the_section_below_decide(self, tmp_path: Path) -> None:
        """An empty text is unset in a file too."""
        write(tmp_path, {"settings.toml": "[default]\nAPI_TTL_MS=5\n[prod]\nAPI_TTL_MS=' '\n"})
        assert 5 == value(tmp_path, "API_TTL_MS", "prod")

    def test_keys_of_others_are_ignored(self, tmp_path: Path) -> None:
        """A file that serves several programs raises nothing about what is not this one's."""
        text = "debug = true\nitems = [{a=1}]\n[database]\nhost = 'x'\n[default]\nOTHER_X = {}\n"
        write(tmp_path, {"settings.toml": text})
        layer = Layer("file", settings_entries(API, str(tmp_path), None))
        assert () == resolve(API, [layer]).problems
