"""Shares: which keys a flag in rollout is on for."""

from __future__ import annotations

import hashlib

import pytest

from relayconf.setting import Value
from relayconf.share import decide, share

KEYS = [f"session-{number}" for number in range(4000)]


class TestShare:
    @pytest.mark.parametrize(
        ("value", "hundredths"),
        [(True, 10_000), (False, 0), ("0%", 0), ("100%", 10_000), ("12.25%", 1_225), ("0.1%", 10)],
    )
    def test_is_exact(self, value: Value, hundredths: int) -> None:
        """A rollout stands for a whole number of hundredths of a percent."""
        assert hundredths == share(value)

    @pytest.mark.parametrize("value", ["25", "101%", "true", 1, 0.5, ("25%",)])
    def test_refuses_what_is_no_rollout(self, value: Value) -> None:
        """Only a canonical value of a rollout has a share."""
        with pytest.raises(ValueError, match="not a rollout value"):
            share(value)


class TestDecide:
    def test_published_vectors(self) -> None:
        """The answer is that of SHA-256, as any language can compute it."""
        point = int.from_bytes(hashlib.sha256(b"FLAG:key").digest()[:8], "big")
        below = point * 10_000 // 2**64
        assert not decide("FLAG", "key", f"{below // 100}.{below % 100:02d}%")
        assert decide("FLAG", "key", f"{(below + 1) // 100}.{(below + 1) % 100:02d}%")

    def test_fixed_answers(self) -> None:
        """An upgrade never moves a key: these answers are for ever."""
        on = [n for n in range(12) if decide("RELAY_REMOTE_WATCH_ENABLED", KEYS[n], "25%")]
        assert [0, 1, 7, 8, 9, 11] == on

    @pytest.mark.parametrize("value", [True, "100%"])
    def test_all(self, value: Value) -> None:
        """Everything is on at 100%, as with true."""
        assert all(decide("FLAG", key, value) for key in KEYS)

    @pytest.mark.parametrize("value", [False, "0%"])
    def test_none(self, value: Value) -> None:
        """Nothing is on at 0%, as with false."""
        assert not any(decide("FLAG", key, value) for key in KEYS)

    @pytest.mark.parametrize("percent", [1, 10, 25, 50, 90])
    def test_is_uniform(self, percent: int) -> None:
        """About as many keys are on as the share says: within five standard deviations."""
        on = sum(decide("FLAG", key, f"{percent}%") for key in KEYS)
        part = percent / 100
        spread = (len(KEYS) * part * (1 - part)) ** 0.5
        assert abs(on - len(KEYS) * part) < 5 * spread

    def test_is_monotonic(self) -> None:
        """Raising a share keeps every key that was on."""
        before: set[str] = set()
        for hundredth in range(0, 10_001, 625):
            value = f"{hundredth // 100}.{hundredth % 100:02d}%"
            now = {key for key in KEYS[:500] if decide("FLAG", key, value)}
            assert before <= now
            before = now

    def test_flags_are_independent(self) -> None:
        """Two flags at 50% do not pick the same keys."""
        both = sum(decide("A", key, "50%") and decide("B", key, "50%") for key in KEYS)
        assert abs(both - len(KEYS) / 4) < 150

    def test_names_that_are_not_utf8(self) -> None:
        """A directory's name in another encoding counts by its bytes, and never fails."""
        point = int.from_bytes(hashlib.sha256(b"FLAG:\xff").digest()[:8], "big")
        assert (point < 2**63) is decide("FLAG", "\udcff", "50%")
        assert decide("FLAG", "\ud800", "50%") in {True, False}
