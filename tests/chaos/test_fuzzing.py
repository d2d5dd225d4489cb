"""A short run of the fuzzer; ``python -m tests.chaos.fuzzing`` is a longer one, of any length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_no_promise_is_broken(root: Path) -> None:
    """Tens of thousands of mutated documents, the same ones in every run."""
    command = [sys.executable, "-m", "tests.chaos.fuzzing", "--documents", "30000", "--seed", "7"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (0, "30000 documents, no promise broken\n", "") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )
