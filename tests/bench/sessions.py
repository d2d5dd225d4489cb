"""What a flood in one session does to the calls of its neighbours, in one runner.

A victim calls with think time, in one of a hundred sessions; meanwhile another session's writer
floods its own directory from a process of its own, in each of several ways. Rounds with and without
the flood take turns. Run it as ``python -m tests.bench.sessions``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from relay.bench.measure import Result, percentile, shortened
from relay.bench.sides import serving, workplace
from relay.client import Writer

#: What a hostile writer does as fast as it can, with ``d`` its directory.
FLOODS = {
    "requests": """
n = 0
while True:
    n += 1
    with open(f"{d}/t.req.json.tmp.1", "w") as f: f.write('{"toolName":"echo","args":{"text":"x"}}')
    os.rename(f"{d}/t.req.json.tmp.1", f"{d}/r{n}.req.json")
""",
    "renames": """
open(f"{d}/a", "w").close()
while True:
    os.rename(f"{d}/a", f"{d}/b"); os.rename(f"{d}/b", f"{d}/a")
""",
    "request names": """
open(f"{d}/a.req.json", "w").close()
while True:
    for a, b in (("a", "b"), ("b", "a")):
        try: os.rename(f"{d}/{a}.req.json", f"{d}/{b}.req.json")
        except OSError: open(f"{d}/{a}.req.json", "w").close()
""",
    "files": """
n = 0
while True:
    n += 1
    open(f"{d}/f{n % 20000}.tmp.{n}", "w").close()
""",
    "bursts": """
open(f"{d}/a", "w").close()
while True:
    for _ in range(20000):
        os.rename(f"{d}/a", f"{d}/b"); os.rename(f"{d}/b", f"{d}/a")
    time.sleep(1.2)
""",
}

SESSIONS = 100
CALLS = 60
ROUNDS = 3


@contextmanager
def flood(kind: str, folder: str, prefix: list[str]) -> Iterator[None]:
    """Flood a directory until the end of the block."""
    program = f"import os, sys, time\nd = sys.argv[1]\n{FLOODS[kind]}"
    process = subprocess.Popen([*prefix, sys.executable, "-c", program, folder])
    time.sleep(0.5)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def round_of(writer: Writer) -> list[float]:
    """Call with think time, and return the milliseconds of each call."""
    took = []
    for _ in range(CALLS):
        time.sleep(0.02)
        begun = time.perf_counter()
        writer.call("echo", {"text": "x"})
        took.append((time.perf_counter() - begun) * 1000)
    return took


def measure(kind: str, prefix: list[str]) -> Result:
    """Measure one kind of flood."""
    calm: list[float] = []
    flooded: list[float] = []
    with workplace() as place:
        root = os.path.join(place, "root")
        for number in range(SESSIONS):
            os.makedirs(os.path.join(root, f"s{number}"))
        os.makedirs(os.path.join(root, "flood"))
        with serving(place, "--root", root):
            writer = Writer(os.path.join(root, "s7"), environ={})
            round_of(writer)
            for _ in range(ROUNDS):
                calm += round_of(writer)
                with flood(kind, os.path.join(root, "flood"), prefix):
                    flooded += round_of(writer)
                time.sleep(1.5)
    result: Result = {}
    for share in (0.5, 0.99):
        alone, beside = percentile(calm, share), percentile(flooded, share)
        result[f"p{share * 100:.0f}_ms"] = {
            "alone": shortened(alone),
            "beside": shortened(beside),
            "ratio": round(beside / alone, 2),
        }
    return result


def main() -> None:
    """Measure every kind, or those that are named."""
    parser = argparse.ArgumentParser(prog="sessions", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(FLOODS)}")
    parser.add_argument("--flood-as", default="", help="a prefix of the flooding command")
    arguments = parser.parse_args()
    for kind in arguments.kinds or FLOODS:
        print(kind, json.dumps(measure(kind, arguments.flood_as.split())), flush=True)


if __name__ == "__main__":
    main()
