"""Tool calls in flight: begun, woken, answered, taken back. One thread, and nothing here waits.

A call is an ``Exchange``, driven by whoever waits for all of them (see ``server``). What it ends
with becomes a result in MCP's words: whatever is not the tool's text has ``isError`` and says why,
so that a refusal, a pause or a timeout never looks like an empty success. Ground floor.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from relay.client.exchange import Exchange
from relay.client.wakes import LISTENING, NEW, Waiter, Wakes
from relay.errors import CallError, RelayError
from relay.mcp.messages import Id

#: The name under which an error's code stands in a result's ``_meta``, for programs.
CODE_KEY = "relay/code"
MAY_HAVE_RUN_KEY = "relay/mayHaveRun"


class Ready(Wakes):
    """The waiting place of a thread that waits for many calls and for other things at once."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when something has happened, or -1."""
        return self._watch.fileno()

    def collect(self) -> None:
        """Take in what has happened, and mark whoever waits for it as woken."""
        self._watch.collect()
        self._sort(self._watch.take())

    def rouse(self, waiter: Waiter) -> bool:
        """Tell whether a waiter is to look now: it was woken, or has only begun to listen."""
        found = self.attend(waiter)
        woken, waiter.woken = waiter.woken, False
        return found == NEW or (found == LISTENING and woken)

    def close(self) -> None:
        """Let go of the watch."""
        self._watch.close()

    def _wake(self, waiter: Waiter) -> None:
        waiter.woken = True


class Done(NamedTuple):
    """A call that has ended, and its result in MCP's words."""

    id: Id
    result: Dict[str, Any]


class _Running:
    """One call in flight. ``due`` is when it looks again by itself; ``began`` when it began."""

    def __init__(self, exchange: Exchange, token: Optional[Id], now: float) -> None:
        self.waiter = exchange.waiter
        self.steps = exchange.steps()
        self.token = token
        self.began = self.told = now
        self.due = now
        self.started = False


class Progress(NamedTuple):
    """A sign of life for a client that has asked for one: its token, and seconds gone by."""

    token: Id
    seconds: float


class Calls:
    """The calls in flight of one client.

    Args:
        wakes: where their waiters listen.
        clock: monotonic seconds.
        progress: seconds between two signs of life.
    """

    def __init__(self, wakes: Ready, clock: Callable[[], float], *, progress: float) -> None:
        self._wakes = wakes
        self._clock = clock
        self._progress = progress
        self._running: Dict[Id, _Running] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, id_: Id) -> bool:
        return id_ in self._running

    def begin(self, id_: Id, exchange: Exchange, token: Optional[Id]) -> Optional[Done]:
        """Publish a call's request; the result is there at once where it cannot be."""
        call = self._running[id_] = _Running(exchange, token, self._clock())
        return self._advance(id_, call, woken=False)

    def advance(self) -> List[Done]:
        """Carry on with every call that was woken or is due, and return those that ended."""
        now = self._clock()
        done = []
        for id_, call in list(self._running.items()):
            woken = call.waiter.woken
            if woken or now >= call.due:
                ended = self._advance(id_, call, woken=woken)
                if ended is not None:
                    done.append(ended)
        return done

    def progress(self) -> Iterator[Progress]:
        """Yield a sign of life for each call whose turn it is."""
        now = self._clock()
        for call in self._running.values():
            if call.token is not None and now - call.told >= self._progress:
                call.told = now
                yield Progress(call.token, round(now - call.began, 3))

    def next_due(self) -> Optional[float]:
        """Return when the first call is due, or wants to give a sign of life."""
        times = [call.due for call in self._running.values()]
        tokens = [c.told + self._progress for c in self._running.values() if c.token is not None]
        return min(times + tokens, default=None)

    def cancel(self, id_: Any) -> None:
        """Take a call's request back, where no runner has it. It has no result."""
        call = self._running.pop(id_, None) if isinstance(id_, (str, int)) else None
        if call is not None:
            self._close(call)

    def close(self) -> None:
        """Take everything back that is in flight."""
        for id_ in list(self._running):
            self.cancel(id_)

    def _advance(self, id_: Id, call: _Running, *, woken: bool) -> Optional[Done]:
        call.waiter.woken = False
        try:
            if not call.started:
                call.started = True
                next(call.steps)
                self._wakes.attend(call.waiter)
            seconds = call.steps.send(woken)
            while self._wakes.rouse(call.waiter):
                seconds = call.steps.send(True)
        except StopIteration as done:
            outcome = text_result(done.value)
        except RelayError as error:
            outcome = error_result(error)
        else:
            call.due = self._clock() + seconds
            return None
        del self._running[id_]
        self._close(call)
        return Done(id_, outcome)

    def _close(self, call: _Running) -> None:
        self._wakes.leave(call.waiter)
        call.steps.close()


def text_result(text: str) -> Dict[str, Any]:
    """Return the result of a call that ended with a text."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


def error_result(error: RelayError) -> Dict[str, Any]:
    """Return the result of a call that ended in any other way, with the reason."""
    meta: Dict[str, Any] = {CODE_KEY: error.code}
    if isinstance(error, CallError):
        meta[MAY_HAVE_RUN_KEY] = error.may_have_run
    text = f"{error.code}: {error}" if error.code != "tool_error" else str(error)
    content = [{"type": "text", "text": text or "the tool failed and said nothing"}]
    return {"content": content, "isError": True, "_meta": meta}


def call_id(id_: Id) -> str:
    """Return the caller's own id for a request of MCP; the runner's log shows it."""
    return f"mcp-{os.getpid()}-{id_}"
