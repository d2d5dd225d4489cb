"""Proof across hosts, from what a store lists and what this host knows: never better than known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayconf.fleet.engine import GONE_AFTER_MS, InstanceRecord, Standing
from relayconf.fleet.proof import DEAD, NOT_YET, STARTED, UNCONNECTED, FleetProof, Proving
from relayconf.fleet.record import Key, Position
from relayconf.instances.listing import Seen

KEY: Key = ("app", "APP_FAST", "kill", None, None)
CHANGE = Position("e", 5)
NOW = Standing(Position("e", 5, "head"), 0)
BACK = InstanceRecord("b", "app", "blue", 7, Position("e", 5), names=("APP_FAST",))
SEEN = Seen("s", "app", 9, "here", 0, None, restart_only=False)


def look(
    *records: InstanceRecord,
    live: tuple[Seen, ...] = (),
    dead: tuple[str, ...] = (),
    standing: Standing = NOW,
    settling: bool = False,
    key: Key = KEY,
) -> FleetProof:
    return Proving([key], CHANGE).look(records, standing, live, dead, settling=settling)


class TestWhoCounts:
    def test_all_have_applied_it(self) -> None:
        """Each one that declares the setting goes by the change: 0."""
        other = replace(BACK, id="c", names=("APP_N",), applied=Position("e", 1))
        proof = look(BACK, other)
        assert (0, ["b"]) == (proof.code, [witness.id for witness in proof.witnesses])

    def test_nobody_declares_it(self) -> None:
        """Instances of others are nobody: 4."""
        assert 4 == look(replace(BACK, target="web")).code

    @pytest.mark.parametrize("position", [Position("e", 4), Position("other", 9), Position()])
    def test_one_is_behind(self, position: Position) -> None:
        """An earlier revision, and any revision of another history, is not the change: 3."""
        proof = look(BACK, replace(BACK, id="c", applied=position))
        assert (3, [("c", NOT_YET)]) == (proof.code, [(w.id, w.why) for w in proof.missing])

    def test_what_it_cannot_go_by(self) -> None:
        """One that refuses a setting, or waits for its restart, has not applied it."""
        for record in (
            replace(BACK, refused=("APP_FAST",)),
            replace(BACK, pending_restart=("APP_FAST",)),
        ):
            proof = look(record)
            assert (3, True) == (proof.code, "APP_FAST" in proof.missing[0].why)

    @pytest.mark.parametrize("age_ms", [0, GONE_AFTER_MS, GONE_AFTER_MS + 1, 86_000_000])
    def test_silence_is_no_proof(self, age_ms: int) -> None:
        """However long one was not heard of, it is missing, by name."""
        proof = look(BACK, replace(BACK, id="c", applied=Position("e", 4), age_ms=age_ms))
        assert (3, age_ms > GONE_AFTER_MS) == (proof.code, proof.missing[0].gone)

    def test_a_death_here_is_known(self) -> None:
        """What died before it applied the change is named so, and waiting longer is in vain."""
        proof = look(replace(BACK, applied=Position("e", 4)), dead=("b",))
        assert (3, DEAD, True) == (proof.code, proof.missing[0].why, proof.over)

    def test_a_process_here_without_a_connection(self) -> None:
        """One that the store does not list has not applied it; once listed, its word counts."""
        assert (3, UNCONNECTED) == (look(live=(SEEN,)).code, look(live=(SEEN,)).missing[0].why)
        assert 0 == look(replace(BACK, id="s"), live=(SEEN,)).code

    def test_one_here_of_another_deployment(self) -> None:
        """What is listed and not meant is nobody, also where it lives beside the command."""
        key: Key = ("app", "APP_FAST", "kill", "prod", None)
        listed = replace(BACK, id="s", deployment="staging", applied=Position())
        assert 4 == look(listed, live=(SEEN,), key=key).code
        assert 3 == look(live=(SEEN,), key=key).code

    def test_one_that_cannot_write_here(self) -> None:
        """It is known by its process id on this host, and by its word on the server."""
        silent = replace(SEEN, id="silent-9", silent=True)
        assert 3 == look(live=(silent,)).code
        assert 0 == look(replace(BACK, host="here", pid=9), live=(silent,)).code

    def test_while_the_server_is_away(self) -> None:
        """What this host's processes have applied of the queue is told, and is no proof."""
        connected = replace(SEEN, fleet={"pending": ["x"]})
        late = replace(SEEN, id="t", pid=10, fleet={"pending": []})
        proof = Proving([KEY], CHANGE).here([connected, late], ["x"])
        assert (3, ["t"]) == (proof.code, [witness.id for witness in proof.missing])

    def test_a_command_that_took_its_settings_at_its_start(self) -> None:
        """It never looks again, so that waiting is over at once."""
        proof = look(live=(replace(SEEN, restart_only=True),))
        assert (3, STARTED, True) == (proof.code, proof.missing[0].why, proof.over)

    def test_one_deployment(self) -> None:
        """A change for one deployment concerns the instances of that one alone."""
        key: Key = ("app", "APP_FAST", "kill", "prod", None)
        late = replace(BACK, id="c", applied=Position("e", 4), deployment="staging")
        assert 4 == look(late, key=key).code
        assert 3 == look(replace(late, deployment="prod"), key=key).code


class TestTheStore:
    @pytest.mark.parametrize("now", [Position("other", 9), Position("e", 4), Position()])
    def test_one_that_lost_the_change_proves_nothing(self, now: Position) -> None:
        """Emptied or gone back, its list means nothing: 3, also where it lists nobody."""
        standing = Standing(now, 0)
        assert (3, True) == (look(BACK, standing=standing).code, look(standing=standing).over)

    def test_one_that_was_just_emptied_is_given_time(self) -> None:
        """Instances may not be back on its list: neither 0 nor 4."""
        assert (3, 3) == (look(BACK, settling=True).code, look(settling=True).code)

    @given(
        st.lists(
            st.builds(
                InstanceRecord,
                st.uuids().map(str),
                st.sampled_from(["app", "web"]),
                st.just("blue"),
                st.integers(1, 99),
                st.builds(Position, st.sampled_from(["e", "f", ""]), st.integers(0, 9)),
                names=st.sampled_from([(), ("APP_FAST",), ("APP_N",)]),
                refused=st.sampled_from([(), ("APP_FAST",)]),
                age_ms=st.integers(0, 100_000),
            ),
            max_size=6,
        )
    )
    def test_nothing_but_all_is_0(self, records: list[InstanceRecord]) -> None:
        """Whatever is listed: 0 exactly where somebody declares it, and all who do have it."""
        mine = [r for r in records if r.target == "app" and "APP_FAST" in r.names]
        done = [r for r in mine if r.applied[:2] >= CHANGE[:2] and r.applied.epoch == "e"]
        done = [r for r in done if "APP_FAST" not in r.refused]
        wanted = 4 if not mine else 0 if len(done) == len(mine) else 3
        assert wanted == look(*records).code
