"""``relay demo``: the main job on real input, in a few seconds.

An env file is read and judged, a relay starts in a local directory, a tool is called through it;
then the watch is switched off while it runs, the same calls fall back to polling, and on again.
Runner and writer share this process; one call comes from a process of its own.
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
from relayconf.live import Live, load
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

#: Turned off and on together: the runner's wait for requests, the writer's wait for responses.
WATCHES = ("RELAY_LOCAL_WATCH_ENABLED", "RELAY_RESPONSE_WATCH_ENABLED")

#: Calls by polling take tens of milliseconds; so many show it.
_POLLED_CALLS = 25


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
        help="see it work: read an env file, call a tool, switch the watch off and on",
        description="Read and judge an env file, start a relay in a local directory, call a tool "
        "through it, switch the watch off and on again while it runs. Takes a few seconds and "
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
        sources = _switched(Sources({}, (env_file,), (f"RELAY_TOOLS_FILE={tools}",)), on=True)
        live = _read(sources, env_file)
        session = arguments.dir or os.path.join(folder, "session")
        runner = Runner(session, settings=live, state=os.path.join(folder, "state"))
        rounds = asyncio.run(_show(runner, live, sources, session, arguments.calls))
    made, right = sum(r.made for r in rounds) + 1, sum(r.right for r in rounds) + 1
    _say("", f"{right} of {made} calls came back right, across both switches.")
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


async def _show(
    runner: Runner, live: Live[RelaySettings], sources: Sources, session: str, calls: int
) -> list[Round]:
    async with runner:
        _say("", f"2. A relay serves {session}: a file in, a file out", "")
        await _call_from_outside(session)
        writer = Writer(session, environ={})
        # The first calls open the watch and load what later ones have.
        await _round(runner, writer, 10)
        rounds = [await _round(runner, writer, calls)]
        _tell("watch on", rounds[-1])
        poll = f"{live.current.poll.total_seconds() * 1000:g} ms"
        _say("", f"3. Switch the watch off on both sides, while it runs: a poll each {poll}", "")
        live.reload(_switched(sources, on=False))
        await _round(runner, writer, 1)
        rounds.append(await _round(runner, writer, min(calls, _POLLED_CALLS)))
        _tell("watch off", rounds[-1])
        _say("", "4. And on again", "")
        live.reload(sources)
        await _round(runner, writer, 1)
        rounds.append(await _round(runner, writer, calls))
        _tell("watch on", rounds[-1])
    return rounds


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


async def _round(runner: Runner, writer: Writer, calls: int) -> Round:
    wakes = runner.counters.wakes
    took = []
    right = 0
    for number in range(calls):
        begun = time.perf_counter()
        text = await writer.acall("add", {"a": number, "b": 1})
        took.append((time.perf_counter() - begun) * 1000)
        right += text == str(number + 1)
    return Round(calls, right, statistics.median(took), runner.counters.wakes - wakes)


def _switched(sources: Sources, *, on: bool) -> Sources:
    """Return the sources with both watches on or off, whatever the env file says about them."""
    flags = (f"{name}={'true' if on else 'false'}" for name in WATCHES)
    return sources._replace(options=(*sources.options, "RELAY_MODE=auto", *flags))


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
