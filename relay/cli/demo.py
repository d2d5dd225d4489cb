"""``relay demo``: the main job on real input, in a few seconds.

An env file is read and judged, a relay starts in a local directory, and calls flow through it. Then
the watch is killed by the real command, as an operator would in an incident: the calls that flow
meanwhile fall back to polling, and return once it is restored. Runner and writer share this
process; one call, and the operator, come from processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from relay.cli import logs
from relay.client import Writer
from relay.engine.runner import Runner
from relay.errors import RelayError
from relay.settings import RelaySettings
from relayconf.layers import Sources
from relayconf.live.snapshot import Live, load
from relayconf.resolve import Effective, shown
from relayconf.wording import value

ENV_FILE = """\
# What an operator might write for one deployment.
RELAY_POLL_MS=40ms
RELAY_POLL_MAX_MS=200ms
RELAY_TOOL_TIMEOUT_MS=1m30s
RELAY_MAX_RESPONSE_BYTES=8MiB
# Two mistakes: a value out of range, and one that is no duration.
RELAY_MAX_IN_FLIGHT=250000
RELAY_DRAIN_TIMEOUT_MS=5 seconds
"""

TOOLS_FILE = """\
[tools.add]
python = "relay_demo_tools:add"

[tools.shout]
command = [PYTHON, "-c", "import json,sys; print(json.load(sys.stdin)['text'].upper())"]
description = "Upper-case a text."
timeout = "10s"
input = { type = "object", required = ["text"], properties = { text = { type = "string" } } }
"""

TOOLS_MODULE = '''\
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''

#: On in the demo, whatever the env file says: the runner's wait for requests, and the writer's for
#: responses. The kill turns off both, as members of the group ``@watch``.
WATCHES = ("RELAY_LOCAL_WATCH_ENABLED", "RELAY_RESPONSE_WATCH_ENABLED")

#: Calls by polling take tens of milliseconds; so many show it.
_POLLED_CALLS = 25

#: Pause between two calls, in seconds: an agent that thinks a little.
_THINK = 0.001


class Round(NamedTuple):
    """A number of calls: how many came back right, milliseconds at the median, and the wakes.

    ``wakes`` is how often a file event woke the runner meanwhile.
    """

    made: int
    right: int
    median: float
    wakes: int


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "demo",
        help="see it work: read an env file, call a tool, kill the watch under load",
        description="Read and judge an env file, start a relay in a local directory, call a tool "
        "through it, kill the watch and restore it while calls flow. Takes a few seconds and "
        "leaves nothing behind.",
        allow_abbrev=False,
    )
    parser.add_argument("--dir", metavar="DIR", help="the session directory (a temporary one)")
    parser.add_argument("--env-file", metavar="FILE", help="the env file to read (one is written)")
    parser.add_argument(
        "--calls", type=int, default=200, metavar="N", help="calls with the watch on (200)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show it, and return the exit code: 1 where a call did not come back right.

    Raises:
        RelayError, RelayconfError: something that it needs cannot be used.
    """
    if arguments.calls < 1:
        raise RelayError(f"--calls {arguments.calls}: make at least one call")
    logs.log_to(sys.stderr.fileno(), level=logging.WARNING)
    # What is wrong with the env file is part of the show, and need not be said twice.
    logging.getLogger("relayconf").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="relay-demo-") as folder:
        given = arguments.env_file
        env_file = os.path.abspath(given) if given else _write(folder, "demo.env", ENV_FILE)
        # The Python that runs this one: another may not be on the PATH.
        python = json.dumps(sys.executable)
        tools = _write(folder, "tools.toml", TOOLS_FILE.replace("PYTHON", python))
        _write(folder, "relay_demo_tools.py", TOOLS_MODULE)
        state = os.path.join(folder, "state")
        options = (f"RELAY_TOOLS_FILE={tools}", "RELAY_MODE=auto")
        watching = tuple(f"{name}=true" for name in WATCHES)
        live = _read(Sources({}, (env_file,), (*options, *watching), state_dir=state), env_file)
        session = arguments.dir or os.path.join(folder, "session")
        flow = asyncio.run(_show(Runner(session, settings=live), live, session, arguments.calls))
    made, right = len(flow.took) + 1, flow.right + 1
    _say("", f"{right} of {made} calls came back right, across the kill and the restore.")
    return 0 if right == made else 1


def _read(sources: Sources, env_file: str) -> Live[RelaySettings]:
    """Read the env file, and print what it says and what is wrong with it."""
    _say(f"1. Read an env file, {env_file}", "")
    live = load(RelaySettings, sources)
    resolution = live.snapshot.resolution
    _say(f"   {'setting':26} {'as written':12} {'in force':10} status")
    for effective in resolution.settings.values():
        written = _written(effective)
        if written is not None:
            name, text = effective.setting.name, value(effective.setting, effective.value)
            _say(f"   {name:26} {written:12} {text:10} {effective.status}")
    _say("")
    for problem in resolution.problems:
        _say(f"   {problem.severity}: {problem.line()}")
    return live


def _written(effective: Effective) -> str | None:
    """Return what the env file says about a setting, in force or not."""
    for candidate in effective.stack:
        if candidate.layer == "env-file":
            return shown(effective.setting, candidate.text)
    return None


async def _show(runner: Runner, live: Live[RelaySettings], session: str, calls: int) -> Flow:
    async with runner:
        _say("", f"2. A relay serves {session}: a file in, a file out", "")
        await _call_from_outside(session)
        flow = Flow(runner, Writer(session, environ={}))
        flowing = asyncio.create_task(flow.run())
        # The first calls open the watch and load what later ones have.
        await flow.round(10)
        _tell("watch on", await flow.round(calls))
        poll = f"{live.current.poll.total_seconds() * 1000:g} ms"
        _say("", f"3. Kill the watch while calls go on: from now on a poll each {poll}", "")
        await _operate(live, "kill")
        _tell("watch off", await flow.round(min(calls, _POLLED_CALLS)))
        _say("", "4. Restore it", "")
        await _operate(live, "restore")
        _tell("watch on", await flow.round(calls))
        flow.stopping = True
        await flowing
    return flow


async def _operate(live: Live[RelaySettings], action: str) -> None:
    """Do as an operator in another terminal does, who knows only the state directory."""
    words = (action, "@watch", "--reason", "the demo", "--wait", "10s")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "relayconf", *words],
        env={**os.environ, "RELAYCONF_STATE_DIR": str(live.sources.state_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RelayError(f"relayconf {action} failed: {done.stderr.strip() or done.stdout.strip()}")
    _say(f"   $ relayconf {' '.join(map(_quoted, words))}")
    _say(*(f"   {line}" for line in done.stdout.splitlines()), "   exit 0: applied by all", "")


async def _call_from_outside(session: str) -> None:
    """Make one call as a sandbox would: another process that knows only the directory."""
    arguments = ("call", "shout", '{"text": "hello"}', "--dir", session)
    command = [sys.executable, "-m", "relay", *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RelayError(f"the first call failed: {done.stderr.strip()}")
    asked = " ".join(map(_quoted, arguments[:3]))
    _say(f"   $ relay {asked} --dir ...", f"   {done.stdout.strip()}", "")


class Flow:
    """Calls that go on and on, one after the other, in a task of their own.

    ``took`` has the milliseconds of each, ``right`` counts those that came back right.
    """

    def __init__(self, runner: Runner, writer: Writer) -> None:
        self.took: list[float] = []
        self.right = 0
        self.stopping = False
        self._runner = runner
        self._writer = writer
        self._failed: BaseException | None = None

    async def run(self) -> None:
        """Call until ``stopping``."""
        try:
            while not self.stopping:
                await self._call(len(self.took))
                await asyncio.sleep(_THINK)
        except BaseException as error:
            self._failed = error
            raise

    async def _call(self, number: int) -> None:
        begun = time.perf_counter()
        text = await self._writer.acall("add", {"a": number, "b": 1})
        self.took.append((time.perf_counter() - begun) * 1000)
        self.right += text == str(number + 1)

    async def round(self, calls: int) -> Round:
        """Wait until so many calls have been made from now on, and return how they were."""
        # The one that is on its way may have begun before whatever was changed just now.
        await self._until(len(self.took) + 1)
        first, right, wakes = len(self.took), self.right, self._runner.counters.wakes
        await self._until(first + calls)
        took = self.took[first:]
        return Round(
            len(took),
            self.right - right,
            statistics.median(took),
            self._runner.counters.wakes - wakes,
        )

    async def _until(self, made: int) -> None:
        while len(self.took) < made:
            if self._failed is not None:
                raise self._failed
            await asyncio.sleep(_THINK)


def _tell(state: str, done: Round) -> None:
    rate = f"{done.median:8.2f} ms at the median, {done.wakes:4} wakes by file events"
    _say(f"   {done.made:4} calls, {state:9}  {rate}")


def _write(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _quoted(word: str) -> str:
    return f"'{word}'" if " " in word else word


def _say(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
