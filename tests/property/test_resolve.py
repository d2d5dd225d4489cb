"""Whatever stands in the layers, a resolution exists, is in range, and says why."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relayconf.contract import reading as contract
from relayconf.errors import StrictError
from relayconf.layers import ORDER, Entry, Layer
from relayconf.report import refuse
from relayconf.resolve import Resolution, resolve
from relayconf.rules import broken
from relayconf.setting import ORDERED_TYPES
from relayconf.values import parse, render

RELAY: Any = contract.load_installed("relay")
NAMES = sorted(
    [
        *RELAY.settings,
        *(old for s in RELAY.settings.values() for old in s.legacy),
        "RELAY_X",
        "HOME",
    ]
)
LIKELY = st.sampled_from(
    ["", " ", "1", "-1", "5s", "10ms", "24h", "1h30m", "4MiB", "true", "OFF", "25%", "poll", "junk"]
)
TEXTS = LIKELY | st.integers(-(10**12), 10**12).map(str) | st.text(max_size=20)


@st.composite
def layers(draw: st.DrawFn) -> list[Layer]:
    """Any texts under any names in any of the layers, lowest first."""
    kinds = [kind for kind in ORDER[1:] if draw(st.booleans())]
    pairs = st.lists(st.tuples(st.sampled_from(NAMES), TEXTS), max_size=12)
    return [
        Layer(kind, tuple(Entry(n, t, f"{kind}:{i}") for i, (n, t) in enumerate(draw(pairs))))
        for kind in kinds
    ]


def check_consistent(resolution: Resolution) -> None:
    values = resolution.values
    for effective in resolution.settings.values():
        setting, value = effective.setting, effective.value
        if value is None:
            continue
        parsed = parse(setting, render(setting, value))
        assert value == getattr(parsed, "value", None)
        if setting.type in ORDERED_TYPES:
            assert isinstance(value, (int, float))
            assert setting.minimum is None or value >= setting.minimum
            assert setting.maximum is None or value <= setting.maximum
    for rule in RELAY.rules:
        low, high = values[rule.low], values[rule.high]
        assert isinstance(low, (int, float))
        assert isinstance(high, (int, float))
        assert not broken(rule, low, high)


class TestAnyLayers:
    @given(layers())
    def test_every_value_is_valid_in_range_and_within_the_rules(self, given: list[Layer]) -> None:
        """No text anywhere leads to a value that the declaration does not allow."""
        check_consistent(resolve(RELAY, given))

    @given(layers())
    def test_the_same_layers_give_the_same_resolution(self, given: list[Layer]) -> None:
        """Resolving is a function of its layers."""
        assert resolve(RELAY, given) == resolve(RELAY, given)

    @given(layers())
    def test_one_candidate_is_in_force_or_the_default_is(self, given: list[Layer]) -> None:
        """The stack accounts for the value: one text in force, or none and the default."""
        for effective in resolve(RELAY, given).settings.values():
            in_force = [c.layer for c in effective.stack if c.verdict == "in force"]
            assert ([] if effective.layer == "default" else [effective.layer]) == in_force

    @given(layers())
    def test_strict_refuses_exactly_what_is_not_used_as_written(self, given: list[Layer]) -> None:
        """Strict mode and the statuses never disagree."""
        resolution = resolve(RELAY, given)
        wrong = any(
            e.status in ("invalid", "repaired", "clamped") for e in resolution.settings.values()
        )
        try:
            refuse(resolution.problems)
        except StrictError:
            assert wrong
        else:
            assert not wrong
