"""Changing the overrides: whole or not at all, and a kill through everything."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from relayconf.errors import WriteError
from relayconf.overrides.document import parse
from relayconf.overrides.reading import Reader
from relayconf.state.clock import Clock

FAST = ("APP_FAST", "kill")


class TestChanging:
    def test_a_change_is_in_all_three_places(self, state: Any) -> None:
        """The document, its copy and the audit agree on it."""
        outcome = state.kill()
        assert [FAST] == state.in_force()
        assert state.file().read_bytes() == state.file("overrides.last.json").read_bytes()
        assert (["kill"], []) == (state.actions(), state.faults())
        assert (1, 1) == (outcome.document.generation, state.document().overrides[0].generation)

    def test_there_is_one_entry_for_a_kill(self, state: Any) -> None:
        """Killed twice, the later reason stands."""
        state.kill()
        state.kill()
        assert ([FAST], 2, []) == (state.in_force(), state.document().generation, state.faults())

    def test_a_restore_takes_the_kill_first(self, state: Any) -> None:
        """What was set before a kill is in force again after it, and goes with the next restore."""
        state.set("APP_FAST", "true")
        state.kill()
        state.restore("APP_FAST")
        assert [("APP_FAST", "set")] == state.in_force()
        state.restore("APP_FAST")
        assert [] == state.in_force()

    def test_everything_can_be_restored_at_once(self, state: Any) -> None:
        """Kills and values go together where that is asked for."""
        state.set("APP_N", "5")
        state.set("APP_FAST", "true")
        state.kill()
        state.restore(everything=True)
        assert ([], []) == (state.in_force(), state.faults())

    def test_restoring_nothing_writes_nothing(self, state: Any) -> None:
        """Neither the document nor the audit is touched."""
        state.kill()
        before = state.file().read_bytes()
        assert not state.restore("APP_OTHER").changed
        assert (before, ["kill"]) == (state.file().read_bytes(), state.actions())

    def test_unusable_entries_stay_until_they_are_restored(self, state: Any) -> None:
        """A change keeps what it does not understand, and a restore by name removes it."""
        odd = {"target": "app", "name": "APP_ODD", "kind": "puzzle", "more": [1, {"a": None}]}
        state.file().write_text(json.dumps({"entries": [odd, 17]}))
        state.kill()
        assert [odd, 17] == [item.raw for item in state.document().quarantined]
        state.restore("APP_ODD")
        assert [17] == [item.raw for item in state.document().quarantined]

    def test_a_generation_is_higher_than_any_that_was_seen(self, state: Any) -> None:
        """After an older document was put back, no instance's acknowledgement fits by chance."""
        state.kill()
        old = state.file().read_bytes()
        for _ in range(3):
            state.kill()
        state.file().write_bytes(old)
        assert 5 == state.kill().document.generation
        assert 50 == state.store(least=49).change(_again).document.generation

    def test_crashes_leave_no_files(self, state: Any) -> None:
        """A temporary file that a crash left is removed by a later change."""
        left = state.file(".overrides.json.1.abc.tmp")
        left.write_text("x")
        os.utime(left, (0, 0))
        state.kill()
        assert not left.exists()


def _again(document: Any) -> Any:
    from relayconf.overrides.attempt import Edit  # noqa: PLC0415 - for one test alone

    return Edit(document.overrides, (), ({"action": "kill", "target": "app"},))


class TestBroken:
    @pytest.mark.parametrize("data", [b"", b'{"version": 1, "gen', b"\x00" * 100, b"[]", None])
    def test_it_is_rebuilt_under_the_next_change(self, state: Any, data: bytes | None) -> None:
        """A truncated, empty or deleted document forgets no kill, and the broken one is kept."""
        state.kill("APP_ONE")
        state.kill("APP_TWO")
        state.restore("APP_TWO")
        if data is None:
            state.file().unlink()
        else:
            state.file().write_bytes(data)
        outcome = state.kill("APP_THREE")
        assert [("APP_ONE", "kill"), ("APP_THREE", "kill")] == state.in_force()
        assert (1, []) == (len(outcome.alarms), state.faults())
        aside = list(state.path.glob("overrides.broken-*"))
        assert [data] == [path.read_bytes() for path in aside] or data is None

    def test_the_audit_alone_is_enough(self, state: Any) -> None:
        """With the copy broken too, every line of the audit is replayed."""
        state.kill("APP_ONE")
        state.kill("APP_TWO")
        for name in ("overrides.json", "overrides.last.json"):
            state.file(name).write_text("{")
        state.kill("APP_THREE")
        assert ["APP_ONE", "APP_THREE", "APP_TWO"] == [name for name, _ in state.in_force()]

    @pytest.mark.parametrize("name", ["overrides.json", "overrides.last.json"])
    def test_a_directory_in_its_place_is_moved_aside(self, state: Any, name: str) -> None:
        """What somebody planted there holds up no kill."""
        state.kill("APP_ONE")
        state.file(name).unlink()
        (state.file(name) / "inner").mkdir(parents=True)
        state.kill("APP_TWO")
        assert [("APP_ONE", "kill"), ("APP_TWO", "kill")] == state.in_force()

    def test_a_link_in_its_place_is_replaced(self, state: Any, tmp_path: Path) -> None:
        """A change writes the name, not what it leads to."""
        elsewhere = tmp_path / "elsewhere.json"
        elsewhere.write_text('{"entries": []}')
        state.file().symlink_to(elsewhere)
        state.kill()
        assert ('{"entries": []}', [FAST]) == (elsewhere.read_text(), state.in_force())
        assert not state.file().is_symlink()


class TestAudit:
    @pytest.mark.parametrize("obstacle", ["directory", "link"])
    def test_a_kill_goes_through_without_it(self, state: Any, obstacle: str) -> None:
        """It is in force, the alarm says so, and its line is written by the next change."""
        place = state.file("audit.jsonl")
        if obstacle == "directory":
            place.mkdir()
        else:
            place.symlink_to("/dev/full")
        outcome = state.kill()
        assert ([FAST], 1) == (state.in_force(), len(outcome.document.audit.owed))
        assert "the audit cannot be written" in outcome.alarms[0]
        place.rmdir() if obstacle == "directory" else place.unlink()
        state.kill("APP_TWO")
        assert (["kill", "kill"], []) == (state.actions(), state.faults())

    def test_nothing_else_does(self, state: Any) -> None:
        """A value or a restore that cannot be audited is refused, and nothing has changed."""
        state.kill()
        state.file("audit.jsonl").unlink()
        state.file("audit.jsonl").mkdir()
        before = state.file().read_bytes()
        with pytest.raises(WriteError, match="nothing was changed"):
            state.set("APP_N", "5")
        with pytest.raises(WriteError, match="nothing was changed"):
            state.restore("APP_FAST")
        assert before == state.file().read_bytes()

    def test_half_a_line_is_cut_off_and_kept(self, state: Any) -> None:
        """What a loss of power left at the end breaks no chain."""
        state.kill()
        with state.file("audit.jsonl").open("ab") as file:
            file.write(b'{"seq": 2, "at": "2026')
        state.kill("APP_TWO")
        assert (["kill", "kill"], []) == (state.actions(), state.faults())
        assert b'{"seq": 2, "at": "2026\n' == state.file("audit.torn").read_bytes()

    def test_a_line_without_its_end_is_a_line(self, state: Any) -> None:
        """Only the newline was lost; nothing is cut off."""
        state.kill()
        whole = state.file("audit.jsonl").read_bytes()
        state.file("audit.jsonl").write_bytes(whole.rstrip(b"\n"))
        state.kill("APP_TWO")
        assert (["kill", "kill"], []) == (state.actions(), state.faults())

    def test_an_interrupted_change_is_called_void(self, state: Any) -> None:
        """A line whose change never reached the document is no riddle in the history."""
        state.kill()
        before = state.file().read_bytes()
        state.kill("APP_TWO")
        state.file().write_bytes(before)
        state.kill("APP_THREE")
        assert (["kill", "kill", "void", "kill"], []) == (state.actions(), state.faults())
        assert [FAST, ("APP_THREE", "kill")] == state.in_force()

    def test_a_lost_tail_is_a_gap_for_ever(self, state: Any) -> None:
        """Lines that were cut off stay missing, also after further changes."""
        for number in range(3):
            state.kill(f"APP_{number}")
        lines = state.file("audit.jsonl").read_bytes().splitlines(keepends=True)
        state.file("audit.jsonl").write_bytes(lines[0])
        state.kill("APP_MORE")
        assert "line 2: it is number 4 and should be 2" in state.faults()[0]


class TestEnds:
    def test_the_first_to_notice_audits_it_once(self, state: Any) -> None:
        """However many look, there is one line."""
        state.kill(ttl_ms=1, clock=Clock(lambda: 0.0, lambda: 0, lambda: "gone"))
        assert [True, False, False] == [state.store().expire() for _ in range(3)]
        assert (["kill", "expire"], []) == (state.actions(), state.in_force())

    def test_a_change_cleans_up_first(self, state: Any) -> None:
        """Where no process lives, the next command audits the end."""
        state.kill(ttl_ms=1, clock=Clock(lambda: 0.0, lambda: 0, lambda: "gone"))
        state.kill("APP_TWO")
        assert (["kill", "expire", "kill"], [("APP_TWO", "kill")]) == (
            state.actions(),
            state.in_force(),
        )


class TestPuttingBack:
    def test_an_emptied_directory_gets_its_document_back(self, state: Any) -> None:
        """A live instance restores what was deleted, in a chain of its own."""
        state.kill()
        document = state.document()
        for name in ("overrides.json", "overrides.last.json", "audit.jsonl"):
            state.file(name).unlink()
        assert state.store().put_back(document)
        assert ([FAST], []) == (state.in_force(), state.faults())
        assert state.document().generation > document.generation

    def test_any_trace_of_another_one_forbids_it(self, state: Any) -> None:
        """Who was faster wins."""
        state.kill()
        document = state.document()
        state.restore("APP_FAST")
        assert not state.store().put_back(document)
        assert [] == state.in_force()


class TestLock:
    def test_a_holder_that_does_not_get_on_holds_up_nobody(self, state: Any) -> None:
        """A kill waits for a second, then goes through without the lock."""
        state.kill()
        fd = os.open(state.file("locks/overrides.lock"), os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        state.kill("APP_TWO")
        os.close(fd)
        assert ([FAST, ("APP_TWO", "kill")], []) == (state.in_force(), state.faults())

    def test_a_crowd_that_is_held_up_comes_to_an_end(self, state: Any) -> None:
        """Changes of one flag without the lock: none is made over and over against the others."""
        state.kill()
        fd = os.open(state.file("locks/overrides.lock"), os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        words = [(state.kill,), (state.restore, "APP_FAST"), (state.set, "APP_FAST", "true")] * 3
        crowd = [threading.Thread(target=w[0], args=w[1:], daemon=True) for w in words]
        for thread in crowd:
            thread.start()
        until = time.monotonic() + 60
        for thread in crowd:
            thread.join(until - time.monotonic())
        os.close(fd)
        assert not any(thread.is_alive() for thread in crowd)
        actions = state.actions()
        assert actions.count("kill") >= 4
        assert actions.count("set") >= 3
        # Each writes a line; a slow machine may make one of them write again.
        assert (True, []) == (len(actions) < 20, state.faults())

    def test_a_restore_that_is_held_up_leaves_the_value(self, state: Any) -> None:
        """It takes the kill and nothing else, also where it looks again."""
        state.set("APP_FAST", "true")
        state.kill()
        fd = os.open(state.file("locks/overrides.lock"), os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        state.restore("APP_FAST")
        os.close(fd)
        assert [("APP_FAST", "set")] == state.in_force()

    def test_a_late_rename_does_not_undo_a_kill(self, state: Any) -> None:
        """One that slept right before its rename puts back an older document; the kill returns."""
        state.kill("APP_ONE")
        code = (
            "import os, signal, sys\n"
            "from relayconf.overrides import attempt, changes\n"
            "from relayconf.overrides.store import Store\n"
            "from relayconf.state.directory import make\n"
            "commit = attempt.Attempt._commit\n"
            "def stopping(self, *args):\n"
            "    os.kill(os.getpid(), signal.SIGSTOP)\n"
            "    return commit(self, *args)\n"
            "attempt.Attempt._commit = stopping\n"
            "because = changes.Because('r', 'me')\n"
            "flags = [changes.Assignment('app', 'APP_SLOW', 'false')]\n"
            "Store(make(sys.argv[1])).change(changes.kill(flags, because))\n"
        )
        slow = subprocess.Popen([sys.executable, "-c", code, str(state.path)])
        os.waitid(os.P_PID, slow.pid, os.WSTOPPED)
        killing = threading.Thread(target=state.kill, args=("APP_TWO",))
        killing.start()
        until = time.monotonic() + 60
        while b"APP_TWO" not in state.file().read_bytes() and time.monotonic() < until:
            time.sleep(0.001)
        slow.send_signal(18)
        assert 0 == slow.wait()
        killing.join()
        assert ("APP_TWO", "kill") in state.in_force()
        assert [] == state.faults()

    def test_a_slow_holder_and_who_overtakes_it_make_one_chain(self, state: Any) -> None:
        """Whoever goes without the lock still waits while the other appends and renames."""
        state.kill("APP_ONE")
        code = (
            "import sys, time\n"
            "from relayconf.overrides import changes\n"
            "from relayconf.overrides.journal import Journal\n"
            "from relayconf.overrides.store import Store\n"
            "from relayconf.state.directory import make\n"
            "append = Journal.append\n"
            "def slow(self, *args, **options):\n"
            "    print('here', flush=True)\n"
            "    time.sleep(1.4)\n"
            "    append(self, *args, **options)\n"
            "Journal.append = slow\n"
            "because = changes.Because('r', 'me')\n"
            "flags = [changes.Assignment('app', 'APP_SLOW', 'false')]\n"
            "Store(make(sys.argv[1])).change(changes.kill(flags, because))\n"
        )
        command = [sys.executable, "-c", code, str(state.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as slow:
            assert slow.stdout is not None
            slow.stdout.readline()
            state.kill("APP_TWO")
        assert ([], ["kill"] * 3) == (state.faults(), state.actions())
        assert ["APP_ONE", "APP_SLOW", "APP_TWO"] == [name for name, _ in state.in_force()]

    def test_a_writer_that_was_stopped_before_its_rename_starts_over(self, state: Any) -> None:
        """It would put an older document over a kill whose command has ended long ago."""
        state.kill("APP_ONE")
        code = (
            "import os, signal, sys\n"
            "from relayconf.overrides import changes\n"
            "from relayconf.overrides.journal import Journal\n"
            "from relayconf.overrides.store import Store\n"
            "from relayconf.state.directory import make\n"
            "append = Journal.append\n"
            "def stopping(self, *args, **options):\n"
            "    Journal.append = append\n"
            "    append(self, *args, **options)\n"
            "    os.kill(os.getpid(), signal.SIGSTOP)\n"
            "Journal.append = stopping\n"
            "because = changes.Because('r', 'me')\n"
            "flags = [changes.Assignment('app', 'APP_SLOW', 'false')]\n"
            "Store(make(sys.argv[1])).change(changes.kill(flags, because))\n"
        )
        slow = subprocess.Popen([sys.executable, "-c", code, str(state.path)])
        os.waitid(os.P_PID, slow.pid, os.WSTOPPED)
        state.kill("APP_TWO")
        slow.send_signal(18)
        assert 0 == slow.wait()
        names = [name for name, _ in state.in_force()]
        assert (["APP_ONE", "APP_SLOW", "APP_TWO"], []) == (names, state.faults())

    def test_a_holder_that_has_no_turn_is_waited_for(self, state: Any) -> None:
        """One that could run and is slow is no reason to go without the lock."""
        state.kill("APP_ONE")
        code = (
            "import sys, time\n"
            "from relayconf.overrides.lock import Lock\n"
            "from relayconf.state.directory import make\n"
            "lock = Lock(make(sys.argv[1]))\n"
            "assert lock.try_acquire()\n"
            "print('here', flush=True)\n"
            "until = time.monotonic() + 2\n"
            "while time.monotonic() < until:\n"
            "    pass\n"
            "print(open(sys.argv[1] + '/overrides.json').read().count('APP_TWO'))\n"
        )
        command = [sys.executable, "-c", code, str(state.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as busy:
            assert busy.stdout is not None
            busy.stdout.readline()
            state.kill("APP_TWO")
            assert b"0" == busy.stdout.read().strip()
        assert [("APP_ONE", "kill"), ("APP_TWO", "kill")] == state.in_force()

    def test_a_process_only_tries(self, state: Any) -> None:
        """An end is audited by somebody else, where somebody else is writing."""
        state.kill(ttl_ms=1, clock=Clock(lambda: 0.0, lambda: 0, lambda: "gone"))
        fd = os.open(state.file("locks/overrides.lock"), os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        assert not state.store().expire()
        os.close(fd)

    def test_threads_lose_nothing(self, state: Any) -> None:
        """Many changes at once all are in the document and in the audit."""
        threads = [threading.Thread(target=state.kill, args=(f"APP_{n}",)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (20, 20, []) == (len(state.in_force()), len(state.actions()), state.faults())

    def test_a_writer_that_was_stopped_does_not_undo_a_kill(self, state: Any) -> None:
        """One that slept between reading and renaming notices that it is late, and starts over."""
        state.kill("APP_ONE")
        code = (
            "import os, signal, sys\n"
            "from relayconf.overrides import attempt, changes\n"
            "from relayconf.overrides.store import Store\n"
            "from relayconf.state.directory import make\n"
            "prepare = attempt.Attempt._prepare\n"
            "def stopping(self, document):\n"
            "    attempt.Attempt._prepare = prepare\n"
            "    os.kill(os.getpid(), signal.SIGSTOP)\n"
            "    return prepare(self, document)\n"
            "attempt.Attempt._prepare = stopping\n"
            "because = changes.Because('r', 'me')\n"
            "flags = [changes.Assignment('app', 'APP_SLOW', 'false')]\n"
            "Store(make(sys.argv[1])).change(changes.kill(flags, because))\n"
        )
        slow = subprocess.Popen([sys.executable, "-c", code, str(state.path)])
        os.waitid(os.P_PID, slow.pid, os.WSTOPPED)
        state.kill("APP_TWO")
        slow.send_signal(18)
        assert 0 == slow.wait()
        names = [name for name, _ in state.in_force()]
        assert (["APP_ONE", "APP_SLOW", "APP_TWO"], []) == (names, state.faults())


class TestReading:
    def test_the_last_good_one_stays(self, state: Any) -> None:
        """Broken, deleted, or its directory gone: a process keeps what it has, with one problem."""
        state.kill()
        reader = Reader(str(state.path))
        assert "document" == reader.read().source
        for damage in (b"", b"{", None):
            if damage is None:
                state.file().unlink()
            else:
                state.file().write_bytes(damage)
            kept = reader.read()
            assert ("kept", 1, 1) == (kept.source, len(kept.document.overrides), len(kept.problems))
        state.path.rename(state.path.with_name("moved"))
        assert "kept" == reader.read().source

    def test_a_good_one_ends_that(self, state: Any) -> None:
        """Content decides, also that of an older document."""
        state.kill()
        reader = Reader(str(state.path))
        reader.read()
        good = state.file().read_bytes()
        state.file().write_bytes(b"{")
        assert "kept" == reader.read().source
        state.file().write_bytes(good)
        assert ("document", ()) == (reader.read().source, reader.read().problems)

    def test_a_start_rebuilds_in_memory(self, state: Any) -> None:
        """A process that starts in mid-incident knows every kill, and writes nothing."""
        state.kill()
        state.file().write_bytes(b"{")
        found = Reader(str(state.path)).read()
        assert ("rebuilt", ["APP_FAST"]) == (
            found.source,
            [o.name for o in found.document.overrides],
        )
        assert b"{" == state.file().read_bytes()

    def test_a_first_document_in_the_making_is_no_lost_one(self, state: Any) -> None:
        """Between the audit's first line and the first rename nothing is reported."""
        reader = Reader(str(state.path))
        assert "nothing" == reader.read().source
        state.kill()
        state.file().unlink()
        assert ("nothing", ()) == (reader.read().source, reader.read().problems)

    def test_one_that_everybody_can_write_is_not_believed(self, state: Any) -> None:
        """Its overrides are not used, and a problem says why."""
        state.kill()
        state.path.chmod(0o777)
        found = Reader(str(state.path)).read()
        assert (0, "state-directory") == (len(found.document.overrides), found.problems[0].code)

    def test_unusable_entries_are_problems(self, state: Any) -> None:
        """Each is named once, with its reason."""
        state.file().write_text(
            '{"generation": 1, "audit": {"seq": 0, "hash": ""}, "entries": [7]}'
        )
        found = Reader(str(state.path)).read()
        assert ["override-quarantined"] == [problem.code for problem in found.problems]
        assert parse(state.file().read_bytes()) == found.document
