"""An SSH server that dies or stands still, at any moment: no call is lost, none runs twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from relay.hosts.ssh import SshHost
from tests.chaos.test_remote import QUICK
from tests.servers.box import Box, play
from tests.servers.running import Server, available, sshd


def below(pid: int) -> list[int]:
    """Return the processes that a server has started for its connections, and theirs."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, IndexError, ValueError):
            stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(stat[1]), []).append(int(name))
    found, ahead = [], [pid]
    while ahead:
        children = parents.get(ahead.pop(), [])
        found += children
        ahead += children
    return found


if "ssh" in available():

    @pytest.fixture
    def server(tmp_path: Path) -> Iterator[Server]:
        """Run an SSH server of the test's own."""
        server = sshd(tmp_path)
        server.start()
        yield server
        server.kill()

    def tell(pids: list[int], number: signal.Signals) -> None:
        """Send a signal to processes that may be gone."""
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    class TestServer:
        @pytest.mark.parametrize("means", ["killed", "stopped", "programs"])
        def test_at_any_moment(self, tmp_path: Path, server: Server, means: str) -> None:
            """Its connections are killed, or stand still; or all that runs in them is killed."""
            (tmp_path / "a session's").mkdir(mode=0o700)
            key, known = str(tmp_path / "client_key"), str(tmp_path / "known_hosts")
            target = f"127.0.0.1:{server.port}"
            box = Box(tmp_path, lambda: SshHost(target, key_file=key, known_hosts=known))
            rand, ran = random.Random(5), Counter[str]()

            async def count(text: str) -> str:
                ran[text] += 1
                return text

            async def break_it() -> None:
                assert server.process is not None
                all_of_it = below(server.process.pid)
                if means == "killed":
                    server.kill()
                    tell(all_of_it, signal.SIGKILL)
                    await asyncio.sleep(0.1)
                    server.start()
                elif means == "stopped":
                    tell(all_of_it, signal.SIGSTOP)
                    await asyncio.sleep(rand.random() * 0.6)
                    tell(all_of_it, signal.SIGCONT)
                else:
                    own = [p for p in all_of_it if "sshd" not in command(p)]
                    tell(own, signal.SIGKILL)

            async def story() -> None:
                async with box.serving({"echo": count}, **{**QUICK, "demote_after": 100}):
                    for number in range(8):
                        text = f"call {number}"
                        call = asyncio.ensure_future(box.call(text))
                        await asyncio.sleep(rand.random() * 0.05)
                        await break_it()
                        assert text == (await call).text
                assert 1 == max(ran.values())

            play(story)


def command(pid: int) -> str:
    """Return a process's command line."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""
