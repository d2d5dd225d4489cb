"""One call, from the request's publication to what the runner says: the steps, without waiting.

``Exchange.steps`` is a generator: it does the file operations and yields seconds wherever a call
waits. Whoever drives it (a thread, an event loop) waits as it likes, at most so long, and sends
back whether there may be something to see; closing it takes the request back. Its first step looks
around, and yields before anything is published, so that the driver can listen first. So the call is
written once, and waiting once for each way of waiting. Ground floor.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Dict, Generator, NamedTuple, Optional

from relay.client.directory import Directory, Held
from relay.client.options import Options, OptionsSource
from relay.client.wakes import Waiter
from relay.errors import CallError, CallTimeout, CannotPublish, NoDirectory, RelayError, call_error
from relay.protocol import (
    REQUEST_SUFFIX,
    RESPONSE_SUFFIX,
    RandomBytes,
    Request,
    Response,
    ask_to_stop,
    decode_response,
    discard,
    encode_request,
    new_id,
    publish,
)

#: The longest wait without a look: relay.json's changes reach a polling writer within it
#: (design section 7).
LONGEST_WAIT = 1.0

#: Looks before a watch is armed, where ``watch_after`` asks for them: the first after 0.25 ms, a
#: quarter of a usual round trip, then each half as long again, up to 2 ms.
_FIRST_GLANCE = 0.00025
_LONGEST_GLANCE = 0.002

#: Seconds within which a signal that was sent is read, after its answer was found.
_TOLD_WITHIN = 0.02

NEW, ASKED, ANSWERED, WITHDRAWN, TAKEN = "new", "asked", "answered", "withdrawn", "taken"


class Means(NamedTuple):
    """What all calls of a writer have in common: where, by which options, and its sources.

    ``clock`` gives monotonic seconds, ``random`` the digits in request ids.
    """

    directory: Directory
    source: OptionsSource
    clock: Callable[[], float]
    random: RandomBytes


class Exchange:
    """One call. ``state`` is how far it has come, and stays true when it is interrupted.

    ``NEW``: nothing was published. ``ASKED``: the request is out. ``ANSWERED``: its response was
    taken. ``WITHDRAWN``: it was taken back before any runner had it, and does not run. ``TAKEN``:
    a runner had it already; it may run, and was told to stop where that runner obeys.

    ``waiter`` is what it waits for, to be given to a waiting place.
    """

    def __init__(
        self,
        means: Means,
        tool: str,
        args: Dict[str, Any],
        *,
        timeout: Optional[float],
        call_id: Optional[str],
        watch_after: float = 0.0,
    ) -> None:
        self.state = NEW
        self._tool = tool
        self._args = args
        self._own_timeout = timeout
        self._own_id = call_id
        self._directory, self._source, self._clock, self._random = means
        self._watch_after = watch_after
        held = self._directory.held
        self._options = options = self._source.latest(held)
        self.waiter = Waiter(held, watch=options.watch and not watch_after, signals=options.signals)
        self._timeout = options.timeout if timeout is None else timeout
        self._begun: Optional[float] = None
        self._deadline = 0.0
        self._call_id = self._request = ""
        self._name_anew()

    def steps(self) -> Generator[float, bool, str]:
        """Yield seconds to wait, take whether there may be something to see, return the text.

        Raises:
            RelayError: as ``relay.client.writer.Writer.call`` says.
        """
        refusals = 0
        self._catch_up()
        yield 0.0
        try:
            while True:
                self._ask()
                response = yield from self._response()
                if response.code != "not_executed":
                    return self._settle(response)
                # It lay there before its runner started. It is asked again at once, then ever
                # more slowly while runner after runner starts without running it.
                yield from self._rest(min(self._options.poll * refusals, LONGEST_WAIT))
                refusals += 1
                if self._clock() >= self._deadline:
                    return self._settle(response)
                self._catch_up()
                self._name_anew()
        finally:
            if self.state == ASKED:
                self._take_back()

    def _name_anew(self) -> None:
        """Take a new id, and say which response is waited for."""
        own_id = self._own_id
        id_ = new_id(self._tool if own_id is None else own_id, random=self._random)
        self._call_id = id_ if own_id is None else own_id
        self._request, self.waiter.name = id_ + REQUEST_SUFFIX, id_ + RESPONSE_SUFFIX

    def _catch_up(self) -> None:
        """Take in what has changed, before anything is published.

        Not while the runner works: on one processor, that would be in its time. And not by events
        alone: none tells of a link, a mount or a parent that leads elsewhere, some file systems
        tell nothing, and a runner that does not signal is not heard where signals are waited for.

        Raises:
            NoDirectory: there is none at the path.
        """
        if self._source.are_those_at(self._directory.path):
            # One look is enough: where that file is, its directory is.
            self.waiter.held = self._directory.held
            self._go_by(self._source.latest(self.waiter.held))
        else:
            self._refresh()
        if self._watch_after:
            self.waiter.watch = False
        if self._begun is None and self._own_timeout is None:
            self._timeout = self._options.timeout

    def _ask(self) -> None:
        """Publish the request."""
        now = self._clock()
        if self._begun is None:
            # The time runs from here, so that the runner is told just what the caller asked for.
            self._begun = now
            self._deadline = now + self._timeout
        left = max(round((self._deadline - now) * 1000), 1)
        data = encode_request(Request(self._tool, self._call_id, self._args, left))
        most = self._options.max_request
        if most is not None and len(data) > most:
            # The runner would refuse it, too.
            size = len(data)
            text = f"the request has {size} bytes; the runner's RELAY_MAX_REQUEST_BYTES is {most}"
            raise CallError(text, code="too_large", may_have_run=False)
        self._publish(data)

    def _publish(self, data: bytes) -> None:
        held = self.waiter.held
        before, self.state = self.state, ASKED
        try:
            publish(held.fd, self._request, data, mode=held.mode)
        except OSError as error:
            self.state = before
            self.waiter.held = self._directory.current()
            if self.waiter.held is held:
                text = f"the request cannot be written in {held.path!r}: {error.strerror}"
                raise CannotPublish(text) from None
            self._publish(data)

    def _response(self) -> Generator[float, bool, Response]:
        """Wait for the response, on events with the poll underneath, until the deadline."""
        if self._watch_after:
            response = yield from self._glance()
            if response is not None:
                return response
        interval, idle = self._options.poll, 0
        while True:
            left = self._deadline - self._clock()
            if left <= 0:
                return self._give_up()
            woken = yield min(interval, LONGEST_WAIT, left)
            if not woken:
                idle += 1
                if idle >= self._options.idle_grow_after:
                    interval = min(interval * 2, self._options.poll_max)
            response = self._look()
            if response is not None:
                if not woken and self.waiter.lease is not None:
                    woken = yield from self._doubt()
                if woken:
                    self._source.unheard = 0
                return response
            # Without a directory: it may be made again before the deadline, or its runner may still
            # hold the old one.
            with suppress(NoDirectory):
                if self._refresh():
                    interval, idle = self._options.poll, 0

    def _doubt(self) -> Generator[float, bool, bool]:
        """Take in that a watch did not tell of an answer; return whether it does so after all."""
        # Where much is going on, the poll may find an answer before its signal is read.
        if self.waiter.signals and (yield _TOLD_WITHIN):
            return True
        # However it has become deaf: the next call makes a watch anew.
        self.waiter.held.leases.clear()
        self._source.doubt()
        return False

    def _glance(self) -> Generator[float, bool, Optional[Response]]:
        """Look at short intervals before a watch is made."""
        until = min(self._clock() + self._watch_after, self._deadline)
        seconds = _FIRST_GLANCE
        response = self._look()
        self.waiter.watch = False
        while response is None and self._options.watch and self._clock() < until:
            yield seconds
            response = self._look()
            seconds = min(seconds * 1.5, _LONGEST_GLANCE)
        self.waiter.watch = self._options.watch
        return response

    def _rest(self, seconds: float) -> Generator[float, bool, None]:
        until = min(self._clock() + seconds, self._deadline)
        while self._clock() < until:
            yield max(until - self._clock(), 0.0)

    def _look(self) -> Optional[Response]:
        """Take the response where it is there."""
        try:
            data = self.waiter.held.read(self.waiter.name, self._options.max_response)
        except RelayError:
            self.state = ANSWERED
            raise
        if data is None:
            return None
        self.state = ANSWERED
        return decode_response(data)

    def _refresh(self) -> bool:
        """Take in that the directory or relay.json has changed; tell whether options have.

        Raises:
            NoDirectory: there is no directory at the path now.
        """
        held = self._directory.current()
        if held is not self.waiter.held:
            self._ask_again(held)
        return self._go_by(self._source.current(held))

    def _go_by(self, options: Options) -> bool:
        """Take over the options in force; tell whether they are others than before."""
        before, self._options = self._options, options
        self.waiter.watch, self.waiter.signals = options.watch, options.signals
        return before != options

    def _ask_again(self, held: Held) -> None:
        """Ask in the directory that is at the path now."""
        # RACE: where the request is still there, no runner has it, and it is put again; where it
        # is not, a runner may have it, and only its answer is waited for.
        still_there = discard(self.waiter.held.fd, self._request)
        self.waiter.held = held
        if still_there:
            self._name_anew()
            self._ask()

    def _give_up(self) -> Response:
        tool, seconds = self._tool, self._timeout
        if self._withdraw():
            text = f"{tool}: no answer within {seconds:g} s; no runner took it, and it did not run"
            raise CallTimeout(text, code="timeout", may_have_run=False)
        # RACE: the answer may have come between the last look and the withdrawal.
        response = self._look()
        if response is not None:
            return response
        text = f"{tool}: no answer within {seconds:g} s; a runner has it, and it may have run"
        raise CallTimeout(text, code="timeout", may_have_run=True)

    def _take_back(self) -> None:
        """Take the request back; tell a runner that has it already to stop."""
        if self._withdraw() or not self._options.cancels:
            return
        # RACE: an answer that comes from here on is nobody's, and goes when its time is over.
        if discard(self.waiter.held.fd, self.waiter.name):
            self.state = ANSWERED
        else:
            request = self._request[: -len(REQUEST_SUFFIX)]
            ask_to_stop(self.waiter.held.fd, request, mode=self.waiter.held.mode)

    def _withdraw(self) -> bool:
        """Take the request back; tell whether it was still there."""
        there = discard(self.waiter.held.fd, self._request)
        self.state = WITHDRAWN if there else TAKEN
        return there

    def _settle(self, response: Response) -> str:
        tool = self._tool
        if response.paused:
            raise call_error("paused", f"{tool}: paused; its answer comes on a later call")
        if not response.ok:
            raise call_error(response.code, response.error or f"{tool}: {response.code}")
        return response.text
