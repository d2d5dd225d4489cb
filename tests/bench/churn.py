"""What sessions that appear and go by the thousand do to the calls of a session that stays.

One session of a root is called in a closed loop with short pauses; meanwhile others are made, all
at once, and removed again. Run it as ``python -m tests.bench.churn``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
import time
from collections.abc import Callable

from relay.bench.measure import Result, percentile, shortened
from relay.bench.sides import serving, workplace
from relay.client import Writer

COUNTS = (1_000, 4_000)

#: Seconds of calls for each phase, and between two calls.
_SECONDS = 2.0
_PAUSE = 0.005


def round_of(writer: Writer, beside: Callable[[], None]) -> list[float]:
    """Call while ``beside`` runs, and return the milliseconds of each call."""
    took = []
    thread = threading.Thread(target=beside)
    thread.start()
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        begun = time.perf_counter()
        writer.call("echo", {"text": "x"})
        took.append((time.perf_counter() - begun) * 1000)
        time.sleep(_PAUSE)
    thread.join()
    return took


def measure(count: int) -> Result:
    """Measure with so many sessions that come and go."""
    result: Result = {}
    with workplace() as place:
        root = os.path.join(place, "root")
        os.makedirs(os.path.join(root, "stays"))
        paths = [os.path.join(root, f"s{number}") for number in range(count)]

        def make() -> None:
            for path in paths:
                os.mkdir(path, 0o700)

        def remove() -> None:
            for path in paths:
                shutil.rmtree(path, ignore_errors=True)

        with serving(place, "--root", root):
            writer = Writer(os.path.join(root, "stays"), environ={})
            for phase, beside in (("calm", lambda: None), ("made", make), ("removed", remove)):
                took = round_of(writer, beside)
                for share in (0.5, 0.99):
                    name = f"{phase}_p{share * 100:.0f}_ms"
                    result[name] = shortened(percentile(took, share))
            remove()
    return result


def main() -> None:
    """Measure each number of sessions."""
    parser = argparse.ArgumentParser(prog="churn", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("counts", nargs="*", type=int, help=f"default: {COUNTS}")
    for count in parser.parse_args().counts or COUNTS:
        print(count, json.dumps(measure(count)), flush=True)


if __name__ == "__main__":
    main()
