"""A program that follows its settings, started by ``relayconf run``: one process, one answer."""

from __future__ import annotations

import sys
from typing import Any

import pytest

RUN = ("-m", "relayconf", "run", "--target", "service:AppSettings", "--", sys.executable)


@pytest.fixture
def wrapped(place: Any) -> Any:
    """Return the service, started by ``relayconf run``."""
    program = place.start(*RUN, "service.py")
    place.settle()
    return program


def test_it_counts_by_what_it_follows(place: Any, wrapped: Any) -> None:
    """A kill that it has applied is proven, and nothing of it waits for a restart."""
    done = place.kill("--wait", "20s", "--json")
    assert 0 == done.code
    (instance,) = done.answer["instances"]
    assert (wrapped.process.pid, True) == (instance["pid"], instance["applied"])
    (seen,) = place.status()["instances"]
    assert (False, []) == (seen["restart_only"], seen["pending_restart"])


def test_it_is_a_command_again_once_it_stops_following(place: Any, wrapped: Any) -> None:
    """What it took at its start is all that it goes by then."""
    wrapped.tell("close")
    wrapped.until()
    done = place.kill("--wait", "100ms")
    assert (3, True) == (done.code, "restart it" in done.out)


def test_what_was_killed_at_its_start_stays_in_its_environment(place: Any) -> None:
    """A kill is proven, again and again; its restore is not, before the process starts anew."""
    place.kill()
    program = place.start(*RUN, "service.py")
    place.settle()
    assert 0 == place.kill("--wait", "20s").code
    done = place.restore("--wait", "300ms")
    assert (3, True) == (done.code, "waits for a restart: APP_FAST" in done.out)
    (seen,) = place.status()["instances"]
    assert (program.process.pid, ["APP_FAST"]) == (seen["pid"], seen["pending_restart"])
    assert 0 == place.kill("--wait", "20s").code
    assert [] == place.status()["instances"][0]["pending_restart"]


def test_a_child_that_follows_is_another_process(place: Any) -> None:
    """Whether the command itself goes by anything newer is not known: it keeps the answer at 3."""
    shell = f"{sys.executable} service.py; exit"
    run = ("-m", "relayconf", "run", "--target", "service:AppSettings", "--", "sh", "-c", shell)
    place.start(*run)
    place.settle()
    place.until(lambda: 2 == len(place.status()["instances"]))
    assert 3 == place.kill("--wait", "200ms").code
