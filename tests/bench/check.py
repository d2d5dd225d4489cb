"""How long a check takes, by the size of the project: 10, 100 and 1,000 services.

Each service has an env file and forty variables in all: literals, expressions with defaults and
names that are handed on. Every tenth one has the relay's contract. The times are those of one
process after its start, in parts: reading as Compose does, and examining. Linear means that the
time for each service stays the same; the ratio says how far it is from that.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

from relayconf.check.assigned import assigned
from relayconf.check.examine import examine
from relayconf.check.inspection import gather

SIZES = (10, 100, 1000)
VARIABLES = 40
IN_FILE = 10
TODAY = date(2026, 11, 30)


def write_project(folder: Path, services: int, variables: int = VARIABLES) -> None:
    """Write a project of so many services with so many variables each."""
    compose = ["name: bench", "services:"]
    dotenv = []
    for service in range(services):
        compose += [f"  s{service}:", "    image: img:1", f"    env_file: [s{service}.env]"]
        if service % 10 == 0:
            compose.append("    labels: {relayconf.target: relay}")
        compose.append("    environment:")
        for number in range(variables - IN_FILE):
            name = f"S{service}_SETTING_{number}"
            kind = number % 3
            text = (f"value-{number}", f"${{{name}:-{number}}}", "")[kind]
            compose.append(f"      {name}: {text}".rstrip())
            if kind == 2:
                dotenv.append(f"{name}=x{number}")
        own = "".join(f"FILE_{number}=x{number}\n" for number in range(IN_FILE))
        (folder / f"s{service}.env").write_text(own)
    (folder / "compose.yaml").write_text("\n".join(compose) + "\n")
    (folder / ".env").write_text("\n".join(dotenv) + "\n")


def measure(services: int, variables: int = VARIABLES) -> dict[str, Any]:
    """Check one project once and return the seconds of each part."""
    with tempfile.TemporaryDirectory() as folder:
        write_project(Path(folder), services, variables)
        gc.collect()
        start = perf_counter()
        gathered = gather(folder, files=[], env_files=[], profiles=[], environ={})
        read = perf_counter()
        if gathered.project is None:
            raise AssertionError("the project is refused")
        contracts = assigned(gathered.project, options=[], target=None, service=None)
        findings = examine(gathered.inspection(contracts, {}, TODAY))
        end = perf_counter()
    return {
        "services": services,
        "variables": services * variables,
        "read_s": round(read - start, 4),
        "examine_s": round(end - read, 4),
        "total_s": round(end - start, 4),
        "ms_per_service": round((end - start) / services * 1000, 3),
        "findings": len(findings),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every size, print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of services")
    arguments = parser.parse_args(argv)
    measure(1)  # what is imported on first use is no part of it
    rows = [measure(services) for services in arguments.sizes]
    print("services  variables     read  examine    total  ms/service  findings")
    for row in rows:
        print(
            f"{row['services']:>8}  {row['variables']:>9}  {row['read_s']:7.3f}  "
            f"{row['examine_s']:7.3f}  {row['total_s']:7.3f}  {row['ms_per_service']:10.2f}  "
            f"{row['findings']:>8}"
        )
    ratio = rows[-1]["ms_per_service"] / rows[0]["ms_per_service"]
    print(f"a service of the largest costs {ratio:.2f} times one of the smallest")
    if arguments.json:
        figures = {"python": platform.python_version(), "rows": rows, "ratio": round(ratio, 3)}
        Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
