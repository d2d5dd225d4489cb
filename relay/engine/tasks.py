"""Tasks that take their first step at once.

Most asynchronous tools end without ever waiting. Started at once, such a call is over before the
loop goes on, and costs it no further turn. Python 3.12 can do this; for 3.11 the step that a new
task hands to its loop is caught and run. On a loop that does not let it be caught, a task starts
in the loop's next turn, as usual.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def start(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a coroutine as a task of ``loop``, from a callback or from another task.

    Everything that a coroutine may ask of its task works from its first step on.
    """
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return _caught(loop, work)


def _caught(loop: Any, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    steps: list[tuple[Any, ...]] = []

    def catch(callback: Any, *args: Any, context: Any = None) -> None:
        steps.append((context, callback, *args))

    try:
        loop.call_soon = catch
    except AttributeError:
        return asyncio.Task(work, loop=loop)
    try:
        task = asyncio.Task(work, loop=loop)
    finally:
        del loop.call_soon
    current = asyncio.current_task(loop)
    if current is not None:
        asyncio.tasks._leave_task(loop, current)  # noqa: SLF001 - documented for such a task
    try:
        for context, *step in steps:
            context.run(*step)
    finally:
        if current is not None:
            asyncio.tasks._enter_task(loop, current)  # noqa: SLF001 - as above
    return task
