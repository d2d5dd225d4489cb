"""Programs like the TypeScript original's two sides, in its own language, against ours.

They run where there is Node, which continuous integration installs.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from relay import PAUSED
from relay.client import Writer
from relay.errors import Paused, ToolError, ToolFailed

TEXTS = [
    *(f"text {number}" for number in range(20)),
    "zürich 東京 \u2028 \U0001f600",
    'quote " slash / back \\ \b\f\n\r\t\x00\x1f\x7f',
    "x" * 200_000,
    "",
]


def nodes() -> list[str]:
    """Return Node where it is there; in continuous integration it has to be."""
    found = shutil.which("node")
    return [found or "node"] if found or os.environ.get("CI") else []


def command(node: str, root: Path, role: str, session: Path) -> list[str]:
    """Return what runs one side."""
    return [node, str(root / "tests" / "data" / "original.mjs"), role, str(session)]


async def make_calls(
    node: str, root: Path, session: Path, calls: list[dict[str, Any]]
) -> dict[str, str]:
    """Have its writer make calls, all at once; return what each came to."""
    process = await asyncio.create_subprocess_exec(
        *command(node, root, "writer", session), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    lines = "".join(f"{json.dumps(call)}\n" for call in calls)
    out, _ = await process.communicate(lines.encode())
    assert 0 == process.returncode
    return dict(json.loads(line) for line in out.splitlines())


@contextmanager
def its_runner(node: str, root: Path, session: Path) -> Iterator[None]:
    """Let its runner serve a directory."""
    process = subprocess.Popen(command(node, root, "runner", session), stdin=subprocess.PIPE)
    try:
        yield
    finally:
        process.communicate(timeout=30)


@pytest.mark.parametrize("node", nodes())
class TestItsWriter:
    def test_calls_at_once(self, hand: Any, root: Path, node: str) -> None:
        """Each call gets its own answer, whatever is in it, and nothing is left behind."""

        async def go() -> tuple[dict[str, str], list[str]]:
            async with hand.runner():
                calls = [
                    {"id": f"toolu_{n}", "tool": "echo", "args": {"text": text}}
                    for n, text in enumerate(TEXTS)
                ]
                said = await make_calls(node, root, hand.session, calls)
                return said, hand.names()

        said, left = asyncio.run(go())
        assert {f"toolu_{n}": f"ok {text}" for n, text in enumerate(TEXTS)} == said
        assert [] == left

    def test_what_else_may_come(self, hand: Any, root: Path, node: str) -> None:
        """Calls without arguments, of a tool that fails, that pauses, that is not there."""

        async def echo(text: str = "none") -> str:
            return text

        async def fail() -> str:
            raise ToolError("no such luck")

        async def go() -> dict[str, str]:
            tools = {"echo": echo, "fail": fail, "park": lambda: PAUSED}
            async with hand.runner(tools):
                calls = [{"id": tool, "tool": tool} for tool in ("echo", "fail", "park", "gone")]
                return await make_calls(node, root, hand.session, calls)

        assert {
            "echo": "ok none",
            "fail": "error no such luck",
            "park": "paused",
            "gone": 'error there is no tool "gone"',
        } == asyncio.run(go())

    def test_an_id_that_comes_again(self, hand: Any, root: Path, node: str) -> None:
        """It may use an id again, once it has its answer."""

        async def go() -> list[dict[str, str]]:
            async with hand.runner():
                said = []
                for text in ("one", "two"):
                    calls = [{"id": "again", "tool": "echo", "args": {"text": text}}]
                    said.append(await make_calls(node, root, hand.session, calls))
                return said

        assert [{"again": "ok one"}, {"again": "ok two"}] == asyncio.run(go())

    def test_a_call_that_is_withdrawn(self, hand: Any, root: Path, node: str) -> None:
        """What it has taken back is not run by a runner that starts afterwards."""
        ran: list[str] = []

        async def go() -> dict[str, str]:
            calls = [{"id": "early", "tool": "note", "giveUpAfter": 50}]
            said = await make_calls(node, root, hand.session, calls)
            async with hand.runner({"note": lambda: ran.append("note"), "echo": lambda: ""}):
                await hand.call("echo")
            return said

        assert ({"early": "gave up"}, []) == (asyncio.run(go()), ran)


@pytest.mark.parametrize("node", nodes())
class TestItsRunner:
    def test_calls_at_once(self, hand: Any, root: Path, node: str) -> None:
        """Each call through it gets its own answer, and nothing is left behind."""
        writer = Writer(hand.session, environ={})
        with its_runner(node, root, hand.session), ThreadPoolExecutor(8) as pool:
            said = list(
                pool.map(lambda text: writer.call("echo", {"text": text}, timeout=30), TEXTS)
            )
        assert TEXTS == said
        assert [] == hand.names()

    def test_what_else_may_come(self, hand: Any, root: Path, node: str) -> None:
        """An error without a code is the tool's own; a pause is a pause."""
        writer = Writer(hand.session, environ={})
        with its_runner(node, root, hand.session):
            with pytest.raises(ToolFailed, match="no such luck"):
                writer.call("fail", {"text": "no such luck"}, timeout=30)
            with pytest.raises(Paused):
                writer.call("park", timeout=30)
            with pytest.raises(ToolFailed, match="Unknown gone"):
                writer.call("gone", timeout=30)
