"""``relayconf run``: resolve, validate, export, and become the command."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence

from relayconf import answers, report
from relayconf.cli import common
from relayconf.errors import StateError
from relayconf.export import exported
from relayconf.instances.child import Child
from relayconf.layers import Sources
from relayconf.problems import Problem
from relayconf.process import Process
from relayconf.resolve import Resolution
from relayconf.setting import Contract
from relayconf.targets import find_contract

#: As a shell reports it: the command was not found, or was found and cannot be run.
EX_NOT_FOUND = 127
EX_NOT_RUNNABLE = 126


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help="run a command with checked and canonical settings",
        description="Resolve TARGET's settings, report every problem on stderr, export what is "
        "set as canonical text, and become the command: its signals and its exit code are its own. "
        "Settings that nobody sets stay unset. 127: the command is not found; 126: it cannot be "
        "run; 78: --strict refuses.",
        usage="%(prog)s [--target TARGET] [options] -- CMD [ARG ...]",
        allow_abbrev=False,
    )
    parser.add_argument(
        "command", nargs="+", metavar="CMD", help="the command and its arguments, behind --"
    )
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replace this process by the command; return only where that fails."""
    process = common.read(arguments)
    contract = find_contract(arguments.target or common.only_target())
    child = _registered(contract, process.sources)
    try:
        resolution = _resolved(contract, process)
        _report(resolution, as_json=arguments.json)
        if child is not None:
            child.goes_by(resolution.generation, _overridden(resolution))
        return _become(arguments.command, exported(resolution, _inherited()))
    finally:
        # Reached only where there is no command: becoming it leaves nothing behind to go on with.
        if child is not None:
            child.sign_off()


def _resolved(contract: Contract, process: Process) -> Resolution:
    """Resolve, and ask the fleet first: the command will never look again."""
    options = process.sources.fleet
    if options is None:
        return common.resolved(contract, process)
    from relayconf.cli.lookout import asked_layer  # noqa: PLC0415 - only where there is a fleet

    here = process._replace(sources=process.sources._replace(fleet=None))
    return common.resolved(contract, here, asked_layer(contract, process.sources, options))


def _registered(contract: Contract, sources: Sources) -> Child | None:
    """Register before anything is read, so that no kill falls between."""
    if sources.state_dir is None:
        return None
    try:
        return Child(sources.state_dir, contract, group=sources.state_group)
    except StateError as error:
        text = f"{error}; a kill will not find the command"
        report.once([Problem("state-directory", contract.target, text, raw=text)])
        return None


def _overridden(resolution: Resolution) -> list[str]:
    return [n for n, e in resolution.settings.items() if e.layer in ("override", "fleet")]


def _report(resolution: Resolution, *, as_json: bool) -> None:
    # stdout is the command's; --json gives the problems to a program that reads stderr.
    if not as_json:
        report.once(resolution.problems)
    elif resolution.problems:
        problems = [answers.problem_document(problem) for problem in resolution.problems]
        sys.stderr.write(json.dumps({"problems": problems}, ensure_ascii=False) + "\n")


def _inherited() -> dict[bytes, bytes]:
    """Return the environment that this process was started with."""
    environ = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as file:
            started = file.read()
    except OSError:
        return environ
    # Python sets it for itself where the locale is C (PEP 538); that is not the command's.
    if b"\0LC_CTYPE=" not in b"\0" + started:
        environ.pop(b"LC_CTYPE", None)
    return environ


def _become(command: Sequence[str], environ: dict[bytes, bytes]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these for itself, and what is ignored stays so in the command.
    numbers = (signal.SIGPIPE, signal.SIGXFSZ)
    ours = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    try:
        os.execvpe(command[0], list(command), environ)  # noqa: S606 - becoming it is the purpose
    except (FileNotFoundError, NotADirectoryError) as error:
        return _refuse(command[0], error, EX_NOT_FOUND)
    except OSError as error:
        return _refuse(command[0], error, EX_NOT_RUNNABLE)
    except ValueError:  # an empty one; no argument of ours can hold the NUL that is refused too
        return _refuse(command[0], OSError(0, "it is empty"), EX_NOT_FOUND)
    finally:
        # Only where there was nothing to become: a program that called us lives on.
        for number, handler in zip(numbers, ours, strict=True):
            signal.signal(number, handler)


def _refuse(name: str, error: OSError, code: int) -> int:
    missing = code == EX_NOT_FOUND
    hint = "; is it installed and on PATH, and its interpreter too?" if missing else ""
    sys.stderr.write(f"relayconf: cannot run {name!r}: {error.strerror}{hint}\n")
    return code
