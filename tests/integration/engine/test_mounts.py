"""A session directory whose file system is taken away, or can only be read, while it is served.

Each test runs a program in user and mount namespaces of its own, where this machine allows them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.namespaces import inside, that_work

PRELUDE = """
import asyncio, logging, os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
from datetime import timedelta
from relay import Runner, acall
from relay.settings import RelaySettings

def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)

def tmpfs():
    mount("-t", "tmpfs", "-o", "mode=700", "none", "session")

async def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)

async def echo(text):
    return text

release = None

async def slow(text):
    await release.wait()
    return text

async def call(text, tool="echo"):
    print(await acall(tool, {"text": text}, dir="session", timeout=20, environ={}))

def runner(watch=True, poll=20):
    settings = RelaySettings(local_watch=watch, poll=timedelta(milliseconds=poll))
    return Runner("session", tools={"echo": echo, "slow": slow}, settings=settings, state="state")

os.mkdir("session")
"""

UNMOUNTED = """
async def go():
    tmpfs()
    async with runner(watch=WATCH) as serving:
        (session,) = serving._loop.sessions
        async def served_anew(before):
            # Until then, who holds the old one is served in it.
            await until(lambda: session.place.directory not in (None, before))
        await call("mounted")
        before = session.place.directory
        subprocess.run(["umount", "-l", "session"], check=True)
        await served_anew(before)
        await call("underneath")
        before = session.place.directory
        tmpfs()
        await served_anew(before)
        await call("mounted again")
asyncio.run(go())
"""

READ_ONLY = """
async def go():
    global release
    release = asyncio.Event()
    tmpfs()
    async with runner() as serving:
        await call("before")
        late = asyncio.create_task(call("late", "slow"))
        await until(lambda: serving.counters.executed == 2)
        mount("-o", "remount,ro", "session")
        release.set()
        # It has tried to answer, and tries again.
        await until(lambda: [e for e in serving._loop.engine.open if e._answered])
        print("answered early" if late.done() else "not yet")
        mount("-o", "remount,rw", "session")
        await late
        await call("after")
asyncio.run(go())
"""

FULL = """
async def go():
    global release
    release = asyncio.Event()
    mount("-t", "tmpfs", "-o", "mode=700,size=64k", "none", "session")
    async with runner() as serving:
        await call("before")
        late = asyncio.create_task(call("x" * 5000, "slow"))
        await until(lambda: serving.counters.executed == 2)
        filler = os.open("session/filler", os.O_CREAT | os.O_WRONLY)
        try:
            while os.write(filler, b"x" * 4096):
                pass
        except OSError:
            pass
        release.set()
        # It has tried to answer, and tries again.
        await until(lambda: [e for e in serving._loop.engine.open if e._answered])
        print("answered early" if late.done() else "not yet")
        os.truncate("session/filler", 0)
        await late
        await call("after")
asyncio.run(go())
"""

LINKED = """
async def go():
    os.mkdir("elsewhere")
    async with runner(watch=WATCH) as serving:
        await call("before")
        os.rename("session", "aside")
        os.symlink("elsewhere", "session")
        polls = serving.counters.polls
        await until(lambda: serving.counters.polls > polls + 3)
        print(sorted(os.listdir("elsewhere")))
        os.unlink("session")
        os.rename("aside", "session")
        await call("back")
asyncio.run(go())
"""


def run(program: str, folder: Path, root: Path, prefix: tuple[str, ...]) -> list[str]:
    """Run a program and return its lines."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", PRELUDE + program, str(root)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


class TestMounts:
    @pytest.mark.parametrize("prefix", that_work(inside(":", "--mount")))
    @pytest.mark.parametrize("watch", [True, False])
    def test_unmounted(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...], *, watch: bool
    ) -> None:
        """What is at the path is served, when a file system goes from it and when one comes."""
        lines = run(UNMOUNTED.replace("WATCH", str(watch)), tmp_path, root, prefix)
        said = [line for line in lines if "the session directory" not in line]
        assert ["mounted", "underneath", "mounted again"] == said
        assert [2, 2] == [
            sum(words in line for line in lines) for words in ("is gone", "is served again")
        ]

    @pytest.mark.parametrize("prefix", that_work(inside(":", "--mount")))
    def test_made_read_only(self, tmp_path: Path, root: Path, prefix: tuple[str, ...]) -> None:
        """An answer that cannot be written waits, and comes when the directory can be written."""
        lines = run(READ_ONLY, tmp_path, root, prefix)
        assert ["before", "not yet", "late", "after"] == lines

    @pytest.mark.parametrize("prefix", that_work(inside(":", "--mount")))
    def test_filled_up(self, tmp_path: Path, root: Path, prefix: tuple[str, ...]) -> None:
        """An answer for which there is no space waits, and comes when there is."""
        lines = run(FULL, tmp_path, root, prefix)
        assert ["before", "not yet", "x" * 5000, "after"] == lines

    @pytest.mark.parametrize("watch", [True, False])
    def test_replaced_by_a_link(self, tmp_path: Path, root: Path, *, watch: bool) -> None:
        """A link in its place is not followed, watched or polled; the directory is, once back."""
        lines = run(LINKED.replace("WATCH", str(watch)), tmp_path, root, ())
        said = [line for line in lines if "the session directory" not in line]
        assert ["before", "[]", "back"] == said
