"""What a request is answered with: what its tool gave, or an error and the words for it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from relay.engine.telemetry import escaped, log
from relay.errors import ToolError
from relay.protocol import Request, Response
from relay.tools.registry import PAUSED, Failure, Tool, text_of


def error(code: str, message: str) -> Response:
    """Return the response that stands for an error."""
    return Response(ok=False, error=message, code=code)


def is_awaitable(done: asyncio.Future[Any]) -> bool:
    """Whether what a tool gave is something to be awaited."""
    return done.exception() is None and inspect.isawaitable(done.result())


def reply_of(given: object) -> Response:
    """Return the response for what a tool has given.

    Raises:
        TypeError, ValueError: JSON cannot hold it.
    """
    if given is PAUSED:
        return Response(ok=True, paused=True)
    return Response(ok=True, text=text_of(given))


def reply_at_end(done: asyncio.Future[Any], request: Request) -> Response:
    """Return the response to a request whose tool has ended, by its result or by an exception."""
    try:
        return reply_of(done.result())
    except BaseException as error:  # noqa: BLE001 - the tool's, whatever it is
        return reply_to(error, request)


def reply_to(raised: BaseException, request: Request) -> Response:
    """Return the response to a request whose guard or tool has raised something."""
    if isinstance(raised, asyncio.CancelledError):
        return error("tool_error", "the tool cancelled its own call")
    if isinstance(raised, (Failure, ToolError)):
        return error(raised.code, said_by(raised))
    log.warning("tool %s failed", escaped(request.tool), exc_info=raised)
    return error("tool_error", named(raised))


def said_by(raised: BaseException) -> str:
    """Return the text of an exception that was raised for the caller."""
    try:
        return str(raised)
    except Exception:  # noqa: BLE001 - an exception's text is code of the tool's, too
        return named(raised)


def named(raised: BaseException) -> str:
    """Return what a caller hears of an exception that was not meant for it."""
    return f"the tool failed with {type(raised).__name__}"


def faulty(tool: Tool, fault: str) -> Failure:
    """Return how a call ends in whose arguments a fault was found."""
    return Failure("invalid_args", f"{tool.name}: {fault}")
