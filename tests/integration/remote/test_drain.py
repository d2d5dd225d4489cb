"""The program that runs in a sandbox, as a process, by every interpreter that is at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from relay.remote.program import node_program, python_program
from relay.remote.report import Batches, Report, read_report

PATIENCE = 20.0


def interpreters() -> Iterator[tuple[str, list[str]]]:
    """Yield how the program is run by each interpreter: the oldest Python it has to work on too."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {path.name[:4].rstrip("."): path for path in sorted(pyenv.glob("3.[0-9]*.*"))}
    for version in ("3.6", "3.13"):
        program = shutil.which(f"python{version}") if version not in found else None
        path = found[version] / "bin" / "python3" if version in found else program
        if path is not None and "shims" not in str(path):
            yield version, [str(path), "-I", "-S", "-c", python_program()]
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if system and "3.13" not in found:
        yield "system", [system, "-I", "-S", "-c", python_program()]
    node = shutil.which("node")
    if node:
        yield "node", [node, "-e", node_program(), "--"]


INTERPRETERS = dict(interpreters())


class Box:
    """A session directory inside a sandbox, and the program in it."""

    def __init__(self, argv: list[str], folder: Path) -> None:
        self.argv = argv
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []

    def begin(self, **options: object) -> subprocess.Popen[str]:
        """Start the program."""
        given = {"dir": self.folder, "runner": "me", "generation": 1, **options}
        words = [f"{name}={value}" for name, value in given.items()]
        process = subprocess.Popen(
            [*self.argv, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.running.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Report:
        """Wait for its end, and return what it says."""
        out, err = process.communicate(timeout=PATIENCE)
        assert "" == err
        assert out.isascii()
        return read_report(out)

    def run(self, **options: object) -> Report:
        """Run it to its end."""
        return self.end(self.begin(**options))

    def look(self, **options: object) -> Report:
        """Look once, with room for everything."""
        return self.run(**{"count": 10, "bytes": 10_000, **options})

    def wait(self, **options: object) -> subprocess.Popen[str]:
        """Start a long window that only an event can end in time."""
        asked = {"count": 10, "bytes": 10_000, "window": 60, "rescan": 60, "poll": 60}
        return self.begin(**{**asked, **options})

    def ask(self, request: str, data: bytes = b"{}") -> Path:
        """Publish a request."""
        temp = self.folder / f"{request}.req.json.tmp.0123456789ab"
        temp.write_bytes(data)
        return temp.rename(self.folder / f"{request}.req.json")

    def lease(self) -> str:
        """Return what the lease says."""
        return (self.folder / ".relay-lease").read_text()

    def watches(self, pid: int) -> bool:
        """Whether a process watches: by inotify, or by the directory opened a second time."""
        links = []
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        return links.count(str(self.folder)) > 1 or any("inotify" in link for link in links)

    def settled(self, process: subprocess.Popen[str]) -> None:
        """Wait until a window really waits: it then sleeps in poll."""
        deadline = time.monotonic() + PATIENCE
        while not self.watches(process.pid):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.02)


@pytest.fixture(params=INTERPRETERS)
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    """Give a directory with an odd name whose lease is taken."""
    folder = tmp_path / "-o dd 'q\"\n*$(x) é"
    folder.mkdir(mode=0o700)
    box = Box(INTERPRETERS[request.param], folder)
    assert "idle" == box.run(take="force").status
    yield box
    for process in box.running:
        process.kill()
        process.communicate()


class TestProgram:
    @pytest.mark.parametrize("program", [python_program, node_program])
    def test_is_short(self, program: Callable[[], str]) -> None:
        """It travels with every request, in a few packets."""
        assert 6 * 1024 > len(program())


class TestLooking:
    def test_idle(self, box: Box) -> None:
        """Where nothing is there, it says so at once."""
        assert "idle" == box.look().status

    def test_claims_and_prints(self, box: Box) -> None:
        """A request is claimed, and its bytes, its age and what identifies it are printed."""
        box.ask("a-1_Z", b'{"toolName": "x"}')
        report = box.look()
        assert "claimed" == report.status
        (claim,) = report.claims
        assert ("a-1_Z", b'{"toolName": "x"}') == (claim.request, claim.data)
        assert 0 <= claim.age < PATIENCE
        found = (box.folder / "a-1_Z.claim.me").stat()
        assert (found.st_ino, found.st_mtime_ns) == (claim.ino, claim.mtime)

    def test_prints_again_until_known(self, box: Box) -> None:
        """A batch that was lost on the wire is printed again; what is known is not."""
        box.ask("a")
        first, second = box.look(), box.look()
        assert first.claims[0].key == second.claims[0].key
        assert "idle" == box.look(known=first.claims[0].key).status

    def test_foreign_names_stay(self, box: Box) -> None:
        """Names that are no requests are left alone."""
        for name in ("x.json", "a b.req.json", "é.req.json", ".req.json", "a.claim.x.y"):
            (box.folder / name).write_text("{}")
        before = sorted(os.listdir(box.folder))
        assert "idle" == box.look(keep=1).status
        assert before == sorted(os.listdir(box.folder))

    def test_id_that_is_claimed_waits(self, box: Box) -> None:
        """A second request under an id in flight is not taken before the first is answered."""
        box.ask("a", b"[1]")
        key = box.look().claims[0].key
        box.ask("a", b"[2]")
        assert "idle" == box.look(known=key).status
        (box.folder / "a.claim.me").unlink()
        assert b"[2]" == box.look(known=key).claims[0].data

    def test_bounds(self, box: Box) -> None:
        """As many are taken as are wanted and fit; the rest stay for the next look."""
        for number in range(5):
            box.ask(f"r{number}", b"x" * 400)
        assert 2 == len(box.look(count=2).claims)
        assert 2 == len(box.look(bytes=1000, count=3, known="").claims)
        assert 5 == len(list(box.folder.glob("*.claim.me"))) + len(
            list(box.folder.glob("*.req.json"))
        )

    def test_points_to_what_is_large(self, box: Box) -> None:
        """What is too large to print is claimed and named, with its size."""
        box.ask("big", b"x" * 20_000)
        (claim,) = box.look().claims
        assert (None, 20_000) == (claim.data, claim.size)

    def test_hostile_files(self, box: Box, tmp_path: Path) -> None:
        """Links, pipes and directories are claimed to be refused; nothing blocks or is followed."""
        secret = tmp_path / "secret"
        secret.write_text("secret")
        (box.folder / "link.req.json").symlink_to(secret)
        os.mkfifo(box.folder / "pipe.req.json")
        (box.folder / "dir.req.json").mkdir()
        os.link(secret, box.folder / "hard.req.json")
        report = box.look()
        assert {"link", "pipe", "dir", "hard"} == {claim.request for claim in report.claims}
        assert all(claim.bad and claim.data is None for claim in report.claims)

    def test_callers_that_take_back(self, box: Box) -> None:
        """A claim that its caller took back goes with its cancel, is told, and frees its id."""
        box.ask("a")
        (claim,) = box.look().claims
        (box.folder / "a.cancel").touch()
        (box.folder / "b.claim.other").write_text("{}")
        (box.folder / "b.cancel").touch()
        report = box.look(known=claim.key)
        assert ("claimed", (), ("a",)) == (report.status, report.claims, report.cancelled)
        assert [".relay-lease", "b.cancel", "b.claim.other"] == sorted(os.listdir(box.folder))
        box.ask("a")
        assert ["a"] == [one.request for one in box.look().claims]

    def test_cancel_that_cannot_be_removed(self, box: Box) -> None:
        """A directory that is named as a cancel is one, once."""
        box.ask("a")
        box.look()
        (box.folder / "a.cancel").mkdir()
        assert ("a",) == box.look().cancelled
        assert ("idle", ()) == (box.look().status, box.look().cancelled)

    def test_cancel_ends_a_window(self, box: Box) -> None:
        """It is found by the rescan, at the latest."""
        box.ask("a")
        (claim,) = box.look().claims
        process = box.wait(known=claim.key, rescan=0.1)
        box.settled(process)
        (box.folder / "a.cancel").touch()
        assert ("a",) == box.end(process).cancelled

    def test_claims_of_others(self, box: Box) -> None:
        """Another runner's claims are told and never taken."""
        (box.folder / "a.claim.other").write_text("{}")
        report = box.look()
        assert [("a", "other")] == [(f.request, f.runner) for f in report.foreign]
        assert (box.folder / "a.claim.other").exists()

    def test_removes_what_nobody_fetched(self, box: Box) -> None:
        """Old responses and old temporary files go, younger ones stay."""
        old, young = time.time() - 100, time.time() - 30
        ages = {"a.res.json": old, "b.res.json": young, "c.req.json.tmp.0a": old, "d.tmp.0a": old}
        ages |= {"e.cancel": old, "f.cancel": young, "not.one.cancel": old}
        for name, when in ages.items():
            (box.folder / name).write_text("{}")
            os.utime(box.folder / name, (when, when))
        box.look(keep=60)
        left = {name for name in os.listdir(box.folder) if not name.startswith(".")}
        assert {"b.res.json", "d.tmp.0a", "f.cancel", "not.one.cancel"} == left

    def test_directory_that_is_missing(self, box: Box) -> None:
        """A directory that is not there is told from a failure."""
        assert "gone" == box.run(dir=box.folder / "none").status


class TestWaiting:
    def test_event_ends_it(self, box: Box) -> None:
        """A request that is published while it waits is printed at once."""
        process = box.wait()
        box.settled(process)
        box.ask("a")
        report = box.end(process)
        assert ("claimed", ["a"]) == (report.status, [c.request for c in report.claims])

    def test_window_ends(self, box: Box) -> None:
        """It ends by itself, and says that it watched."""
        report = box.run(count=1, bytes=10, window=0.2, rescan=2, poll=1)
        assert ("expired", True) == (report.status, report.watched)

    def test_new_lease_ends_it(self, box: Box) -> None:
        """Whoever takes the lease ends what waits under an older one, and nothing is claimed."""
        process = box.wait()
        box.settled(process)
        box.run(runner="other", take="force")
        report = box.end(process)
        assert ("superseded", "other") == (report.status, report.holder)
        box.ask("a")
        assert "superseded" == box.look().status
        assert (box.folder / "a.req.json").exists()

    def test_release_ends_it(self, box: Box) -> None:
        """A stopped runner's window ends at once, and its lease is nobody's."""
        process = box.wait()
        box.settled(process)
        assert "released" == box.run(release=1).status
        report = box.end(process)
        assert ("superseded", "") == (report.status, report.holder)
        assert "" == box.lease()

    def test_directory_that_goes_away(self, box: Box) -> None:
        """A directory that is removed, moved or replaced ends it."""
        process = box.wait()
        box.settled(process)
        box.folder.rename(box.folder.parent / "moved")
        box.folder.mkdir()
        assert "gone" == box.end(process).status

    def test_link_that_takes_its_place(self, box: Box, tmp_path: Path) -> None:
        """It is not followed, neither by a window nor later, unless it is the operator's."""
        process = box.wait(rescan=0.1)
        box.settled(process)
        other = tmp_path / "other"
        box.folder.rename(other)
        box.folder.symlink_to(other)
        assert "gone" == box.end(process).status
        box.ask("a")
        assert "gone" == box.look().status
        assert "a.req.json" in os.listdir(other)
        report = box.look(follow=1)
        assert (True, ["a"]) == (report.linked, [claim.request for claim in report.claims])
        assert not box.look(dir=other).linked

    def test_nothing_is_left(self, box: Box) -> None:
        """After its end no process of it is there: it started none."""
        process = box.wait(window=0.2)
        box.settled(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        assert "" == children.strip()
        box.end(process)


class TestLease:
    def test_free_takes_nobodys_only(self, box: Box) -> None:
        """A lease that another runner holds is not taken unless by force."""
        assert "superseded" == box.run(runner="other", take="free").status
        assert "me 1\n" == box.lease()
        box.run(release=1)
        report = box.run(runner="other", generation=7, take="free")
        assert ("idle", "") == (report.status, report.before)
        assert "other 7\n" == box.lease()

    def test_taking_tells_whose_it_was(self, box: Box) -> None:
        """Whoever takes it by force learns who had it."""
        assert "me" == box.run(runner="other", take="force").before

    def test_later_generation_stays(self, box: Box) -> None:
        """A drain that is late does not bring an older generation back."""
        box.run(generation=5, take="free")
        assert "superseded" == box.run(generation=4, take="free").status
        assert "me 5\n" == box.lease()

    def test_release_leaves_anothers(self, box: Box) -> None:
        """A runner that stops does not empty a lease that is no longer its own."""
        box.run(runner="other", take="force")
        box.run(release=1)
        assert "other 1\n" == box.lease()

    @pytest.mark.parametrize("text", ["", "me", "me x", "me 1 2", "\0" * 50, "me 1\nme 2"])
    def test_broken_lease_is_nobodys(self, box: Box, text: str) -> None:
        """A lease that makes no sense is superseded by nobody, and can be taken."""
        (box.folder / ".relay-lease").write_text(text)
        report = box.look()
        assert ("superseded", "") == (report.status, report.holder)
        assert "idle" == box.run(take="free").status


class TestUnread:
    @pytest.mark.parametrize("name", [n for n in INTERPRETERS if n != "node"])
    def test_ends_when_nobody_reads(self, name: str, tmp_path: Path) -> None:
        """A program whose output nobody will read does not wait for its window's end."""
        box = Box(INTERPRETERS[name], tmp_path)
        box.run(take="force")
        process = box.wait(rescan=0.1)
        box.settled(process)
        assert process.stdout is not None
        process.stdout.close()
        assert 0 <= process.wait(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()


class TestStreaming:
    @pytest.mark.parametrize("name", [n for n in INTERPRETERS if n != "node"])
    def test_prints_batch_after_batch(self, name: str, tmp_path: Path) -> None:
        """Where its output is read as it comes, it stays, and prints each request once."""
        box = Box(INTERPRETERS[name], tmp_path)
        box.run(take="force")
        process = box.wait(stream=1, count=3, bytes=1_000_000)
        told: list[Report] = []
        batches = Batches(told.append)
        assert process.stdout is not None
        for request in ("a", "b"):
            box.ask(request)
            while not told or told[-1].claims[0].request != request:
                batches.take(process.stdout.readline().encode())
        box.ask("c")
        box.ask("d")
        rest, _ = process.communicate(timeout=PATIENCE)
        batches.take(rest.encode())
        assert ["a", "b"] == [claim.request for one in told[:2] for claim in one.claims]
        assert "claimed" == read_report(batches.rest).status
        assert 1 == len(list(tmp_path.glob("*.req.json")))


class TestHolding:
    def test_tells_the_claim_that_is_there(self, box: Box) -> None:
        """A claim is told by what identifies it, whoever has the lease; a missing one is not."""
        box.ask("a")
        (claim,) = box.look().claims
        box.run(take="force", runner="other")
        (found,) = box.run(holds="a", count=1).claims
        assert (claim.key, None) == (found.key, found.data)
        assert () == box.run(holds="b", count=1).claims


class TestCensus:
    def test_names_that_come_and_go(self, box: Box) -> None:
        """It ends as soon as a directory is made, renamed or removed, and never takes anything."""
        box.ask("a")
        before = box.run(since=0, window=60, rescan=60)
        assert "changed" == before.status
        steps = (
            (box.folder / "new").mkdir,
            lambda: (box.folder / "new").rename(box.folder / "newer"),
            (box.folder / "newer").rmdir,
        )
        for step in steps:
            process = box.begin(since=before.mtime, window=60, rescan=60)
            box.settled(process)
            step()
            after = box.end(process)
            assert "changed" == after.status
            assert before.mtime < after.mtime
            before = after
        assert ["a.req.json"] == [p.name for p in box.folder.glob("a*")]

    def test_nothing_happens(self, box: Box) -> None:
        """It ends with its window."""
        before = box.run(since=0, window=0, rescan=1)
        assert "expired" == box.run(since=before.mtime, window=0.1, rescan=60).status

    def test_directory_that_is_missing(self, box: Box) -> None:
        """It is made where that is asked for, and else said to be gone."""
        missing = box.folder / "root"
        assert "gone" == box.run(dir=missing, since=0, window=0, rescan=1).status
        assert "changed" == box.run(dir=missing, since=0, window=0, rescan=1, make=1).status
        assert missing.is_dir()
