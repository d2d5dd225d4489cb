"""``relayconf check`` as a command: its four forms, exit codes, suppressions, baseline, targets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from relayconf.cli import main
from relayconf.problems import SEVERITY

COMPOSE = """\
services:
  runner:
    image: img:1
    env_file: runner.env
    labels:
      relayconf.target: relay
    environment:
      RELAY_POLL_MS: 1x
      RELAY_MODE: ${RELAY_MODE:-auto}
      RELAY_DAEMON_TOKEN: hunter2
      MODE_OF_FILES: 0755
"""
FILES = {"compose.yaml": COMPOSE, "runner.env": "A=1\nA=2\nDB_PASSWORD=hunter2#$x\n"}


class Outcome(NamedTuple):
    """What one run of the command came to."""

    code: int
    out: str
    err: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings of a run with --json."""
        found: list[dict[str, Any]] = json.loads(self.out)["findings"]
        return found

    @property
    def codes(self) -> list[str]:
        """The codes of a run with --json."""
        return [finding["code"] for finding in self.findings]


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run relayconf in a folder with the project."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "COMPOSE_FILE", "COMPOSE_ENV_FILES", "COMPOSE_PROFILES"):
        monkeypatch.delenv(name, raising=False)

    def command(*words: str) -> Outcome:
        try:
            code = main(list(words))
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return command


class TestText:
    def test_each_finding_has_its_line_and_its_fix(self, run: Run) -> None:
        """A finding is one line like a compiler's, the source line with a caret, and the fix."""
        lines = run("check").out.splitlines()
        start = next(i for i, line in enumerate(lines) if "[invalid-value]" in line)
        assert lines[start].startswith("compose.yaml:8:7: error: RELAY_POLL_MS (runner): '1x' is ")
        assert [
            "     8 |       RELAY_POLL_MS: 1x",
            "       |       ^",
            "       fix: RELAY_POLL_MS: 300",
            "",
        ] == lines[start + 1 : start + 5]

    def test_the_last_line_counts(self, run: Run) -> None:
        """The last line says how many there are of each severity."""
        assert "2 errors, 3 warnings" == run("check").out.splitlines()[-1]

    def test_nothing_found(self, run: Run, tmp_path: Path) -> None:
        """A clean project is one line, and exit code 0."""
        (tmp_path / "compose.yaml").write_text("services: {app: {image: img}}\n")
        assert (0, "no findings\n", "") == run("check")

    def test_no_colour_in_a_pipe(self, run: Run) -> None:
        """A pipe gets no escape sequences."""
        assert "\033" not in run("check").out


class TestSecrets:
    @pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
    def test_none_is_printed(self, run: Run, form: str) -> None:
        """No form of the report holds a secret, declared or by its name."""
        outcome = run("check", "--format", form)
        assert "secret-inline" in outcome.out
        assert "dollar-eaten" in outcome.out
        assert "hunter2" not in outcome.out + outcome.err


class TestJson:
    def test_a_finding_has_everything(self, run: Run) -> None:
        """Each finding has place, name, service, code, severity, message, fix and fingerprint."""
        by_code = {finding["code"]: finding for finding in run("check", "--json").findings}
        finding = by_code["yaml-scalar"]
        assert re.fullmatch("[0-9a-f]{32}", finding.pop("fingerprint"))
        assert {
            "file": "compose.yaml",
            "line": 11,
            "column": 7,
            "name": "MODE_OF_FILES",
            "service": "runner",
            "code": "yaml-scalar",
            "severity": "warning",
            "message": "unquoted, 0755 is a number to YAML, and the container gets 493",
            "fix": 'MODE_OF_FILES: "0755"',
        } == finding

    def test_same_as_format(self, run: Run) -> None:
        """--json is --format json."""
        assert run("check", "--json") == run("check", "--format", "json")


class TestGithub:
    def test_one_command_a_finding(self, run: Run) -> None:
        """Each finding is one workflow command at its place; nothing in it ends it early."""
        lines = run("check", "--format", "github").out.splitlines()
        assert 5 == len(lines)
        pattern = re.compile(
            r"::(?:error|warning|notice) file=[^:,]+,line=\d+,title=relayconf [a-z-]+,col=\d+::.*"
        )
        assert [] == [line for line in lines if not pattern.fullmatch(line)]
        assert all("%0Afix: " in line for line in lines)

    def test_escapes(self, run: Run, tmp_path: Path) -> None:
        """A file name with a comma, a colon and a percent sign stays one property."""
        (tmp_path / "a,b:100%.env").write_text("A=1\nA=2\n")
        compose = "services: {app: {image: i, env_file: ['a,b:100%.env']}}\n"
        (tmp_path / "compose.yaml").write_text(compose)
        (line,) = run("check", "--format", "github").out.splitlines()
        assert line.startswith("::warning file=a%2Cb%3A100%25.env,line=1,title=relayconf shadowed,")

    def test_paths_from_the_checkout(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a folder of the checkout, paths are given from its root, as GitHub wants them."""
        monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
        out = run("check", "--format", "github").out
        assert f" file={tmp_path.name}/compose.yaml,line=8," in out


class TestSarif:
    def test_is_valid(self, run: Run, tmp_path: Path, root: Path) -> None:
        """The log validates against the published schema, with findings, suppressions or none."""
        path = root / "tests" / "data" / "sarif-schema-2.1.0.json"
        schema = json.loads(path.read_text(encoding="utf-8"))
        ignored = COMPOSE.replace("0755", "0755 # relayconf: ignore[yaml-scalar] octal is meant")
        for text in (COMPOSE, ignored, "services: {app: {image: img}}\n", "services: ["):
            (tmp_path / "compose.yaml").write_text(text)
            log = json.loads(run("check", "--format", "sarif").out)
            jsonschema.Draft4Validator(schema).validate(log)

    def test_results(self, run: Run) -> None:
        """Each result names its rule, level, place and a fingerprint."""
        (log,) = json.loads(run("check", "--format", "sarif").out)["runs"]
        rules = log["tool"]["driver"]["rules"]
        for result in log["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert SEVERITY[result["ruleId"]] == result["level"]
            assert ["relayconfFinding/v1"] == list(result["partialFingerprints"])
        place = log["results"][0]["locations"][0]["physicalLocation"]
        assert {"startLine": 8, "startColumn": 7} == place["region"]
        assert {"uri": "compose.yaml", "uriBaseId": "SRCROOT"} == place["artifactLocation"]


class TestExitCodes:
    def test_findings(self, run: Run) -> None:
        """An error fails the check."""
        assert 1 == run("check").code

    @pytest.mark.parametrize(
        ("level", "code"), [("error", 0), ("warning", 1), ("note", 1)], ids=str
    )
    def test_fail_on(self, run: Run, tmp_path: Path, level: str, code: int) -> None:
        """--fail-on says what is grave enough; a warning is not, unless it says so."""
        (tmp_path / "compose.yaml").write_text("services: {app: {image: 'img:${TAG}'}}\n")
        assert code == run("check", "--fail-on", level).code

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["-f", "nope.yaml"], "open nope.yaml: no such file"),
            (["--env-file", "nope.env"], "couldn't find env file: nope.env"),
            (["--contract", "runner"], "--contract wants SERVICE=TARGET"),
            (["--contract", "runer=relay"], "no service 'runer'; is it runner?"),
            (["--contract", "runner=nope"], "no target 'nope' is installed"),
            (["--service", "web"], "no service 'web'; there are: runner"),
            (["--baseline", "nope.json"], "nope.json"),
            (["--write-baseline"], "--write-baseline needs --baseline FILE"),
            (["--today", "tomorrow"], "a date is written like 2027-03-01"),
        ],
        ids=lambda value: value if isinstance(value, str) else " ".join(value),
    )
    def test_unusable(self, run: Run, words: list[str], said: str) -> None:
        """What cannot be read or is not there is one message, and exit code 2."""
        outcome = run("check", *words)
        assert 2 == outcome.code
        assert said in outcome.err
        assert "Traceback" not in outcome.err

    def test_refused(self, run: Run, tmp_path: Path) -> None:
        """A file that Compose refuses is a finding, and what else was read is still judged."""
        (tmp_path / "runner.env").write_text("A=1\nA=2\n")
        (tmp_path / "compose.yaml").write_text(COMPOSE.replace("img:1", "img:${X:?tag}"))
        outcome = run("check", "--json")
        assert 1 == outcome.code
        assert {"refused", "shadowed"} <= set(outcome.codes)


class TestRefusals:
    def test_whatever_was_read_is_judged(self, run: Run, tmp_path: Path) -> None:
        """Env files that are missing or do not parse, and an undefined volume, hide nothing."""
        (tmp_path / "bad.env").write_text("A B=1\n")
        (tmp_path / "compose.yaml").write_text(
            "services:\n"
            "  app: {image: 'img:${TAG}', env_file: one.env, volumes: ['data:/d']}\n"
            "  web: {image: img, env_file: [bad.env, two.env], environment: {M: 0755}}\n"
        )
        found = {(one["line"], one["code"], one["fix"]) for one in run("check", "--json").findings}
        assert {
            (2, "refused", "- {path: one.env, required: false}"),
            (2, "refused", "volumes: {data: {}}"),
            (3, "refused", "- {path: two.env, required: false}"),
            (1, "refused", "NAME='value'"),
        } == found

    def test_on_other_lines_too(self, run: Run, tmp_path: Path) -> None:
        """What is wrong elsewhere is told beside a missing env file."""
        (tmp_path / "compose.yaml").write_text(
            "services:\n  app:\n    image: img:${TAG}\n    env_file: no.env\n"
            "    environment:\n      M: 0755\n"
        )
        assert ["unset-variable", "refused", "yaml-scalar"] == run("check", "--json").codes

    def test_no_refusal_of_a_stand_in(self, run: Run, tmp_path: Path) -> None:
        """What only a refused expression makes inconsistent or missing is not told as well."""
        (tmp_path / "compose.yaml").write_text(
            "services:\n  app:\n    image: img\n    env_file: ${E:?}\n    networks: ['${N:?}']\n"
        )
        assert [4, 5] == [one["line"] for one in run("check", "--json").findings]

    def test_a_pipe(self, run: Run, tmp_path: Path) -> None:
        """An env file that cannot be read is a finding where it is named."""
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "compose.yaml").write_text(
            "services:\n  app:\n    image: img\n    env_file: pipe\n"
        )
        assert [(4, "refused")] == [(f["line"], f["code"]) for f in run("check", "--json").findings]


class TestSuppressions:
    def test_on_the_line(self, run: Run, tmp_path: Path) -> None:
        """A comment with a reason takes its finding out, on the line or alone above it."""
        ignore = "# relayconf: ignore[{}] {}"
        text = COMPOSE.replace("0755", "0755 " + ignore.format("yaml-scalar", "octal is meant"))
        text = text.replace(
            "      RELAY_POLL", f"      {ignore.format('invalid-value', 'x')}\n      RELAY_POLL"
        )
        (tmp_path / "compose.yaml").write_text(text)
        (tmp_path / "runner.env").write_text(ignore.format("shadowed", "for now") + "\nA=1\nA=2\n")
        outcome = run("check", "--json")
        assert ["secret-inline"] == outcome.codes
        suppressed = json.loads(outcome.out)["suppressed"]
        assert ["octal is meant", "x", "for now"] == sorted(
            (one["reason"] for one in suppressed), key=["octal is meant", "x", "for now"].index
        )

    def test_without_a_reason(self, run: Run, tmp_path: Path) -> None:
        """Without a reason it suppresses nothing, and is a finding itself."""
        text = COMPOSE.replace("0755", "0755 # relayconf: ignore[yaml-scalar]")
        (tmp_path / "compose.yaml").write_text(text)
        assert {"yaml-scalar", "bad-suppression"} <= set(run("check", "--json").codes)

    def test_with_a_code_that_does_not_exist(self, run: Run, tmp_path: Path) -> None:
        """A code that does not exist makes a suppression void, and is told."""
        (tmp_path / "compose.yaml").write_text(
            "services:\n  app:\n    image: img\n    environment:\n"
            "      M: 0755  # relayconf: ignore[yaml-scalar, nope] octal\n"
        )
        assert ["yaml-scalar", "bad-suppression"] == run("check", "--json").codes

    def test_of_another_code(self, run: Run, tmp_path: Path) -> None:
        """A suppression is for the codes that it names."""
        text = COMPOSE.replace("0755", "0755 # relayconf: ignore[shadowed] no")
        (tmp_path / "compose.yaml").write_text(text)
        assert "yaml-scalar" in run("check", "--json").codes


class TestBaseline:
    def test_only_new_findings_count(self, run: Run, tmp_path: Path) -> None:
        """A team starts with what there is; what comes on top fails."""
        assert 0 == run("check", "--baseline", "b.json", "--write-baseline").code
        outcome = run("check", "--baseline", "b.json")
        assert (0, "no findings (5 in the baseline)\n", "") == outcome
        (tmp_path / "compose.yaml").write_text(COMPOSE + "      RELAY_LOG_LEVEL: loud\n")
        outcome = run("check", "--baseline", "b.json", "--json")
        assert (1, ["invalid-value"]) == (outcome.code, outcome.codes)

    def test_survives_moved_lines(self, run: Run, tmp_path: Path) -> None:
        """Lines may move and values may change; a known finding stays known."""
        run("check", "--baseline", "b.json", "--write-baseline")
        moved = "# a comment\n\n" + COMPOSE.replace("1x", "2y")
        (tmp_path / "compose.yaml").write_text(moved)
        assert 0 == run("check", "--baseline", "b.json", "--fail-on", "note").code

    def test_holds_no_value(self, run: Run, tmp_path: Path) -> None:
        """The file names files, services and variables, and holds no value."""
        run("check", "--baseline", "b.json", "--write-baseline")
        text = (tmp_path / "b.json").read_text()
        assert "RELAY_POLL_MS" in text
        assert not re.search("1x|hunter2|0755", text)

    def test_says_what_is_gone(self, run: Run, tmp_path: Path) -> None:
        """Findings that were mended are told, so that the baseline can shrink."""
        run("check", "--baseline", "b.json", "--write-baseline")
        (tmp_path / "runner.env").write_text("A=2\n")
        assert "2 finding(s) of b.json are gone" in run("check", "--baseline", "b.json").err

    @pytest.mark.parametrize("text", ["", "[]", '{"version": 2, "findings": []}', '{"version": 1}'])
    def test_damaged(self, run: Run, tmp_path: Path, text: str) -> None:
        """A file that is no baseline is refused, not taken for an empty one."""
        (tmp_path / "b.json").write_text(text)
        outcome = run("check", "--baseline", "b.json")
        assert 2 == outcome.code
        assert "no baseline" in outcome.err


class TestContracts:
    def test_by_label_and_option(self, run: Run, tmp_path: Path) -> None:
        """A label names the contract, a relative path in it from the compose file's folder."""
        contract = {
            "x-relayconf": {"version": 1, "target": "t", "prefix": "T_"},
            "properties": {"T_N": {"type": "integer"}},
        }
        folder = tmp_path / "sub"
        folder.mkdir()
        (folder / "t.json").write_text(json.dumps(contract))
        service = (
            "services: {a: {image: i, environment: {T_N: x}, labels: [relayconf.target=t.json]}}"
        )
        (folder / "compose.yaml").write_text(service)
        assert ["invalid-value"] == run("check", "-f", "sub/compose.yaml", "--json").codes
        (folder / "compose.yaml").write_text(service.replace("relayconf.target=t.json", "k=v"))
        words = ["check", "-f", "sub/compose.yaml", "--json"]
        assert [] == run(*words).codes
        assert ["invalid-value"] == run(*words, "--contract", "a=sub/t.json").codes
        assert ["invalid-value"] == run(*words, "--target", "sub/t.json").codes
        assert ["invalid-value"] == run(*words, "--target", "sub/t.json", "--service", "a").codes

    def test_several_services(self, run: Run, tmp_path: Path) -> None:
        """Each service is judged by its own contract, and --service keeps to one."""
        other = "  web:\n    image: img\n    environment: {RELAYCONF_STRICT: ture}\n"
        (tmp_path / "compose.yaml").write_text(COMPOSE + other)
        words = ["check", "--contract", "web=relayconf", "--json"]
        services = {f["service"] for f in run(*words).findings if f["code"] == "invalid-value"}
        assert {"runner", "web"} == services
        services = {f["service"] for f in run(*words, "--service", "web").findings}
        assert {"web", None} == services

    def test_own_settings(self, run: Run, tmp_path: Path) -> None:
        """Settings of relayconf itself are judged beside those of a service that sets some."""
        (tmp_path / "compose.yaml").write_text(COMPOSE + "      RELAYCONF_STRICT: ture\n")
        names = [f["name"] for f in run("check", "--json").findings if f["code"] == "invalid-value"]
        assert ["RELAY_POLL_MS", "RELAYCONF_STRICT"] == names

    def test_ambiguous_target(self, run: Run, tmp_path: Path) -> None:
        """A target that fits several services needs one to be named."""
        other = "  web:\n    image: img\n    environment: {RELAY_MODE: auto}\n"
        (tmp_path / "compose.yaml").write_text(COMPOSE + other)
        outcome = run("check", "-f", "compose.yaml", "--target", "relay")
        assert 2 == outcome.code
        assert "runner, web have settings of relay" in outcome.err

    def test_nobody_fits(self, run: Run, tmp_path: Path) -> None:
        """A target that no service has settings of still says what its settings do not reach."""
        compose = "services: {a: {image: i}, b: {image: i}}\n"
        (tmp_path / "compose.yaml").write_text(compose)
        (tmp_path / ".env").write_text("RELAY_POLL_MS=20\nRELAY_POL_MAX_MS=1s\n")
        findings = run("check", "-f", "compose.yaml", "--target", "relay", "--json").findings
        assert [("not-forwarded", 1, None), ("near-miss", 2, None)] == [
            (finding["code"], finding["line"], finding["service"]) for finding in findings
        ]


class TestTarget:
    def test_env_files_and_settings_files(self, run: Run, tmp_path: Path) -> None:
        """A target alone is judged by env files, settings files and the environment."""
        (tmp_path / "a.env").write_text("X=1\n\n  RELAY_POLL_MS=1x\nRELAY_LOG_LEVEL=debug\n")
        (tmp_path / "settings.toml").write_text('[default]\nRELAY_MODE = "sometimes"\n')
        findings = run("check", "--target", "relay", "--env-file", "a.env", "--json").findings
        assert [
            ("a.env", 3, 3, "RELAY_POLL_MS", "invalid-value"),
            ("settings.toml", 2, 1, "RELAY_MODE", "invalid-value"),
        ] == [(f["file"], f["line"], f["column"], f["name"], f["code"]) for f in findings]

    def test_environment(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """A variable of the environment is found there, with what to type in the shell."""
        monkeypatch.setenv("RELAY_POLL_MS", "1ms")
        (finding,) = run("check", "--target", "relay", "--json").findings
        assert ("environment", None, "export RELAY_POLL_MS=10") == (
            finding["file"],
            finding["line"],
            finding["fix"],
        )


class TestExamples:
    @pytest.mark.parametrize(
        ("example", "words"),
        [
            ("compose", ["--env-file", "relay.env"]),
            ("api", ["--env-file", "prod.env"]),
            ("api", ["--env-file", "staging.env"]),
            ("ledger", []),
        ],
    )
    def test_are_clean(
        self, run: Run, root: Path, monkeypatch: pytest.MonkeyPatch, example: str, words: list[str]
    ) -> None:
        """The shipped examples are clean, each service under its own contract."""
        contracts = {
            "compose": ["runner=relay", "sandbox=relay"],
            "api": ["api=api.schema.json"],
            "ledger": ["job=ledger.schema.yaml"],
        }
        monkeypatch.chdir(root / "docs" / "examples" / example)
        options = [word for text in contracts[example] for word in ("--contract", text)]
        assert (0, "no findings\n", "") == run("check", *words, *options)
        assert (0, "no findings\n", "") == run("check", *words)
