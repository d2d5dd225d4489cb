"""The state directory: where it is, whether it can be trusted, and its folder of locks.

It is shared by every process that serves the same session directories, and is never one of them:
a writer that could reach the locks could fake who is alive.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Mapping

from relay.errors import RelayError

_FIX = "set RELAYCONF_STATE_DIR to a directory that this user can write and nobody else can"


class StateError(RelayError):
    """The state directory cannot be used."""

    code = "state"


def state_path(environ: Mapping[str, str]) -> str:
    """Return the state directory that the environment names, or the user's own.

    Raises:
        StateError: it names none, and there is no home to put one in.
    """
    named = environ.get("RELAYCONF_STATE_DIR")
    if named and named.strip():
        return os.path.abspath(named)
    base = environ.get("XDG_STATE_HOME")
    if not base or not os.path.isabs(base):
        home = environ.get("HOME") or os.path.expanduser("~")
        if not os.path.isabs(home):
            raise StateError(f"there is no home directory to keep the relay's state in: {_FIX}")
        base = os.path.join(home, ".local", "state")
    return os.path.join(base, "relayconf")


def open_locks(path: str, *, group: str | None = None) -> int:
    """Open the folder of locks in the state directory ``path``; both are made where missing.

    Args:
        path: the state directory.
        group: a group's name or number that shares it (RELAYCONF_STATE_GROUP): what is made is
            2770 then, else 0700.

    Returns:
        A descriptor of the folder.

    Raises:
        StateError: it cannot be made or opened, or others than its owner could write it.
    """
    gid = _group(group)
    locks = os.path.join(path, "locks")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _make(path, gid)
        _judge(path, gid)
        _make(locks, gid)
        fd = os.open(locks, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        at = error.filename or path
        raise StateError(
            f"the state directory {path} cannot be used ({at}: {error.strerror}): {_FIX}"
        ) from None
    if not os.access(".", os.W_OK, dir_fd=fd):
        os.close(fd)
        raise StateError(f"the state directory {path} cannot be written: {_FIX}")
    return fd


def refuse_within(state: str, session: str) -> None:
    """Refuse a state directory that is a session's directory, or lies in one.

    Raises:
        StateError: it is, or does.
    """
    outer, inner = os.path.realpath(session), os.path.realpath(state)
    if inner == outer or inner.startswith(outer.rstrip("/") + "/"):
        raise StateError(f"the state directory {state} lies in the session directory: {_FIX}")


def _make(path: str, gid: int | None) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    if gid is not None:
        os.chown(path, -1, gid)
        os.chmod(path, 0o2770)  # noqa: S103 - shared with that group alone


def _judge(path: str, gid: int | None) -> None:
    found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(f"the state directory {path} is not a directory: {_FIX}")
    if found.st_mode & stat.S_IWOTH:
        raise StateError(f"the state directory {path} can be written by everybody: {_FIX}")
    if found.st_uid not in (0, os.geteuid()) and found.st_gid != gid:
        raise StateError(
            f"the state directory {path} belongs to another user (uid {found.st_uid}): share it "
            f"through RELAYCONF_STATE_GROUP, or {_FIX}"
        )


def _group(group: str | None) -> int | None:
    if group is None or not group.strip():
        return None
    if group.isdecimal():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise StateError(
            f"RELAYCONF_STATE_GROUP names the group {group[:60]!a}, which does not exist"
        ) from None
