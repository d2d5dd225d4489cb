"""The event loop of a runner's own process, with real pipes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from relay.engine.eventloop import ServingLoop


class Pipe:
    """A pipe that a callback empties."""

    def __init__(self) -> None:
        self.out, self._into = os.pipe()
        self.write()

    def write(self) -> None:
        """Make it readable."""
        os.write(self._into, b"x")

    def empty(self) -> None:
        """Read what is in it."""
        os.read(self.out, 64)

    def close(self) -> None:
        """Give both ends back."""
        os.close(self.out)
        os.close(self._into)


@pytest.fixture
def loop() -> Iterator[ServingLoop]:
    """Return a loop that is closed afterwards."""
    made = ServingLoop()
    yield made
    made.close()


@pytest.fixture
def pipes() -> Iterator[tuple[Pipe, Pipe]]:
    """Return two pipes that are readable."""
    made = Pipe(), Pipe()
    yield made
    for pipe in made:
        pipe.close()


class TestServingLoop:
    def test_the_one_comes_first(self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]) -> None:
        """It is served before a reader that was there earlier, and before what was due."""
        order: list[str] = []
        usual, first = pipes

        def serve(name: str, pipe: Pipe) -> None:
            order.append(name)
            pipe.empty()
            if name == "usual":
                loop.stop()

        loop.add_reader(usual.out, serve, "usual", usual)
        loop.serve_first(first.out, lambda: serve("first", first))
        loop.call_later(0, order.append, "due")
        loop.run_forever()
        assert "first" == order[0]
        assert {"first", "usual", "due"} == set(order)

    def test_what_it_does_goes_on_in_the_same_turn(
        self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]
    ) -> None:
        """Callbacks that it schedules, futures that it ends, and tasks that it starts all run."""
        _, pipe = pipes
        done: asyncio.Future[str] = loop.create_future()

        async def work() -> None:
            await asyncio.sleep(0)
            done.set_result("worked")

        def serve() -> None:
            pipe.empty()
            tasks.append(loop.create_task(work()))

        tasks: list[Any] = []
        loop.serve_first(pipe.out, serve)
        assert "worked" == loop.run_until_complete(asyncio.wait_for(done, 30))

    def test_a_flood_starves_nobody(self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]) -> None:
        """Readable for ever, it takes turns with readers, callbacks and timers."""
        usual, always = pipes
        seen: set[str] = set()

        def note(name: str) -> None:
            seen.add(name)
            if {"reader", "timer", "callback"} == seen:
                loop.stop()

        def again() -> None:
            loop.call_soon(note, "callback")

        loop.serve_first(always.out, again)
        loop.add_reader(usual.out, note, "reader")
        loop.call_later(0.01, note, "timer")
        loop.run_forever()
        assert {"reader", "timer", "callback"} == seen

    def test_an_exception_is_the_loop_s(self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]) -> None:
        """It reaches the exception handler, and the loop goes on."""
        _, pipe = pipes
        told: list[dict[str, Any]] = []

        def fail() -> None:
            pipe.empty()
            raise ValueError("no such luck")

        loop.set_exception_handler(lambda _, context: told.append(context))
        loop.serve_first(pipe.out, fail)
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
        assert ["no such luck"] == [str(each["exception"]) for each in told]

    def test_a_cancellation_is_no_end_of_the_loop(
        self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]
    ) -> None:
        """What a loop survives of its other callbacks, it survives of this one."""
        _, pipe = pipes
        told: list[dict[str, Any]] = []

        def fail() -> None:
            pipe.empty()
            raise asyncio.CancelledError

        loop.set_exception_handler(lambda _, context: told.append(context))
        loop.serve_first(pipe.out, fail)
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
        assert [asyncio.CancelledError] == [type(each["exception"]) for each in told]

    def test_an_interrupt_is(self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]) -> None:
        """It ends the loop, which can go on afterwards."""
        _, pipe = pipes
        seen: list[str] = []

        def serve() -> None:
            pipe.empty()
            seen.append("served")
            if len(seen) == 1:
                raise KeyboardInterrupt
            loop.stop()

        loop.serve_first(pipe.out, serve)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        pipe.write()
        loop.run_forever()
        assert ["served"] * 2 == seen

    def test_a_number_that_it_gives_to_another(
        self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]
    ) -> None:
        """A reader that was ready is closed by it, and one that is opened instead is heard."""
        old, first = pipes
        seen: list[str] = []

        def serve() -> None:
            first.empty()
            loop.remove_reader(old.out)
            new = Pipe()
            # The new one's end takes the number of the old one's.
            os.dup2(new.out, old.out)
            new.close()
            loop.add_reader(old.out, hear)

        def hear() -> None:
            seen.append("new")
            loop.stop()

        loop.add_reader(old.out, seen.append, "old")
        loop.serve_first(first.out, serve)
        loop.call_later(30, loop.stop)
        loop.run_forever()
        assert ["new"] == seen

    def test_it_ends(self, loop: ServingLoop, pipes: tuple[Pipe, Pipe]) -> None:
        """Ended, it is not called any more, and its number may be another reader's."""
        _, pipe = pipes
        served: list[str] = []
        loop.serve_first(pipe.out, lambda: served.append("first"))
        loop.stop_serving(pipe.out)
        loop.add_reader(pipe.out, loop.stop)
        loop.run_forever()
        assert [] == served
