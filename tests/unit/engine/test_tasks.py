"""Tasks that take their first step at once."""

from __future__ import annotations

import asyncio

from relay.engine.tasks import start


class TestStart:
    def test_what_never_waits_is_over(self) -> None:
        """A coroutine that never waits has ended when start returns."""
        done: list[str] = []

        async def work() -> None:
            done.append("done")

        async def go() -> bool:
            task = start(asyncio.get_running_loop(), work())
            assert ["done"] == done
            await asyncio.sleep(0)
            return task.done()

        assert asyncio.run(go())

    def test_whose_task_it_is(self) -> None:
        """Inside, the current task is the new one; outside, it is again who started it."""
        seen: list[object] = []

        async def work() -> None:
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

        async def go() -> None:
            before = asyncio.current_task()
            task = start(asyncio.get_running_loop(), work())
            assert before is asyncio.current_task()
            await task
            assert [task, task] == seen

        asyncio.run(go())

    def test_cancelling(self) -> None:
        """It can be cancelled like any task, and timeouts work in it."""
        ended: list[str] = []

        async def work() -> None:
            try:
                async with asyncio.timeout(60):
                    await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")

        async def go() -> None:
            task = start(asyncio.get_running_loop(), work())
            task.cancel()
            await task

        asyncio.run(go())
        assert ["cancelled"] == ended

    def test_from_a_callback(self) -> None:
        """It can be started where no task runs, as from the callback of a descriptor."""

        async def work() -> str:
            await asyncio.sleep(0)
            return "done"

        async def go() -> object:
            loop = asyncio.get_running_loop()
            started: asyncio.Future[asyncio.Task[object]] = loop.create_future()
            loop.call_soon(lambda: started.set_result(start(loop, work())))
            return await (await started)

        assert "done" == asyncio.run(go())
