"""What a request is answered with when it is no result: an error, and the words for it."""

from __future__ import annotations

from relay.protocol import Response
from relay.tools.registry import Failure, Tool


def error(code: str, message: str) -> Response:
    """Return the response that stands for an error."""
    return Response(ok=False, error=message, code=code)


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
