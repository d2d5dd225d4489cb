"""The compose example, run without Compose: its tools, its settings, and its two users.

Where the tests run as root, runner and sandbox are the example's own users, in a directory made as
its volume is; elsewhere both are whoever runs the tests, in a setgid directory of their own group.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from relayconf.compose.dotenv import last_values, parse_dotenv

TOKEN = "a-token-for-the-test"

#: Lets another user read the interpreter and the checkout where those are in a private folder; it
#: gives no right to write anywhere.
READ_ALL = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")


class User(NamedTuple):
    """Who a service runs as: its ids, and the words before a command that make it that user's."""

    uid: int
    gid: int
    become: tuple[str, ...]


class Deployment(NamedTuple):
    """A running runner of the example, and how the sandbox beside it calls."""

    root: Path
    session: Path
    runner: User
    sandbox: User
    group: int
    log: Path
    environment: dict[str, str]

    def relay(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``python -m relay`` as the sandbox does: RELAY_DIR and nothing else."""
        return subprocess.run(
            [*self.sandbox.become, sys.executable, "-m", "relay", *arguments],
            env={"PATH": os.defpath, "RELAY_DIR": str(self.session)},
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one of the programs in the runner's container, as ``docker compose exec`` does."""
        program, *arguments = command
        return subprocess.run(
            [*self.runner.become, sys.executable, "-m", program, *arguments],
            env=self.environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )


class Upstream(BaseHTTPRequestHandler):
    """What the example's runner has credentials for."""

    def do_GET(self) -> None:
        """Answer who shows the token."""
        allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
        body = f"{self.path.rpartition('/')[2]} is on its way".encode() if allowed else b""
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """Return the address of a running upstream."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def users(service: dict[str, Any], group: int) -> User:
    """Return the user of a service, or whoever runs the tests where it cannot be that one."""
    uid, gid = map(int, service["user"].split(":"))
    setpriv = shutil.which("setpriv")
    if os.geteuid() == 0 and setpriv is not None:
        ids = (f"--reuid={uid}", f"--regid={gid}", f"--groups={group}")
        become = (setpriv, *ids, *READ_ALL)
        if subprocess.run([*become, "true"], capture_output=True, check=False).returncode == 0:
            return User(uid, gid, become)
    return User(os.geteuid(), os.getegid(), ())


@pytest.fixture(scope="module")
def deployment(
    root: Path, upstream: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Run the example's runner with its env file and its tools, stopped at the end."""
    example = root / "docs" / "examples" / "compose"
    compose = YAML(typ="safe").load(example / "compose.yaml")
    services = compose["services"]
    options = compose["volumes"]["session"]["driver_opts"]["o"]
    group = int(options.partition("gid=")[2].partition(",")[0])
    runner, sandbox = (users(services[name], group) for name in ("runner", "sandbox"))
    group = group if runner.become else os.getegid()

    place = tmp_path_factory.mktemp("example")
    session, state, token = place / "session", place / "state", place / "upstream_token"
    session.mkdir()
    os.chown(session, runner.uid, group)
    session.chmod(0o2770)
    state.mkdir(mode=0o700)
    os.chown(state, runner.uid, runner.gid)
    token.write_text(f"{TOKEN}\n")

    env_file = example / "relay.env"
    entries = parse_dotenv(env_file.read_bytes(), path=str(env_file), lookup=lambda _: None)
    handed_through = services["runner"]["environment"]
    environment = {n: v for n, v in last_values(entries).items() if n in handed_through}
    environment |= {
        "PATH": os.defpath,
        "RELAY_DIR": str(session),
        "RELAY_TOOLS_FILE": str(example / "tools" / "tools.toml"),
        "RELAYCONF_STATE_DIR": str(state),
        "UPSTREAM_URL": upstream,
        "UPSTREAM_TOKEN_FILE": str(token),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    log = place / "log"
    with log.open("wb") as stderr:
        serve = [*runner.become, sys.executable, "-m", "relay", "serve"]
        process = subprocess.Popen(serve, cwd=root, env=environment, stderr=stderr)
    yield Deployment(root, session, runner, sandbox, group, log, environment)
    process.terminate()
    assert process.wait(timeout=60) == 0, log.read_text()


class TestTools:
    def test_are_listed(self, deployment: Deployment) -> None:
        """The sandbox learns what it may ask for."""
        asked = deployment.relay("call", "now")
        assert asked.stderr == "", deployment.log.read_text()
        listed = deployment.relay("tools")
        assert listed.stderr == ""
        assert {"now", "order_status"} <= set(re.findall(r"\w+", listed.stdout))

    def test_a_command_answers(self, deployment: Deployment) -> None:
        """The first command of the example's README prints the time."""
        done = deployment.relay("call", "now")
        assert done.returncode == 0, done.stderr + deployment.log.read_text()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00\s*", done.stdout)

    def test_a_call_uses_credentials_that_the_sandbox_lacks(self, deployment: Deployment) -> None:
        """The upstream answers the runner; the token shows up nowhere on the sandbox's side."""
        done = deployment.relay("call", "order_status", '{"order": "A1000"}')
        assert done.stdout.strip() == "A1000 is on its way", done.stderr
        seen = [path.read_text() for path in deployment.session.iterdir()]
        assert [] == [text for text in [*seen, done.stdout, done.stderr] if TOKEN in text]

    def test_a_call_cannot_leave_its_path(self, deployment: Deployment) -> None:
        """An order number that is a path is refused before anything is asked."""
        done = deployment.relay("call", "order_status", '{"order": "../admin"}')
        assert done.returncode == 1
        assert "order" in done.stderr
        assert "Traceback" not in done.stderr


class TestSession:
    def test_files_belong_to_both(self, deployment: Deployment) -> None:
        """What the runner leaves in the session takes its group, and nobody else may read it."""
        assert deployment.relay("call", "now").returncode == 0
        left = {path.name: path.stat() for path in deployment.session.iterdir()}
        assert "relay.json" in left
        assert {deployment.group} == {status.st_gid for status in left.values()}
        assert {"0o660"} == {oct(stat.S_IMODE(status.st_mode)) for status in left.values()}
        assert {deployment.runner.uid} == {status.st_uid for status in left.values()}


class TestKill:
    @pytest.fixture
    def commands(self, root: Path) -> list[list[str]]:
        """Return what the README says to run for a kill, without what enters the container."""
        text = (root / "docs" / "examples" / "compose" / "README.md").read_text()
        section = text.partition("## Switch something off at once")[2].partition("\n## ")[0]
        found = re.findall(r"\$ docker compose exec runner (relayconf .*)", section)
        return [shlex.split(line) for line in found]

    def test_the_readme_s_commands_do_it(
        self, deployment: Deployment, commands: list[list[str]]
    ) -> None:
        """The runner obeys, the exit code proves it, and the history has it."""
        deadline = time.monotonic() + 30
        while not (deployment.session / "relay.json").exists():
            assert time.monotonic() < deadline, deployment.log.read_text()
            time.sleep(0.02)
        outputs = []
        for words in commands:
            done = deployment.execute(*words)
            assert 0 == done.returncode, (words, done)
            outputs.append(done.stdout)
        killed, status, restored, history = outputs
        assert "live instances: 1" in killed
        assert re.search(r"RELAY_LOCAL_WATCH_ENABLED +false +override +killed", status), status
        assert "live instances: 1" in restored
        assert ("calls hang" in history, "fixed" in history) == (True, True)
