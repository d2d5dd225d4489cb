"""MCP clients and a server of npm's, which share no code with Python's.

They are found in ``NODE_MODULES_FOR_TESTS``, else where continuous integration installs them,
``.node`` at the root of the checkout. There, a missing one fails; elsewhere, tests that need it
are not collected, and the run says at its end what was not tested and how to change that.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]

MODULES = Path(
    os.environ.get("NODE_MODULES_FOR_TESTS") or _ROOT / ".node" / "node_modules"
).resolve()

#: The clients of npm's, and the modes that each has.
CLIENTS = {"sdk": ("legacy",), "client": ("legacy", "auto")}
SERVER = "server-filesystem"


def entry_of_server() -> Path:
    """Return the program of npm's own server of files."""
    return MODULES / "@modelcontextprotocol" / SERVER / "dist" / "index.js"


def is_wanted(package: str) -> bool:
    """Tell whether a package is to be tested: it is there, or a green run stands for it."""
    return bool(os.environ.get("CI")) or not _is_missing(package)


def clients() -> list[Any]:
    """Return a parameter for each client that is to be tested, in each of its modes."""
    return [
        pytest.param(package, mode, id=f"{package}-{mode}")
        for package, modes in CLIENTS.items()
        if is_wanted(package)
        for mode in modes
    ]


def say_what_is_missing(terminal: pytest.TerminalReporter, *packages: str) -> None:
    """Write which of these packages were not tested, and how they would be."""
    for package in packages:
        if not is_wanted(package):
            terminal.write_line(
                f"NOT TESTED: npm's @modelcontextprotocol/{package} is not at hand; install it as "
                ".ci/run does, or set NODE_MODULES_FOR_TESTS",
                yellow=True,
            )


def _is_missing(package: str) -> bool:
    folder = MODULES / "@modelcontextprotocol" / package
    return shutil.which("node") is None or not folder.is_dir()
