"""Breakers: distinct reporters within a window trip one, and the flag is tried again later."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from relayconf.contract.reading import load_installed
from relayconf.errors import RelayconfError
from relayconf.live.breaker import AUTO, Breaker, Limits, limits_of, trip
from relayconf.overrides import changes
from relayconf.overrides.document import parse
from relayconf.overrides.store import Store
from relayconf.state.directory import make

LIMITS = Limits("demotion", at_least=3, share=0.2, window=300.0)


class TestCounting:
    def test_enough_distinct_reporters_trip_it(self) -> None:
        """Three relays do; one relay three times does not."""
        breaker = Breaker(LIMITS)
        assert [False] * 3 == [breaker.report("a", now=n, among=5) for n in range(3)]
        assert [False, True] == [breaker.report(who, now=3, among=5) for who in "bc"]

    def test_the_share_counts_too(self) -> None:
        """Three of thirty are too few; six of thirty are enough."""
        breaker = Breaker(LIMITS)
        said = [breaker.report(who, now=0, among=30) for who in "abcdef"]
        assert [False] * 5 + [True] == said

    def test_what_is_older_than_the_window_is_forgotten(self) -> None:
        """Reports that trickle in do not add up for ever."""
        breaker = Breaker(LIMITS)
        said = [breaker.report(n, now=n * 151.0, among=3) for n in range(20)]
        assert [False] * 20 == said
        assert 1 == breaker.reporters(now=20 * 151.0 + 140)

    def test_a_trip_begins_anew(self) -> None:
        """After it has tripped it takes as many again."""
        breaker = Breaker(LIMITS)
        said = [breaker.report(who, now=0, among=3) for who in "abcdef"]
        assert [False, False, True] * 2 == said

    def test_it_stays_away_longer_each_time(self) -> None:
        """One window, then twice as long, with a bound; after a long calm one window again."""
        breaker = Breaker(LIMITS)
        now, ends = 0.0, []
        for _ in range(7):
            for who in "abc":
                breaker.report(who, now=now, among=3)
            ends.append(breaker.ttl_ms() // 300_000)
            now += breaker.ttl_ms() / 1000 + 10
        assert [1, 2, 4, 8, 12, 12, 12] == ends
        for who in "abc":
            breaker.report(who, now=now + 10_000_000, among=3)
        assert 300_000 == breaker.ttl_ms()


class TestDeclaration:
    def test_the_remote_watch_declares_one(self) -> None:
        """Its numbers are those of the contract."""
        relay = load_installed("relay")
        assert relay is not None
        assert LIMITS == limits_of(relay.settings["RELAY_REMOTE_WATCH_ENABLED"])
        assert limits_of(relay.settings["RELAY_POLL_MS"]) is None


class TestTripping:
    @pytest.fixture
    def flag(self) -> Any:
        """Return the contract of a relay and its flag with a breaker."""
        relay = load_installed("relay")
        assert relay is not None
        return relay, relay.settings["RELAY_REMOTE_WATCH_ENABLED"]

    def test_auto_kills_for_a_while(self, tmp_path: Path, flag: Any) -> None:
        """The kill ends by itself, and the history says who made it and why."""
        path = tmp_path / "state"
        trip(str(path), *flag, reason="3 of 5 relays were demoted", ttl_ms=300_000)
        (kill,) = parse((path / "overrides.json").read_bytes()).overrides
        assert (AUTO, "kill", True) == (kill.actor, kill.kind, kill.end is not None)

    def test_somebody_elses_kill_stays(self, tmp_path: Path, flag: Any) -> None:
        """One that an operator has made does not end with a breaker's."""
        path = tmp_path / "state"
        directory = make(str(path))
        assignment = changes.Assignment("relay", flag[1].name, "false")
        because = changes.Because("an incident", "anna")
        Store(directory).change(changes.kill([assignment], because))
        directory.close()
        trip(str(path), *flag, reason="again", ttl_ms=1)
        (kill,) = parse((path / "overrides.json").read_bytes()).overrides
        assert ("anna", None) == (kill.actor, kill.end)

    def test_many_at_once_kill_once(self, tmp_path: Path, flag: Any) -> None:
        """Processes that count the same harm at once make one kill, and one line of the audit."""
        path = str(tmp_path / "state")
        with ThreadPoolExecutor(8) as pool:
            for number in range(24):
                pool.submit(trip, path, *flag, reason=f"by {number}", ttl_ms=300_000)
        assert 1 == len((tmp_path / "state" / "audit.jsonl").read_text().splitlines())

    def test_a_longer_one_takes_the_place_of_a_shorter_one(self, tmp_path: Path, flag: Any) -> None:
        """A flag that trips again stays away longer, also where another process tripped first."""
        path = tmp_path / "state"
        ends = []
        for ttl_ms in (300_000, 600_000, 300_000):
            trip(str(path), *flag, reason="again", ttl_ms=ttl_ms)
            (kill,) = parse((path / "overrides.json").read_bytes()).overrides
            ends.append(kill.end)
        assert ends[0] != ends[1] == ends[2]

    def test_only_a_flag_has_a_safe_value(self, tmp_path: Path, flag: Any) -> None:
        """Anything else is refused."""
        relay, _ = flag
        setting = relay.settings["RELAY_POLL_MS"]
        with pytest.raises(RelayconfError, match="is no flag"):
            trip(str(tmp_path), relay, setting, reason="r", ttl_ms=1)
