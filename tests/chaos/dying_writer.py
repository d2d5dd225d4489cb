"""A command that changes overrides and kills itself at the k-th system call of the change.

Run as ``python dying_writer.py STATE``, it reads lines ``K ACTION NAME`` and forks for each one a
process that makes the change with the parts of the real command, and counts every call into ``os``
from its beginning on. Before the k-th it sends itself SIGKILL. The answer is ``killed`` or
``survived``. Forking keeps the imports, which take longer than everything else.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from relayconf.instances.listing import Listing
from relayconf.instances.register import open_or_make
from relayconf.overrides import changes
from relayconf.overrides.store import Store
from relayconf.state.clock import SYSTEM
from relayconf.state.directory import make

#: Everything in ``os`` on the way of a change.
OPERATIONS = (
    "open",
    "close",
    "read",
    "pread",
    "write",
    "fsync",
    "ftruncate",
    "lseek",
    "fstat",
    "stat",
    "lstat",
    "fchmod",
    "fchown",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "listdir",
)


class Fuse:
    """Counts operations, and kills this process before the k-th."""

    def __init__(self, at: int) -> None:
        self.left = at
        for name in OPERATIONS:
            setattr(os, name, self._counted(getattr(os, name)))
        fcntl.flock = self._counted(fcntl.flock)

    def _counted(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            return operation(*args, **kwargs)

        return counted


def change(path: str, action: str, name: str) -> None:
    """Make one change, as the command does."""
    because = changes.Because("a reason", "me")
    flag = changes.Assignment("app", name, "false")
    editing = {
        "kill": lambda: changes.kill([flag], because),
        "restore": lambda: changes.restore(lambda _, it: it == name, because),
    }[action]()
    directory = make(path)
    listing = Listing(directory)
    Store(directory, least=listing.highest()).change(editing)
    open_or_make(directory, SYSTEM).close()
    listing.bury()
    directory.close()


def main() -> None:
    """Fork a writer for each line that is read."""
    for line in sys.stdin:
        at, action, name = line.split()
        child = os.fork()
        if child == 0:
            Fuse(int(at))
            change(sys.argv[1], action, name)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("survived" if status == 0 else "killed", flush=True)


if __name__ == "__main__":
    main()
