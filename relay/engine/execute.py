"""One request from its claim to its answer: read, judge, run within a deadline, publish, unlink.

What is asynchronous runs as a task, what blocks in a thread; the loop waits for neither, save a
moment for a thread (see ``Threads``). Each request is answered once, by whatever comes first: its
result, its deadline, or the stop of the runner. A request that is refused is answered with a code,
and no other one notices.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from types import CoroutineType
from typing import Any

from relay.engine.behind import Behind
from relay.engine.cancels import Cancels
from relay.engine.guard import Guard, GuardedRequest, ask
from relay.engine.limits import LONGEST_TIMEOUT
from relay.engine.replies import error as error_reply
from relay.engine.replies import faulty, is_awaitable, reply_at_end, reply_of, reply_to
from relay.engine.served import Served
from relay.engine.shared import Shared
from relay.engine.tasks import start
from relay.engine.telemetry import escaped, event, log, pickup_ms
from relay.engine.threads import Threads
from relay.errors import BadRequest
from relay.protocol import (
    Request,
    Response,
    cancel_name,
    claim_name,
    decode_request,
    encode_response,
)
from relay.tools.audit import Asked
from relay.tools.command import kill_cancelled
from relay.tools.judges import Judges
from relay.tools.registry import Call, Failure, Handler, Registry, Tool
from relay.tools.validate import Validator

#: Pauses between attempts to publish an answer, in seconds: the first, and the longest.
_RETRY_FIRST = 0.05
_RETRY_LONGEST = 1.0

#: How long cancelled tools get to clean up at a stop, in seconds.
_CANCEL_GRACE = 0.2


class Engine:
    """Executes requests. Everything is called in the runner's event loop."""

    def __init__(
        self,
        shared: Shared,
        tools: Registry,
        guard: Guard | None,
        freed: Callable[[Any], None],
    ) -> None:
        self.shared = shared
        self.tools = tools
        self.guard = guard
        self.freed = freed
        self.loop = asyncio.get_running_loop()
        self.threads = Threads(self.loop)
        self.judges = Judges(self.loop)
        #: Executions that are not answered yet, and those that were while their tool goes on.
        self.open: set[Execution] = set()
        self.lingering: set[Execution] = set()
        self.behind = Behind()
        self._cancels = Cancels(self.loop, self.open)
        self._idle: asyncio.Future[None] | None = None

    def begin(self, session: Served, request: str, wake: str, picked: float) -> None:
        """Execute a request that was claimed at ``picked`` (wall clock)."""
        execution = Execution(self, session, request, wake, picked)
        self.open.add(execution)
        try:
            execution.begin()
        except Exception:  # noqa: BLE001 - logged; one request never ends the others
            log.exception("request %s cannot be executed", request)
            execution.end_early("tool_error", "the runner failed on this request")
        if self.open and self.shared.cancels:
            self._cancels.look_soon()

    @property
    def left_behind(self) -> int:
        """How many tools go on although their call was answered for them."""
        return len(self.lingering) + self.threads.left_behind

    async def drain(self, patience: float) -> None:
        """Wait until nothing is in flight, for at most ``patience`` seconds; then end the rest."""
        if self.open and patience > 0:
            self._idle = self.loop.create_future()
            await asyncio.wait([self._idle], timeout=patience)
        tasks = [task for execution in self.open if (task := execution.task) is not None]
        self.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_GRACE)
        kill_cancelled()

    def close(self) -> None:
        """Let the threads go, and what judges outside of the loop."""
        self._cancels.close()
        self.threads.close()
        self.judges.close()

    def over(self, execution: Execution) -> None:
        """Forget an execution that is answered or given up."""
        self.open.discard(execution)
        if not self.open and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def cancel(self) -> None:
        """Answer everything that is in flight as interrupted, and end it as far as it can be."""
        for execution in tuple(self.open):
            execution.end_early("interrupted", "the runner stopped before the tool had finished")
        for execution in tuple(self.open):
            execution.give_up()


class Execution:
    """One request in flight."""

    __slots__ = (
        "_answered",
        "_behind",
        "_bytes",
        "_call",
        "_claim",
        "_deadline",
        "_directory",
        "_engine",
        "_id",
        "_judged",
        "_named",
        "_patient",
        "_picked",
        "_session",
        "_started",
        "_thread",
        "_timer",
        "_wake",
        "task",
    )

    def __init__(
        self, engine: Engine, session: Served, request: str, wake: str, picked: float
    ) -> None:
        directory = session.place.directory
        if directory is None:  # pragma: no cover - a claim is made in a directory
            raise RuntimeError("a request without a directory")
        directory.hold()
        #: What tools and a policy call the session.
        self._named = session.place.name
        self._engine = engine
        self._session = session
        self._directory = directory
        self._id = request
        self._claim = claim_name(request, engine.shared.locks.runner)
        self._wake = wake
        self._picked = picked
        self._started = engine.shared.clock()
        #: When its caller stops waiting, on the monotonic clock.
        self._deadline = self._started + engine.shared.limits.timeout
        #: When that is on the wall clock, where it is later than callers usually wait.
        self._patient: float | None = None
        self._answered = False
        #: Whether it counts as left behind; and whether its thread is to come, at work, or done.
        self._behind = False
        self._thread = ""
        self._judged = False
        self._bytes = 0
        self._call: Call | None = None
        self.task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Read and judge it; run its tool, or answer at once."""
        engine = self._engine
        try:
            age, request = self._read()
            engine.behind.refuse(self._session, in_all=engine.left_behind)
            tool = engine.tools.get(request.tool)
            if engine.guard is None and (tool is None or self._is_quick(tool, request)):
                tool = self._judge(tool, request)
                self._judged = True
        except (Failure, BadRequest) as error:
            self._refuse(error.code, str(error))
            return
        engine.shared.counters.executed += 1
        self._run(tool, request)
        # What nobody waits for comes after the answer, which is often there by now.
        engine.shared.pickups.note(age)
        event(f"stage=relay_pickup id={self._id} pickup_ms={pickup_ms(age)} wake={self._wake}")

    def _read(self) -> tuple[float, Request]:
        """Return the request's age at its claim, in seconds, and the request.

        Raises:
            Failure, BadRequest: it is refused.
        """
        shared = self._engine.shared
        found = self._directory.examine(self._claim)
        if found is None:
            raise Failure("bad_request", "the request was taken away while it was claimed")
        age = self._picked - found.st_mtime
        self._bytes = found.st_size
        shared.slots.hold(self._session, self._bytes)
        data = self._directory.read(self._claim, found, shared.limits.max_request)
        request = decode_request(data)
        not_before = self._session.not_before
        if not_before is not None and found.st_mtime < not_before:
            raise Failure("not_executed", "the request is older than its runner; ask again")
        self._wait_until(request, age)
        return age, request

    def _wait_until(self, request: Request, age: float) -> None:
        """Set the deadline that the caller asked for; refuse a request that is past it."""
        shared = self._engine.shared
        timeout = usual = shared.limits.timeout
        if request.timeout_ms is not None:
            timeout = min(request.timeout_ms / 1000, LONGEST_TIMEOUT)
        # A writer's clock, or the writer, may put the mtime into the future: that buys no time.
        left = timeout - max(age, 0.0)
        if left <= 0:
            raise Failure(
                "expired", f"the request was {age:.1f} s old when it was found; it was not run"
            )
        self._deadline = self._started + left
        if timeout > usual:
            self._patient = self._picked + left

    def _judge(self, tool: Tool | None, request: Request) -> Tool:
        if tool is None:
            raise Failure("unknown_tool", f'there is no tool "{escaped(request.tool)}"')
        try:
            fault = tool.validator.fault(request.args)
        except Exception as error:  # noqa: BLE001 - a schema may lead anywhere, also nowhere
            log.warning("tool %s: its schema cannot be applied: %s", tool.name, escaped(str(error)))
            raise Failure("tool_error", "the tool's schema cannot be applied") from None
        if fault is not None:
            raise faulty(tool, fault)
        policy = self._engine.tools.policy
        if policy is not None:
            policy.decide(self._asked(tool, request))
        return tool

    def _is_quick(self, tool: Tool, request: Request) -> bool:
        policy = self._engine.tools.policy
        return tool.validator.is_quick(request.args, self._bytes) and (
            policy is None or policy.is_quick(request.args, self._bytes)
        )

    async def _judge_outside(self, tool: Tool | None, request: Request) -> Tool:
        """Judge what would hold up the loop for longer than other calls can wait."""
        if tool is None or self._is_quick(tool, request):
            return self._judge(tool, request)
        fault = await self._fault(tool.validator, request)
        if fault is not None:
            raise faulty(tool, fault)
        policy = self._engine.tools.policy
        if policy is not None:
            await policy.decide_outside(
                self._asked(tool, request), lambda where: self._fault(where, request)
            )
        return tool

    async def _fault(self, validator: Validator, request: Request) -> str | None:
        return await self._engine.judges.fault(validator, request.args, self._session)

    def _asked(self, tool: Tool, request: Request) -> Asked:
        return Asked(tool.name, request.args, self._named, self._id)

    def _run(self, tool: Tool | None, request: Request) -> None:
        engine = self._engine
        limits = engine.shared.limits
        limit = limits.tool_timeout if tool is None or tool.timeout is None else tool.timeout
        deadline = min(self._deadline, self._started + limit)
        most = limits.max_response
        self._call = Call(self._id, request.call_id, deadline, most, session=self._named)
        thread: asyncio.Future[Any] | None = None
        if tool is not None and tool.blocking and self._judged:
            thread = self._give_to_thread(tool, request, self._call)
            if thread.done() and not is_awaitable(thread):
                # It was quick: there is nothing that would have to be a task.
                self._answer(reply_at_end(thread, request))
                return
        self.task = start(engine.loop, self._work(tool, request, thread))
        if not self._answered:
            self._timer = engine.loop.call_later(deadline - self._started, self._expire)

    async def _work(
        self, tool: Tool | None, request: Request, thread: asyncio.Future[Any] | None
    ) -> None:
        """Run guard and tool, and answer; whatever they raise is an answer too."""
        try:
            response = reply_of(await self._result(tool, request, thread))
        except BaseException as error:
            if self._engine.loop.is_closed():
                # Not the tool's: the loop was closed over it, and nobody is there to answer.
                raise
            response = reply_to(error, request)
        self._engine.lingering.discard(self)
        if self._behind and self._thread != "at work":
            self._is_over()
        if not self._answered:
            self._answer(response)

    async def _result(
        self, tool: Tool | None, request: Request, thread: asyncio.Future[Any] | None
    ) -> Any:
        guard = self._engine.guard
        if guard is not None:
            asked = GuardedRequest(request, self._named, self._id)
            policy = self._engine.tools.policy
            await ask(guard, asked, self._engine.threads, policy and policy.audit)
        if not self._judged:
            tool = await self._judge_outside(tool, request)
        if tool is None or self._call is None:  # pragma: no cover - judged before
            raise Failure("unknown_tool", "there is no such tool")
        if tool.blocking:
            result = await (thread or self._give_to_thread(tool, request, self._call))
        else:
            result = tool.handler(request.args, self._call)
        if type(result) is CoroutineType or inspect.isawaitable(result):
            result = await result
        return result

    def _give_to_thread(self, tool: Tool, request: Request, call: Call) -> asyncio.Future[Any]:
        call.enable_cancel()
        handler, args = tool.handler, request.args
        return self._engine.threads.run(lambda: self._in_thread(handler, args, call), tool.name)

    def _in_thread(self, handler: Handler, args: dict[str, Any], call: Call) -> Any:
        # RACE: after a stall of the whole process a queued call may get its thread before the loop
        # sees that its time is over. The deadline wins: nothing runs late.
        if self._engine.shared.clock() >= call.deadline:
            raise Failure("expired", "no thread was free before the deadline; the tool did not run")
        self._thread = "at work"
        try:
            return handler(args, call)
        finally:
            # RACE: it is done first, then looks whether it was given up; whoever gives it up does
            # so first, then looks whether it is done. Both may see both; counting off is once.
            self._thread = "done"
            if self._answered:
                with suppress(RuntimeError):
                    self._engine.loop.call_soon_threadsafe(self._is_over)

    def _expire(self) -> None:
        seconds = self._engine.shared.clock() - self._started
        self.end_early("timeout", f"the tool ran out of time after {seconds:.1f} s")

    def end_early(self, code: str, message: str) -> None:
        """Answer with an error now, and end the tool as far as it can be ended."""
        if self._answered:
            return
        self._answer(error_reply(code, message))
        self._end_tool()

    def stop_if_cancelled(self) -> None:
        """End the tool as far as it can be ended, where its caller has taken the request back.

        Nobody waits for an answer, so there is none.
        """
        cancel = cancel_name(self._id)
        if self._answered or self._directory.examine(cancel) is None:
            return
        event(f"stage=relay_cancelled id={self._id}")
        self._settle("cancelled")
        self._directory.remove(self._claim)
        self._directory.remove(cancel)
        self._close()
        self._end_tool()

    def _end_tool(self) -> None:
        """End the tool of a call that is answered; until it has ended, it was left behind."""
        task = self.task
        if task is not None:
            if not task.done():
                self._engine.lingering.add(self)
            if not task.done() and self._thread != "done":
                self._behind = True
                self._engine.behind.add(self._session)
            task.cancel()
        if self._call is not None:
            self._call.cancel()

    def _is_over(self) -> None:
        if self._behind:
            self._behind = False
            self._engine.behind.remove(self._session)

    def _refuse(self, code: str, message: str) -> None:
        event(f"stage=relay_refused id={self._id} code={code}")
        self._answer(error_reply(code, message))

    def _answer(self, response: Response) -> None:
        self._settle("paused" if response.paused else "ok" if response.ok else response.code)
        limit = self._engine.shared.limits.max_response
        data = encode_response(response)
        if len(data) > limit:
            data = encode_response(
                error_reply("too_large", f"the answer is larger than {limit} bytes")
            )
        self._publish(data, _RETRY_FIRST)

    def _publish(self, data: bytes, pause: float) -> None:
        try:
            self._directory.respond(self._id, data)
        except OSError as error:
            self._insist(data, error, pause)
        else:
            self._directory.remove(self._claim)
            self._close()

    def _settle(self, code: str) -> None:
        """Take it as over: by its answer, or without one."""
        self._answered = True
        self._engine.shared.answers[code] += 1
        if self._timer is not None:
            self._timer.cancel()

    def _insist(self, data: bytes, error: OSError, pause: float) -> None:
        """Try again later, until nobody waits for the answer any more."""
        shared = self._engine.shared
        if self._directory.deleted or shared.clock() + pause >= self._deadline:
            log.warning("request %s cannot be answered: %s", self._id, error.strerror)
            self.give_up()
            return
        self._engine.loop.call_later(pause, self._retry, data, min(pause * 2, _RETRY_LONGEST))

    def _retry(self, data: bytes, pause: float) -> None:
        if self in self._engine.open:
            self._publish(data, pause)

    def give_up(self) -> None:
        """Free the slot of an answer that cannot be published; a later sweep finds the claim."""
        self._close()

    def _close(self) -> None:
        self._engine.over(self)
        self._directory.release()
        self._engine.shared.slots.hold(self._session, -self._bytes)
        self._session.done(self._id, awaited_until=self._patient)
        self._engine.freed(self._session)
