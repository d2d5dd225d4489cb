"""What a writer goes by: how it polls, whether it watches, how long it waits.

Each value is the first of: an entry of layer ``override`` or ``fleet`` in relay.json (a kill, an
operator's override), the writer's own environment, the other entries of relay.json, the contract.
So a kill reaches a process inside a sandbox. relay.json is read again when it changes; what in it
is not valid for its setting counts as missing, and a damaged one as none. Ground floor.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from relay import strictjson
from relay.client.directory import Held
from relay.protocol import CANCELS, MAX_RELAY_JSON, PROTOCOL, RELAY_JSON, SIGNALS

if TYPE_CHECKING:
    from relayconf.setting import Setting

#: The settings that a writer reads, in the order of the fields of ``Options``.
NAMES = (
    "RELAY_POLL_MS",
    "RELAY_POLL_MAX_MS",
    "RELAY_IDLE_GROW_AFTER",
    "RELAY_TIMEOUT_MS",
    "RELAY_MAX_RESPONSE_BYTES",
    "RELAY_RESPONSE_WATCH_ENABLED",
    "RELAY_MODE",
)

#: Every name under which a writer's own environment may set one of them. The legacy ones are the
#: contract's (a test compares): the contract itself is read only where one of these is set.
ENVIRONMENT_NAMES = (
    *NAMES,
    "AGENTA_AGENT_TOOLS_RELAY_POLLING",
    "AGENTA_AGENT_TOOLS_RELAY_POLLING_MAX",
    "AGENTA_AGENT_TOOLS_RELAY_IDLE_GROW_AFTER",
    "AGENTA_AGENT_TOOLS_RELAY_TIMEOUT",
    "AGENTA_AGENT_TOOLS_RELAY_RESPONSE_WATCH_ENABLED",
)

#: For the numbers among ``NAMES``, in their order: bounds within which a value needs no contract
#: to be known as in range. Milliseconds, but for the count and the bytes. (A test compares.)
SURELY_IN_RANGE = (
    (10, 60_000),
    (10, 60_000),
    (0, 10_000),
    (100, 86_400_000),
    (1_024, 268_435_456),
)

_ABOVE = ("override", "fleet")
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Options(NamedTuple):
    """Values in force for a writer: seconds, bytes, and whether it watches for its response.

    ``max_request`` are the most bytes that the runner takes, where it says so; ``cancels``, whether
    it stops what its caller has taken back; ``signals``, whether it signals its answers.
    """

    poll: float
    poll_max: float
    idle_grow_after: int
    timeout: float
    max_response: int
    watch: bool
    max_request: Optional[int] = None
    cancels: bool = False
    signals: bool = False


class Told(NamedTuple):
    """What relay.json says: ``settings`` by name as (value, layer), and the tools.

    ``max_request``, ``cancels`` and ``signals`` are as in ``Options``.
    """

    settings: Dict[str, Tuple[Any, str]]
    tools: Tuple[Dict[str, Any], ...]
    max_request: Optional[int] = None
    cancels: bool = False
    signals: bool = False


NOTHING_TOLD = Told({}, ())

#: Device, inode, mtime and size of a relay.json: publication by rename makes a new inode.
_Stamp = Tuple[int, int, int, int]


#: The texts of ``ENVIRONMENT_NAMES`` in one environment, in that order.
Own = Tuple[Optional[str], ...]


class OptionsSource:
    """The options in force in one directory, for one environment. Safe across threads."""

    def __init__(self, own: Own) -> None:
        self._own = own
        self._read: Tuple[Optional[_Stamp], Optional[Options]] = (None, None)
        #: Answers in a row that a watch has not told of.
        self.unheard = 0

    def latest(self, held: Held) -> Options:
        """Return the options as of the last look, where there was one."""
        return self._read[1] or self.current(held)

    def are_those_at(self, path: str) -> bool:
        """Tell whether the options go by the very relay.json that is in the directory ``path``."""
        stamp = self._read[0]
        return stamp is not None and stamp == _stamp(f"{path}/{RELAY_JSON}")

    def current(self, held: Held) -> Options:
        """Return the options now; they are made anew only when relay.json has changed."""
        stamp, options = self._read
        now = stamp_of(held)
        if options is None or now != stamp:
            # RACE: one that is published after this stamp has another, and is read next time.
            options = decide((told(held) if now else None) or NOTHING_TOLD, self._own)
            self._read = (now, options)
        return options

    def doubt(self) -> None:
        """Take note of an answer that a watch has not told of.

        After two in a row, their runner does not signal, whatever relay.json says: one that was
        killed has left it. That is believed again when it changes.
        """
        self.unheard += 1
        stamp, options = self._read
        if self.unheard > 1 and options is not None:
            self._read = (stamp, options._replace(signals=False))


def own_texts(environ: Mapping[str, str]) -> Own:
    """Return what an environment says about a writer's settings."""
    return tuple(map(environ.get, ENVIRONMENT_NAMES))


def told(held: Held) -> Optional[Told]:
    """Read relay.json; ``None`` where there is none, or (logged once) one that cannot be used."""
    try:
        fd = os.open(RELAY_JSON, _OPEN, dir_fd=held.fd)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = os.read(fd, MAX_RELAY_JSON + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_RELAY_JSON:
        _warn_once(f"{held.path!r}: relay.json is larger than {MAX_RELAY_JSON} bytes; not used")
        return None
    try:
        body = strictjson.load(data)
    except strictjson.Fault as fault:
        _warn_once(f"{held.path!r}: relay.json cannot be understood and is not used: {fault}")
        return None
    if not isinstance(body, dict) or body.get("protocol") != PROTOCOL:
        _warn_once(f"{held.path!r}: relay.json speaks another protocol; it is not used")
        return None
    settings, features = body.get("settings"), body.get("features")
    if not isinstance(features, list):
        features = []
    return Told(
        _settings(settings),
        _tools(body.get("tools")),
        _max_request(settings),
        cancels=CANCELS in features,
        signals=SIGNALS in features,
    )


def decide(told: Told, own: Own) -> Options:
    """Return the options that follow from relay.json and the writer's own environment."""
    # Most writers' environments say nothing, and then the runner has decided already: reading the
    # contract would double the start of `relay call`.
    values = None if any(own) else _as_told(told)
    if values is None:
        values = _resolve(told, own)
    poll, poll_max, grow_after, timeout, max_response, flag, mode = values
    # A mode of `watch` beats the flag's ordinary value; nothing beats a flag that was killed.
    watch = mode != "poll" and (flag or (mode == "watch" and not _switched_off(told)))
    return Options(
        poll / 1000,
        poll_max / 1000,
        grow_after,
        timeout / 1000,
        max_response,
        watch,
        told.max_request,
        told.cancels,
        told.signals,
    )


def _switched_off(told: Told) -> bool:
    value, layer = told.settings.get("RELAY_RESPONSE_WATCH_ENABLED", (None, ""))
    return value is False and layer in _ABOVE


def _as_told(told: Told) -> Optional[List[Any]]:
    """Return the values that relay.json gives, where it gives all, and nothing is left to judge."""
    values = [told.settings.get(name, (None, ""))[0] for name in NAMES]
    for value, (low, high) in zip(values, SURELY_IN_RANGE):
        if type(value) is not int or not low <= value <= high:
            return None
    flag, mode = values[5:]
    known = type(flag) is bool and mode in ("auto", "watch", "poll") and values[0] <= values[1]
    return values if known else None


def _resolve(told: Told, own: Own) -> List[Any]:
    """Resolve by the contract, as every other process of the deployment does."""
    from relayconf.contract.reading import load_installed  # noqa: PLC0415 - see decide
    from relayconf.layers import Entry, Layer  # noqa: PLC0415
    from relayconf.problems import STRICT_CODES  # noqa: PLC0415
    from relayconf.resolve import resolve  # noqa: PLC0415

    contract = load_installed("relay")
    if contract is None:
        from relay.client import declared  # noqa: PLC0415

        contract = declared.CONTRACT
    below: List[Entry] = []
    above: List[Entry] = []
    for name, (value, layer) in told.settings.items():
        entry = Entry(name, _text(contract.settings[name], value), RELAY_JSON)
        (above if layer in _ABOVE else below).append(entry)
    set_here = [
        Entry(name, text, "environment")
        for name, text in zip(ENVIRONMENT_NAMES, own)
        if text is not None
    ]
    layers = [
        Layer("file", tuple(below)),
        Layer("environment", tuple(set_here)),
        Layer("override", tuple(above)),
    ]
    resolution = resolve(contract, layers, only=NAMES)
    for problem in resolution.problems:
        if problem.code in STRICT_CODES:
            _warn_once(problem.line())
    return [resolution.settings[name].value for name in NAMES]


def _text(setting: Setting, value: Any) -> str:
    """Return the text that means a canonical JSON value to the setting's grammar."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text}ms" if setting.type == "duration" and type(value) is int else text


def _settings(body: Any) -> Dict[str, Tuple[Any, str]]:
    if not isinstance(body, dict):
        return {}
    found = {}
    for name in NAMES:
        entry = body.get(name)
        if isinstance(entry, dict) and isinstance(entry.get("layer"), str):
            value = entry.get("value")
            if isinstance(value, (bool, int, float, str)):
                found[name] = (value, entry["layer"])
    return found


def _max_request(settings: Any) -> Optional[int]:
    entry = settings.get("RELAY_MAX_REQUEST_BYTES") if isinstance(settings, dict) else None
    value = entry.get("value") if isinstance(entry, dict) else None
    return value if type(value) is int and value > 0 else None


def _tools(body: Any) -> Tuple[Dict[str, Any], ...]:
    if not isinstance(body, list):
        return ()
    return tuple(t for t in body if isinstance(t, dict) and isinstance(t.get("name"), str))


def stamp_of(held: Held) -> Optional[_Stamp]:
    """Return what changes with relay.json; ``None`` where there is none."""
    return _stamp(RELAY_JSON, held.fd)


def _stamp(path: str, dirfd: Optional[int] = None) -> Optional[_Stamp]:
    try:
        found = os.stat(path, dir_fd=dirfd, follow_symlinks=False)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


_warned: Set[str] = set()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        from logging import getLogger  # noqa: PLC0415 - only where there is something to say

        getLogger("relay").warning(text)
