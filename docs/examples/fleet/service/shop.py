"""A shop with one flag: it says whether checkout is open, whenever that changes."""

from __future__ import annotations

import sys
import threading
from typing import Annotated

from relayconf import Settings, load
from relayconf.declare import AppliesLive, Clamp, Flag


class ShopSettings(Settings, target="shop", prefix="SHOP_"):
    """What can be set about the shop."""

    checkout: Annotated[
        bool,
        AppliesLive(),
        # Where the shop has heard nothing of the fleet for too long it closes its checkout, instead
        # of going on by what may have been forbidden meanwhile.
        Flag(
            kind="kill-switch", kill=False, owner="shop", why="orders can be stopped", blind="safe"
        ),
    ] = True
    workers: Annotated[int, AppliesLive(), Clamp("1", "64")] = 4


def main() -> None:
    """Follow the settings until the container is stopped."""
    live = load(ShopSettings)

    def say() -> None:
        state = "open" if live.current.checkout else "closed"
        sys.stdout.write(f"checkout is {state}, {live.current.workers} worker(s)\n")
        sys.stdout.flush()

    live.subscribe(lambda _old, _new: say())
    live.follow()
    say()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        live.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
