"""Namespaces of a test's own: a command with a limit or a mount that nobody else has.

Not every machine lets everybody make them. There the tests that need them are left out; in
continuous integration they stay, and fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

#: What is run for as long as there is no inotify instance, or no watch, to be had.
NO_INSTANCE = "echo 0 > /proc/sys/user/max_inotify_instances"
NO_WATCH = "echo 0 > /proc/sys/user/max_inotify_watches"


def inside(script: str, *flags: str) -> tuple[str, ...]:
    """Return what runs a command as root of a user namespace of its own, after a line of shell.

    Args:
        script: the line; the command does not run where it fails.
        flags: of ``unshare``, for further namespaces: ``--mount``.
    """
    made = ("unshare", "--user", "--map-root-user", *flags)
    return (*made, "sh", "-c", f'{script} && exec "$@"', "sh")


def that_work(*prefixes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return those that this machine allows; all of them in continuous integration.

    They are tried in an empty folder, which ``$PLACE`` names.
    """
    return [prefix for prefix in prefixes if os.environ.get("CI") or _works(prefix)]


def _works(prefix: tuple[str, ...]) -> bool:
    if shutil.which(prefix[0]) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*prefix, "true"],
            cwd=folder,
            env={**os.environ, "PLACE": folder},
            capture_output=True,
            check=False,
        )
    return done.returncode == 0
