"""Many calls in one process: threads, event loops, forks, and the one watch that they share."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relay
from relay.client.directory import Held
from relay.client.wakes import LISTENING, ThreadWakes, Waiter
from relay.client.writer import Writer
from relay.errors import CallTimeout
from relay.protocol import Request, Response

Serve = Callable[..., Any]
Python = Callable[..., str]

#: Printed by a program: how many inotify instances it holds.
COUNT = """
import os
def instances():
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += "inotify" in os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    return found
"""


class TestThreads:
    def test_each_thread_hears_its_own_answer(self, session: Path, serve: Serve) -> None:
        """Calls from many threads at once never get each other's text."""
        serve(session)
        writer = Writer(session)
        wrong: list[str] = []

        def many(mark: str) -> None:
            for turn in range(20):
                text = writer.call("echo", {"text": f"{mark}.{turn}"})
                if text != f"{mark}.{turn}":
                    wrong.append(text)

        threads = [threading.Thread(target=many, args=(str(n),)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [] == wrong

    def test_whoever_waits_longest_leads_on(self, session: Path, serve: Serve, until: Any) -> None:
        """A call goes on being woken when the thread that polled for all has its own answer."""
        release = threading.Event()

        def answer(request: Request) -> Response | None:
            if request.tool == "slow":
                # The runner works on nothing else meanwhile, so the quick one comes first.
                release.wait()
            return Response(ok=True, text=request.tool)

        runner = serve(session, answer)
        writer = Writer(session, environ={"RELAY_POLL_MS": "60s", "RELAY_POLL_MAX_MS": "60s"})
        texts: list[str] = []
        quick = threading.Thread(target=lambda: texts.append(writer.call("quick")))
        slow = threading.Thread(target=lambda: texts.append(writer.call("slow")))
        quick.start()
        quick.join()
        slow.start()
        until(lambda: len(runner.ids) == 2)
        release.set()
        slow.join()
        assert ["quick", "slow"] == texts

    def test_a_leader_hands_over(self, session: Path) -> None:
        """When the polling thread leaves with its wake, the next one polls and is woken in turn."""
        wakes = ThreadWakes()
        held = Held(str(session))
        names = [f"{n}.res.json" for n in range(6)]
        ready = threading.Barrier(len(names) + 1)
        woken: list[str] = []

        def wait(name: str) -> None:
            waiter = Waiter(held, watch=True)
            waiter.name = name
            wakes.attend(waiter)
            ready.wait()
            if wakes.wait(waiter, 30.0):
                woken.append(name)
            wakes.leave(waiter)

        threads = {name: threading.Thread(target=wait, args=(name,)) for name in names}
        for thread in threads.values():
            thread.start()
        ready.wait()
        for name in names:
            (session / "new").touch()
            (session / "new").rename(session / name)
            threads[name].join()
        assert names == woken

    def test_a_follower_that_times_out_leaves_the_others_alone(self, session: Path) -> None:
        """A wait that ends by time in one thread takes no wake from another."""
        wakes = ThreadWakes()
        held = Held(str(session))
        ready = threading.Barrier(3)
        results: dict[str, bool] = {}

        def wait(name: str, seconds: float) -> None:
            waiter = Waiter(held, watch=True)
            waiter.name = name
            wakes.attend(waiter)
            ready.wait()
            results[name] = wakes.wait(waiter, seconds)
            wakes.leave(waiter)

        short = threading.Thread(target=wait, args=("short.res.json", 0.01))
        long = threading.Thread(target=wait, args=("long.res.json", 30.0))
        short.start()
        long.start()
        ready.wait()
        short.join()
        (session / "new").touch()
        (session / "new").rename(session / "long.res.json")
        long.join()
        assert {"short.res.json": False, "long.res.json": True} == results

    def test_a_watch_that_is_made_twice(self, session: Path) -> None:
        """Who listens has missed nothing when another one makes a watch of the same kind."""
        wakes = ThreadWakes()
        held = Held(str(session))
        waiters = Waiter(held, watch=True), Waiter(held, watch=True)
        for waiter, name in zip(waiters, ("1.res.json", "2.res.json"), strict=True):
            waiter.name = name
            wakes.attend(waiter)
            held.leases.clear()
        assert [LISTENING] * 2 == [wakes.attend(waiter) for waiter in waiters]

    def test_one_instance_serves_a_process(
        self, session: Path, tmp_path: Path, serve: Serve, python: Python
    ) -> None:
        """However many threads and directories a process has, it holds one inotify instance."""
        other = tmp_path / "other"
        other.mkdir()
        serve(session)
        serve(other)
        program = (
            COUNT
            + """
import relay, sys, threading
def work(path):
    for _ in range(5):
        relay.call("echo", {"text": "x"}, dir=path)
threads = [threading.Thread(target=work, args=(p,)) for p in sys.argv[1:] * 4]
for t in threads: t.start()
for t in threads: t.join()
print(instances())
"""
        )
        assert "1\n" == python(program, session, other)

    def test_a_directory_that_nobody_holds_is_no_longer_watched(
        self, session: Path, serve: Serve, tmp_path: Path
    ) -> None:
        """A process that calls in ever new directories does not pile up watches."""
        serve(session)
        wakes = ThreadWakes()
        for turn in range(5):
            directory = tmp_path / str(turn)
            directory.mkdir()
            held = Held(str(directory))
            waiter = Waiter(held, watch=True)
            wakes.attend(waiter)
            wakes.leave(waiter)
            del held, waiter
        held = Held(str(session))
        wakes.attend(Waiter(held, watch=True))
        assert 1 == len(wakes._watch.keys)


class TestEventLoop:
    def test_many_calls_at_once(self, session: Path, serve: Serve) -> None:
        """Calls in one loop wait together, each for its own text."""
        serve(session)

        async def main() -> list[str]:
            calls = (relay.acall("echo", {"text": str(n)}, dir=session) for n in range(50))
            return list(await asyncio.gather(*calls))

        assert [str(n) for n in range(50)] == asyncio.run(main())

    def test_the_loop_goes_on(self, session: Path, serve: Serve) -> None:
        """A call that waits leaves the loop to others."""
        done = threading.Event()
        serve(session, lambda _: Response(ok=done.wait(), text="after"))

        async def main() -> str:
            call = asyncio.create_task(relay.acall("any", dir=session))
            await asyncio.sleep(0)
            done.set()
            text: str = await call
            return text

        assert "after" == asyncio.run(main())

    def test_a_cancelled_call_takes_its_request_back(self, session: Path) -> None:
        """Cancelling a call that nobody has taken means that it never runs."""

        async def main() -> None:
            call = asyncio.create_task(relay.acall("any", dir=session))
            await asyncio.sleep(0)
            assert 1 == len(os.listdir(session))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        asyncio.run(main())
        assert [] == os.listdir(session)

    def test_an_outer_timeout_takes_it_back_too(self, session: Path) -> None:
        """Asyncio's own timeout ends a call like a cancellation."""

        async def main() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await relay.acall("any", dir=session)

        asyncio.run(main())
        assert [] == os.listdir(session)

    def test_a_deadline(self, session: Path) -> None:
        """A call that nobody answers ends at its deadline."""
        with pytest.raises(CallTimeout):
            asyncio.run(relay.acall("any", dir=session, timeout=0.05))

    def test_without_a_watch(self, session: Path, serve: Serve) -> None:
        """With the watch off, calls in a loop poll."""
        serve(session)
        environ = {"RELAY_MODE": "poll", "RELAY_POLL_MS": "10"}
        text = asyncio.run(relay.acall("echo", {"text": "x"}, dir=session, environ=environ))
        assert "x" == text

    def test_loops_in_two_threads(self, session: Path, serve: Serve) -> None:
        """Loops in different threads share a writer and not a watch."""
        serve(session)
        writer = Writer(session)
        texts: list[str] = []

        async def main(mark: str) -> None:
            texts.extend([await writer.acall("echo", {"text": mark}) for _ in range(10)])

        threads = [threading.Thread(target=asyncio.run, args=(main(m),)) for m in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ["a"] * 10 + ["b"] * 10 == sorted(texts)

    def test_a_thousand_loops_do_not_need_a_thousand_instances(
        self, session: Path, serve: Serve, python: Python
    ) -> None:
        """A program that runs one loop after the other keeps one inotify instance for them."""
        serve(session)
        program = (
            COUNT
            + """
import asyncio, relay, sys
for turn in range(20):
    assert asyncio.run(relay.acall("echo", {"text": "x"}, dir=sys.argv[1])) == "x"
print(instances())
"""
        )
        assert "1\n" == python(program, session)


class TestFork:
    PROGRAM = (
        COUNT
        + """
import os, relay, sys
def call(text):
    return relay.call("echo", {"text": text}, dir=sys.argv[1])
writer = relay.Writer(sys.argv[1])
print(call("parent"), instances(), flush=True)
child = os.fork()
if child == 0:
    before = instances()
    print(call("child"), writer.call("echo", {"text": "held"}), before, instances(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(call("again"), instances())
"""
    )

    def test_a_child_has_a_watch_of_its_own(
        self, session: Path, serve: Serve, python: Python, sandbox_python: str
    ) -> None:
        """A forked child takes no event from its parent, and both go on calling."""
        serve(session)
        printed = python(self.PROGRAM, session, executable=sandbox_python)
        assert "parent 1\nchild held 0 1\nagain 1\n" == printed


class TestExhaustion:
    def test_no_instance_left_means_polling(self, session: Path, serve: Serve, python: Any) -> None:
        """Where the system has no inotify instance left, calls poll, and one line says so."""
        serve(session)
        program = """
import logging, os, relay, resource, sys
from relay import inotify
from relay.client.wakes import thread_wakes
from relay.client.writer import Writer
assert inotify.available() and thread_wakes()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

class Told(logging.StreamHandler):
    def emit(self, record):
        # The watch has failed.
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        super().emit(record)

logging.basicConfig(handlers=[Told(sys.stdout)], format="%(name)s %(levelname)s %(message)s")
writer = Writer(sys.argv[1], environ={"RELAY_POLL_MS": "10"})
assert writer.options.watch
# From here on, no further descriptor may be opened: first of all a watch would.
top = os.open("/", os.O_RDONLY)
os.close(top)
resource.setrlimit(resource.RLIMIT_NOFILE, (top, hard))
print(writer.call("echo", {"text": "a"}))
"""
        lines = python(program, session).splitlines()
        assert ["a"] == [line for line in lines if not line.startswith("relay ")]
        said = [line for line in lines if line.startswith("relay ")]
        assert 1 == len(said)
        assert "WARNING" in said[0]
        assert "polling, not watching: no inotify instance is left" in said[0]
