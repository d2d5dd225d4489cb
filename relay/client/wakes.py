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
from typing import Any, Dict, List, Optional, Tuple

from relay import inotify
from relay.activity import CLOSED, LOOK_EVERYWHERE, DirectoryWatch, Hint
from relay.client.directory import Held
from relay.protocol import RELAY_JSON, RESPONSE_SUFFIX

#: What a writer waits for. Its own requests and their claims appear beside it, and wake nobody.
_ENDINGS = (RESPONSE_SUFFIX.encode(), RELAY_JSON.encode())


class Lease:
    """A watch on one directory, given up when the last reference to it goes.

    ``appearing`` is the event that it was armed for.
    """

    def __init__(self, key: int, appearing: int, given_up: List[Tuple[int, int]]) -> None:
        self.key = key
        self.appearing = appearing
        self._given_up = given_up

    def __del__(self) -> None:
        # It may go at any moment in any thread, so it takes no lock: it only leaves a note.
        self._given_up.append((self.key, self.appearing))


class Waiter:
    """One call that waits: what for, which the call says, and whether that may have come.

    ``name`` may appear in the directory ``held``; where ``watch`` is false, nothing is watched and
    only time passes. ``signals`` is whether its runner signals (see ``protocol.SIGNALS``). The rest
    belongs to the waiting place.
    """

    __slots__ = (
        *("held", "name", "watch", "signals"),
        *("at", "future", "gate", "lease", "woken"),
    )

    def __init__(self, held: Held, *, watch: bool, signals: bool = False) -> None:
        self.held = held
        self.name = ""
        self.watch = watch
        self.signals = signals
        self.at: Optional[Hint] = None
        self.lease: Optional[Lease] = None
        self.woken = False
        #: What a thread that follows waits on; closed until it is picked or woken.
        self.gate: Optional[Lock] = None
        #: What a loop's waiter awaits (an ``asyncio.Future``, which this module does not import).
        self.future: Any = None


#: What ``Wakes.attend`` found: the waiter listens already, has just begun to, or has no watch.
LISTENING, NEW, TIMER = "listening", "new", "timer"


class Wakes:
    """Sorts what happens in watched directories to the waiters. Subclasses do the waiting."""

    def __init__(self) -> None:
        self._watch = DirectoryWatch(_ENDINGS)
        self._lock = Lock()
        self._waiters: Dict[Hint, Waiter] = {}
        self._given_up: List[Tuple[int, int]] = []

    def attend(self, waiter: Waiter) -> str:
        """Make ``waiter`` listen for what it names, where it wants a watch.

        Returns:
            ``LISTENING``, ``TIMER`` where there is no watch, or ``NEW``: then it must look once
            more before it waits, since what it waits for may have come before it listened, or
            unheard before it listened for the event that tells of it.
        """
        if self._given_up:
            with self._lock:
                while self._given_up:
                    self._watch.discard(*self._given_up.pop())
        lease = self._lease(waiter)
        if lease is None:
            self.leave(waiter)
            return TIMER
        at, own = (lease.key, waiter.name), waiter.lease
        # RACE: two threads may both have armed; whoever asked for the same event has missed none.
        if waiter.at == at and own is not None and own.appearing == lease.appearing:
            return LISTENING
        if waiter.at is not None:
            self.leave(waiter)
        with self._lock:
            waiter.at, waiter.lease = at, lease
            self._waiters[at] = waiter
        return NEW

    def leave(self, waiter: Waiter) -> None:
        """Stop listening. Doing so twice does nothing."""
        if waiter.at is not None:
            with self._lock:
                self._waiters.pop(waiter.at, None)
                waiter.at = waiter.lease = None

    def abandon(self) -> None:
        """Give up the descriptors that a forked child has inherited."""
        self._watch.abandon()

    def _lease(self, waiter: Waiter) -> Optional[Lease]:
        """Return the watch on a waiter's directory, armed now if it was not.

        ``None`` where it cannot be armed, or the waiter does not want it: then it is given up.
        """
        held = waiter.held
        if not waiter.watch:
            held.leases.pop(self, None)
            return None
        lease = held.leases.get(self)
        appearing = inotify.IN_ATTRIB if waiter.signals else inotify.IN_MOVED_TO
        if lease is not None and lease.appearing == appearing and lease.key in self._watch.keys:
            return lease
        instead = None if lease is None else (lease.key, lease.appearing)
        key = self._watch.add(held.path, appearing, instead=instead)
        if key is None:
            return None
        lease = Lease(key, appearing, self._given_up)
        if not held.is_at_its_path():
            # RACE: the directory was replaced between its opening and this watch on its path.
            return None
        # RACE: two threads may both have armed; the lease that is dropped here undoes one of both.
        held.leases[self] = lease
        return lease

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

    def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Wait for so long at most; tell whether there may be something to see."""
        found = self.attend(waiter)
        if found == NEW:
            return True
        if found == TIMER:
            sleep(seconds)
        else:
            self._wait(waiter, monotonic() + seconds)
        woken, waiter.woken = waiter.woken, False
        return woken

    def _wait(self, waiter: Waiter, deadline: float) -> None:
        try:
            while not waiter.woken and monotonic() < deadline:
                with self._lock:
                    if waiter.woken:
                        return
                    # A leader that stands nowhere any more was interrupted while it left.
                    leads = self._leader is None or self._leader.at is None
                    if leads:
                        self._leader = waiter
                    else:
                        gate = self._follow(waiter)
                if leads:
                    self._lead(waiter, deadline)
                else:
                    gate.acquire(timeout=max(deadline - monotonic(), 0))
        finally:
            self._hand_over(waiter)

    def _follow(self, waiter: Waiter) -> Lock:
        """Line up behind the leader, and return the gate to wait at. The lock is held."""
        gate = waiter.gate
        if gate is None:
            gate = waiter.gate = Lock()
            gate.acquire()
        self._followers[waiter] = None
        return gate

    def _lead(self, waiter: Waiter, deadline: float) -> None:
        while not waiter.woken:
            left = deadline - monotonic()
            if left <= 0 or self._watch.wait(left) == CLOSED:
                return
            self._sort(self._watch.take())

    def _hand_over(self, waiter: Waiter) -> None:
        """Leave the waiting place, and see to it that somebody leads where anybody waits."""
        with self._lock:
            if self._followers.pop(waiter, waiter) is waiter and waiter.gate is not None:
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
        """Let a follower go on. The lock is held."""
        del self._followers[waiter]
        if waiter.gate is not None:
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
