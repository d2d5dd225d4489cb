"""A session on a file system that stops answering: a real one, in user space (FUSE).

Each test runs a program in user and mount namespaces of its own, where this machine allows them and
has ``/dev/fuse``; in continuous integration it fails where they are missing. A file ``stalled``
keeps the file system from answering while it is there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from relay.engine.filesystems import Mounts
from tests.servers.fuse import prefixes

PRELUDE = """
import asyncio, contextlib, logging, os, subprocess, sys, time
from datetime import timedelta
from pathlib import Path
sys.path.insert(0, sys.argv[1])
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
from relay import Runner, RelayError, acall
from relay.settings import Mode, RelaySettings

servers, said = [], []

class Said(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

logging.getLogger("relay").addHandler(Said())

def told(words):
    return any(words in line for line in said)

def mount(where):
    Path(where).mkdir(parents=True, exist_ok=True)
    program = os.path.join(sys.argv[1], "tests/servers/fuse.py")
    server = subprocess.Popen(
        [sys.executable, program, where, os.path.abspath("stalled")], stdout=subprocess.PIPE
    )
    servers.append(server)
    assert server.stdout.readline() == b"ready\\n"

@contextlib.contextmanager
def stalled():
    Path("stalled").touch()
    try:
        yield
    finally:
        Path("stalled").unlink()

async def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)

release = asyncio.Event()

async def echo(text):
    return text

async def slow(text):
    await release.wait()
    return text

def settings(**more):
    usual = {"file_op_timeout": 300, "poll": 20, "poll_max": 1500}
    given = {name: timedelta(milliseconds=ms) for name, ms in {**usual, **more}.items()}
    return RelaySettings(**given)

def runner(more=None, **where):
    tools = {"echo": echo, "slow": slow}
    return Runner(**where, tools=tools, settings=more or settings(), state="state")

async def near(text):
    # In another process, like every writer: this one must not wait for a file.
    return await far(text, session="root/near")

async def far(text, tool="echo", session="root/far"):
    command = [sys.executable, "-m", "relay", "call", tool, '{"text": "%s"}' % text]
    path = {**os.environ, "PYTHONPATH": sys.argv[1]}
    process = await asyncio.create_subprocess_exec(
        *command, "--dir", session, env=path, stdout=subprocess.PIPE
    )
    return (await process.communicate())[0].decode().strip()

async def main():
    try:
        await asyncio.wait_for(go(), 100)
    finally:
        for server in servers:
            server.kill()
            server.wait()
"""

STALLED = """
async def go():
    mount("root/far")
    Path("root/near").mkdir()
    async with runner(root="root") as serving:
        print(await near("near"), await far("far"))
        late = asyncio.create_task(far("late", "slow"))
        await until(lambda: serving.counters.executed == 3)
        with stalled():
            release.set()
            for number in range(3):
                print(await near("near"))
            await until(lambda: told("has not answered"))
            print(await near("still near"))
        print(await late, await far("again"))
asyncio.run(main())
"""

STOPPED = """
async def go():
    mount("session")
    serving = runner(dir="session")
    await serving.start()
    print(await far("far", session="session"))
    with stalled():
        await until(lambda: told("has not answered"))
        await serving.stop()
        print("stopped")
asyncio.run(main())
"""

RESTED = """
async def go():
    mount("session")
    serving = runner(settings(file_op_timeout=20_000, poll=50_000, poll_max=50_000), dir="session")
    await serving.start()
    session = serving._loop.sessions[0]
    for number in range(5):
        Path(f"session/x{number}.req.json").write_text('{"toolName":"echo","args":{"text":"hi"}}')
    with stalled():
        session.be_due()
        await until(lambda: session._worker._current and not session._worker._current.done())
        stopping = asyncio.create_task(serving.stop())
        await asyncio.sleep(0.1)
    await stopping
    print(*(Path(f"session/x{number}.res.json").read_text() for number in range(5)))
asyncio.run(main())
"""

STARTED = """
async def go():
    mount("session")
    with stalled():
        try:
            await runner(dir="session").start()
        except RelayError as error:
            print(error)
    async with runner(dir="session"):
        print(await far("far", session="session"))
asyncio.run(main())
"""

SERVED = """
async def go():
    mount("session")
    Path("session/x.req.json").write_text('{"toolName":"echo","args":{"text":"left"}}')
    Path("session/y.claim.nobody").write_text('{"toolName":"echo","args":{"text":"left"}}')
    chosen = settings().model_copy(update={"mode": Mode(MODE)})
    async with runner(chosen, dir="session"):
        print(Path("session/x.res.json").read_text()[:40])
        print(Path("session/y.res.json").read_text()[:40])
        said = await asyncio.gather(*(far(f"call {n}", session="session") for n in range(8)))
        print(sorted(said) == [f"call {n}" for n in range(8)])
        text = "x" * 100_000
        print(text == await far(text, session="session"))
        before = Path("session/relay.json").read_bytes()
        # Who has such a file before it is closed may not have its bytes: it is not signalled.
        print(b'"features":["cancel"]' in before)
        Path("session/relay.json").unlink()
        await until(lambda: Path("session/relay.json").exists())
        await until(lambda: Path("session/relay.json").read_bytes() == before)
        print(sorted(os.listdir("session")))
asyncio.run(main())
"""

BEFORE = """
async def go():
    mount("root/far")
    Path("root/near").mkdir()
    with stalled():
        async with runner(root="root") as serving:
            print(await near("near"))
            Path("stalled").unlink()
            print(await far("far"))
            Path("stalled").touch()
asyncio.run(main())
"""

ROOTED = """
async def go():
    mount("root")
    Path("root/one").mkdir()
    Path("root/file").touch()
    serving = runner(root="root")
    await serving.start()
    print(await far("one", session="root/one"), len(serving.sessions))
    with stalled():
        await until(lambda: told("the root"))
        await until(lambda: told("one: the file system has not answered"))
        print("alive")
    Path("root/two").mkdir()
    print(await far("two", session="root/two"))
    os.rename("root/two", "root/three")
    print(await far("three", session="root/three"))
    await until(lambda: len(serving.sessions) == 2)
    with stalled():
        await serving.stop()
        print("stopped")
asyncio.run(main())
"""

EXAMINED = """
async def go():
    mount("session")
    Path("tools.toml").write_text('[tools.shout]\\ncommand = ["cat"]\\n')
    command = [sys.executable, "-m", "relay", "doctor", "--dir", "session"]
    more = ["--tools", "tools.toml", "--set", "RELAY_FILE_OP_TIMEOUT_MS=300"]
    environ = {**os.environ, "PYTHONPATH": sys.argv[1]}
    with stalled():
        process = await asyncio.create_subprocess_exec(
            *command, *more, env=environ, stdout=subprocess.PIPE
        )
        line = b""
        while b" directory: " not in line:
            line = await process.stdout.readline()
        print(" ".join(line.decode().split()))
    print(await process.wait())
asyncio.run(main())
"""

TAKEN_BACK = """
async def hold(text):
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("ended early")
        raise

async def go():
    mount("session")
    where = {"dir": "session", "state": "state", "settings": settings()}
    async with Runner(**where, tools={"hold": hold}) as serving:
        Path("session/x.tmp").write_text('{"toolName":"hold","args":{"text":""}}')
        os.rename("session/x.tmp", "session/x.req.json")
        await until(lambda: serving.counters.executed == 1)
        Path("session/x.cancel").touch()
        await until(lambda: sorted(os.listdir("session")) == ["relay.json"])
        print(serving.shared.answers.total(), serving.shared.slots.taken)
asyncio.run(main())
"""

FULL = """
async def hold(text):
    await asyncio.sleep(60)

async def go():
    mount("session")
    most = settings().model_copy(update={"session_max_in_flight": 2})
    where = {"dir": "session", "state": "state", "settings": most}
    async with Runner(**where, tools={"hold": hold, "echo": echo}) as serving:
        def put(name, tool):
            Path("session/t").write_text('{"toolName":"%s","args":{"text":"hi"}}' % tool)
            os.rename("session/t", f"session/{name}.req.json")
        for number in range(2):
            put(f"hold{number}", "hold")
        await until(lambda: serving.counters.executed == 2)
        for number in range(20):
            put(f"a{number}", "echo")
        for number in range(2):
            Path(f"session/hold{number}.cancel").touch()
        await until(lambda: sum(n.endswith(".res.json") for n in os.listdir("session")) == 20)
        print(serving.shared.answers["cancelled"], serving.shared.answers["ok"])
        await until(lambda: serving.shared.slots.taken == 0)
asyncio.run(main())
"""

DIED = """
async def go():
    mount("session")
    Path("tools.toml").write_text('[tools.hold]\\ncommand = ["sleep", "60"]\\n')
    environ = {**os.environ, "PYTHONPATH": sys.argv[1], "RELAYCONF_STATE_DIR": "state"}
    relay = [sys.executable, "-m", "relay"]
    serve = [*relay, "serve", "--dir", "session", "--tools", "tools.toml"]
    other = await asyncio.create_subprocess_exec(*serve, env=environ, stderr=subprocess.PIPE)
    while b"relay_ready" not in await other.stderr.readline():
        pass
    call = await asyncio.create_subprocess_exec(
        *relay, "call", "hold", "--dir", "session", env=environ, stderr=subprocess.PIPE
    )
    await until(lambda: any(".claim." in name for name in os.listdir("session")))
    async with runner(dir="session") as serving:
        print(len(serving._loop.sessions[0].place.peers))
        other.kill()
        await other.wait()
        print(await call.wait(), b"may have run" in await call.stderr.read())
        print(await far("next", session="session"))
        print(len(os.listdir("state/locks")))
asyncio.run(main())
"""

AWAY = """
async def go():
    mount("root/far")
    async with runner(root="root") as serving:
        print(await far("far"), len(serving.sessions))
        subprocess.run(["umount", "-l", "root/far"], check=True)
        print(await far("underneath"))
        mount("root/far")
        print(await far("on top"))
asyncio.run(main())
"""

COVERED = """
async def go():
    for name in ("near", "far"):
        Path("root", name).mkdir(parents=True)
    async with runner(root="root") as serving:
        print(await near("near"), await far("far"))
        with stalled():
            mount("root/far")
            polls = serving.counters.polls
            print(await near("still near"))
            await until(lambda: serving.counters.polls > polls + 20)
        print(await far("on top"), len(serving.sessions))
asyncio.run(main())
"""


def run(program: str, folder: Path, root: Path, prefix: tuple[str, ...]) -> list[str]:
    """Run a program and return its lines."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", PRELUDE + program, str(root)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


@pytest.mark.parametrize("prefix", prefixes())
class TestAStall:
    def test_costs_its_own_session_alone(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """The neighbour is served on, and what was in flight is answered once it is over."""
        path = tmp_path / "root" / "far"
        lines = run(STALLED, tmp_path, root, prefix)
        assert ["near far", *["near"] * 3, "still near", "late again"] == [
            line for line in lines if "file system" not in line
        ]
        assert [
            f"{path}: the file system has not answered for 0.3 s; waiting for it",
            f"{path}: the file system answers again",
        ] == [line for line in lines if "file system" in line]

    def test_before_the_start_of_a_root(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """The others are served at once, and the one that stalls when it answers."""
        lines = run(BEFORE, tmp_path, root, prefix)
        assert ["near", "far"] == [line for line in lines if "file system" not in line]

    def test_before_the_start_of_one(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """A start ends after the bound, and says why; a later one finds nothing in its way."""
        path, why = tmp_path / "session", "the file system has not answered for 0.3 s"
        assert [f"{path} cannot be served: {why}", "far"] == run(STARTED, tmp_path, root, prefix)

    def test_during_a_stop(self, tmp_path: Path, root: Path, prefix: tuple[str, ...]) -> None:
        """A runner stops without waiting for it."""
        lines = run(STOPPED, tmp_path, root, prefix)
        assert ["far", "stopped"] == [line for line in lines if "file system" not in line]

    def test_that_ends_during_a_stop(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """What a look claims that began before the stop is executed and answered before the end."""
        (said,) = run(RESTED, tmp_path, root, prefix)
        assert " ".join(['{"ok":true,"text":"hi"}'] * 5) == said

    def test_of_a_whole_root(self, tmp_path: Path, root: Path, prefix: tuple[str, ...]) -> None:
        """The runner itself goes on, and serves the root and what is in it when it answers."""
        lines = run(ROOTED, tmp_path, root, prefix)
        said = ("one 1", "alive", "two", "three", "stopped")
        assert list(said) == [line for line in lines if line in said]

    def test_under_the_doctors_eyes(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """It is a finding, after the bound."""
        said, code = run(EXAMINED, tmp_path, root, prefix)
        assert "its file system has not answered for 0.3 s" in said
        assert "1" == code


@pytest.mark.parametrize("prefix", prefixes())
class TestSuchASession:
    @pytest.mark.parametrize("mode", ["auto", "poll", "watch"])
    def test_is_served_like_any_other(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...], mode: str
    ) -> None:
        """Residue, calls at once, large texts, a relay.json that is removed: all the same."""
        lines = run(SERVED.replace("MODE", repr(mode)), tmp_path, root, prefix)
        assert [
            '{"ok":false,"error":"no runner was there',
            '{"ok":false,"error":"the runner that had',
            *["True"] * 3,
            "['relay.json', 'x.res.json', 'y.res.json']",
        ] == lines

    def test_goes_and_comes(self, tmp_path: Path, root: Path, prefix: tuple[str, ...]) -> None:
        """What is at the path is served, when such a file system goes from it and comes back."""
        assert ["far 1", "underneath", "on top"] == run(AWAY, tmp_path, root, prefix)

    def test_comes_over_one_that_is_served(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """One that stalls as it is mounted over a session's directory holds up nobody else."""
        lines = [line for line in run(COVERED, tmp_path, root, prefix) if "system" not in line]
        assert ["near far", "still near", "on top 2"] == lines

    def test_a_peer_that_dies(self, tmp_path: Path, root: Path, prefix: tuple[str, ...]) -> None:
        """The caller of a runner that was killed hears of it from another on the directory."""
        lines = run(DIED, tmp_path, root, prefix)
        assert ["1", "69 True", "next", "2"] == [line for line in lines if "died" not in line]

    def test_calls_are_taken_back_for_others(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """Where there is no slot left, a cancel among many requests is found, and frees one."""
        assert ["2 20"] == run(FULL, tmp_path, root, prefix)

    def test_a_call_is_taken_back(
        self, tmp_path: Path, root: Path, prefix: tuple[str, ...]
    ) -> None:
        """A caller that cancels ends the tool, and leaves nothing."""
        assert ["ended early", "1 0"] == run(TAKEN_BACK, tmp_path, root, prefix)


def test_nothing_is_left_out_of_a_green_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In continuous integration, these tests are there also where what they take is not."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    assert [] == prefixes()
    monkeypatch.setenv("CI", "true")
    assert 1 == len(prefixes())


TABLE = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /mnt rw shared:1 - tmpfs none rw
23 22 0:6 / /mnt/far\\040away rw - nfs4 server:/x rw
24 23 0:7 / /mnt/far\\040away/near rw - ext4 /dev/sdb1 rw
25 21 0:8 / /srv rw - fuse.sshfs host:/y rw
26 21 8:2 / /srv rw - xfs /dev/sdc1 rw
"""


class TestTheTable:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/", None),
            ("/mnt/session", None),
            ("/mnt/far away", "nfs4"),
            ("/mnt/far away/root/session", "nfs4"),
            ("/mnt/far away/nearly", "nfs4"),
            ("/mnt/far away/near/session", None),
            ("/mnt/far", None),
            ("/srv/session", None),
        ],
    )
    def test_tells_what_a_path_is_on(self, tmp_path: Path, path: str, kind: str | None) -> None:
        """The nearest mount counts, and of two at one place the one on top."""
        (tmp_path / "table").write_text(TABLE)
        mounts = Mounts(str(tmp_path / "table"))
        assert kind == mounts.elsewhere(path)
        mounts.close()

    def test_without_one(self, tmp_path: Path) -> None:
        """Where the system has no such table, every file system is taken to be at hand."""
        assert Mounts(str(tmp_path / "none")).elsewhere("/mnt") is None
