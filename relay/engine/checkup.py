"""What a runner needs of its machine, its directories and its settings, looked at one by one.

Nothing is started and nothing is left behind: a probe file in a session's directory goes under a
name that writers and runners pass over. Each finding says what is the case and, where that is not
well, what to do about it.
"""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

from relay import inotify
from relay.engine.filesystems import is_elsewhere, kind_of
from relay.errors import RelayError
from relay.protocol import temp_name
from relay.settings import Mode, RelaySettings
from relay.tools.file import load_tools
from relayconf.errors import RelayconfError
from relayconf.live.snapshot import Live
from relayconf.state.directory import find

OK, WARNING, PROBLEM = "ok", "warning", "problem"

#: Files that a runner keeps open beside one for each session, and what each start needs.
_BESIDE = 256

#: Clocks that differ by more than this many seconds make young requests old.
_SKEW = 1.0

#: Fewer free bytes than this will not hold a large answer.
_LITTLE_SPACE = 64 * 1024 * 1024


class Finding(NamedTuple):
    """One thing that was looked at. ``fix`` is empty where nothing is to be done."""

    check: str
    status: str
    message: str
    fix: str = ""


def checkup(live: Live[RelaySettings], *, directory: str | None, root: str | None) -> list[Finding]:
    """Look at everything that a runner with these settings would need.

    Args:
        live: the settings.
        directory: the session directory, where one is served.
        root: the root, where many are.
    """
    findings = [*_settings(live), *_tools(live.current), *_state(live)]
    sessions = _sessions(root, live.current)
    findings += _open_files(sessions)
    findings += _inotify(live.current, sessions)
    if directory is None and root is None:
        findings.append(
            Finding(
                "directory",
                WARNING,
                "no session directory is named; nothing is known of its file system",
                "name one: --dir or --root, RELAY_DIR or RELAY_ROOT",
            )
        )
    for path, what in ((directory, "directory"), (root, "root")):
        if path is not None:
            findings += _place_in_time(path, what, live.current)
    return findings


def _settings(live: Live[RelaySettings]) -> Iterator[Finding]:
    if not live.problems:
        yield Finding("settings", OK, "every value is used as it is written")
    for problem in live.problems:
        if problem.severity != "note":
            yield Finding(
                "settings", WARNING, problem.line(), "relayconf explain tells where a value is from"
            )
    killed = [n for n, e in live.snapshot.resolution.settings.items() if e.status == "killed"]
    if killed:
        yield Finding(
            "settings",
            WARNING,
            f"switched off by a kill: {', '.join(killed)}",
            "relayconf status tells since when and why; relayconf restore takes it back",
        )


def _tools(settings: RelaySettings) -> Iterator[Finding]:
    if settings.tools_file is None:
        yield Finding(
            "tools",
            WARNING,
            "no tools file is named; a runner started so would have no tools",
            "name one: RELAY_TOOLS_FILE, or relay serve --tools FILE",
        )
        return
    try:
        tools = load_tools(str(settings.tools_file))
    except RelayError as error:
        for line in str(error).split("\n"):
            yield Finding("tools", PROBLEM, line, "mend the tools file")
    else:
        yield Finding("tools", OK, f"{settings.tools_file} offers {len(tools)} tool(s)")


def _state(live: Live[RelaySettings]) -> Iterator[Finding]:
    sources = live.sources
    path = sources.state_dir
    if path is None:
        yield Finding(
            "state",
            PROBLEM,
            "there is no home directory to keep the relay's state in",
            "set RELAYCONF_STATE_DIR to a directory of this user's own",
        )
        return
    try:
        held = find(path, group=sources.state_group)
    except RelayconfError as error:
        yield Finding("state", PROBLEM, str(error), "set RELAYCONF_STATE_DIR to another directory")
        return
    if held is None:
        yield Finding("state", OK, f"{path} is not there yet; the first runner makes it")
        return
    held.close()
    if not os.access(path, os.W_OK | os.X_OK):
        yield Finding(
            "state",
            PROBLEM,
            f"the state directory {path} cannot be written by this user",
            "give it to this user, or share it through RELAYCONF_STATE_GROUP",
        )
    else:
        yield Finding("state", OK, f"the state directory {path} can be used")


def _open_files(sessions: int) -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _BESIDE + sessions
    if hard != resource.RLIM_INFINITY and hard < needed:
        yield Finding(
            "open-files",
            PROBLEM,
            f"at most {hard} files may be open, and {needed} are needed (one a session, {_BESIDE} "
            "besides)",
            "raise the hard limit: ulimit -Hn, LimitNOFILE= of systemd, ulimits: of Compose",
        )
    else:
        yield Finding("open-files", OK, f"up to {hard} files may be open, and {needed} are needed")


def _sessions(root: str | None, settings: RelaySettings) -> int:
    """Return how many sessions there may be; one where that cannot be told."""
    found = [1]

    def count() -> None:
        with suppress(OSError):
            found.append(len(os.listdir(root)))

    if root is not None:
        _in_time(count, settings.file_op_timeout.total_seconds())
    return found[-1]


def _inotify(settings: RelaySettings, sessions: int) -> Iterator[Finding]:
    if settings.mode is Mode.POLL:
        yield Finding("inotify", OK, "RELAY_MODE is poll: no file events are used")
        return
    severity = PROBLEM if settings.mode is Mode.WATCH else WARNING
    try:
        os.close(inotify.init())
    except OSError as error:
        yield Finding(
            "inotify",
            severity,
            f"there are no file events: {error.strerror}",
            "raise fs.inotify.max_user_instances (sysctl); until then requests are polled",
        )
        return
    watches, needed = _limit("max_user_watches", "max_inotify_watches"), sessions + 4
    if watches is not None and watches < needed:
        yield Finding(
            "inotify",
            severity,
            f"this user may watch {watches} directories, and {needed} are needed",
            "raise fs.inotify.max_user_watches (sysctl); sessions beyond it are polled",
        )
    else:
        told = "any number of" if watches is None else f"{watches}"
        yield Finding("inotify", OK, f"this user may watch {told} directories; {needed} are needed")


def _limit(system: str, namespace: str) -> int | None:
    """Return the lesser of the system's limit and the user namespace's."""
    limits = []
    for path in (f"/proc/sys/fs/inotify/{system}", f"/proc/sys/user/{namespace}"):
        try:
            with open(path, encoding="ascii") as file:
                limits.append(int(file.read()))
        except (OSError, ValueError):
            continue
    return min(limits, default=None)


def _in_time(function: Callable[[], None], seconds: float) -> bool:
    """Call ``function`` in a thread, and tell whether it was over in so many seconds."""
    thread = Thread(target=function, name="relay-checkup", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def _place_in_time(path: str, what: str, settings: RelaySettings) -> list[Finding]:
    """Look at a place, but wait for its file system no longer than a runner would."""
    findings: list[Finding] = []
    seconds = settings.file_op_timeout.total_seconds()
    if _in_time(lambda: findings.extend(_place(path, what, settings)), seconds):
        return findings
    return [
        Finding(
            what,
            PROBLEM,
            f"{path}: its file system has not answered for {seconds:g} s",
            "find out what it is mounted from (findmnt), and whether that is still there",
        )
    ]


def _place(path: str, what: str, settings: RelaySettings) -> Iterator[Finding]:
    """Look at a session directory, or at a root."""
    path = os.path.abspath(path)
    try:
        found = os.stat(path)
    except OSError as error:
        if os.path.isdir(os.path.dirname(path)) and not os.path.lexists(path):
            yield Finding(what, OK, f"{path} is not there yet; relay serve makes it")
        else:
            yield Finding(what, PROBLEM, f"{path}: {error.strerror}", "make its parent directory")
        return
    if not stat.S_ISDIR(found.st_mode):
        yield Finding(what, PROBLEM, f"{path} is not a directory", "name another path")
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            what,
            PROBLEM,
            f"{path} cannot be written by this user",
            "give it to this user; or to a group of both sides, with mode 2770",
        )
        return
    yield from _permissions(path, what, found)
    yield from _file_system(path)
    # A root's runner passes over names with a leading dot.
    yield from _probe(
        path, temp_name("relay-probe" if what == "directory" else ".relay-probe"), settings
    )


def _permissions(path: str, what: str, found: os.stat_result) -> Iterator[Finding]:
    mode = stat.S_IMODE(found.st_mode)
    if mode & stat.S_IWOTH:
        yield Finding(
            what,
            PROBLEM if what == "root" else WARNING,
            f"{path} can be written by everybody (mode {mode:o}), who can have tools run",
            f"chmod o-w {path}",
        )
    elif mode & stat.S_ISGID:
        yield Finding(what, OK, f"{path} is shared with its group (gid {found.st_gid})")
    elif found.st_uid == os.geteuid():
        yield Finding(what, OK, f"{path} is this user's own; a writer is this user too")
    else:
        yield Finding(
            what,
            WARNING,
            f"{path} is another user's (uid {found.st_uid}) and not setgid: what the runner "
            "publishes may not be readable there",
            f"chgrp a common group, and chmod 2770 {path}",
        )


def _file_system(path: str) -> Iterator[Finding]:
    kind = kind_of(path)
    if is_elsewhere(kind):
        yield Finding(
            "file-system",
            WARNING,
            f"{path} is on {kind}: changes from elsewhere give no events, and are polled",
            "use a local file system, best a tmpfs, that both sides mount",
        )
    else:
        yield Finding("file-system", OK, f"{path} is on {kind or 'an unknown file system'}")
    space = os.statvfs(path)
    if space.f_blocks and space.f_bavail * space.f_frsize < _LITTLE_SPACE:
        yield Finding(
            "space",
            WARNING,
            f"{space.f_bavail * space.f_frsize >> 20} MiB are free at {path}",
            "make room: a request or an answer that does not fit is lost",
        )
    elif space.f_files and not space.f_favail:
        yield Finding("space", PROBLEM, f"no inode is free at {path}", "remove files there")


def _probe(path: str, name: str, settings: RelaySettings) -> Iterator[Finding]:
    """Write a file as a writer does; see whether there is an event, and what time the file has."""
    probe, moved = os.path.join(path, name), os.path.join(path, f"{name}.seen")
    fd = _watched(path)
    try:
        before = time.time()
        with open(probe, "xb") as file:
            written = os.fstat(file.fileno()).st_mtime
        after = time.time()
        os.rename(probe, moved)
        names = [event[2] for event in inotify.read_events(fd)] if fd is not None else []
    except OSError as error:
        yield Finding(
            "publish",
            PROBLEM,
            f"a file cannot be published in {path}: {error.strerror}",
            "make it so",
        )
        return
    finally:
        if fd is not None:
            os.close(fd)
        for each in (probe, moved):
            if os.path.lexists(each):
                os.unlink(each)
    yield from _events(path, settings, seen=os.path.basename(moved).encode() in names, fd=fd)
    yield from _clock(path, max(before - written, written - after))


def _watched(path: str) -> int | None:
    try:
        fd = inotify.init()
    except OSError:
        return None
    try:
        inotify.add_watch(fd, path, inotify.IN_MOVED_TO | inotify.IN_ONLYDIR)
    except OSError:
        os.close(fd)
        return None
    return fd


def _events(path: str, settings: RelaySettings, *, seen: bool, fd: int | None) -> Iterator[Finding]:
    if seen:
        yield Finding("events", OK, f"a file that appears in {path} gives an event")
    elif settings.mode is not Mode.POLL:
        why = "the file system gives none" if fd is not None else "it cannot be watched"
        yield Finding(
            "events",
            PROBLEM if settings.mode is Mode.WATCH else WARNING,
            f"a file that appears in {path} gives no event: {why}",
            "requests are polled; for events use a local file system, and raise the inotify limits",
        )


def _clock(path: str, skew: float) -> Iterator[Finding]:
    if skew > _SKEW:
        yield Finding(
            "clock",
            PROBLEM,
            f"a file written now in {path} has a time that is {skew:.1f} s off this clock",
            "set the clocks of both machines (NTP): requests look too old, or never grow old",
        )
    else:
        yield Finding("clock", OK, f"times of files in {path} agree with this clock")
