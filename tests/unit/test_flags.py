"""Asking a flag: by attribute, by name, for one key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from enum import Enum
from typing import Annotated

import pytest
from pydantic import BaseModel
from pydantic_settings import SettingsConfigDict

from relayconf import load, testing
from relayconf.declare import Flag, Rollout
from relayconf.errors import FlagError
from relayconf.expiry import NOTICE_DAYS, expiry
from relayconf.flags import is_on
from relayconf.setting import Flag as FlagRecord
from relayconf.settings import Settings
from relayconf.share import decide


class Path(Enum):
    OLD = "old"
    NEW = "new"


def release(*, kill: bool | str = False) -> Flag:
    return Flag(kind="release", kill=kill, owner="shop", expires="2027-06-01")


class Inner(BaseModel):
    fast: Annotated[bool, release()] = True


class ShopSettings(Settings, target="shop"):
    model_config = SettingsConfigDict(env_prefix="SHOP_", env_nested_delimiter="__")
    cart: Annotated[bool, release()] = False
    search: Annotated[Rollout, release()] = "25%"
    path: Annotated[Path, release(kill="old")] = Path.OLD
    name: str = "shop"
    inner: Inner = Inner()


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with testing.isolated(ShopSettings):
        yield


class TestIsOn:
    @pytest.mark.parametrize("name", ["cart", "SHOP_CART"])
    def test_names(self, name: str) -> None:
        """A flag is asked by its field's name or by its variable's."""
        assert False is is_on(ShopSettings(), name)
        assert True is is_on(ShopSettings(cart=True), name)

    def test_nested(self) -> None:
        """A flag in a nested model is asked by its path or its variable."""
        assert [True, True] == [
            is_on(ShopSettings(), name) for name in ("inner.fast", "SHOP_INNER__FAST")
        ]

    def test_every_source(self) -> None:
        """What holds the settings, a snapshot, an instance and a resolution answer alike."""
        held = load(ShopSettings)
        sources = (held, held.snapshot, held.current, held.snapshot.resolution)
        wanted = decide("SHOP_SEARCH", "ann", "25%")
        assert [wanted] * 4 == [is_on(source, "SHOP_SEARCH", key="ann") for source in sources]

    def test_key_of_a_switch(self) -> None:
        """A flag that is on or off is so for every key."""
        assert [False, True] == [
            is_on(ShopSettings(cart=on), "cart", key="x") for on in (False, True)
        ]

    def test_share(self) -> None:
        """A share is on for about so many keys, the same ones each time, and more as it grows."""
        keys = [f"session-{n}" for n in range(2000)]

        def on(share: str) -> set[str]:
            settings = ShopSettings(search=share)
            return {key for key in keys if is_on(settings, "search", key=key)}

        quarter, half = on("25%"), on("50%")
        assert 400 < len(quarter) < 600
        assert quarter < half
        assert quarter == on("25%")
        assert (set(), set(keys)) == (on("0%"), on("100%"))

    def test_ends_of_a_rollout_need_no_key(self) -> None:
        """0% and 100% are answers without a key, and so are true and false."""
        found = [is_on(ShopSettings(search=s), "search") for s in ("0%", "100%", "off", "on")]
        assert [False, True, False, True] == found

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("search", "SHOP_SEARCH is on for 25% of the keys; ask with key="),
            ("path", "SHOP_PATH is enum, which is neither on nor off; read it"),
            ("name", "SHOP_NAME is string, which is neither on nor off; read it"),
            ("serach", "no flag is called serach; did you mean search?"),
            ("SHOP_CRAT", "no flag is called SHOP_CRAT; did you mean SHOP_CART?"),
        ],
    )
    def test_no_answer(self, name: str, said: str) -> None:
        """A question without an answer is refused in words that help."""
        with pytest.raises(FlagError) as caught:
            is_on(ShopSettings(), name)
        assert said == str(caught.value)

    def test_attributes_are_typed(self) -> None:
        """A flag is an attribute with the type that it is declared with."""
        settings = ShopSettings(path="NEW")  # type: ignore[arg-type]  # a text, as in a file
        assert (Path.NEW, "25%", False) == (settings.path, settings.search, settings.cart)


class TestExpiry:
    @pytest.mark.parametrize(
        ("today", "state", "days"),
        [
            ("2026-01-01", "ahead", 365),
            ("2026-12-01", "ahead", 31),
            ("2026-12-02", "due", NOTICE_DAYS),
            ("2027-01-01", "due", 0),
            ("2027-01-02", "expired", -1),
            ("2027-01-31", "expired", -NOTICE_DAYS),
            ("2027-02-01", "overdue", -31),
        ],
    )
    def test_states(self, today: str, state: str, days: int) -> None:
        """The date is the last good day; a month before it is due, a month after it overdue."""
        found = expiry(
            FlagRecord("release", False, "shop", "2027-01-01"), date.fromisoformat(today)
        )
        assert (state, days, days < 0) == (found.state, found.days, found.over)

    def test_permanent(self) -> None:
        """A flag with a reason instead of a date is never over."""
        found = expiry(FlagRecord("kill-switch", False, "shop", None, "a switch"), date.max)
        assert ("permanent", None, False) == (found.state, found.days, found.over)
