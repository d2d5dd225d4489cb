"""Which kind of session serves a directory: one for where files are at hand, or one that bounds."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from relay.engine.bounded import BoundedSession
from relay.engine.directory import DirectoryError, make_directory
from relay.engine.loop import AnySession, Loop
from relay.engine.place import Judge
from relay.engine.session import Session
from relay.engine.shared import Shared
from relay.engine.worker import Stuck, Worker

T = TypeVar("T")


def session_at(path: str, shared: Shared, loop: Loop, *, judge: Judge | None) -> AnySession:
    """Return the session for a directory in a root, not yet started."""
    if shared.mounts.elsewhere(path) is not None:
        return BoundedSession(path, shared, loop, judge=judge)
    return Session(path, shared, loop, judge=judge)


async def answered(path: str, function: Callable[[], T], *, seconds: float) -> T:
    """Call ``function``, which looks at ``path``, in a thread.

    Raises:
        DirectoryError: the file system there does not answer for so many seconds.
    """
    worker = Worker(lambda: seconds, time.monotonic)
    try:
        return await worker.do(function)
    except Stuck as error:
        raise DirectoryError(f"{path} cannot be served: {error.strerror}") from None
    finally:
        worker.close()


async def open_session(path: str, shared: Shared, loop: Loop) -> AnySession:
    """Return the session for a directory that is named by itself; it is made where missing.

    Raises:
        DirectoryError: there is none and none can be made, or its file system does not answer.
    """

    def find() -> str:
        make_directory(path)
        return os.path.realpath(path)

    real = await answered(path, find, seconds=shared.limits.file_op_timeout)
    if shared.mounts.elsewhere(real) is not None:
        return BoundedSession(real, shared, loop)
    return Session(path, shared, loop)


async def flush(sessions: Iterable[AnySession], patience: float) -> None:
    """Wait until what the sessions have answered is published, for so many seconds at most."""
    waiting = [s.flush(patience) for s in sessions if isinstance(s, BoundedSession)]
    if waiting:
        await asyncio.gather(*waiting)
