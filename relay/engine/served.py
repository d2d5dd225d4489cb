"""What the engine needs of a session that it executes for, wherever its directory is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from relay.engine.execute import Engine


class Found(Protocol):
    """What is known of a claim, as ``os.stat_result`` names it."""

    @property
    def st_mtime(self) -> float:
        """When it was published, in seconds of the runner's wall clock."""

    @property
    def st_size(self) -> int:
        """Its bytes."""


class Directory(Protocol):
    """A session's directory while something is executed for it."""

    @property
    def deleted(self) -> bool:
        """Whether nothing can be published in it any more."""

    def hold(self) -> None:
        """Keep it for one more user."""

    def release(self) -> None:
        """End one ``hold``."""

    def examine(self, name: str) -> Found | None:
        """Return what a claim is, or ``None`` where it is not there."""

    def read(self, name: str, found: Any, limit: int) -> bytes:
        """Return a claim's bytes, or raise ``Failure``."""

    def respond(self, request: str, data: bytes) -> None:
        """Publish an answer, or raise ``OSError``."""

    def remove(self, name: str) -> None:
        """Remove a claim."""


class Place(Protocol):
    """Where a session is."""

    @property
    def path(self) -> str:
        """The path of its directory."""

    @property
    def name(self) -> str:
        """What tools and a policy call the session: the base name of its directory."""

    @property
    def directory(self) -> Directory | None:
        """Its directory; ``None`` while there is none."""


class Served(Protocol):
    """A session. ``held`` is its bytes in flight, ``in_flight`` the ids of its requests."""

    in_flight: set[str]
    held: int

    @property
    def place(self) -> Place:
        """Where it is."""

    @property
    def not_before(self) -> float | None:
        """Requests from before are not executed; seconds of the wall clock."""

    def done(self, request: str, *, awaited_until: float | None = None) -> None:
        """A request is answered, or given up."""


class Told(Protocol):
    """A session's place, as far as its writers have to be told something."""

    @property
    def path(self) -> str:
        """Its directory."""

    @property
    def unannounced(self) -> str:
        """Why its writers could not be told; empty where they were."""


class Telling(Protocol):
    """A session whose writers are told what is in force."""

    @property
    def place(self) -> Told:
        """Where it is."""


class Serving(Protocol):
    """A loop that serves sessions and goes by settings."""

    stopping: bool
    chores: list[Callable[[], None]]

    @property
    def engine(self) -> Engine:
        """What executes for them."""

    @property
    def sessions(self) -> Sequence[Telling]:
        """What it serves."""

    async def run(self) -> None:
        """Serve until ``stopping``."""

    def change(self) -> None:
        """Go by new limits, which are in the shared record already."""

    def unwatched(self) -> bool:
        """Whether a session that should be watched is not, and could not be."""
