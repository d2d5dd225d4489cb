"""A gated tool: the first call is parked, somebody approves it outside, a later call runs it once.

A question is one file in APPROVALS_DIR, which the sandbox cannot reach. Its name follows from the
session, the tool and the arguments, so that the same question finds its approval, and another
session's does not. Each step is a rename, which
has one winner: whatever is called twice at once, an approval is used by one call.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

from relay import PAUSED, ToolError, this_call


def folder() -> Path:
    """Return where questions and approvals are kept."""
    place = Path(os.environ["APPROVALS_DIR"])
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def deploy(version: str) -> object:
    """Deploy a version, once somebody has approved it."""
    question = {"session": this_call().session, "tool": "deploy", "version": version}
    key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:12]
    place = folder()
    try:
        # RACE: of two calls that find one approval, the rename gives it to one.
        (place / f"{key}.approved").rename(place / f"{key}.used")
    except FileNotFoundError:
        if (place / f"{key}.denied").exists():
            raise ToolError(f"deploying {version} was denied") from None
        waiting = place / f"{key}.waiting"
        if not waiting.exists():
            waiting.write_text(json.dumps(question), encoding="utf-8")
        return PAUSED
    return run(version)


def run(version: str) -> str:
    """Do what was approved; here it is one line in a log."""
    with (folder() / "deployed.log").open("a", encoding="utf-8") as log:
        log.write(f"{version}\n")
    return f"deployed {version}"


def main(words: list[str]) -> int:
    """Answer questions: ``list``, ``approve KEY`` or ``deny KEY``."""
    place = folder()
    if words[:1] == ["list"]:
        for each in sorted(place.glob("*.waiting")):
            sys.stdout.write(f"{each.stem} {each.read_text(encoding='utf-8')}\n")
        return 0
    if len(words) == 2 and words[0] in ("approve", "deny"):
        ending = "approved" if words[0] == "approve" else "denied"
        try:
            (place / f"{words[1]}.waiting").rename(place / f"{words[1]}.{ending}")
        except FileNotFoundError:
            sys.stderr.write(f"nothing waits under {words[1]}\n")
            return 1
        return 0
    sys.stderr.write("usage: approval.py list | approve KEY | deny KEY\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
