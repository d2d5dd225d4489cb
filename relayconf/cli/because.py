"""Who changes an override, and why: the options that kill, set and restore share."""

from __future__ import annotations

import argparse
import os
import pwd

from relayconf.errors import RelayconfError
from relayconf.overrides.changes import Because
from relayconf.setting import Setting
from relayconf.values import Invalid, excerpt, is_blank, parse

#: A bare number below this is no number of milliseconds: who writes 5 means seconds, or minutes.
_SHORTEST_BARE_MS = 1000

_LONGEST_MS = 10 * 365 * 24 * 3600 * 1000


def add_options(parser: argparse.ArgumentParser, *, ends: bool) -> None:
    """Add the options; ``ends`` for a change that may end by itself."""
    parser.add_argument(
        "--reason", required=True, metavar="TEXT", help="why, for those who read the history"
    )
    parser.add_argument("--incident", metavar="ID", help="the incident that this belongs to")
    if ends:
        parser.add_argument(
            "--ttl", metavar="TIME", help="end by itself after this time: 30m, 2h (also suspended)"
        )
    parser.add_argument(
        "--actor", metavar="NAME", help="who asks (your login); recorded as claimed"
    )
    parser.add_argument(
        "--wait",
        metavar="TIME",
        help="wait so long (5s) until every live instance has applied it; exit 3 where one has "
        "not, 4 where none is there",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would change where, and change nothing"
    )
    group = parser.add_argument_group("where a fleet is set (RELAYCONF_FLEET_URL)")
    group.add_argument("--local", action="store_true", help="for this host, and not for the fleet")
    group.add_argument(
        "--only-deployment", metavar="NAME", help="for the instances of one deployment"
    )
    group.add_argument("--only-host", metavar="NAME", help="for the instances on one host")


def because(arguments: argparse.Namespace) -> Because:
    """Return who and why.

    Raises:
        RelayconfError: no reason is given, or a time cannot be read.
    """
    if is_blank(arguments.reason):
        raise RelayconfError("--reason is blank; say why, for those who read the history tomorrow")
    ttl = getattr(arguments, "ttl", None)
    actor = arguments.actor if arguments.actor and not is_blank(arguments.actor) else login()
    return Because(
        _clean(arguments.reason),
        _clean(actor),
        None if arguments.incident is None else _clean(arguments.incident),
        None if ttl is None else milliseconds("--ttl", ttl, least=1),
    )


def seconds_to_wait(arguments: argparse.Namespace) -> float | None:
    """Return how long to wait for proof; ``None`` for not at all.

    Raises:
        RelayconfError: the time cannot be read.
    """
    if arguments.wait is None:
        return None
    return milliseconds("--wait", arguments.wait, least=0) / 1000


def milliseconds(option: str, text: str, *, least: int) -> int:
    """Read a duration as every setting is read; a bare number is milliseconds.

    Raises:
        RelayconfError: it is none, or out of range, or a bare number so small that it must be meant
            in another unit.
    """
    outcome = parse(Setting(option, "duration", unit="ms"), text)
    if isinstance(outcome, Invalid):
        raise RelayconfError(f"{option} {excerpt(text)!r} is not a duration: {outcome.reason}")
    value = outcome.value
    if not isinstance(value, int) or not least <= value <= _LONGEST_MS:
        low = "more than 0" if least else "at least 0"
        raise RelayconfError(f"{option} {excerpt(text)!r} must be {low}, and at most ten years")
    written = text.strip()
    if 0 < value < _SHORTEST_BARE_MS and written.isdigit():
        raise RelayconfError(
            f"{option} {written} would be {written} milliseconds; say the unit: {written}s, "
            f"{written}m or {written}ms"
        )
    return value


def login() -> str:
    """Return who is logged in; under sudo, who called it."""
    if os.geteuid() == 0 and os.environ.get("SUDO_USER"):
        return os.environ["SUDO_USER"]
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def _clean(text: str) -> str:
    """Return a text as the history may hold it: valid UTF-8, of a length that can be read."""
    return text.encode("utf-8", "replace").decode()[:4000]
