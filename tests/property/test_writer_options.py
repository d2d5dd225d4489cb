"""The short way of a writer's options, without the contract, gives what the long way gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relay.client import options
from relay.client.options import NAMES, Told, decide, own_texts
from relayconf.contract.reading import load_installed
from relayconf.rules import broken
from relayconf.setting import Contract, Setting


def contract() -> Contract:
    """Return the relay's contract."""
    found = load_installed("relay")
    assert found is not None
    return found


CONTRACT = contract()
ANYTHING = st.none() | st.booleans() | st.integers() | st.text()
LAYERS = ("default", "file", "env-file", "environment", "option", "override", "fleet")


def canonical(setting: Setting) -> st.SearchStrategy[Any]:
    """Return any value that a runner may tell for a setting: valid, and in its range."""
    if setting.type == "boolean":
        return st.booleans()
    if setting.type == "enum":
        return st.sampled_from(setting.choices)
    low, high = setting.minimum, setting.maximum
    return st.integers(0 if low is None else int(low), 10**9 if high is None else int(high))


def kept(told: Told) -> bool:
    """Tell whether a runner could have told it: its rules are kept."""
    values = {name: value for name, (value, _) in told.settings.items()}
    rules = [rule for rule in CONTRACT.rules if rule.low in values and rule.high in values]
    return not any(broken(rule, values[rule.low], values[rule.high]) for rule in rules)


TOLD = st.fixed_dictionaries(
    {name: st.tuples(canonical(CONTRACT.settings[name]), st.sampled_from(LAYERS)) for name in NAMES}
).map(lambda settings: Told(settings, ()))


class TestShortWay:
    @given(TOLD.filter(kept))
    def test_is_the_long_way(self, told: Told) -> None:
        """Whatever a runner tells, a writer with an empty environment understands it one way."""
        short = options._as_told(told)
        assert short is None or short == options._resolve(told, own_texts({}))

    @given(
        st.dictionaries(
            st.sampled_from(NAMES),
            st.tuples(
                st.none() | st.booleans() | st.integers() | st.text(), st.sampled_from(LAYERS)
            ),
        ),
        st.dictionaries(st.sampled_from(options.ENVIRONMENT_NAMES), st.text()),
    )
    def test_nothing_makes_a_writer_fail(
        self, settings: dict[str, tuple[Any, str]], environ: dict[str, str]
    ) -> None:
        """Any relay.json and any environment give options that are in range and keep the rules."""
        found = decide(Told(settings, ()), own_texts(environ))
        assert 0.01 <= found.poll <= found.poll_max <= 300
        assert 0.1 <= found.timeout <= 24 * 60 * 60
        assert 1024 <= found.max_response <= 256 * 1024 * 1024
