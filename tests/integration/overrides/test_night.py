"""What somebody in a hurry types, and what the commands make of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

FOLLOWS_RELAY = """
import sys
from relay.settings import RelaySettings
from relayconf import load
load(RelaySettings).follow()
print("{}", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("text", ["5", "30", "999"])
def test_a_ttl_without_a_unit_is_refused(place: Any, text: str) -> None:
    """Five of something is no five milliseconds: such a kill would be over before it is read."""
    done = place.kill("--ttl", text)
    assert (2, True) == (done.code, f"{text}m" in done.err)
    assert not (place.state / "overrides.json").exists()


def test_a_name_without_its_end_is_nearly_the_name(place: Any) -> None:
    """The real name is suggested, also where a process that is live declares it."""
    for _ in range(2):
        done = place.run("kill", "RELAY_LOCAL_WATCH", "--reason", "r")
        assert (2, True) == (done.code, "did you mean RELAY_LOCAL_WATCH_ENABLED?" in done.err)
        # A relay that is live declares every name a second time.
        place.start("-c", FOLLOWS_RELAY)


def test_a_kill_that_ends_sooner_than_the_one_there_says_so(place: Any) -> None:
    """The last word counts; whose kill it cuts short is said, before and after."""
    place.kill("--incident", "INC-1", "--actor", "ann")
    for words in (("--dry-run",), ()):
        done = place.kill("--ttl", "1h", *words)
        assert 0 == done.code
        assert "killed without an end (by ann, INC-1)" in done.err
    assert "" == "".join(
        line for line in place.kill("--ttl", "2h").err.splitlines(True) if "without an end" in line
    )
    assert "killed until" in place.kill("--ttl", "1h").err


def test_a_dry_run_spells_values_as_they_are_written(place: Any) -> None:
    """True and false, as in every file and every other command."""
    place.start()
    done = place.kill("--dry-run")
    assert "APP_FAST is true now" in done.out


def test_a_file_where_the_instances_are_to_be(place: Any) -> None:
    """The kill is in force; that nobody can be found is said, ends in time, and is no success."""
    place.state.mkdir(mode=0o700)
    (place.state / "instances").touch()
    done = place.kill("--wait", "100ms", timeout=60)
    assert (3, True) == (done.code, "nobody can be found" in done.err)
    assert ["kill"] == [flag["kind"] for flag in place.status()["flags"]]
    assert (0, True) == ((done := place.run("history")).code, "APP_FAST" in done.out)


def test_status_says_whose_override_it_is(place: Any) -> None:
    """Whoever comes second sees who, why, for which incident and until when, and no more."""
    place.kill("--incident", "INC-1", "--actor", "ann", "--ttl", "1h")
    place.command("set", "APP_N=7", "--reason", "slower", "--actor", "bob")
    out = place.command("status").out
    assert re.search(r"APP_FAST was killed by ann for INC-1 at \S+Z until \S+Z: a test\n", out)
    assert re.search(r"APP_N was set by bob at \S+Z: slower\n", out)
    place.command("restore", "--all", "--reason", "r")
    assert " was " not in place.command("status").out


def test_status_takes_an_entry_that_says_next_to_nothing(place: Any, a_kill: Any) -> None:
    """One that somebody wrote by hand is named with what it has."""
    place.write({**a_kill, "reason": "by\x1b[31mhand"})
    assert "APP_FAST was killed: by\\x1b[31mhand\n" in place.command("status").out
