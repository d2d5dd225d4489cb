"""The program that runs inside a remote sandbox: claims requests, prints them, waits for more.

It is handed over as text and run by whatever ``python3`` is there, from 3.6 on, with nothing but
the standard library; what not every run needs is imported late, since it starts for every call.
Options are ``name=value`` arguments. It prints ASCII lines of JSON, the last of which says how it
ended; it ends itself at its window, when nobody reads its output any more, and when another lease
is in force; it starts nothing. Ground floor.
"""

from __future__ import annotations

import binascii
import errno
import fcntl
import os
import select
import stat
import sys
import time
from typing import Any, Dict, List, Tuple

from relay.remote.drainwatch import watch

LEASE = ".relay-lease"
WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

#: Seconds that the directory's lock is waited for; somebody hostile may hold it for ever.
LOCK_WAIT = 0.2

#: Other runners' claims that are told at once, and when a temporary file is nobody's, in seconds.
MOST_FOREIGN = 100
TEMP_AGE = 60

#: Seconds between two looks while a request waits for the claim of its id to go; and bytes of room,
#: with fewer of which a run that prints batch after batch ends.
BLOCKED = 0.05
LEAST_ROOM = 65536


class Ended(Exception):
    """The end of the program: its status, and a runner's name that belongs to it."""

    def __init__(self, status: str, holder: str = "") -> None:
        Exception.__init__(self, status)
        self.status = status
        self.holder = holder


class Drain:
    """One run in one directory."""

    def __init__(self, options: Dict[str, str]) -> None:
        self.path = options["dir"]
        self.runner = options["runner"]
        self.generation = int(options["generation"])
        self.count = int(options.get("count", "0"))
        self.room = int(options.get("bytes", "0"))
        self.keep = float(options.get("keep", "0"))
        self.known = set(options.get("known", "").split(","))
        self.lines = []  # type: List[str]
        self.foreign = {}  # type: Dict[str, str]
        self.before = ""
        self.mtime = 0
        self.events = -1
        #: Whether there are requests whose id is in flight: that it ends makes no event.
        self.blocked = False
        if "make" in options and not os.path.isdir(self.path):
            os.mkdir(self.path, 0o700)
        #: A link that was at the path at the start is the operator's; any other leads away.
        self.follow = "follow" in options
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            self.fd = os.open(self.path, flags | (0 if self.follow else os.O_NOFOLLOW))
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise Ended("gone") from None
            raise

    def holder(self) -> Tuple[str, int] | None:
        """Return whose lease is in force, and its generation."""
        try:
            fd = os.open(
                LEASE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd
            )
        except OSError:
            return None
        try:
            words = os.read(fd, 200).decode("ascii", "replace").split()
        except OSError:
            return None
        finally:
            os.close(fd)
        if len(words) == 2 and is_word(words[0], 32) and words[1].isdigit():
            return words[0], int(words[1])
        return None

    def check(self) -> None:
        """End where the lease is another's, or of another generation."""
        held = self.holder()
        if held != (self.runner, self.generation):
            raise Ended("superseded", held[0] if held else "")

    def take(self, how: str) -> None:
        """Take the lease: ``force`` from anybody, ``free`` where no other runner has it."""
        self.lock()
        try:
            held = self.holder()
            if held is not None:
                self.before = held[0]
                mine = held[0] == self.runner
                if (mine and held[1] > self.generation) or (how == "free" and not mine):
                    raise Ended("superseded", held[0])
            self.write_lease(f"{self.runner} {self.generation}\n")
        finally:
            self.unlock()

    def release(self) -> None:
        """Empty the lease where it is this runner's."""
        self.lock()
        try:
            held = self.holder()
            if held is not None and held[0] == self.runner:
                self.write_lease("")
        finally:
            self.unlock()

    def write_lease(self, text: str) -> None:
        """Replace the lease by a rename, so that every watch in the directory sees it."""
        temp = LEASE + ".tmp." + binascii.hexlify(os.urandom(6)).decode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temp, flags, 0o600, dir_fd=self.fd)
        try:
            if os.fstat(self.fd).st_mode & stat.S_ISGID:
                os.fchmod(fd, 0o660)
            os.write(fd, text.encode())
            os.rename(temp, LEASE, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError:
            os.unlink(temp, dir_fd=self.fd)
            raise
        finally:
            os.close(fd)

    def lock(self) -> None:
        """Keep other runs from claiming, where that takes no time to speak of."""
        until = time.monotonic() + LOCK_WAIT
        # RACE: without the lock an old run may claim between its check and its rename; the runner
        # of the lease finds what it claimed, and answers for it.
        while not self.try_lock() and time.monotonic() < until:
            time.sleep(0.01)

    def try_lock(self) -> bool:
        """Lock the directory unless somebody else has it locked."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def unlock(self) -> None:
        """Let other runs go on."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def look(self) -> bool:
        """Scan once, under this lease and in this directory; True where there is news."""
        self.stay()
        self.check()
        self.scan()
        return bool(self.lines)

    def stay(self) -> int:
        """End where the path is another directory's by now; return the mtime of this one."""
        held = os.fstat(self.fd)
        try:
            found = os.stat(self.path, follow_symlinks=self.follow)
        except OSError:
            raise Ended("gone") from None
        if (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino):
            raise Ended("gone")
        return held.st_mtime_ns

    def census(self, since: int, end: float, rescan: float) -> None:
        """Wait until a name came into this directory, or went, since it had that mtime."""
        self.arm(names=True)
        while True:
            self.mtime = self.stay()
            if self.mtime != since:
                raise Ended("changed")
            left = end - time.monotonic()
            if left <= 0:
                raise Ended("expired")
            self.wait(min(left, rescan))

    def scan(self) -> None:
        """Note what this runner has claimed, and what others have; claim more."""
        requests, cancels = [], []  # type: List[str], List[str]
        claimed = {}  # type: Dict[str, List[str]]
        for name in os.listdir(self.fd):
            request, dot, rest = name.partition(".")
            if dot and rest == "req.json" and is_word(request, 200):
                requests.append(request)
            elif rest.startswith("claim.") and is_word(request, 200) and is_word(rest[6:], 32):
                claimed.setdefault(request, []).append(rest[6:])
            elif self.keep and dot:
                self.tidy(name)
            if rest == "cancel":
                cancels.append(request)
        self.keep = 0
        for request in cancels:
            if self.runner in claimed.get(request, ()):
                self.cancel(request)
        for request, runners in claimed.items():
            for runner in runners:
                if runner == self.runner:
                    self.show(request)
                elif len(self.foreign) < MOST_FOREIGN:
                    self.tell(request, runner)
        free = [request for request in requests if request not in claimed]
        self.blocked = len(free) < len(requests)
        if free:
            self.claim(free)

    def cancel(self, request: str) -> None:
        """Note that a caller took back what this runner has claimed; nothing is left of it."""
        try:
            os.unlink(request + ".claim." + self.runner, dir_fd=self.fd)
            self.lines.append(encoded([("cancel", request)]))
            os.unlink(request + ".cancel", dir_fd=self.fd)
        except OSError:
            return

    def claim(self, requests: List[str]) -> None:
        """Take requests, as many as are wanted and fit."""
        self.lock()
        try:
            for request in requests:
                name = request + ".req.json"
                if self.count <= 0:
                    return
                try:
                    size = os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_size
                    if self.lines and size > self.room:
                        return
                    self.check()
                    claim = request + ".claim." + self.runner
                    os.rename(name, claim, src_dir_fd=self.fd, dst_dir_fd=self.fd)
                except OSError:
                    # RACE: it was withdrawn, or another run won.
                    continue
                self.show(request)
        finally:
            self.unlock()

    def show(self, request: str) -> None:
        """Note one claim of this runner's for printing, unless it is known there."""
        name = request + ".claim." + self.runner
        try:
            found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return
        key = f"{request}:{found.st_ino}:{found.st_mtime_ns}"
        if key in self.known or self.count <= 0:
            return
        fields = self.fields("claim", request, found)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            fields.append(("bad", "the request is not a regular file of one name"))
        elif found.st_size <= self.room:
            data = self.read(name, found.st_size)
            if data is None:
                fields.append(("bad", "the request cannot be read"))
            else:
                self.room -= len(data)
                fields.append(("data", binascii.b2a_base64(data, newline=False).decode()))
        elif self.lines:
            # Room for it is in the next output.
            return
        self.known.add(key)
        self.count -= 1
        self.lines.append(encoded(fields))

    def fields(self, kind: str, request: str, found: os.stat_result) -> List[Tuple[str, Any]]:
        """Return what is told of every claim."""
        mtime = found.st_mtime_ns
        told = [(kind, request), ("ino", found.st_ino)]  # type: List[Tuple[str, Any]]
        told += [("mtime", mtime), ("size", found.st_size)]
        return [*told, ("age", int(time.time() * 1000) - mtime // 1000000)]

    def read(self, name: str, size: int) -> bytes | None:
        """Return a claim's bytes, ``None`` where it is no longer what it was."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, dir_fd=self.fd)
        except OSError:
            return None
        try:
            opened = os.fstat(fd)
            # RACE: a writer that swapped the file since it was looked at is judged again.
            if not stat.S_ISREG(opened.st_mode) or opened.st_nlink != 1 or opened.st_size != size:
                return None
            pieces, left = [], size
            while left > 0:
                piece = os.read(fd, left)
                if not piece:
                    return None
                pieces.append(piece)
                left -= len(piece)
            return b"".join(pieces)
        except OSError:
            return None
        finally:
            os.close(fd)

    def tell(self, request: str, runner: str) -> None:
        """Note another runner's claim."""
        try:
            name = request + ".claim." + runner
            found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return
        self.foreign[name] = encoded([*self.fields("foreign", request, found), ("runner", runner)])

    def tidy(self, name: str) -> None:
        """Remove a response that nobody fetched, or a file that was never finished, in its time."""
        request, _, rest = name.partition(".")
        if rest == "res.json" and is_word(request, 200):
            age = self.keep
        elif rest == "cancel" or (".tmp." in name and is_temp(name)):
            age = TEMP_AGE
        else:
            return
        try:
            found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode) and time.time() - found.st_mtime >= age:
                os.unlink(name, dir_fd=self.fd)
        except OSError:
            return

    def arm(self, *, names: bool = False) -> None:
        """Watch the directory; where that cannot be had, the rescan alone is left."""
        self.events = watch(self.fd, names)

    def go_on(self, streams: bool) -> None:  # noqa: FBT001 - 3.6 has keywords, the caller one flag
        """Print a batch and stay, where the output is read as it comes; else end with it."""
        if not streams or self.count <= 0 or self.room < LEAST_ROOM:
            raise Ended("claimed")
        say([*self.lines, encoded([("status", "batch"), ("now", int(time.time() * 1000))])])
        self.lines = []

    def wait(self, seconds: float) -> None:
        """Wait for an event of any name, for at most so long."""
        poll = select.poll()
        # Nothing to be read or written: only that the reader of the output is gone.
        poll.register(1, 0)
        if self.events >= 0:
            poll.register(self.events, select.POLLIN)
        for fd, _ in poll.poll(int(seconds * 1000) + 1):
            if fd == 1:
                raise Ended("unread")
            os.read(fd, 65536)


def is_word(text: str, longest: int) -> bool:
    """Tell whether text is an id: of a request, or of a runner."""
    return 0 < len(text) <= longest and WORD.issuperset(text)


def is_temp(name: str) -> bool:
    """Tell whether a name is one that a relay gives to a file while it is being written."""
    final, _, nonce = name.partition(".tmp.")
    if not nonce or not WORD.issuperset(nonce.replace(".", "")):
        return False
    if final in {LEASE, "relay.json", "relay-probe"}:
        return True
    request, _, rest = final.partition(".")
    return rest in {"req.json", "res.json"} and is_word(request, 200)


def encoded(fields: List[Tuple[str, Any]]) -> str:
    """Return a line of JSON. The texts are words, base64 and sentences: nothing needs an escape."""
    parts = []
    for name, value in fields:
        shown = str(value) if isinstance(value, int) else '"' + value + '"'
        parts.append('"' + name + '":' + shown)
    return "{" + ",".join(parts) + "}"


def run(drain: Drain, options: Dict[str, str]) -> None:
    """Do what is asked, until something ends it."""
    if "release" in options:
        drain.release()
        raise Ended("released")
    if "holds" in options:
        drain.show(options["holds"])
        raise Ended("idle")
    if "take" in options:
        drain.take(options["take"])
    window = float(options.get("window", "0"))
    end = time.monotonic() + window
    streams = "stream" in options
    if "since" in options:
        drain.census(int(options["since"]), end, float(options["rescan"]))
    if drain.look():
        drain.go_on(streams)
    if window <= 0:
        raise Ended("idle")
    drain.arm()
    rescan = float(options["rescan" if drain.events >= 0 else "poll"])
    while True:
        if drain.look():
            drain.go_on(streams)
        left = end - time.monotonic()
        if left <= 0:
            raise Ended("expired")
        drain.wait(min(left, BLOCKED if drain.blocked else rescan))


def say(lines: List[str]) -> None:
    """Print lines, to the last byte."""
    data = memoryview(("\n".join(lines) + "\n").encode())
    while data:
        data = data[os.write(1, data) :]


def main(words: List[str]) -> None:
    """Run, and print how it ended."""
    options = dict(word.split("=", 1) for word in words)
    drain = None
    status, more = "failed", []  # type: Tuple[str, List[Tuple[str, Any]]]
    try:
        drain = Drain(options)
        run(drain, options)
    except Ended as ended:
        status, more = ended.status, [("holder", ended.holder)]
    except OSError as error:
        more = [("error", errno.errorcode.get(error.errno or 0, "unknown"))]
    lines = []  # type: List[str]
    if drain is not None:
        lines = drain.lines + list(drain.foreign.values())
        more += [("before", drain.before), ("mtime", drain.mtime)]
        more += [("watch", int(drain.events >= 0)), ("link", int(os.path.islink(drain.path)))]
    say([*lines, encoded([("status", status), ("now", int(time.time() * 1000)), *more])])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        os._exit(1)
    # Nothing is left to clean up, and an orderly end of the interpreter takes milliseconds.
    os._exit(0)
