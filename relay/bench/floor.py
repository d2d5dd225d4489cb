"""The floor: the least a file relay can do, to divide the relay's figures by.

Two processes and bare inotify through ctypes. Each way is a temporary file and a rename, a read and
an unlink, of the bodies that the protocol fixes; there is no claim, no poll, no deadline, no check
and no safety of any kind. Run as a program it serves the directory named by its argument until its
input ends; ``Client`` is the other side.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator

IN_MOVED_TO = 0x80
IN_CLOEXEC = os.O_CLOEXEC
EVENT = struct.Struct("iIII")

libc = ctypes.CDLL(None, use_errno=True)


def watch(directory: str) -> int:
    """Return an inotify descriptor that reports what is renamed into ``directory``."""
    fd = libc.inotify_init1(IN_CLOEXEC)
    if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(directory), IN_MOVED_TO) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), directory)
    return int(fd)


def moved(fd: int) -> Iterator[str]:
    """Block for the next events and yield the names they carry."""
    data = os.read(fd, 65536)
    at = 0
    while at < len(data):
        length = EVENT.unpack_from(data, at)[3]
        at += EVENT.size
        yield data[at : at + length].rstrip(b"\0").decode()
        at += length


def publish(directory: str, name: str, data: bytes) -> None:
    """Write ``data`` beside its place and rename it there."""
    final = f"{directory}/{name}"
    fd = os.open(f"{final}.tmp", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.write(fd, data)
    os.close(fd)
    os.rename(f"{final}.tmp", final)


def take(directory: str, name: str) -> bytes:
    """Read a file and remove it."""
    path = f"{directory}/{name}"
    fd = os.open(path, os.O_RDONLY)
    data = os.read(fd, 1 << 24)
    os.close(fd)
    os.unlink(path)
    return data


def asked(text: str) -> bytes:
    """Return the body of a request for ``text`` to be given back."""
    return json.dumps({"toolName": "echo", "toolCallId": "", "args": {"text": text}}).encode()


def answer(request: bytes) -> bytes:
    """Return the body of the response to a request."""
    return json.dumps({"ok": True, "text": json.loads(request)["args"]["text"]}).encode()


def serve(directory: str) -> None:
    """Answer every request with its own text, for ever."""
    fd = watch(directory)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for name in moved(fd):
            if name.endswith(".req"):
                publish(directory, name[:-4] + ".res", answer(take(directory, name)))


class Client:
    """The calling side, in the process that measures."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = watch(directory)
        self._count = 0

    def call(self, text: str) -> object:
        """Send ``text`` and return what is answered."""
        self._count += 1
        publish(self._directory, f"{self._count}.req", asked(text))
        wanted = f"{self._count}.res"
        while wanted not in moved(self._fd):
            pass
        return json.loads(take(self._directory, wanted))["text"]

    def keep(self, text: str, *, callers: int, calls: int, clock: Callable[[], int]) -> list[int]:
        """Keep ``callers`` calls under way until ``calls`` are answered; return what each took."""
        begun: dict[str, int] = {}

        def ask() -> None:
            self._count += 1
            begun[f"{self._count}.res"] = clock()
            publish(self._directory, f"{self._count}.req", asked(text))

        for _ in range(callers):
            ask()
        took: list[int] = []
        while begun:
            for name in moved(self._fd):
                if name in begun:
                    json.loads(take(self._directory, name))
                    took.append(clock() - begun.pop(name))
                    if len(took) + len(begun) < calls:
                        ask()
        return took

    def close(self) -> None:
        """Give the watch back."""
        os.close(self._fd)


def _leave_with_parent() -> None:
    """End the process when whoever started it has closed its input or is gone."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    serve(sys.argv[1])
