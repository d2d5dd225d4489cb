"""One listing of a session's directory, in progress: it goes on where a bound stopped it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from relay.engine.directory import COARSE_NS, SessionDirectory


class Scan:
    """One listing in progress; a sweeping one also judges names that are no requests."""

    __slots__ = ("bare", "clean_ns", "names", "then", "wake")

    def __init__(
        self,
        directory: SessionDirectory,
        *,
        wake: str,
        then: list[Callable[[], None]] | None,
        now: float,
    ) -> None:
        changed = directory.changed_ns()
        #: Where the ctime stays this, the listing is complete; unknown where it is too fresh.
        self.clean_ns = changed if now * 1e9 - changed > COARSE_NS else None
        self.names: Iterator[str] = directory.names()
        self.wake = wake
        #: Called after a sweeping scan's end; ``None`` where it does not sweep.
        self.then = then
        #: Whether relay.json alone has been found.
        self.bare = True

    def close(self) -> None:
        """End it before its end."""
        if isinstance(self.names, Generator):
            self.names.close()
