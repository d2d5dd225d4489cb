"""Whether a host keeps what ``Host`` promises: a suite that any implementation can run.

Each check is a coroutine that raises ``AssertionError`` with a sentence. A test of a host is then::

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_conforms(check, host, directory):
        asyncio.run(check(host, directory))

It needs a directory of its own on the host that is empty before each check. Checks that run a
command run ``sh``, and pass where the host has none, since a relay can do without.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable

from relay.hosts.host import Exists, Host, HostError, Missing, NoCommand, TooLarge

#: A name that every layer in between would love to interpret.
ODD = "-o dd'\"\n*$(x) é.txt"

#: Larger than an argument, a pipe and one request to a daemon may be.
_LARGE = 3_000_000

Check = Callable[[Host, str], Awaitable[None]]


def _expect(holds: object, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


async def _refuses(error: type[HostError], work: Awaitable[object], what: str) -> None:
    try:
        await work
    except error as raised:
        _expect(isinstance(raised.code, str), f"{what}: its error has no code")
        return
    except HostError as raised:
        told = f"{what}: {type(raised).__name__} instead of {error.__name__}"
        raise AssertionError(told) from raised
    raise AssertionError(f"{what}: nothing was raised instead of {error.__name__}")


async def written_bytes_are_read(host: Host, directory: str) -> None:
    """What is written is read, whatever the bytes are."""
    for data in (b"", b"text\n", b"\0\xff" * 500, "é€".encode() * 3000):
        path = posixpath.join(directory, "file")
        await host.write(path, data)
        _expect(await host.read(path, limit=100_000) == data, "other bytes were read than written")


async def large_files_travel(host: Host, directory: str) -> None:
    """A file of some megabytes is written and read whole."""
    path = posixpath.join(directory, "large")
    data = b"0123456789" * (_LARGE // 10)
    await host.write(path, data)
    _expect(await host.read(path, limit=_LARGE) == data, "a large file was changed on its way")


async def odd_paths_are_data(host: Host, directory: str) -> None:
    """Quotes, globs, newlines and dashes in a path mean themselves."""
    path = posixpath.join(directory, ODD)
    await host.write(path, b"odd")
    names = [entry.name for entry in await host.entries(directory)]
    _expect(names == [ODD], f"the directory holds {names!a}")
    _expect((await host.stat(path)).size == len(b"odd"), "its size is another")
    await host.move(path, path + "2")
    _expect(await host.read(path + "2", limit=10) == b"odd", "it was not moved")
    await host.remove(path + "2")
    _expect(await host.entries(directory) == [], "it was not removed")


async def writing_replaces(host: Host, directory: str) -> None:
    """A second write replaces the first, and leaves nothing else behind."""
    path = posixpath.join(directory, "file")
    await host.write(path, b"first")
    await host.write(path, b"second")
    _expect(await host.read(path, limit=10) == b"second", "the old bytes are there")
    _expect(len(await host.entries(directory)) == 1, "something was left beside the file")


async def writing_takes_the_place_of_another(host: Host, directory: str) -> None:
    """A write removes the file that it is instead of; where that is gone, it writes nothing."""
    one, other = posixpath.join(directory, "one"), posixpath.join(directory, "other")
    for size in (1, 200_000):
        await host.write(one, b"1")
        await host.write(other, b"2" * size, instead_of=one)
        _expect([e.name for e in await host.entries(directory)] == ["other"], "it was not removed")
        await host.write(other, b"3" * size, instead_of=one)
        _expect(await host.read(other, limit=size) == b"2" * size, "it was written once more")
        _expect([e.name for e in await host.entries(directory)] == ["other"], "something is left")


async def readers_see_whole_files(host: Host, directory: str) -> None:
    """Whoever reads while it is written sees the old bytes or the new ones."""
    path = posixpath.join(directory, "file")
    versions = [bytes([65 + number]) * 60_000 for number in range(4)]
    await host.write(path, versions[0])
    seen: list[bytes] = []

    async def read() -> None:
        seen.extend([await host.read(path, limit=100_000) for _ in range(8)])

    async def write() -> None:
        for data in versions[1:]:
            await host.write(path, data)

    await asyncio.gather(read(), write())
    _expect(set(seen) <= set(versions), "a reader saw half of a file")


async def moving_replaces_nothing(host: Host, directory: str) -> None:
    """A move to a name that is taken is refused, and both files stay."""
    one, other = posixpath.join(directory, "one"), posixpath.join(directory, "other")
    await host.write(one, b"1")
    await host.write(other, b"2")
    await _refuses(Exists, host.move(one, other), "a move to a taken name")
    _expect(await host.read(one, limit=10) == b"1", "the source is gone")
    _expect(await host.read(other, limit=10) == b"2", "the target was replaced")


async def moving_has_one_winner(host: Host, directory: str) -> None:
    """Of several moves of one file, to different names, one succeeds."""
    source = posixpath.join(directory, "source")
    await host.write(source, b"x")
    targets = [posixpath.join(directory, f"target{number}") for number in range(4)]
    moves = (host.move(source, target) for target in targets)
    ended = await asyncio.gather(*moves, return_exceptions=True)
    won = sum(outcome is None for outcome in ended)
    _expect(won == 1, f"{won} of the moves succeeded")
    _expect(len(await host.entries(directory)) == 1, "the file was copied")


async def what_is_missing_is_said_to_be(host: Host, directory: str) -> None:
    """Every operation on a path that is not there says so, but for its removal."""
    path = posixpath.join(directory, "missing")
    await _refuses(Missing, host.read(path, limit=10), "reading a missing file")
    await _refuses(Missing, host.stat(path), "looking at a missing file")
    await _refuses(Missing, host.entries(path), "listing a missing directory")
    await _refuses(Missing, host.move(path, path + "2"), "moving a missing file")
    below = posixpath.join(path, "file")
    await _refuses(Missing, host.write(below, b"x"), "writing into a missing directory")
    large = b"\0" * 200_000
    await _refuses(Missing, host.write(below, large), "writing much into a missing directory")
    await host.remove(path)


async def reading_is_bounded(host: Host, directory: str) -> None:
    """A file that is longer than wanted is not read."""
    path = posixpath.join(directory, "file")
    await host.write(path, b"x" * 1001)
    await _refuses(TooLarge, host.read(path, limit=1000), "reading more than wanted")
    _expect(len(await host.read(path, limit=1001)) == 1001, "exactly as much as wanted is refused")


async def entries_tell_sizes_and_times(host: Host, directory: str) -> None:
    """A listing tells the size, and a time that does not go backwards."""
    path = posixpath.join(directory, "file")
    await host.write(path, b"12345")
    (first,) = await host.entries(directory)
    await host.write(path, b"1234567")
    second = await host.stat(path)
    _expect(first.size == 5 and second.size == 7, "a size is wrong")
    _expect(second.modified >= first.modified > 1e9, "a time is wrong")
    _expect(not first.directory, "a file is said to be a directory")


async def commands_get_their_arguments(host: Host, directory: str) -> None:
    """A command gets each argument as it is, and its output and exit code come back."""
    argv = ["sh", "-c", 'printf %s "$1" "$2"; exit 3', "sh", ODD, directory]
    try:
        done = await host.run(argv, seconds=20, max_output=10_000)
    except NoCommand:
        return
    _expect(done.stdout == ODD + directory, f"the output is {done.stdout!a}")
    _expect(done.code == 3, f"the exit code is {done.code}")


async def missing_commands_are_told(host: Host, directory: str) -> None:
    """A command that is not there is told from one that failed."""
    path = posixpath.join(directory, "no such command")
    await _refuses(NoCommand, host.run([path], seconds=20, max_output=100), "a missing command")


async def commands_end_in_time(host: Host, directory: str) -> None:
    """A command that takes too long is given up."""
    del directory
    try:
        done = await host.run(["sleep", "5"], seconds=0.2, max_output=100)
    except NoCommand:
        return
    _expect(done.timed_out and done.code is None, f"it ended as {done}")


async def output_is_bounded(host: Host, directory: str) -> None:
    """Output beyond what is wanted is cut, and said to be."""
    del directory
    argv = ["sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo 0123456789; i=$((i+1)); done"]
    try:
        done = await host.run(argv, seconds=20, max_output=1000)
    except NoCommand:
        return
    _expect(done.cut and len(done.stdout) <= 1000, "the output was not cut")


async def requests_are_counted(host: Host, directory: str) -> None:
    """What is sent is counted by its kind."""
    before = host.requests.copy()
    await host.entries(directory)
    await host.write(posixpath.join(directory, "file"), b"x", kind="special")
    sent = host.requests - before
    _expect(sent["list"] == 1, f"a listing counts {sent['list']}")
    _expect(sent["special"] >= 1, "a write is not counted under its kind")


async def renewing_loses_nothing(host: Host, directory: str) -> None:
    """What is under way while the connections are given up still ends, and new requests work."""
    path = posixpath.join(directory, "file")
    await host.write(path, b"x")
    reading = asyncio.ensure_future(host.read(path, limit=10))
    await asyncio.sleep(0)
    host.renew()
    _expect(await host.read(path, limit=10) == b"x", "nothing can be read any more")
    _expect(await reading == b"x", "what was under way was lost")


CHECKS: tuple[Check, ...] = (
    written_bytes_are_read,
    large_files_travel,
    odd_paths_are_data,
    writing_replaces,
    writing_takes_the_place_of_another,
    readers_see_whole_files,
    moving_replaces_nothing,
    moving_has_one_winner,
    what_is_missing_is_said_to_be,
    reading_is_bounded,
    entries_tell_sizes_and_times,
    commands_get_their_arguments,
    missing_commands_are_told,
    commands_end_in_time,
    output_is_bounded,
    requests_are_counted,
    renewing_loses_nothing,
)
