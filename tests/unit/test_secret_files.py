"""Secret files: ``NAME_FILE`` and the directory of secrets, good files and bad ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from relayconf.errors import SourceError
from relayconf.files.secret import MAX_SECRET_BYTES
from relayconf.layers import Sources, collect
from relayconf.resolve import Resolution, resolve
from relayconf.setting import Contract, Setting

APP = Contract(
    "app",
    "APP_",
    {
        s.name: s
        for s in (
            Setting("APP_TOKEN", "secret", legacy=("OLD_TOKEN",)),
            Setting("APP_URL", "url"),
            Setting("APP_MODE", "string", "m"),
            Setting("APP_KEY_FILE", "path"),
            Setting("APP_KEY", "secret"),
        )
    },
)


def read(
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    *,
    env_file: Path | None = None,
    config: Path | None = None,
) -> Resolution:
    sources = Sources(
        environ or {},
        env_files=(str(env_file),) if env_file else (),
        config_dir=str(config) if config else None,
        secrets_dir=str(folder) if folder else None,
    )
    return resolve(APP, collect(APP, sources))


def origin(resolution: Resolution, name: str = "APP_TOKEN") -> tuple[object, str, str | None]:
    found = resolution.settings[name]
    return found.value, found.layer, found.origin


class TestDirectory:
    @pytest.mark.parametrize("name", ["APP_TOKEN", "app_token", "App_Token", "old_token"])
    def test_file_called_like_the_secret(self, tmp_path: Path, name: str) -> None:
        """A file named after a secret, in any case, holds it."""
        (tmp_path / name).write_text("canary\n")
        assert ("canary", "secret-file", f"{tmp_path}/{name}") == origin(read(folder=tmp_path))

    def test_exact_name_wins(self, tmp_path: Path) -> None:
        """Of two spellings the exact one wins, whatever the directory lists first, and is named."""
        (tmp_path / "app_token").write_text("low")
        (tmp_path / "APP_TOKEN").write_text("high")
        resolution = read(folder=tmp_path)
        assert "high" == resolution.settings["APP_TOKEN"].value
        assert ["shadowed"] == [problem.code for problem in resolution.problems]

    def test_only_secrets_and_urls(self, tmp_path: Path) -> None:
        """A url may arrive as a file too, since it can hold a password; a plain setting may not."""
        (tmp_path / "app_url").write_text("https://u:p@h/\n")
        (tmp_path / "app_mode").write_text("x\n")
        resolution = read(folder=tmp_path)
        assert "https://u:p@h/" == resolution.settings["APP_URL"].value
        assert "m" == resolution.settings["APP_MODE"].value

    def test_missing_directory(self, tmp_path: Path) -> None:
        """A service without secrets has no such directory."""
        assert () == read(folder=tmp_path / "none").problems

    def test_directory_that_is_none(self, tmp_path: Path) -> None:
        """A file in the directory's place is an error that names it."""
        (tmp_path / "file").write_text("")
        with pytest.raises(SourceError, match="cannot list the directory: Not a directory"):
            read(folder=tmp_path / "file")

    def test_environment_wins(self, tmp_path: Path) -> None:
        """A secret set in the environment itself beats its file."""
        (tmp_path / "app_token").write_text("low")
        resolution = read({"APP_TOKEN": "high"}, tmp_path)
        assert ("high", "environment", "environment") == origin(resolution)


class TestContent:
    @pytest.mark.parametrize(
        ("data", "value"),
        [
            (b"a", "a"),
            (b"a\n", "a"),
            (b"a\r\n", "a"),
            (b"a\n\n", "a\n"),
            (b" a \n", " a "),
            (b"a\nb\n", "a\nb"),
            (b"a\r", "a\r"),
            (b"@format {env[HOME]}", "@format {env[HOME]}"),
            (b"$HOME", "$HOME"),
            ("é\n".encode(), "é"),
        ],
    )
    def test_one_line_end_is_taken_off(self, tmp_path: Path, data: bytes, value: str) -> None:
        """The line end that an editor adds is no part of the secret; everything else is."""
        (tmp_path / "app_token").write_bytes(data)
        assert value == read(folder=tmp_path).settings["APP_TOKEN"].value

    @pytest.mark.parametrize("data", [b"", b"\n", b"  \n"])
    def test_blank_is_said(self, tmp_path: Path, data: bytes) -> None:
        """An empty secret file is an error, not an empty secret."""
        (tmp_path / "app_token").write_bytes(data)
        resolution = read(folder=tmp_path)
        assert ["blank-secret"] == [problem.code for problem in resolution.problems]
        assert resolution.settings["APP_TOKEN"].value is None

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"hunter2\xff", "it is not UTF-8 at byte 7"),
            (b"hunter2\0", "NUL"),
            (b"h" * (MAX_SECRET_BYTES + 1), f"the file is larger than {MAX_SECRET_BYTES} bytes"),
        ],
        ids=["not UTF-8", "NUL", "long"],
    )
    def test_unusable_content(self, tmp_path: Path, data: bytes, reason: str) -> None:
        """What cannot be a secret is invalid for that setting, and never shown."""
        path = tmp_path / "app_token"
        path.write_bytes(data)
        resolution = read(folder=tmp_path)
        (problem,) = resolution.problems
        assert ("invalid-value", "APP_TOKEN", str(path)) == (
            problem.code,
            problem.name,
            problem.origin,
        )
        assert reason in problem.message
        assert "hunter2" not in repr(resolution.problems)

    @pytest.mark.parametrize("text", ["hunter2\n", "https://h/ hunter2"], ids=["bare", "spaced"])
    def test_no_url(self, tmp_path: Path, text: str) -> None:
        """What is no url in the file of one may be a bare password, and is never shown."""
        (tmp_path / "app_url").write_text(text)
        resolution = read(folder=tmp_path)
        (problem,) = resolution.problems
        assert ("invalid-value", "it does not hold a url") == (problem.code, problem.message)
        assert "hunter2" not in repr(resolution)

    def test_blank_url(self, tmp_path: Path) -> None:
        """An empty file of a url leaves it unset, as a blank does everywhere."""
        (tmp_path / "app_url").write_text("\n")
        resolution = read(folder=tmp_path)
        assert (None, ()) == (resolution.settings["APP_URL"].value, resolution.problems)


class TestPointer:
    def test_names_a_file(self, tmp_path: Path) -> None:
        """NAME_FILE names the file of a secret, under a legacy name as well."""
        path = tmp_path / "t"
        path.write_text("canary\n")
        resolution = read({"APP_TOKEN_FILE": str(path)})
        assert ("canary", "secret-file", str(path)) == origin(resolution)
        assert () == resolution.problems
        legacy = read({"OLD_TOKEN_FILE": f" {path}\r\n"})
        assert ("canary", "secret-file", str(path)) == origin(legacy)
        assert ["legacy-name"] == [problem.code for problem in legacy.problems]

    def test_layers(self, tmp_path: Path) -> None:
        """The environment's NAME_FILE beats an env file's, that a settings file's; blanks none."""
        for name in ("dir", "config"):
            (tmp_path / name).mkdir()
        (tmp_path / "dir" / "app_token").write_text("0")
        for number in "123":
            (tmp_path / number).write_text(number)
        (tmp_path / "config" / "settings.toml").write_text(f"APP_TOKEN_FILE = '{tmp_path}/1'\n")
        env_file = tmp_path / "a.env"
        env_file.write_text(f"APP_TOKEN_FILE={tmp_path}/2\n")
        environ = {"APP_TOKEN_FILE": f"{tmp_path}/3"}
        folder, config = tmp_path / "dir", tmp_path / "config"
        found = [
            read({}, folder),
            read({}, folder, config=config),
            read({"APP_TOKEN_FILE": ""}, folder, config=config, env_file=env_file),
            read(environ, folder, config=config, env_file=env_file),
        ]
        assert list("0123") == [r.settings["APP_TOKEN"].value for r in found]
        assert {"shadowed"} == {p.code for r in found for p in r.problems}

    def test_same_file_twice(self, tmp_path: Path) -> None:
        """NAME_FILE that points into the directory of secrets is one source, not two."""
        path = tmp_path / "app_token"
        path.write_text("canary")
        resolution = read({"APP_TOKEN_FILE": str(path)}, tmp_path)
        assert () == resolution.problems
        assert 1 == len(resolution.settings["APP_TOKEN"].stack)

    def test_one_file_for_two_secrets(self, tmp_path: Path) -> None:
        """A file that another secret's NAME_FILE points to still serves the secret of its name."""
        (tmp_path / "app_token").write_text("canary")
        resolution = read(
            {"APP_KEY_FILE": "x", "OLD_TOKEN_FILE": f"{tmp_path}/app_token"}, tmp_path
        )
        found = [(c.name, c.verdict) for c in resolution.settings["APP_TOKEN"].stack]
        assert [("APP_TOKEN", "in force"), ("OLD_TOKEN", "shadowed")] == found

    def test_unusable_file(self, tmp_path: Path) -> None:
        """A missing file, a directory or a pipe costs that secret alone, and nothing blocks."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        for path, reason in (
            (tmp_path / "none", "No such file or directory"),
            (tmp_path, "it is a directory"),
            (pipe, "it is not a regular file"),
        ):
            resolution = read({"APP_TOKEN_FILE": str(path), "APP_MODE": "x"})
            (problem,) = resolution.problems
            expected = f"cannot read the file: {reason}; APP_TOKEN_FILE (environment) names it"
            assert ("invalid-value", expected, str(path)) == (
                problem.code,
                problem.message,
                problem.origin,
            )
            assert (None, "invalid") == (
                resolution.settings["APP_TOKEN"].value,
                resolution.settings["APP_TOKEN"].status,
            )
            assert "x" == resolution.settings["APP_MODE"].value

    def test_falls_to_the_layer_below(self, tmp_path: Path) -> None:
        """Where the named file cannot be read, the secret of a settings file serves."""
        (tmp_path / ".secrets.toml").write_text("APP_TOKEN = 'canary'\n")
        resolution = read({"APP_TOKEN_FILE": "/nowhere/at/all"}, config=tmp_path)
        assert ("canary", "file", f"{tmp_path}/.secrets.toml:1:1") == origin(resolution)
        assert "invalid" == resolution.settings["APP_TOKEN"].status

    @pytest.mark.parametrize("path", ["a\0b", "\udcff", "x" * 5000])
    def test_impossible_path(self, path: str) -> None:
        """A path that no file can have is a problem of that secret."""
        (problem,) = read({"APP_TOKEN_FILE": path}).problems
        assert "invalid-value" == problem.code
        assert problem.line().isprintable()

    def test_declared_name_is_no_pointer(self, tmp_path: Path) -> None:
        """A setting that is itself called ..._FILE keeps its own meaning."""
        path = tmp_path / "key"
        path.write_text("canary")
        resolution = read({"APP_KEY_FILE": str(path)})
        assert str(path) == resolution.settings["APP_KEY_FILE"].value
        assert resolution.settings["APP_KEY"].value is None
