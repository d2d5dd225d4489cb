"""The errors of relay.

::

    RelayError                code
     +-- BadRequest           bad_request    bytes or arguments that are no request
     +-- BadResponse          bad_response   a response file that is no response
     +-- NoDirectory          no_directory   the session directory is not there, or not one
     +-- CannotPublish        cannot_publish the request could not be written; nothing ran
     +-- ToolError            tool_error     raised by a tool's handler; its text reaches the caller
     +-- CallError            (the answer's) a call that ended without a text
          +-- ToolFailed      tool_error     the tool itself said so
          +-- UnknownTool     unknown_tool   no tool of that name
          +-- CallTimeout     timeout, expired
          +-- NotExecuted     not_executed   the request did not run, and no time is left
          +-- Interrupted     interrupted    its runner died; it may have run
          +-- Paused          paused         parked: somebody else will answer on a later call

Every error has a stable ``code``; a ``CallError`` carries the protocol's. Its text is one message
for a person. Ground floor.
"""

from __future__ import annotations

from typing import Dict, Type


class RelayError(Exception):
    """Base of every error that relay raises on purpose."""

    code = "error"


class BadRequest(RelayError):
    """A request that cannot be read or written as one; the message names the rule it breaks."""

    code = "bad_request"


class BadResponse(RelayError):
    """A response file holds something else than a response."""

    code = "bad_response"


class NoDirectory(RelayError):
    """The session directory was not named, does not exist, or is no directory."""

    code = "no_directory"


class CannotPublish(RelayError):
    """The request could not be written into the session directory. Nothing ran."""

    code = "cannot_publish"


class ToolError(RelayError):
    """Raise it in a tool's handler: its text is the error that the caller hears."""

    code = "tool_error"


class CallError(RelayError):
    """A call ended without a text.

    ``code`` is the protocol's (``tool_error``, ``refused``, ``timeout``, ...). ``may_have_run``
    tells whether the tool may have had its effects, now or later.
    """

    def __init__(self, message: str, *, code: str, may_have_run: bool) -> None:
        super().__init__(message)
        self.code = code
        self.may_have_run = may_have_run


class ToolFailed(CallError):
    """The tool ran and failed; the message is its own."""


class UnknownTool(CallError):
    """The runner has no tool of that name."""


class CallTimeout(CallError):
    """The deadline passed, here (``timeout``), in the tool, or before it began (``expired``)."""


class NotExecuted(CallError):
    """The runner started after the request, did not run it, and no time is left to ask again."""


class Interrupted(CallError):
    """The runner that had taken the request died; whether the tool ran is not known."""


class Paused(CallError):
    """The tool parked the call; an answer comes on a later call."""


_BY_CODE: Dict[str, Type[CallError]] = {
    "tool_error": ToolFailed,
    "unknown_tool": UnknownTool,
    "timeout": CallTimeout,
    "expired": CallTimeout,
    "not_executed": NotExecuted,
    "interrupted": Interrupted,
    "paused": Paused,
}

#: Codes that a runner answers before the tool starts: after these, nothing has happened.
_ANSWERED_BEFORE = frozenset(
    {"bad_request", "unknown_tool", "invalid_args", "refused", "expired", "not_executed", "busy"}
)


def call_error(code: str, message: str) -> CallError:
    """Return the error that stands for an answer with ``code``.

    A code that is not known here, from a runner newer than this writer, becomes a plain
    ``CallError`` whose ``may_have_run`` is true.
    """
    kind = _BY_CODE.get(code, CallError)
    return kind(message, code=code, may_have_run=code not in _ANSWERED_BEFORE)
