"""Which kind of file system a directory is on, as the kernel's table of mounts tells it."""

from __future__ import annotations

import os

#: File systems that other hosts write to, or a program in user space answers for: the kernel sees
#: no event for what it has not done itself, and what it remembers of a directory may be old.
_ELSEWHERE = ("nfs", "cifs", "smb", "fuse", "9p", "virtiofs", "ceph", "afs", "glusterfs", "lustre")


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
