"""The guard: a function of the operator's that is asked before each call.

It gets the request and the session that it comes from. A text that it returns refuses the call, and
so does an exception: a guard that fails has not agreed. It is asked outside of the event loop
unless it is asynchronous.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Self

from relay.engine.telemetry import escaped, log
from relay.engine.threads import Threads
from relay.protocol import Request
from relay.tools.audit import Audit, Decision
from relay.tools.registry import Failure


class GuardedRequest(Request):
    """What a guard decides about.

    Attributes:
        tool, args, call_id, timeout_ms: what the writer asks, as it says.
        session: the base name of the directory that it asks in, as in a policy.
        request_id: the request's own id, as in the log and the record of decisions.
    """

    session: str
    request_id: str

    def __new__(cls, request: Request, session: str, request_id: str) -> Self:
        """Add where a request comes from."""
        made = super().__new__(cls, *request)
        made.session = session
        made.request_id = request_id
        return made


#: Called with each request before its tool is looked up; a text, or an exception, refuses it.
Guard = Callable[[GuardedRequest], "str | Awaitable[str | None] | None"]


async def ask(guard: Guard, request: GuardedRequest, threads: Threads, audit: Audit | None) -> None:
    """Let a guard decide, and have that recorded, where there is a record of decisions.

    Raises:
        Failure: the call is refused, or the decision cannot be recorded.
    """
    try:
        if inspect.iscoroutinefunction(guard):
            verdict = await guard(request)
        else:
            verdict = await threads.run(lambda: guard(request))
            if inspect.isawaitable(verdict):
                verdict = await verdict
    except (Exception, SystemExit):  # noqa: BLE001 - a guard that fails has not agreed
        log.warning("the guard failed on %s; refused", escaped(request.tool), exc_info=True)
        _record(audit, request, "it failed")
        raise Failure("refused", "the call was refused: its guard failed") from None
    reason = None if verdict is None else str(verdict)
    _record(audit, request, reason)
    if reason is not None:
        raise Failure("refused", reason)


def _record(audit: Audit | None, request: GuardedRequest, refusal: str | None) -> None:
    if audit is not None:
        audit.record(
            Decision(
                session=request.session,
                tool=request.tool,
                request=request.request_id,
                allowed=refusal is None,
                by="guard",
                reason=refusal or "",
            )
        )
