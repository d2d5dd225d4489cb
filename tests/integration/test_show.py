"""``relayconf show`` and ``explain`` as a user runs them: a process, an environment, an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CASES = json.loads((Path(__file__).parents[1] / "data" / "values.json").read_text("utf-8"))["cases"]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("RELAY", "AGENTA_"))}


def relayconf(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "relayconf", *arguments],
        env={**CLEAN, **(env or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def show(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    result = relayconf("show", "relay", "--json", *arguments, env=env)
    assert 0 == result.returncode, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def setting(answer: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in answer["settings"] if s["name"] == name)
    return found


class TestCases:
    @pytest.mark.parametrize(
        "case", CASES, ids=lambda c: f"{c['name']}={list(c['set'].values())}"[:60]
    )
    def test_environment_gives_value_and_status(self, case: dict[str, Any]) -> None:
        """Each known trap of other configuration libraries gives the right value and status."""
        found = setting(show(env=case["set"]), case["name"])
        assert (case["value"], case["status"]) == (found["value"], found["status"])


class TestShow:
    def test_two_targets(self) -> None:
        """Of two targets none is shown in silence."""
        result = relayconf("show", "relay", "--target", "relayconf")
        assert (2, "") == (result.returncode, result.stdout)
        assert "two targets are named, relay and relayconf" in result.stderr
        assert 0 == relayconf("show", "relay", "--target", "relay").returncode

    def test_a_class_whose_module_prints(self, tmp_path: Path) -> None:
        """What a module prints while it is imported is no part of the answer."""
        lines = (
            "from typing import Annotated",
            "from relayconf import Settings, load",
            "from relayconf.declare import Doc, Env",
            "class App(Settings, target='app', prefix='APP_'):",
            "    size: Annotated[int, Env('APP_SIZE'), Doc('How many.')] = 3",
            "print(load(App).current.size)",
        )
        (tmp_path / "app.py").write_text("\n".join(lines))
        result = relayconf("show", "app:App", "--json", cwd=tmp_path)
        assert (0, "3\n") == (result.returncode, result.stderr)
        assert 3 == setting(json.loads(result.stdout), "APP_SIZE")["value"]

    def test_a_module_that_ends_its_process(self, tmp_path: Path) -> None:
        """It ends no command of somebody else's: that is an error like any other in it."""
        (tmp_path / "bye.py").write_text("import sys\nsys.exit(5)\n")
        result = relayconf("show", "bye:App", cwd=tmp_path)
        assert (2, "") == (result.returncode, result.stdout)
        said = "relayconf: importing 'bye' for target 'bye:App' failed: SystemExit: 5\n"
        assert said == result.stderr

    def test_document(self) -> None:
        """The answer has the documented fields, and those of a flag where it is one."""
        answer = show("--deployment", "prod")
        assert ["target", "deployment", "generation", "settings", "problems"] == list(answer)
        assert ("relay", "prod", []) == (answer["target"], answer["deployment"], answer["problems"])
        poll = {
            "name": "RELAY_POLL_MS",
            "type": "duration",
            "value": 300,
            "default": 300,
            "source": {"layer": "default", "origin": None},
            "raw": None,
            "status": "default",
            "notes": [],
            "live": True,
        }
        assert poll == setting(answer, "RELAY_POLL_MS")
        flag = {"kind": "kill-switch", "owner": "relay", "expires": None, "kill": False}
        assert flag == setting(answer, "RELAY_LOCAL_WATCH_ENABLED")["flag"]

    def test_layers_in_order(self, tmp_path: Path) -> None:
        """The environment beats an env file, an option beats both, and each names its origin."""
        env_file = tmp_path / "prod.env"
        env_file.write_text("# comment\nRELAY_POLL_MS=111\nRELAY_TIMEOUT_MS=5s\n")
        answer = show(
            "--env-file",
            str(env_file),
            "--set",
            "RELAY_MODE=poll",
            env={"RELAY_POLL_MS": "222", "RELAY_MODE": "watch"},
        )
        sources = [
            (setting(answer, n)["value"], setting(answer, n)["source"])
            for n in ("RELAY_TIMEOUT_MS", "RELAY_POLL_MS", "RELAY_MODE")
        ]
        assert sources == [
            (5000, {"layer": "env-file", "origin": f"{env_file}:3"}),
            (222, {"layer": "environment", "origin": "environment"}),
            ("poll", {"layer": "option", "origin": "--set"}),
        ]

    def test_invalid_falls_to_the_next_layer(self, tmp_path: Path) -> None:
        """An invalid value never hides the good one below it."""
        env_file = tmp_path / "a.env"
        env_file.write_text("RELAY_POLL_MS=111\n")
        answer = show("--env-file", str(env_file), env={"RELAY_POLL_MS": "1_000"})
        found = setting(answer, "RELAY_POLL_MS")
        assert (111, "invalid") == (found["value"], found["status"])
        assert [("invalid-value", "error", "environment")] == [
            (p["code"], p["severity"], p["origin"]) for p in answer["problems"]
        ]

    def test_secret_is_never_shown(self) -> None:
        """A secret shows as a mask in every form of the answer."""
        env = {"RELAY_DAEMON_TOKEN": "canary-1", "RELAY_DAEMON_URL": "https://u:canary-2@h/x"}
        for arguments in (
            ["show", "relay"],
            ["show", "relay", "--json"],
            ["explain", "RELAY_DAEMON_TOKEN"],
            ["explain", "RELAY_DAEMON_URL", "--json"],
        ):
            result = relayconf(*arguments, env=env)
            assert "canary" not in result.stdout + result.stderr
            assert "********" in result.stdout

    def test_strict_lists_every_problem(self) -> None:
        """Strict mode refuses with exit 78 and names all that is wrong, not only the first."""
        env = {"RELAY_POLL_MS": "junk", "RELAY_TIMEOUT_MS": "1", "RELAY_UNKNOWN": "1"}
        result = relayconf("show", "relay", "--strict", env=env)
        assert 78 == result.returncode
        assert "" == result.stdout
        assert "2 problems" in result.stderr
        assert "RELAY_POLL_MS" in result.stderr
        assert "RELAY_TIMEOUT_MS" in result.stderr

    def test_strict_from_the_environment(self) -> None:
        """RELAYCONF_STRICT=1 does what --strict does."""
        result = relayconf("show", "relay", env={"RELAYCONF_STRICT": "1", "RELAY_POLL_MS": "x"})
        assert 78 == result.returncode

    def test_strict_does_not_mind_unknown_names(self) -> None:
        """An unknown name is a warning, never a reason to refuse."""
        answer = show("--strict", env={"RELAY_POL_MS": "1"})
        problems = [(p["code"], p["suggestion"]) for p in answer["problems"]]
        assert [("near-miss", "RELAY_POLL_MS")] == problems

    def test_foreign_names_are_ignored(self) -> None:
        """A variable without the prefix is nobody's business, however close it looks."""
        assert [] == show(env={"POLL_MS": "1", "RELAYCONF_X": "1", "USER": "x"})["problems"]


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["show", "nosuch"], "no target 'nosuch'"),
            (["show", "relay", "--set", "RELAY_POLL=1"], "did you mean RELAY_POLL_MS"),
            (["show", "relay", "--set", "RELAY_POLL_MS"], "has no '='"),
            (["show", "relay", "--env-file", "missing.env"], "missing.env"),
            (["explain", "RELAY_POL_MS"], "did you mean RELAY_POLL_MS"),
            (["show", "no.module:Thing"], "cannot import 'no.module'"),
            (["show", "missing.json"], "missing.json"),
        ],
    )
    def test_one_message_and_exit_2(self, arguments: list[str], words: str, tmp_path: Path) -> None:
        """Each unusable input gives one line that says what, and exit 2."""
        result = relayconf(*arguments, cwd=tmp_path)
        assert (2, "") == (result.returncode, result.stdout)
        assert words in result.stderr
        assert "Traceback" not in result.stderr
        assert 1 == len(result.stderr.strip().splitlines())

    @pytest.mark.parametrize("data", [b"\xff\xfe=1", b"A B=1\n", b'A="x', b"A=${", b"\0"])
    def test_damaged_env_file(self, data: bytes, tmp_path: Path) -> None:
        """A file that does not parse gives its position and exit 2, never a traceback."""
        path = tmp_path / "bad.env"
        path.write_bytes(data)
        result = relayconf("show", "relay", "--env-file", str(path))
        assert result.returncode in (0, 2)
        assert "Traceback" not in result.stderr
        if result.returncode == 2:
            assert str(path) in result.stderr


class TestExplain:
    def test_stack_has_the_winner_first(self, tmp_path: Path) -> None:
        """Every text that was offered is there with its place and verdict, the winner first."""
        env_file = tmp_path / "a.env"
        env_file.write_text("RELAY_POLL_MS=111\n")
        env = {"RELAY_POLL_MS": "junk", "AGENTA_AGENT_TOOLS_RELAY_POLLING": "450"}
        result = relayconf(
            "explain", "RELAY_POLL_MS", "--env-file", str(env_file), "--json", env=env
        )
        answer = json.loads(result.stdout)
        stack = [(c["layer"], c["raw"], c["verdict"]) for c in answer["stack"]]
        assert stack == [
            ("env-file", "111", "in force"),
            ("environment", "junk", "invalid"),
            ("environment", "450", "shadowed"),
            ("default", None, "shadowed"),
        ]

    def test_legacy_name_is_understood(self) -> None:
        """A legacy name explains the setting that it stands for."""
        result = relayconf("explain", "AGENTA_AGENT_TOOLS_RELAY_POLLING")
        assert 0 == result.returncode
        assert result.stdout.startswith("RELAY_POLL_MS = 300ms")

    def test_says_what_holds_for_the_value(self) -> None:
        """Range, what becomes of a value outside it, and rules with other settings are said."""
        said = relayconf("explain", "RELAY_POLL_MAX_MS").stdout
        for line in (
            "  accepts     duration, a bare number is in ms, 10ms to 5m\n",
            "  outside     a value outside the range counts as the nearest bound\n",
            "  rule        at least RELAY_POLL_MS; where it is not, this one is moved\n",
        ):
            assert line in said

    def test_text_fits_a_narrow_terminal(self) -> None:
        """No line of prose runs over the terminal's edge."""
        result = relayconf("explain", "RELAY_POLL_MS", env={"COLUMNS": "70"})
        assert max(len(line) for line in result.stdout.splitlines()) <= 70
