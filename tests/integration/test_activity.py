"""The activity source against the real kernel: sticky, coalesced, closed, degraded."""

from __future__ import annotations

import errno
import logging
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relay import inotify
from relay.activity import (
    ACTIVITY,
    CLOSED,
    LOOK_EVERYWHERE,
    TIMEOUT,
    ActivitySource,
    DirectoryWatch,
    TimerOnly,
)

#: Seconds of a wait that is ended by something else long before.
LONG = 60.0


@pytest.fixture
def watch() -> Iterator[DirectoryWatch]:
    """Return a watch on nothing yet."""
    source = DirectoryWatch()
    yield source
    source.close()


@pytest.fixture(params=[DirectoryWatch, TimerOnly])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ActivitySource]:
    """Return a source of each kind; a watch is armed."""
    made: ActivitySource = request.param()
    if isinstance(made, DirectoryWatch):
        assert made.add(str(tmp_path)) is not None
    yield made
    made.close()


def appear(directory: Path, name: str) -> None:
    """Let a name appear as everything in a session directory does: by rename."""
    other = directory / "written"
    other.touch()
    other.rename(directory / name)


def descriptors() -> int:
    """Return how many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


class TestSignals:
    def test_what_is_only_renamed_wakes_nobody(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """Where signals are waited for, a name appears with its signal."""
        key = watch.add(str(tmp_path), inotify.IN_ATTRIB)
        appear(tmp_path, "name")
        assert (TIMEOUT, []) == (watch.wait(0), watch.take())
        (tmp_path / "name").chmod(0o600)
        assert (ACTIVITY, [(key, "name")]) == (watch.wait(LONG), watch.take())

    def test_nobody_takes_anything_from_others(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """Who waits for renames goes on to hear of them, whatever others add and discard."""
        key = watch.add(str(tmp_path))
        assert key is not None
        assert key == watch.add(str(tmp_path), inotify.IN_ATTRIB)
        watch.discard(key, inotify.IN_ATTRIB)
        appear(tmp_path, "name")
        assert (ACTIVITY, [(key, "name")]) == (watch.wait(LONG), watch.take())

    def test_what_nobody_asks_for_any_more(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """Renames wake nobody once the last one who had asked for them asks for signals instead."""
        renames = watch.add(str(tmp_path)), watch.add(str(tmp_path))
        for turn, key in enumerate(renames):
            assert key is not None
            before = (key, inotify.IN_MOVED_TO)
            watch.add(str(tmp_path), inotify.IN_ATTRIB, instead=before)
            watch.discard(*before)
            appear(tmp_path, "name")
            expected = TIMEOUT if turn else ACTIVITY
            assert (expected, turn == 0) == (watch.wait(0), bool(watch.take()))


class TestContract:
    def test_nothing_happens(self, source: ActivitySource) -> None:
        """A wait in which nothing happens ends by its time."""
        assert TIMEOUT == source.wait(0.01)

    @pytest.mark.parametrize("timeout", [0, -1])
    def test_no_time_at_all(self, source: ActivitySource, timeout: float) -> None:
        """A wait without time looks and returns."""
        assert TIMEOUT == source.wait(timeout)

    def test_timeouts_leave_nothing_behind(self, source: ActivitySource) -> None:
        """Thousands of waits that time out open nothing and start nothing."""
        source.wait(0)
        before = (descriptors(), threading.active_count())
        assert {TIMEOUT} == {source.wait(0) for _ in range(5_000)}
        assert before == (descriptors(), threading.active_count())

    def test_close_wakes_the_waiter(self, source: ActivitySource) -> None:
        """A waiter in another thread hears that its source was closed."""
        heard: list[str] = []
        began = threading.Event()

        def wait() -> None:
            began.set()
            heard.append(source.wait(LONG))

        thread = threading.Thread(target=wait)
        thread.start()
        began.wait()
        source.close()
        thread.join()
        assert [CLOSED] == heard

    def test_a_closed_source_stays_closed(self, source: ActivitySource) -> None:
        """After close, each wait returns at once, and closing again does nothing."""
        source.close()
        source.close()
        assert [CLOSED, CLOSED] == [source.wait(LONG), source.wait(LONG)]

    def test_close_releases_everything(self, tmp_path: Path) -> None:
        """A closed source holds no descriptor."""
        before = descriptors()
        for _ in range(3):
            watch = DirectoryWatch()
            watch.add(str(tmp_path))
            watch.wait(0)
            watch.close()
        assert before == descriptors()

    def test_close_while_others_wait_releases_everything(self, tmp_path: Path) -> None:
        """A source that is closed under its waiter holds no descriptor either."""
        before = descriptors()
        watch = DirectoryWatch()
        watch.add(str(tmp_path))
        thread = threading.Thread(target=watch.wait, args=(LONG,))
        thread.start()
        watch.close()
        thread.join()
        assert before == descriptors()


class TestDirectoryWatch:
    def test_activity_before_the_wait_is_not_lost(
        self, watch: DirectoryWatch, tmp_path: Path
    ) -> None:
        """What happens between a look and the next wait ends that wait at once."""
        watch.add(str(tmp_path))
        appear(tmp_path, "a.req.json")
        assert ACTIVITY == watch.wait(LONG)

    def test_many_events_are_one_wake(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """However much happens at once, a waiter is woken once."""
        key = watch.add(str(tmp_path))
        names = [f"{n}.req.json" for n in range(50)]
        for name in names:
            appear(tmp_path, name)
        assert [ACTIVITY, TIMEOUT] == [watch.wait(LONG), watch.wait(0)]
        assert [(key, name) for name in names] == watch.take()
        assert [] == watch.take()

    def test_a_name_that_is_only_being_written_does_not_wake(
        self, watch: DirectoryWatch, tmp_path: Path
    ) -> None:
        """Only what appears by rename is activity; a file that grows is not."""
        watch.add(str(tmp_path))
        (tmp_path / "a.req.json.tmp.1").write_text("half")
        assert TIMEOUT == watch.wait(0)

    def test_collected_events_still_wake(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """What an event loop has taken in by itself ends the next wait too."""
        watch.add(str(tmp_path))
        appear(tmp_path, "a.req.json")
        watch.collect()
        assert [ACTIVITY, TIMEOUT] == [watch.wait(LONG), watch.wait(0)]

    def test_directories_are_told_apart(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """One watch serves many directories, and says in which one a name appeared."""
        keys = {}
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            keys[name] = watch.add(str(tmp_path / name))
        appear(tmp_path / "two", "x")
        watch.wait(LONG)
        assert [(keys["two"], "x")] == watch.take()

    def test_a_directory_added_twice_is_kept_until_discarded_twice(
        self, watch: DirectoryWatch, tmp_path: Path
    ) -> None:
        """Two users of one directory do not take it from each other."""
        keys = [watch.add(str(tmp_path)), watch.add(str(tmp_path))]
        assert 1 == len(set(keys))
        assert keys[0] is not None
        watch.discard(keys[0])
        assert keys[0] in watch.keys
        appear(tmp_path, "x")
        assert ACTIVITY == watch.wait(LONG)
        watch.discard(keys[0])
        assert keys[0] not in watch.keys
        watch.take()
        appear(tmp_path, "y")
        watch.wait(0)
        assert [] == watch.take()

    def test_an_unknown_key_is_discarded_quietly(self, watch: DirectoryWatch) -> None:
        """Giving up what is no longer there does nothing."""
        watch.discard(77)

    def test_a_directory_may_be_added_while_somebody_waits(
        self, watch: DirectoryWatch, tmp_path: Path
    ) -> None:
        """A waiter that began with nothing to watch is woken by what was added since."""
        seen: list[str] = []
        found = threading.Event()

        def wait() -> None:
            while not found.is_set() and watch.wait(LONG) == ACTIVITY:
                seen.extend(name for _, name in watch.take())
                if "x" in seen:
                    found.set()

        thread = threading.Thread(target=wait)
        thread.start()
        watch.add(str(tmp_path))
        appear(tmp_path, "x")
        thread.join()
        assert ["x"] == seen

    def test_nothing_is_added_after_close(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """A closed watch cannot be armed again."""
        watch.close()
        assert watch.add(str(tmp_path)) is None

    def test_hints_that_nobody_takes_are_bounded(
        self, watch: DirectoryWatch, tmp_path: Path
    ) -> None:
        """A waiter that never takes its hints is told to look everywhere, and memory stays."""
        watch.add(str(tmp_path))
        appear(tmp_path, "a")
        for turn in range(5_000):
            old, new = ("a", "b") if turn % 2 == 0 else ("b", "a")
            (tmp_path / old).rename(tmp_path / new)
            watch.collect()
        hints = watch.take()
        assert LOOK_EVERYWHERE == hints[0]
        assert len(hints) < 5_000

    def test_lost_events_mean_look_everywhere(
        self, watch: DirectoryWatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """When the kernel drops events, a waiter is woken and told that it may have missed any."""
        limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        watch.add(str(tmp_path))
        (tmp_path / "a").touch()
        names = [str(tmp_path / "a"), str(tmp_path / "b")]
        for turn in range(limit + 10):
            os.rename(names[turn % 2], names[1 - turn % 2])
        hints = []
        with caplog.at_level(logging.INFO):
            while watch.wait(0) == ACTIVITY:
                hints.extend(watch.take())
        assert LOOK_EVERYWHERE in hints
        assert 1 == len(caplog.messages)


class TestDegraded:
    def test_a_directory_that_is_not_there(
        self, watch: DirectoryWatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What cannot be watched leaves the timer, says so once, and may be tried again."""
        path = tmp_path / "later"
        assert [None, None] == [watch.add(str(path)), watch.add(str(path))]
        assert TIMEOUT == watch.wait(0)
        assert 1 == len(caplog.messages)
        assert "later" in caplog.messages[0]
        path.mkdir()
        assert watch.add(str(path)) is not None
        appear(path, "x")
        assert ACTIVITY == watch.wait(LONG)

    def test_a_file_is_not_watched(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """Only directories are watched."""
        (tmp_path / "file").touch()
        assert watch.add(str(tmp_path / "file")) is None

    def test_a_directory_that_is_removed(
        self, watch: DirectoryWatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The end of a directory wakes its waiter, is said once, and the watch can be re-armed."""
        path = tmp_path / "session"
        path.mkdir()
        key = watch.add(str(path))
        path.rmdir()
        assert ACTIVITY == watch.wait(LONG)
        assert (key, "") in watch.take()
        assert key not in watch.keys
        assert 1 == len(caplog.messages)
        path.mkdir()
        assert watch.add(str(path)) is not None
        appear(path, "x")
        assert ACTIVITY == watch.wait(LONG)

    def test_a_directory_that_is_moved_away(self, watch: DirectoryWatch, tmp_path: Path) -> None:
        """A directory that leaves its path wakes its waiter, who then looks at the path."""
        path = tmp_path / "session"
        path.mkdir()
        key = watch.add(str(path))
        path.rename(tmp_path / "elsewhere")
        assert ACTIVITY == watch.wait(LONG)
        assert (key, "") in watch.take()

    def test_no_inotify_left(
        self,
        watch: DirectoryWatch,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        without_descriptors: Callable[[Callable[[], object]], object],
    ) -> None:
        """At the limit a watch is a timer that says so once, and arms when there is room again."""
        assert inotify.available()
        assert None is without_descriptors(lambda: watch.add(str(tmp_path)))
        assert None is without_descriptors(lambda: watch.add(str(tmp_path)))
        assert TIMEOUT == watch.wait(0)
        assert 1 == len(caplog.messages)
        assert "no inotify instance is left" in caplog.messages[0]
        assert watch.add(str(tmp_path)) is not None
        appear(tmp_path, "x")
        assert ACTIVITY == watch.wait(LONG)

    def test_a_descriptor_that_fails(
        self, watch: DirectoryWatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A watch whose descriptor goes bad wakes its waiter, and can be armed anew."""
        watch.add(str(tmp_path))
        # A directory's descriptor is always ready, and reading it always fails.
        other = os.open(tmp_path, os.O_RDONLY)
        os.dup2(other, watch.fileno())
        os.close(other)
        assert ACTIVITY == watch.wait(LONG)
        assert [LOOK_EVERYWHERE] == watch.take()
        assert 1 == len(caplog.messages)
        assert watch.add(str(tmp_path)) is not None
        appear(tmp_path, "x")
        assert ACTIVITY == watch.wait(LONG)


@pytest.fixture
def without_descriptors() -> Callable[[Callable[[], object]], object]:
    """Return a function that runs another one while no further descriptor can be opened."""

    def run(function: Callable[[], object]) -> object:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.open("/", os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            return function()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return run


class TestInotify:
    def test_an_error_names_its_path(self, tmp_path: Path) -> None:
        """What could not be watched stands in the error."""
        fd = inotify.init()
        try:
            with pytest.raises(FileNotFoundError, match="nowhere"):
                inotify.add_watch(fd, str(tmp_path / "nowhere"), inotify.IN_MOVED_TO)
        finally:
            os.close(fd)

    def test_a_watch_that_is_gone_cannot_be_removed(self) -> None:
        """Removing twice is an error of the kernel's, handed on."""
        fd = inotify.init()
        try:
            with pytest.raises(OSError, match="Invalid argument") as caught:
                inotify.rm_watch(fd, 1)
        finally:
            os.close(fd)
        assert errno.EINVAL == caught.value.errno

    def test_a_system_without_inotify_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Elsewhere than on Linux, opening is an error that callers degrade on."""
        monkeypatch.setattr(inotify, "_libc", None)
        monkeypatch.setattr("sys.platform", "darwin")
        assert not inotify.available()
        with pytest.raises(OSError, match="this system has no inotify") as caught:
            inotify.init()
        assert errno.ENOSYS == caught.value.errno
