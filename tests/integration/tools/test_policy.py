"""The policy and the guard: who may call what, how often, with what; and the record of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.client import Writer
from relay.engine.runner import Runner
from relay.settings import RelaySettings
from relay.tools import ToolsError, load_tools
from relay.tools.audit import Asked
from relay.tools.registry import Failure

ROOT = Path(__file__).resolve().parents[3]

TOOLS = """
policy = "policy.toml"
[tools.read]
command = ["echo", "read"]
input = { type = "object", properties = { path = { type = "string" } } }
[tools.write]
command = ["echo", "write"]
"""


def decided(folder: Path, policy: str, *calls: tuple[str, str, dict[str, Any]]) -> list[str]:
    """Return what a policy says to calls of a session: ``allow``, or the code and the reason."""
    (folder / "policy.toml").write_text(policy)
    (folder / "tools.toml").write_text(TOOLS)
    tools = load_tools(str(folder / "tools.toml"))
    said = []
    for session, tool, args in calls:
        try:
            tools.policy.decide(Asked(tool, args, session, "r-1"))
        except Failure as refusal:
            said.append(f"{refusal.code}: {refusal}")
        else:
            said.append("allow")
    return said


def problems(folder: Path, policy: str) -> list[str]:
    """Return the faults of a policy file, without its path."""
    with pytest.raises(ToolsError) as raised:
        decided(folder, policy)
    file = f"{folder / 'policy.toml'}:"
    return [problem.removeprefix(file) for problem in raised.value.problems]


class TestRules:
    def test_the_first_that_fits_decides(self, tmp_path: Path) -> None:
        """By tool, by session and by argument, from the top; the default is for the rest."""
        policy = """
        [[rules]]
        deny = ["write"]
        sessions = ["guest-*"]
        reason = "guests read only"
        [[rules]]
        allow = ["*"]
        sessions = ["team-a"]
        [[rules]]
        allow = ["read"]
        where = { required = ["path"], properties = { path = { pattern = "^/data/" } } }
        """
        refused = "refused: the policy does not allow this call"
        assert [
            "refused: guests read only",
            "allow",
            "allow",
            refused,
            refused,
            refused,
        ] == decided(
            tmp_path,
            policy,
            ("guest-1", "write", {}),
            ("team-a", "write", {}),
            ("guest-1", "read", {"path": "/data/x"}),
            ("guest-1", "read", {"path": "/etc/passwd"}),
            ("guest-1", "read", {}),
            ("team-b", "write", {}),
        )

    def test_a_default_that_allows(self, tmp_path: Path) -> None:
        """What no rule forbids passes, where the file says so."""
        policy = 'default = "allow"\n[[rules]]\ndeny = ["write"]\n'
        assert ["allow", "refused: the policy does not allow this call"] == decided(
            tmp_path, policy, ("s", "read", {}), ("s", "write", {})
        )

    def test_an_empty_policy(self, tmp_path: Path) -> None:
        """A policy without a rule allows nothing."""
        assert ["refused: the policy does not allow this call"] == decided(
            tmp_path, "", ("s", "read", {})
        )

    def test_rates(self, tmp_path: Path) -> None:
        """Each session has its own; over it, the caller hears when to come again."""
        policy = '[[rules]]\nallow = ["*"]\nrate = "2/1h"\n'
        said = decided(tmp_path, policy, *[("a", "read", {})] * 3, ("b", "read", {}))
        assert ["allow", "allow", "busy: more than 2 calls in 1h; again in 3600.0 s", "allow"] == (
            said
        )

    def test_a_rate_over_time(self, tmp_path: Path) -> None:
        """A call counts for so long and no longer."""
        now = 0.0
        (tmp_path / "policy.toml").write_text('[[rules]]\nallow = ["*"]\nrate = "2/10s"\n')
        (tmp_path / "tools.toml").write_text(TOOLS)
        policy = load_tools(str(tmp_path / "tools.toml")).policy
        policy._clock = lambda: now
        refused = []
        for now in (0.0, 1.0, 2.0, 9.9, 10.0, 10.5, 11.0):
            try:
                policy.decide(Asked("read", {}, "s", "r"))
            except Failure as refusal:
                refused.append((now, refusal.code))
        assert [(2.0, "busy"), (9.9, "busy"), (10.5, "busy")] == refused

    def test_a_pattern_that_takes_for_ever(self, offer: Any, tmp_path: Path) -> None:
        """Arguments that a rule cannot be tried on in time are refused, and hold nobody up."""
        (tmp_path / "policy.toml").write_text(
            'default = "allow"\n[[rules]]\ndeny = ["read"]\n'
            'where = { properties = { path = { pattern = "^(a+)+$" } } }\n'
        )

        async def run() -> None:
            async with offer(TOOLS) as session:
                slow = asyncio.ensure_future(session.failure("read", path="a" * 40 + "!"))
                assert "write\n" == await session.call("write")
                assert not slow.done()
                assert "invalid_args" == (await slow).code
                assert "read\n" == await session.call("read", path="b")
                assert "refused" == (await session.failure("read", path="aaa")).code

        asyncio.run(run())


class TestFaults:
    def test_all_at_once(self, tmp_path: Path) -> None:
        """Every fault of a policy has its line."""
        policy = """\
default = "maybe"
colour = 1
[[rules]]
allow = ["read"]
deny = ["read"]
[[rules]]
allow = ["raed"]
rate = "many"
[[rules]]
deny = ["write"]
rate = "1/1s"
where = { type = "nonsense" }
[[rules]]
allow = []
sessions = "all"
rates = "1/1s"
"""
        said = problems(tmp_path, policy)
        expected = [
            '1: policy: default is "allow" or "deny"',
            "2: policy: 'colour' is not known here; it takes audit, default, rules",
            "3: rule 1: a rule has one of allow = [...] and deny = [...]",
            "7: rule 2: allow: there is no tool 'raed'",
            '8: rule 2: rate is calls within a time, such as "30/1m"',
            "11: rule 3: a rate is for what is allowed",
            "12: rule 3: where: no JSON Schema (type): ",
            '14: rule 4: allow names no tool; "*" is all of them',
            '15: rule 4: sessions is not a list of texts; write sessions = ["first", "second"]',
            "16: rule 4: 'rates' is not known here; did you mean rate?",
        ]
        assert [True] * len(expected) == [
            line.startswith(start) for line, start in zip(said, expected, strict=True)
        ], said


class TestRecord:
    def test_every_decision_is_in_it(self, offer: Any, tmp_path: Path) -> None:
        """What was allowed, what was refused and why, and no argument; readable by its owner."""
        (tmp_path / "policy.toml").write_text(
            'audit = "decisions.jsonl"\n[[rules]]\nallow = ["read"]\n'
        )

        async def run() -> None:
            async with offer(TOOLS) as session:
                assert "read\n" == await session.call("read", path="/private")
                error = await session.failure("write")
                assert ("refused", "the policy does not allow this call") == (
                    error.code,
                    str(error),
                )

        asyncio.run(run())
        record = tmp_path / "decisions.jsonl"
        assert 0o600 == record.stat().st_mode & 0o777
        assert "/private" not in record.read_text()
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        assert [
            ("session", "read", True, "rule 1", ""),
            ("session", "write", False, "default", "the policy does not allow this call"),
        ] == [(d["session"], d["tool"], d["allowed"], d["by"], d["reason"]) for d in lines]

    def test_that_cannot_be_written(self, offer: Any, tmp_path: Path) -> None:
        """A decision that cannot be recorded lets nothing pass."""
        (tmp_path / "policy.toml").write_text(
            'default = "allow"\naudit = "no-such-folder/decisions.jsonl"\n'
        )

        async def run() -> None:
            async with offer(TOOLS) as session:
                error = await session.failure("read")
                said = "the call was refused: the decision cannot be recorded"
                assert ("refused", said) == (error.code, str(error))

        asyncio.run(run())


GUARD = """
def guard(request):
    if request.args.get("path") == "broken":
        raise RuntimeError("hunter2")
    return "not that one" if request.args.get("path") == "no" else None
"""


class TestGuard:
    def test_of_a_tools_file(self, offer: Any, tmp_path: Path) -> None:
        """A guard that is named beside the tools refuses, also by failing; both are recorded."""
        (tmp_path / "guarding_of_test.py").write_text(GUARD)
        (tmp_path / "policy.toml").write_text('default = "allow"\naudit = "decisions.jsonl"\n')

        async def run() -> None:
            async with offer('guard = "guarding_of_test:guard"\n' + TOOLS) as session:
                assert "read\n" == await session.call("read", path="yes")
                assert "not that one" == str(await session.failure("read", path="no"))
                error = await session.failure("read", path="broken")
                assert "the call was refused: its guard failed" == str(error)
                assert "refused" == error.code

        asyncio.run(run())
        lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
        assert [
            ("guard", True, ""),
            ("default", True, ""),
            ("guard", False, "not that one"),
            ("guard", False, "it failed"),
        ] == [(d["by"], d["allowed"], d["reason"]) for d in map(json.loads, lines)]
        assert "hunter2" not in "".join(lines)

    def test_it_knows_the_session(self, tmp_path: Path) -> None:
        """The guard that the guide shows tells two sessions of one root apart."""
        page = (ROOT / "docs" / "tools.md").read_text()
        shown = page.partition("def guard(request):")
        body = "def guard(request):" + shown[2].partition("```")[0]
        (tmp_path / "shown_in_the_guide.py").write_text(body)
        file = tmp_path / "tools.toml"
        tool = '[tools.files_write]\ncommand = ["echo", "written"]\n'
        file.write_text(f'guard = "shown_in_the_guide:guard"\n{tool}')
        for name in ("admin-1", "guest"):
            (tmp_path / "root" / name).mkdir(parents=True, mode=0o700)

        async def run() -> list[str]:
            settings = RelaySettings(tools_file=file)
            root = tmp_path / "root"
            async with Runner(root=root, settings=settings, state=tmp_path / "state"):
                said = []
                for name in ("admin-1", "guest"):
                    call = Writer(root / name, environ={}).acall("files_write", timeout=20)
                    (each,) = await asyncio.gather(call, return_exceptions=True)
                    said.append(str(each))
                return said

        assert ["written\n", "guest may only read"] == asyncio.run(run())

    def test_of_a_program_comes_first(self, tmp_path: Path) -> None:
        """A runner that was given a guard asks that one."""
        (tmp_path / "guarding_of_test.py").write_text(GUARD)
        (tmp_path / "policy.toml").write_text('default = "allow"\n')
        file = tmp_path / "tools.toml"
        file.write_text('guard = "guarding_of_test:guard"\n' + TOOLS)

        async def run() -> None:
            runner = Runner(
                tmp_path / "session",
                settings=RelaySettings(tools_file=file),
                guard=lambda _: "nobody",
                state=tmp_path / "state",
            )
            async with runner:
                writer = Writer(tmp_path / "session", environ={})
                with pytest.raises(Exception, match="nobody"):
                    await writer.acall("read", {"path": "yes"}, timeout=20)

        asyncio.run(run())


class TestCheck:
    def check(self, *words: object, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run ``relay tools --check``."""
        clean = {n: t for n, t in os.environ.items() if not n.startswith("RELAY")}
        command = [sys.executable, "-m", "relay", "tools", "--check", *map(str, words)]
        return subprocess.run(
            command, env={**clean, **environ}, capture_output=True, text=True, check=False
        )

    def test_a_file_without_a_fault(self, tmp_path: Path) -> None:
        """It says what is there, and the status is 0."""
        (tmp_path / "policy.toml").write_text("")
        file = tmp_path / "tools.toml"
        file.write_text(f'{TOOLS}[mcp.files]\ncommand = ["false"]\n')
        said = f"{file}: 2 tools, and 1 MCP server (files); nothing is wrong with it\n"
        for done in (self.check("--tools", file), self.check(RELAY_TOOLS_FILE=str(file))):
            assert (0, said, "") == (done.returncode, done.stdout, done.stderr)

    def test_faults(self, tmp_path: Path) -> None:
        """Every fault of both files is a line on stderr, and the status is 2."""
        (tmp_path / "policy.toml").write_text('default = "maybe"\n')
        file = tmp_path / "tools.toml"
        file.write_text(f"{TOOLS}\n[tools.a]\n[tools.b]\n")
        done = self.check("--tools", file)
        assert (2, "") == (done.returncode, done.stdout)
        places = [line.split(": ")[1] for line in done.stderr.splitlines()]
        assert [f"{file}:9", f"{file}:10", f"{tmp_path / 'policy.toml'}:1"] == places

    def test_no_file(self) -> None:
        """Without a file it says how to name one."""
        done = self.check()
        assert (
            2,
            "relay: no tools file is named: give --tools FILE, or set RELAY_TOOLS_FILE\n",
        ) == (
            done.returncode,
            done.stderr,
        )
