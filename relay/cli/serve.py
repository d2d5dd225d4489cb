"""``relay serve``: a runner as a program, until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from relay.cli import logs
from relay.cli.scrape import Scrape
from relay.engine.eventloop import ServingLoop
from relay.engine.metrics import runner_metrics
from relay.engine.runner import Runner
from relay.engine.telemetry import event, log
from relay.settings import RelaySettings
from relayconf.cli.common import add_sources
from relayconf.live.snapshot import Live, load
from relayconf.process import read_process

if TYPE_CHECKING:
    from relay.remote.runner import RemoteRunner

EX_OK = 0
EX_FAILED = 1


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "serve",
        help="run the tools that a session's writers ask for",
        description="Serve one session directory, or all in a root, until SIGTERM, SIGINT or "
        "SIGHUP (unless nohup has it ignored), then let what is in flight finish "
        "(RELAY_DRAIN_TIMEOUT_MS) and exit 0. Settings files are read again by themselves. The log "
        "goes to stderr.",
        allow_abbrev=False,
    )
    add_served(parser)
    parser.set_defaults(run=run)


def add_served(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is served, with which tools and settings."""
    served = parser.add_mutually_exclusive_group()
    served.add_argument(
        "--dir", metavar="DIR", help="the session directory; made where missing (RELAY_DIR)"
    )
    served.add_argument(
        "--root",
        metavar="DIR",
        help="a directory whose sub-directories are sessions, served as they come and go "
        "(RELAY_ROOT)",
    )
    parser.add_argument(
        "--tools", metavar="FILE", help="the tools to offer, as TOML (RELAY_TOOLS_FILE)"
    )
    add_sources(parser, parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve, and return the exit code.

    Raises:
        RelayError, RelayconfError: it cannot be started.
    """
    handler = logs.log_to(sys.stderr.fileno())
    live = settings_of(arguments)
    handler.go_by(live.current)
    live.subscribe(lambda _old, new: handler.go_by(new.settings))
    runner = _runner(arguments, live)
    loop = ServingLoop()
    try:
        code = loop.run_until_complete(_serve(runner))
    finally:
        if not runner.left_behind:
            loop.close()
    if runner.left_behind:
        # Something hangs that cannot be ended; waiting for it would hold up the exit.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _runner(arguments: argparse.Namespace, live: Live[RelaySettings]) -> Runner | RemoteRunner:
    if live.current.backend == "local":
        return Runner(arguments.dir, root=arguments.root, settings=live)
    from relay.remote.runner import RemoteRunner  # noqa: PLC0415 - only where it is served

    return RemoteRunner(arguments.dir, root=arguments.root, settings=live)


def settings_of(arguments: argparse.Namespace) -> Live[RelaySettings]:
    """Return the settings of a runner that is started with these arguments.

    Raises:
        RelayError, RelayconfError: they cannot be read, or contradict each other.
    """
    options = list(arguments.set)
    if arguments.dir is not None:
        options.append(f"RELAY_DIR={arguments.dir}")
    if arguments.root is not None:
        options.append(f"RELAY_ROOT={arguments.root}")
    if arguments.tools is not None:
        options.append(f"RELAY_TOOLS_FILE={arguments.tools}")
    process = read_process(
        os.environ,
        env_files=arguments.env_file,
        options=options,
        deployment=arguments.deployment,
        strict=arguments.strict,
    )
    return load(RelaySettings, process.sources, strict=process.strict)


async def _serve(runner: Runner | RemoteRunner) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            # Asked for the second time: at once. The next runner answers for this one.
            os._exit(EX_FAILED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # nohup means that the runner outlives its terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, on_signal)
    scrape = await _scrape(runner)
    try:
        await runner.start()
        return await _until_told(runner, stop)
    finally:
        if scrape is not None:
            scrape.stop()


async def _scrape(runner: Runner | RemoteRunner) -> Scrape | None:
    """Serve metrics where RELAY_METRICS_ADDR says, if it does."""
    where = runner.live.current.metrics_addr
    if where is None:
        return None
    scrape = Scrape(where, lambda: runner_metrics(runner))
    await scrape.start()
    event(f"stage=relay_metrics port={scrape.port}")
    return scrape


async def _until_told(runner: Runner | RemoteRunner, stop: asyncio.Event) -> int:
    ended = asyncio.ensure_future(runner.wait())
    told = asyncio.ensure_future(stop.wait())
    await asyncio.wait([ended, told], return_when=asyncio.FIRST_COMPLETED)
    failure = ended.exception() if ended.done() else None
    if failure is not None:
        log.error("the runner failed", exc_info=failure)
    told.cancel()
    await runner.stop()
    if not ended.done():
        await asyncio.wait([ended])
    return EX_FAILED if failure is not None else EX_OK
