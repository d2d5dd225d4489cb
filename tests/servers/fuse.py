"""A file system in user space, in memory, which can be told not to answer.

It speaks the kernel's own protocol (FUSE), so that nothing has to be installed.

Run as ``python fuse.py MOUNTPOINT STALLED``, where it may mount: it serves MOUNTPOINT until it is
killed, and answers nothing for as long as a file STALLED exists. ``ready`` on stdout when mounted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable

_IN = struct.Struct("<IIQQIIII")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<6Q10I")
_ROOT = 1
_LARGEST_WRITE = 128 * 1024
_BUFFER = _LARGEST_WRITE + 8192

# <linux/fuse.h>: bits of SETATTR's ``valid`` that are obeyed.
_SET_MODE, _SET_UID, _SET_GID, _SET_SIZE = 1, 2, 4, 8
_SET_ATIME, _SET_MTIME, _SET_ATIME_NOW, _SET_MTIME_NOW = 16, 32, 128, 256


#: What runs a command where it may mount.
_UNSHARED = ("unshare", "--user", "--map-root-user", "--mount")


def prefixes() -> list[tuple[str, ...]]:
    """Return one prefix of commands that may mount such a file system, or none where none may.

    In continuous integration there is one in any case, and what needs it fails where it may not.
    """
    if os.environ.get("CI"):
        return [_UNSHARED]
    if shutil.which("unshare") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return []
    command = [*_UNSHARED, "mount", "-t", "tmpfs", "none", "/mnt"]
    tried = subprocess.run(command, capture_output=True, check=False)
    return [_UNSHARED] if tried.returncode == 0 else []


class Node:
    """A file or a directory."""

    def __init__(self, number: int, mode: int) -> None:
        self.number = number
        self.mode = mode
        self.data = bytearray()
        self.children: dict[bytes, Node] = {}
        self.links = 1
        self.modified = self.changed = time.time_ns()

    def touch(self) -> None:
        """Take note that its content has changed."""
        self.modified = self.changed = time.time_ns()

    def attributes(self) -> bytes:
        """Return them as the kernel wants them."""
        seconds, rest = divmod(self.modified, 10**9)
        changed, changed_rest = divmod(self.changed, 10**9)
        times = (seconds, seconds, changed, rest, rest, changed_rest)
        whose = (self.mode, self.links, os.getuid(), os.getgid(), 0, 4096, 0)
        return _ATTR.pack(self.number, len(self.data), 0, *times, *whose)


class FileSystem:
    """The files, and an answer to each question that the kernel asks about them.

    A question that nobody answers here is answered by ENOSYS; the kernel does without then.
    """

    def __init__(self) -> None:
        self.nodes = {_ROOT: Node(_ROOT, stat.S_IFDIR | 0o700)}
        self.answers: dict[int, Callable[[Node, bytes], bytes | int]] = {
            1: self.lookup,
            3: self.getattr,
            4: self.setattr,
            8: self.mknod,
            9: self.mkdir,
            10: self.unlink,
            11: self.unlink,
            12: lambda node, body: self.rename(node, body, 8),
            14: self.opened,
            15: self.read,
            16: self.write,
            17: lambda *_: struct.pack(
                "<5Q12I", 1 << 20, 1 << 20, 1 << 20, 1, 1, 4096, 255, *[0] * 10
            ),
            18: lambda *_: b"",
            25: lambda *_: b"",
            26: self.init,
            27: self.opened,
            28: self.readdir,
            29: lambda *_: b"",
            34: lambda *_: b"",
            35: self.create,
            45: lambda node, body: self.rename(node, body, 16),
        }

    def answer(self, opcode: int, number: int, body: bytes) -> bytes | int:
        """Return an answer's bytes, or the number of an error."""
        handler = self.answers.get(opcode)
        if handler is None:
            return errno.ENOSYS
        node = self.nodes.get(number or _ROOT)
        return errno.ENOENT if node is None else handler(node, body)

    def init(self, _node: Node, _body: bytes) -> bytes:
        """Agree on a version of the protocol, with nothing but what every version has."""
        return struct.pack(
            "<4I2H2I2HI7I", 7, 31, 0, 0, 16, 12, _LARGEST_WRITE, 1, 0, 0, 0, *[0] * 7
        )

    def entry(self, node: Node) -> bytes:
        """Return an entry that the kernel may keep for no time at all: it asks again each time."""
        return struct.pack("<4Q2I", node.number, 0, 0, 0, 0, 0) + node.attributes()

    def lookup(self, node: Node, body: bytes) -> bytes | int:
        """Find a name."""
        child = node.children.get(body.split(b"\0")[0])
        return errno.ENOENT if child is None else self.entry(child)

    def getattr(self, node: Node, _body: bytes) -> bytes:
        """Return what a file is."""
        return struct.pack("<QII", 0, 0, 0) + node.attributes()

    def setattr(self, node: Node, body: bytes) -> bytes:
        """Change what a file is."""
        valid, _, _, size, _, _, mtime, _, _, mtime_ns, _, mode = struct.unpack_from(
            "<IIQQQQQQIIII", body
        )
        if valid & _SET_MODE:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        if valid & _SET_SIZE:
            node.data[size:] = b""
            node.data.extend(bytes(size - len(node.data)))
            node.touch()
        if valid & _SET_MTIME_NOW:
            node.touch()
        elif valid & _SET_MTIME:
            node.modified = mtime * 10**9 + mtime_ns
        node.changed = time.time_ns()
        return self.getattr(node, b"")

    def add(self, parent: Node, name: bytes, mode: int) -> Node | int:
        """Make a file where there is none."""
        if name in parent.children:
            return errno.EEXIST
        number = max(self.nodes) + 1
        node = self.nodes[number] = parent.children[name] = Node(number, mode)
        parent.touch()
        return node

    def mknod(self, node: Node, body: bytes) -> bytes | int:
        """Make a file."""
        made = self.add(node, body[16:].split(b"\0")[0], struct.unpack_from("<I", body)[0])
        return made if isinstance(made, int) else self.entry(made)

    def mkdir(self, node: Node, body: bytes) -> bytes | int:
        """Make a directory."""
        mode = stat.S_IFDIR | struct.unpack_from("<I", body)[0]
        made = self.add(node, body[8:].split(b"\0")[0], mode)
        return made if isinstance(made, int) else self.entry(made)

    def create(self, node: Node, body: bytes) -> bytes | int:
        """Make a file and open it."""
        mode = struct.unpack_from("<II", body)[1]
        made = self.add(node, body[16:].split(b"\0")[0], stat.S_IFREG | stat.S_IMODE(mode))
        return made if isinstance(made, int) else self.entry(made) + self.opened(made, b"")

    def unlink(self, node: Node, body: bytes) -> bytes | int:
        """Remove a name; the file stays for those who have it open."""
        child = node.children.get(body.split(b"\0")[0])
        if child is None:
            return errno.ENOENT
        if child.children:
            return errno.ENOTEMPTY
        del node.children[body.split(b"\0")[0]]
        child.links = 0
        node.touch()
        return b""

    def rename(self, node: Node, body: bytes, start: int) -> bytes | int:
        """Give a file another name."""
        target = self.nodes.get(struct.unpack_from("<Q", body)[0])
        old, new = body[start:].split(b"\0")[:2]
        moved = node.children.get(old)
        if target is None or moved is None:
            return errno.ENOENT
        replaced = target.children.get(new)
        if replaced is not None and replaced.children:
            return errno.ENOTEMPTY
        if replaced is not None and stat.S_ISDIR(replaced.mode) and not stat.S_ISDIR(moved.mode):
            return errno.EISDIR
        target.children[new] = node.children.pop(old)
        moved.changed = time.time_ns()
        node.touch()
        target.touch()
        return b""

    def opened(self, _node: Node, _body: bytes) -> bytes:
        """Open a file: nothing of it may be kept by the kernel."""
        return struct.pack("<QII", 0, 1, 0)

    def read(self, node: Node, body: bytes) -> bytes:
        """Return a piece of a file."""
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(node.data[offset : offset + size])

    def write(self, node: Node, body: bytes) -> bytes:
        """Put a piece into a file."""
        _, offset, size = struct.unpack_from("<QQI", body)
        node.data[offset : offset + size] = body[40 : 40 + size]
        node.touch()
        return struct.pack("<II", size, 0)

    def readdir(self, node: Node, body: bytes) -> bytes:
        """Return names, from a position on, as many as there is room for."""
        _, offset, size = struct.unpack_from("<QQI", body)
        listed = b""
        entries = [(b".", node), (b"..", node), *node.children.items()]
        for position, (name, child) in enumerate(entries[offset:], offset + 1):
            kind = stat.S_IFMT(child.mode) >> 12
            entry = struct.pack("<QQII", child.number, position, len(name), kind) + name
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed


def serve(device: int, stalled: str) -> None:
    """Answer the kernel until the file system is unmounted."""
    files = FileSystem()
    while True:
        try:
            question = os.read(device, _BUFFER)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            continue
        _, opcode, unique, number, *_ = _IN.unpack_from(question)
        while os.path.exists(stalled):
            time.sleep(0.01)
        if opcode in (2, 36, 42):
            # What is forgotten or interrupted wants no answer.
            continue
        answer = files.answer(opcode, number, question[_IN.size :])
        code, data = (-answer, b"") if isinstance(answer, int) else (0, answer)
        try:
            os.write(device, _OUT.pack(_OUT.size + len(data), code, unique) + data)
        except OSError:
            # Whoever asked was killed meanwhile.
            continue


def mount(device: int, where: str) -> None:
    """Mount it, or raise ``OSError``."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40700,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"relay-test", os.fsencode(where), b"fuse", 0, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), where)


if __name__ == "__main__":
    opened = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    mount(opened, sys.argv[1])
    print("ready", flush=True)
    serve(opened, sys.argv[2])
