"""A root of many sessions: found, served, bounded and dropped while their runner lives."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from relay.engine.given import NothingToServe
from relay.errors import RelayError
from relay.protocol import Response
from relayconf.errors import StateError

FAST = timedelta(milliseconds=20)

#: A uid that is nobody's here. Only root can give a directory to it.
STRANGER = 54321


def text(said: str) -> Response:
    """Return the response with this text."""
    return Response(ok=True, text=said)


def as_root() -> list[object]:
    """Return one parameter where this user may give files away, and else none."""
    return [STRANGER] if os.geteuid() == 0 else []


class TestFinding:
    @pytest.mark.parametrize("watch", [True, False])
    def test_sessions_come_and_go(self, hand: Any, *, watch: bool) -> None:
        """What is there, what appears and what appears again is served; what goes is dropped."""

        async def go() -> list[Response]:
            said = []
            first = hand.beside("first")
            async with hand.root_runner(local_watch=watch, poll=FAST) as runner:
                said.append(await first.call("echo", text="there before"))
                later = hand.beside("later")
                said.append(await later.call("echo", text="came later"))
                shutil.rmtree(later.session)
                await hand.until(lambda: runner.sessions == (str(first.session),))
                said.append(await hand.beside("later").call("echo", text="came again"))
            return said

        expected = [text(said) for said in ("there before", "came later", "came again")]
        assert expected == asyncio.run(go())

    def test_one_that_gets_another_name(self, hand: Any) -> None:
        """A directory that is moved within the root goes on being watched, under its new name."""

        async def go() -> Response:
            one, two = hand.beside("one"), hand.folder / "root" / "two"
            async with hand.root_runner(poll=timedelta(seconds=50)) as runner:
                await one.call("echo", text="before")
                one.session.rename(two)
                await hand.until(lambda: runner.sessions == (str(two),))
                one.session = two
                said: Response = await one.call("echo", text="after")
                assert runner.counters.polls < 20
                return said

        assert text("after") == asyncio.run(go())

    def test_many_at_once_hold_nobody_up(self, hand: Any) -> None:
        """Of hundreds that appear at once, few are started in one turn of the event loop."""
        most = 0

        async def go() -> None:
            nonlocal most
            async with hand.root_runner() as runner:
                served, made = 0, 300
                for number in range(made):
                    (hand.folder / "root" / f"s{number}").mkdir()
                while served < made:
                    await asyncio.sleep(0)
                    before, served = served, len(runner.sessions)
                    most = max(most, served - before)

        asyncio.run(go())
        assert 1 <= most <= 4

    def test_residue_is_answered_at_the_start(self, hand: Any) -> None:
        """What lay in a session before its runner is answered before the runner is ready."""
        old = hand.beside("old")
        old.ask("x")

        async def go() -> list[str]:
            async with hand.root_runner():
                return [old.names()[0], (await old.answer("x")).code]

        assert ["x.res.json", "not_executed"] == asyncio.run(go())

    def test_what_comes_with_its_requests(self, hand: Any) -> None:
        """A directory that is moved in with a request in it is scanned, not swept."""
        hand.ask("x", args={"text": "ran"})

        async def go() -> Response:
            async with hand.root_runner():
                hand.session = hand.session.rename(hand.folder / "root" / "moved")
                response: Response = await hand.answer("x")
                return response

        assert text("ran") == asyncio.run(go())

    def test_claims_of_the_dead_come_along(self, hand: Any) -> None:
        """A directory that is moved in with a dead runner's claim is answered for it."""
        hand.put("x.claim.deadrunner", b"{}")

        async def go() -> str:
            async with hand.root_runner():
                hand.session = hand.session.rename(hand.folder / "root" / "moved")
                response: Response = await hand.answer("x")
                return response.code

        assert "interrupted" == asyncio.run(go())

    def test_the_root_is_made_again(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A root that was deleted and made again is served again, with a line for each."""

        async def go() -> list[Response]:
            one = hand.beside("one")
            async with hand.root_runner(poll=FAST) as runner:
                said = [await one.call("echo", text="before")]
                shutil.rmtree(hand.folder / "root")
                await hand.until(lambda: runner.sessions == ())
                said.append(await hand.beside("one").call("echo", text="after"))
            return said

        with caplog.at_level(logging.WARNING, logger="relay"):
            assert [text("before"), text("after")] == asyncio.run(go())
        lines = [line for line in caplog.messages if "the root" in line]
        assert ["is gone", "is served again"] == [
            said for line in lines for said in ("is gone", "is served again") if said in line
        ]

    def test_every_session_is_told(self, hand: Any) -> None:
        """Each session has its relay.json, and a change of settings reaches them all."""
        hands = [hand.beside(f"s{number}") for number in range(20)]

        async def go() -> set[int]:
            async with hand.root_runner():
                told = [json.loads((h.session / "relay.json").read_bytes()) for h in hands]
                return {each["protocol"] for each in told}

        assert {1} == asyncio.run(go())

    @pytest.mark.parametrize(
        "name", ["with space", "new\nline", "\x1b[31mred", "\udcff\udcfe", "ünïcode", "-rf"]
    )
    def test_any_name(self, hand: Any, caplog: pytest.LogCaptureFixture, name: str) -> None:
        """A session may have any name, and none of them makes a line of the log more than one."""

        async def go() -> Response:
            async with hand.root_runner():
                odd = hand.beside(name)
                response: Response = await odd.call("echo", text="hi")
                shutil.rmtree(odd.session)
                odd.session.touch()
                await hand.until(lambda: "not a directory" in caplog.text)
                return response

        with caplog.at_level(logging.INFO, logger="relay"):
            assert text("hi") == asyncio.run(go())
        assert [] == [line for line in caplog.messages if not line.isprintable()]


class TestRefusing:
    def refused(self, hand: Any, caplog: pytest.LogCaptureFixture) -> list[str]:
        """Serve the root with one good session until that has been answered; return the lines."""

        async def go() -> None:
            async with hand.root_runner() as runner:
                good = hand.beside("good")
                assert text("hi") == await good.call("echo", text="hi")
                runner._root.look()
                runner._root.look()
                assert (str(good.session),) == runner.sessions

        with caplog.at_level(logging.WARNING, logger="relay"):
            asyncio.run(go())
        return list(caplog.messages)

    def test_a_symbolic_link(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A link is refused with one line, and nothing appears where it leads."""
        (hand.folder / "root").mkdir()
        (hand.folder / "root" / "link").symlink_to(hand.session)
        (line,) = self.refused(hand, caplog)
        assert "root/link is no session: a symbolic link is not followed" in line
        assert [] == list(hand.session.iterdir())

    def test_a_file(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A file is refused with one line."""
        (hand.folder / "root").mkdir()
        (hand.folder / "root" / "file").touch()
        (line,) = self.refused(hand, caplog)
        assert "root/file is no session: it is not a directory" in line

    @pytest.mark.parametrize("uid", as_root())
    def test_a_strangers_directory(
        self, hand: Any, caplog: pytest.LogCaptureFixture, uid: int
    ) -> None:
        """A directory of another user is refused with one line that says what to do."""
        strange = hand.beside("strange")
        os.chown(strange.session, uid, -1)
        (line,) = self.refused(hand, caplog)
        assert f"root/strange is no session: it belongs to another user (uid {uid})" in line
        assert [] == strange.names()

    @pytest.mark.parametrize("uid", as_root())
    def test_a_strangers_directory_shared_by_group(self, hand: Any, uid: int) -> None:
        """Where root and session are shared by one group, the session may be another user's."""
        shared = hand.beside("shared")
        (hand.folder / "root").chmod(0o2770)
        os.chown(shared.session, uid, (hand.folder / "root").stat().st_gid)
        shared.session.chmod(0o2770)

        async def go() -> tuple[Response, int]:
            async with hand.root_runner():
                response = await shared.call("echo", text="hi")
                return response, (shared.session / "relay.json").stat().st_mode & 0o777

        assert (text("hi"), 0o660) == asyncio.run(go())

    @pytest.mark.parametrize("uid", as_root())
    def test_one_that_is_put_right(self, hand: Any, uid: int) -> None:
        """What was refused is served once its owner is right, and dropped once it is wrong."""

        async def go() -> Response:
            async with hand.root_runner(poll=FAST) as runner:
                late = hand.beside("late")
                os.chown(late.session, uid, -1)
                await hand.until(lambda: "late" in runner._root._refused)
                os.chown(late.session, os.geteuid(), -1)
                response: Response = await late.call("echo", text="hi")
                os.chown(late.session, uid, -1)
                await hand.until(lambda: runner.sessions == ())
                return response

        assert text("hi") == asyncio.run(go())

    def test_names_with_a_dot(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """Names with a leading dot are not looked at, and nothing is said of them."""
        hidden = hand.beside(".hidden")
        assert [] == self.refused(hand, caplog)
        assert [] == list(hidden.session.iterdir())

    def test_a_root_for_everybody(self, hand: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A root that everybody can write gets a line."""
        (hand.folder / "root").mkdir()
        (hand.folder / "root").chmod(0o1777)
        (line,) = self.refused(hand, caplog)
        assert "can be written by everybody" in line

    def test_too_many_for_the_open_files(self, tmp_path: Path, root: Path) -> None:
        """Sessions over the limit of open files are refused, and the others are served."""
        program = f"""
import asyncio, os, resource, sys
sys.path.insert(0, {str(root)!r})
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 60))
from relay import Runner, acall
async def go():
    for number in range(50):
        os.makedirs(f"root/s{{number}}")
    async with Runner(root="root", tools={{"echo": lambda text: text}}, state="state") as runner:
        served = runner.sessions
        said = [await acall("echo", {{"text": "hi"}}, dir=path) for path in served[:3]]
        print(len(served), *said)
asyncio.run(go())
"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (0, "30 hi hi hi\n") == (done.returncode, done.stdout)

    def test_what_cannot_be_a_root(self, hand: Any) -> None:
        """A file, a missing parent, a state directory within, a directory as well: refused."""
        (hand.folder / "file").touch()
        for root, error, match in (
            (hand.folder / "file", RelayError, "is not a directory"),
            (hand.folder / "no" / "root", RelayError, "does not exist"),
            (hand.folder, StateError, "lies in the"),
        ):
            with pytest.raises(error, match=match):
                asyncio.run(hand.runner(root=root).start())
        with pytest.raises(NothingToServe, match="both set"):
            hand.runner(root=hand.folder, dir=hand.session)


class TestSharing:
    def test_a_group_that_comes_later(self, hand: Any) -> None:
        """A session that is made first and shared with its group afterwards can be read by it."""

        async def go() -> set[int]:
            async with hand.root_runner(poll=FAST):
                one = hand.beside("one")
                told = one.session / "relay.json"
                await hand.until(told.exists)
                one.session.chmod(0o2770)
                await hand.until(lambda: told.stat().st_mode & 0o777 == 0o660)
                one.ask("x")
                await hand.until((one.session / "x.res.json").exists)
                return {p.stat().st_mode & 0o777 for p in one.session.iterdir()}

        assert {0o660} == asyncio.run(go())

    def test_two_runners_of_one_root(self, hand: Any) -> None:
        """A second runner of the root joins each session, and takes over when the first leaves."""
        hands = [hand.beside(f"s{number}") for number in range(5)]

        async def go() -> list[str]:
            async with hand.root_runner() as second:
                async with hand.root_runner():
                    said = [(await h.call("echo", text="both")).text for h in hands]
                said += [(await h.call("echo", text="one")).text for h in hands]
                told = [json.loads((h.session / "relay.json").read_bytes()) for h in hands]
                await hand.until(lambda: {t["runner"] for t in told} and second.ready)
            return said

        assert ["both"] * 5 + ["one"] * 5 == asyncio.run(go())
        assert ["runners"] == sorted(p.name for p in Path(hand.state, "locks").rglob("*"))


class TestFairness:
    def test_a_flood_in_one_leaves_slots_for_others(self, hand: Any) -> None:
        """However much one session asks for, a call of another starts before it is through."""
        release = asyncio.Event()
        began: list[str] = []

        async def slow(name: str) -> str:
            began.append(name)
            await release.wait()
            return name

        async def go() -> tuple[str, int]:
            greedy, modest = hand.beside("greedy"), hand.beside("modest")
            async with hand.root_runner({"slow": slow}, max_in_flight=8):
                for number in range(200):
                    greedy.ask(f"n{number}", "slow", {"name": "greedy"})
                await hand.until(lambda: len(began) == 6)
                modest.ask("x", "slow", {"name": "modest"})
                await hand.until(lambda: "modest" in began)
                before = len(began)
                release.set()
                answer = await modest.answer("x")
                await hand.until(lambda: len(began) == 201)
                return answer.text, before

        assert ("modest", 7) == asyncio.run(go())

    def test_turns_are_taken(self, hand: Any) -> None:
        """Of many sessions that ask at once, none is served to its end before the others begin."""
        order: list[str] = []

        async def note(name: str) -> str:
            order.append(name)
            await asyncio.sleep(0)
            return name

        hands = {name: hand.beside(name) for name in ("a", "b", "c", "d")}

        async def go() -> None:
            async with hand.root_runner({"note": note}, local_watch=False, poll=FAST):
                for name, each in hands.items():
                    for number in range(100):
                        each.ask(f"n{number}", "note", {"name": name})
                await hand.until(lambda: len(order) == 400)

        asyncio.run(go())
        assert {"a", "b", "c", "d"} == set(order[:200])

    def test_bounds_for_all(self, hand: Any) -> None:
        """Sessions together never have more in flight than RELAY_MAX_IN_FLIGHT."""
        running, most = 0, 0

        async def busy() -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.002)
            running -= 1
            return "done"

        hands = [hand.beside(f"s{number}") for number in range(20)]

        async def go() -> None:
            async with hand.root_runner({"busy": busy}, max_in_flight=8):
                for each in hands:
                    for number in range(10):
                        each.ask(f"n{number}", "busy")
                for each in hands:
                    for number in range(10):
                        await each.answer(f"n{number}")

        asyncio.run(go())
        assert 8 == most


class TestDropping:
    def test_many_at_once_take_turns(self, hand: Any) -> None:
        """Of many that go at once, only as many are dropped in a turn as there is time for."""
        hands = [hand.beside(f"s{number}") for number in range(50)]

        async def go() -> int:
            async with hand.root_runner() as runner:
                loop, shared = runner._loop, runner._loop._shared
                for each in hands:
                    shutil.rmtree(each.session)
                for session in tuple(loop.sessions):
                    session.be_due()
                clock, now = shared.clock, shared.clock()
                shared.clock = count(now, 0.001).__next__
                loop._look_around(now)
                shared.clock = clock
                left = len(runner.sessions)
                await hand.until(lambda: not runner.sessions)
                return left

        assert 50 > asyncio.run(go()) >= 40

    def test_nothing_is_left_of_a_session(self, hand: Any) -> None:
        """A session that is gone leaves no descriptor, no mark, no watch and no schedule behind."""

        async def go() -> tuple[int, int]:
            async with hand.root_runner(poll=FAST) as runner:
                await hand.beside("first").call("echo", text="hi")
                counts = []
                for _ in range(3):
                    for number in range(30):
                        one = hand.beside(f"s{number}")
                    await one.call("echo", text="hi")
                    await hand.until(lambda: len(runner.sessions) == 31)
                    for number in range(30):
                        shutil.rmtree(hand.folder / "root" / f"s{number}")
                    await hand.until(lambda: len(runner.sessions) == 1)
                    marks = len(os.listdir(hand.state / "locks"))
                    counts.append((len(os.listdir("/proc/self/fd")), marks))
                assert 1 == len(runner._shared.hub._watches)
                schedule = runner._loop._schedule
                await hand.until(lambda: not any(s.place.over for _, _, s in schedule))
                return counts[0] == counts[-1], counts[0][1]

        assert (True, 2) == asyncio.run(go())

    def test_what_is_in_flight_is_answered(self, hand: Any) -> None:
        """A call that runs while its session is moved out of the root is answered where that is."""
        release = asyncio.Event()

        async def slow() -> str:
            await release.wait()
            return "late"

        async def go() -> Response:
            one = hand.beside("one")
            async with hand.root_runner({"slow": slow}, poll=FAST) as runner:
                one.ask("x", "slow")
                await hand.until(lambda: runner.counters.executed)
                one.session = one.session.rename(hand.folder / "elsewhere")
                await hand.until(lambda: runner.sessions == ())
                release.set()
                response: Response = await one.answer("x")
                return response

        assert text("late") == asyncio.run(go())


#: What a sandbox's process does in a sticky directory that is its runner's: one call, then harm.
SANDBOX = """
import os, sys
sys.path.insert(0, sys.argv[1])
from relay import call
print(call("echo", {"text": "hi"}, dir=sys.argv[2], timeout=20, environ={}))
for name in ("relay.json", "other.res.json"):
    for harm in (os.unlink, lambda path: os.rename(path, path + ".mine")):
        try:
            harm(os.path.join(sys.argv[2], name))
            print("harmed", name)
        except PermissionError:
            pass
"""


def other_users() -> list[object]:
    """Return the words that make a command another user's, where that can be, and else none."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        return []
    ids = (f"--reuid={STRANGER}", f"--regid={STRANGER}", f"--groups={STRANGER}")
    # To read the checkout and the interpreter where they are; it allows no writing anywhere.
    read_all = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
    become = (setpriv, *ids, *read_all)
    tried = subprocess.run([*become, "true"], capture_output=True, check=False)
    return [become] if tried.returncode == 0 else []


class TestTheSafeLayout:
    @pytest.mark.parametrize("become", other_users())
    def test_a_sticky_directory_of_the_runners_own(
        self, hand: Any, root: Path, become: tuple[str, ...]
    ) -> None:
        """A sandbox of another user calls through it, and can harm nothing that is not its own."""
        shared = hand.beside("shared")
        os.chown(shared.session, -1, STRANGER)
        shared.session.chmod(0o3770)
        for folder in (hand.folder, hand.folder / "root", *hand.folder.parents[:2]):
            folder.chmod(0o755)

        async def go() -> str:
            async with hand.root_runner():
                shared.put("other.res.json", b'{"ok":true,"text":"for another process"}')
                (shared.session / "other.res.json").chmod(0o660)
                process = await asyncio.create_subprocess_exec(
                    *become,
                    sys.executable,
                    "-c",
                    SANDBOX,
                    root,
                    shared.session,
                    stdout=asyncio.subprocess.PIPE,
                )
                said, _ = await process.communicate()
                return said.decode()

        assert "hi\n" == asyncio.run(go())
