"""``relay call``: one tool call from a shell, with an exit status that says how it ended.

stdout is the tool's text alone; what went wrong is one message on stderr. A signal withdraws the
request before the process ends. Ground floor, and quick to start: no argparse, no asyncio.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, NoReturn, Optional

from relay import strictjson
from relay.cli.terminal import (
    USAGE_ERROR,
    UsageError,
    answer,
    complain,
    explain,
    misused,
    read_line,
    stdout_is_closed,
)
from relay.client.exchange import ANSWERED, ASKED, NEW, TAKEN, WITHDRAWN
from relay.client.writer import Writer, directory_of, drive
from relay.errors import BadRequest, CallError, RelayError

if TYPE_CHECKING:
    from types import FrameType

    from relay.client.exchange import Exchange

USAGE = """\
usage: relay call TOOL [JSON|-] [--dir DIR] [--timeout T] [--call-id ID] [--json]

Ask the runner of a session directory to run a tool, and print its text.

  TOOL            the tool's name; `relay tools --dir DIR` lists them
  JSON            the arguments, one JSON object; `-` reads it from stdin; none is {}

  --dir DIR       the session directory (default: RELAY_DIR)
  --timeout T     how long to wait, such as 5s, 1m30s or 2500 (milliseconds)
                  (default: RELAY_TIMEOUT_MS)
  --call-id ID    your own id for the call, which the runner's log shows
  --json          print the whole answer as one JSON object
  -h, --help      print this and exit

exit status:
  0    the tool's text is on stdout
  1    the tool failed, or the runner refused the call
  2    wrong usage, no session directory, or no tool of that name
  69   not executed, or interrupted by the end of its runner
  75   paused; an answer comes on a later call
  124  no answer within the time
  130  stopped by a signal; the request is taken back, or its runner told to stop
"""

FAILED = 1
UNAVAILABLE = 69
TEMPORARY = 75
TIMED_OUT = 124
STOPPED = 130

_STATUS = {
    "no_directory": USAGE_ERROR,
    "unknown_tool": USAGE_ERROR,
    "cannot_publish": UNAVAILABLE,
    "not_executed": UNAVAILABLE,
    "interrupted": UNAVAILABLE,
    "paused": TEMPORARY,
    "timeout": TIMED_OUT,
    "expired": TIMED_OUT,
}

_ENDINGS = {
    NEW: "nothing was asked",
    ASKED: "the request may still be run",
    ANSWERED: "the call had been answered",
    WITHDRAWN: "the request was taken back and does not run",
    TAKEN: "a runner had the request; it may have run",
}

#: Seconds of looking before a watch is made. Closing one takes the kernel 8 to 24 ms, which the
#: end of this process would wait for; most tools answer sooner.
_WATCH_AFTER = 0.02

#: The longest --timeout in milliseconds, as RELAY_TIMEOUT_MS has it.
_LONGEST = 24 * 60 * 60 * 1000

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end."""


class Asked(NamedTuple):
    """What the command line asks for. ``timeout`` is in seconds."""

    tool: str
    json_text: Optional[str]
    dir: Optional[str]
    timeout: Optional[float]
    call_id: Optional[str]
    as_json: bool


def run(argv: List[str]) -> int:
    """Carry out ``relay call`` with these arguments and return its exit status."""
    before = catch_signals()
    try:
        return _run(argv)
    finally:
        restore_signals(before)


def _run(argv: List[str]) -> int:
    if stdout_is_closed():
        return complain("call", "stdout is closed; the answer would be lost", USAGE_ERROR)
    exchange: Optional[Exchange] = None
    as_json = "--json" in argv
    try:
        asked = parse(argv)
        if asked is None:
            return explain("call", USAGE)
        exchange = Writer(directory_of(os.environ, asked.dir)).exchange(
            asked.tool,
            _arguments(asked.json_text),
            timeout=asked.timeout,
            call_id=asked.call_id,
            watch_after=_WATCH_AFTER,
        )
        text = drive(exchange)
    except UsageError as error:
        return misused("call", error)
    except RelayError as error:
        return _failed(error, as_json=as_json)
    except Stopped as stop:
        return complain("call", f"stopped by {stop}; {_what_became_of(exchange)}", STOPPED)
    return answer("call", _json({"ok": True, "text": text}) if as_json else text)


def parse(argv: List[str]) -> Optional[Asked]:
    """Return what the arguments ask for; ``None`` where that is help.

    Raises:
        UsageError: they ask for nothing that there is.
    """
    words, options = read_line(
        argv, flags=("--json", "-h", "--help"), valued=("--dir", "--timeout", "--call-id")
    )
    if "-h" in options or "--help" in options:
        return None
    if not words or not words[0]:
        raise UsageError("no tool is named")
    if len(words) > 2:
        raise UsageError(f"one JSON object is expected after the tool, and {words[2]!a} is left")
    timeout = options.get("--timeout")
    return Asked(
        tool=words[0],
        json_text=words[1] if len(words) == 2 else None,
        dir=options.get("--dir"),
        timeout=None if timeout is None else seconds(timeout),
        call_id=options.get("--call-id"),
        as_json="--json" in options,
    )


def seconds(text: str) -> float:
    """Read a duration as every setting is read; a bare number is milliseconds."""
    if text.isascii() and text.isdigit() and len(text) < 8 and text[0] != "0":
        return int(text) / 1000
    from relayconf.setting import Setting  # noqa: PLC0415 - the grammar costs 5 ms of start
    from relayconf.values import Invalid  # noqa: PLC0415
    from relayconf.values import parse as read  # noqa: PLC0415

    outcome = read(Setting("--timeout", "duration", unit="ms"), text)
    if isinstance(outcome, Invalid):
        raise UsageError(f"--timeout {text[:60]!a} is not a duration: {outcome.reason}")
    milliseconds = outcome.value
    if not isinstance(milliseconds, int) or not 0 < milliseconds <= _LONGEST:
        raise UsageError("--timeout must be longer than 0, and at most 24h")
    return milliseconds / 1000


def _arguments(text: Optional[str]) -> Dict[str, Any]:
    if text is None:
        return {}
    source = "the JSON on stdin" if text == "-" else "the JSON argument"
    data = _stdin() if text == "-" else os.fsencode(text)
    try:
        value = strictjson.load(data)
    except strictjson.Fault as fault:
        raise UsageError(f"{source} cannot be used: {fault}") from None
    if not isinstance(value, dict):
        raise UsageError(f'{source} is not an object like {{"name": "value"}}')
    return value


def _stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("the JSON should come from stdin, which is closed")
    return sys.stdin.buffer.read()


def catch_signals() -> Dict[signal.Signals, Any]:
    """Let signals raise ``Stopped``, and return what they did before."""
    before: Dict[signal.Signals, Any] = {}
    for number in _SIGNALS:
        # A signal that the parent has ignored, as `nohup` does, stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _stop)
    return before


def restore_signals(before: Dict[signal.Signals, Any]) -> None:
    """Undo ``catch_signals``."""
    for number, handler in before.items():
        signal.signal(number, handler)


def _stop(number: int, _frame: Optional[FrameType]) -> NoReturn:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(signal.Signals(number).name)


def _what_became_of(exchange: Optional[Exchange]) -> str:
    return _ENDINGS[NEW if exchange is None else exchange.state]


def _failed(error: RelayError, *, as_json: bool) -> int:
    status = USAGE_ERROR if isinstance(error, BadRequest) else _STATUS.get(error.code, FAILED)
    if as_json:
        said: Dict[str, Any] = {"ok": False, "error": str(error), "code": error.code}
        if isinstance(error, CallError):
            said["mayHaveRun"] = error.may_have_run
        answer("call", _json(said))
    return complain("call", str(error), status)


def _json(said: Dict[str, Any]) -> str:
    return strictjson.dump(said).decode("utf-8")
