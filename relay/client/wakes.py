"""Where a process waits for its responses: one inotify instance, however many calls wait.

The kernel gives a user 128 instances and takes milliseconds to close one, so they are not made
per call: all threads of a process share ``ThreadWakes`` (whoever waits first polls and wakes the
others), and each event loop has one of ``relay.client.loop``. Both sort the names that appear to
those who wait for them. A wake is never proof: who is woken looks. Ground floor.
"""

from __future__ import annotations

import os
from threading import Lock
from time import monotonic, sleep
from typing import Any, Dict, List, NamedTuple, Optional

from relay.activity import CLOSED, LOOK_EVERYWHERE, DirectoryWatch, Hint
from relay.client.directory import Held
from relay.protocol import RELAY_JSON


class Pause(NamedTuple):
    """What a call asks for between two looks: up to ``seconds``, or until ``name`` may be there.

    No seconds at all: only listen from now on. Where ``watch`` is false, only the time counts and
    nothing is watched.
    """

    seconds: float
    name: str
    held: Held
    watch: bool


class Lease:
    """A watch on one directory, given up when the last reference to it goes."""

    def __init__(self, key: int, given_up: List[int]) -> None:
        self.key = key
        self._given_up = given_up

    def __del__(self) -> None:
        # It may go at any moment in any thread, so it takes no lock: it only leaves a note.
        self._given_up.append(self.key)


class Waiter:
    """One call that waits: what it waits for, and whether that may have come."""

    __slots__ = ("at", "future", "gate", "woken")

    def __init__(self) -> None:
        self.at: Optional[Hint] = None
        self.woken = False
        self.gate = Lock()
        self.gate.acquire()
        #: What a loop's waiter awaits (an ``asyncio.Future``, which this module does not import).
        self.future: Any = None


#: What ``Wakes.attend`` found: the waiter listens already, has just begun to, or has no watch.
LISTENING, NEW, TIMER = "listening", "new", "timer"


class Wakes:
    """Sorts what happens in watched directories to the waiters. Subclasses do the waiting."""

    def __init__(self) -> None:
        self._watch = DirectoryWatch()
        self._lock = Lock()
        self._waiters: Dict[Hint, Waiter] = {}
        self._given_up: List[int] = []

    def attend(self, waiter: Waiter, pause: Pause) -> str:
        """Make ``waiter`` listen for what ``pause`` names, where it asks for a watch.

        Returns:
            ``LISTENING``, ``TIMER`` where there is no watch, or ``NEW``: then it must look once
            more before it waits, since what it waits for may have come before it listened.
        """
        if self._given_up:
            with self._lock:
                while self._given_up:
                    self._watch.discard(self._given_up.pop())
        if not pause.watch:
            pause.held.leases.pop(self, None)
        key = self._key(pause.held) if pause.watch else None
        if key is None:
            self.leave(waiter)
            return TIMER
        at = (key, pause.name)
        if waiter.at == at:
            return LISTENING
        self.leave(waiter)
        with self._lock:
            waiter.at = at
            self._waiters[at] = waiter
        return NEW

    def leave(self, waiter: Waiter) -> None:
        """Stop listening. Doing so twice does nothing."""
        if waiter.at is not None:
            with self._lock:
                self._waiters.pop(waiter.at, None)
                waiter.at = None

    def abandon(self) -> None:
        """Give up the descriptors that a forked child has inherited."""
        self._watch.abandon()

    def _key(self, held: Held) -> Optional[int]:
        """Return the watch on a directory, armed now if it was not; ``None`` where it cannot be."""
        lease = held.leases.get(self)
        if lease is not None and self._watch.armed(lease.key):
            return lease.key
        key = self._watch.add(held.path)
        if key is None:
            return None
        lease = Lease(key, self._given_up)
        if not held.is_at_its_path():
            # RACE: the directory was replaced between its opening and this watch on its path.
            return None
        # RACE: two threads may both have armed; the lease that is dropped here undoes one of both.
        held.leases[self] = lease
        return key

    def _sort(self, hints: List[Hint]) -> None:
        """Wake whoever waits for what the hints name."""
        with self._lock:
            for hint in hints:
                key, name = hint
                waiter = self._waiters.get(hint)
                if waiter is not None:
                    self._wake(waiter)
                elif not name or name == RELAY_JSON:
                    for (its_key, _), each in self._waiters.items():
                        if its_key == key or hint == LOOK_EVERYWHERE:
                            self._wake(each)

    def _wake(self, waiter: Waiter) -> None:
        """Wake one waiter. The lock is held."""
        raise NotImplementedError


class ThreadWakes(Wakes):
    """The waiting place of a process's threads.

    One of the waiting threads leads: it polls for all, and when it leaves, the one that has waited
    longest leads on.
    """

    def __init__(self) -> None:
        super().__init__()
        self._leader: Optional[Waiter] = None
        self._followers: Dict[Waiter, None] = {}

    def wait(self, waiter: Waiter, pause: Pause) -> bool:
        """Wait as ``pause`` says; tell whether there may be something to see."""
        found = self.attend(waiter, pause)
        if pause.seconds <= 0 or found == NEW:
            return True
        if found == TIMER:
            sleep(pause.seconds)
        else:
            self._wait(waiter, monotonic() + pause.seconds)
        woken, waiter.woken = waiter.woken, False
        return woken

    def _wait(self, waiter: Waiter, deadline: float) -> None:
        try:
            while monotonic() < deadline:
                with self._lock:
                    if waiter.woken:
                        return
                    # A leader that stands nowhere any more was interrupted while it left.
                    leads = self._leader is None or self._leader.at is None
                    if leads:
                        self._leader = waiter
                    else:
                        self._followers[waiter] = None
                if leads:
                    self._lead(waiter, deadline)
                else:
                    waiter.gate.acquire(timeout=max(deadline - monotonic(), 0))
        finally:
            self._hand_over(waiter)

    def _lead(self, waiter: Waiter, deadline: float) -> None:
        while not waiter.woken:
            left = deadline - monotonic()
            if left <= 0 or self._watch.wait(left) == CLOSED:
                return
            self._sort(self._watch.take())

    def _hand_over(self, waiter: Waiter) -> None:
        """Leave the waiting place, and see to it that somebody leads where anybody waits."""
        with self._lock:
            if self._followers.pop(waiter, waiter) is waiter:
                # Picked or woken: the gate was opened, and may be so still.
                waiter.gate.acquire(blocking=False)
            if self._leader is waiter:
                self._leader = None
            if self._leader is None and self._followers:
                self._open_gate(next(iter(self._followers)))

    def _wake(self, waiter: Waiter) -> None:
        waiter.woken = True
        if waiter in self._followers:
            self._open_gate(waiter)

    def _open_gate(self, waiter: Waiter) -> None:
        del self._followers[waiter]
        waiter.gate.release()


_threads: Optional[ThreadWakes] = None
_making = Lock()


def thread_wakes() -> ThreadWakes:
    """Return the waiting place that all threads of this process share."""
    global _threads  # noqa: PLW0603 - one a process, made when the first call waits
    if _threads is None:
        with _making:
            if _threads is None:
                _threads = ThreadWakes()
    return _threads


def _after_fork() -> None:
    global _threads, _making  # noqa: PLW0603 - the parent's is the parent's
    _making = Lock()
    if _threads is not None:
        _threads.abandon()
        _threads = None


os.register_at_fork(after_in_child=_after_fork)
