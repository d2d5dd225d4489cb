"""Which kind of file system a directory is on, as the kernel's table of mounts tells it.

The table is asked and not the file system, since one that does not answer would not answer this
either.
"""

from __future__ import annotations

import os
import re
import select

#: File systems that other hosts write to, or a program in user space answers for: the kernel sees
#: no event for what it has not done itself, and what it remembers of a directory may be old.
_ELSEWHERE = (
    *("nfs", "cifs", "smb", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs", "orangefs"),
    *("fuse", "9p", "virtiofs", "vboxsf", "prl_fs", "ocfs2", "gfs2", "autofs"),
)


def kind_of(path: str) -> str | None:
    """Return the type of the file system that holds ``path``, such as ``tmpfs``.

    Returns:
        ``None`` where the system does not tell.
    """
    try:
        device = os.stat(path).st_dev
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in reversed(lines):
        mount, _, rest = line.partition(" - ")
        if mount.split(" ")[2] == wanted:
            return rest.split(" ")[0]
    return None


def is_elsewhere(kind: str | None) -> bool:
    """Whether files of such a file system may change without an event."""
    return kind is not None and kind.startswith(_ELSEWHERE)


class Mounts:
    """The mounts that may keep whoever asks them waiting; read again whenever the table changes.

    Args:
        table: where the table is.
    """

    def __init__(self, table: str = "/proc/self/mountinfo") -> None:
        self._table = table
        self._fd = -1
        self._poll = select.poll()
        self._mounts: dict[str, str] = {}
        self._any = False

    def elsewhere(self, path: str) -> str | None:
        """Return the kind of file system that ``path`` is on, where others answer for it.

        Args:
            path: an absolute path without symbolic links. It need not be there.
        """
        if self._fd < 0 or self._poll.poll(0):
            self._read()
        if not self._any:
            return None
        while path not in self._mounts and path != "/":
            path = os.path.dirname(path)
        kind = self._mounts.get(path)
        return kind if is_elsewhere(kind) else None

    def close(self) -> None:
        """Let go of the table."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        try:
            # The descriptor is for its changes alone; it stays open.
            if self._fd < 0:
                self._fd = os.open(self._table, os.O_RDONLY | os.O_CLOEXEC)
                self._poll.register(self._fd, select.POLLPRI)
            with open(self._table, encoding="utf-8", errors="surrogateescape") as file:
                lines = file.readlines()
        except OSError:
            return
        self._mounts = {}
        for line in lines:
            mount, _, rest = line.partition(" - ")
            # What is mounted last is on top.
            self._mounts[_unescaped(mount.split(" ")[4])] = rest.split(" ")[0]
        self._any = any(map(is_elsewhere, self._mounts.values()))


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
