"""Tools as the engine sees them: a name, what the sandbox is told, and how one call is run.

``Tool`` is one record for every kind of tool; ``Registry`` is the fixed set that one runner offers.
A handler is called with the arguments and a ``Call``; whether it blocks is part of the record, so
that the engine never has to guess. Nothing here reads files or starts anything.
"""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from relay import strictjson
from relay.errors import RelayError
from relay.tools.signature import schema_of
from relay.tools.validate import Validator

#: What a tool may be called: the names that MCP clients accept, and a dot.
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}", re.ASCII)


class ToolsError(RelayError):
    """Tools that cannot be offered. ``problems`` holds one line for each fault."""

    code = "tools"

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Failure(RelayError):
    """A call of a tool that ends with one of the protocol's codes instead of a result."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Paused:
    """The type of ``PAUSED``."""

    def __repr__(self) -> str:
        return "PAUSED"


#: What a handler returns to park the call: somebody else answers on a later one.
PAUSED = _Paused()


class Call:
    """What a handler may know about the call that it serves.

    ``session`` is the base name of the session's directory, which the runner knows and the caller
    cannot choose; ``call_id`` is the caller's own. ``deadline`` is on the clock ``time.monotonic``;
    after it nobody waits for the result. ``max_bytes`` is the size that an answer may have.
    """

    __slots__ = (
        "_cancelled",
        "_lock",
        "_on_cancel",
        "call_id",
        "deadline",
        "max_bytes",
        "request_id",
        "session",
    )

    def __init__(
        self, request_id: str, call_id: str, deadline: float, max_bytes: int, session: str = ""
    ) -> None:
        self.request_id = request_id
        self.call_id = call_id
        self.deadline = deadline
        self.max_bytes = max_bytes
        self.session = session
        self._cancelled = False
        self._on_cancel: list[Callable[[], None]] = []
        self._lock: threading.Lock | None = None

    def enable_cancel(self) -> None:
        """Let ``cancel`` be called from another thread; the engine does it for a blocking tool."""
        self._lock = threading.Lock()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called, in another thread, once the call is over before its time.

        Called at once where that is already so. Only a blocking handler needs it; an asynchronous
        one is cancelled as a task.
        """
        if self._lock is None:
            return
        with self._lock:
            if not self._cancelled:
                self._on_cancel.append(callback)
                return
        callback()

    def cancel(self) -> None:
        """End the call before its time. Later calls do nothing."""
        if self._lock is None:
            return
        with self._lock:
            self._cancelled = True
            callbacks, self._on_cancel = self._on_cancel, []
        for callback in callbacks:
            callback()


_serving: ContextVar[Call] = ContextVar("relay_call")


def this_call() -> Call:
    """Return the call that a Python callable is serving, from within it.

    Raises:
        LookupError: no call is being served here.
    """
    return _serving.get()


#: Takes the arguments and the call; returns the result, or an awaitable of it.
Handler = Callable[[dict[str, Any], Call], Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: what a request calls it.
        description: what the sandbox is told about it.
        input: the JSON Schema of its arguments, an object's.
        handler: runs one call.
        blocking: the handler blocks, and so belongs in a thread; else it returns an awaitable.
        timeout: its own limit in seconds, instead of RELAY_TOOL_TIMEOUT_MS.

    Raises:
        ToolsError: the name or the schema cannot be right.
    """

    name: str
    description: str
    input: Mapping[str, Any]
    handler: Handler
    blocking: bool
    timeout: float | None = None
    validator: Validator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(self.name):
            raise ToolsError(
                [f"tool {self.name[:60]!a}: a name is 1 to 128 letters, digits, '_', '-' or '.'"]
            )
        try:
            object.__setattr__(self, "validator", Validator(self.input))
            # relay.json holds it, which writers read strictly.
            strictjson.load(strictjson.dump(self.described()))
        except strictjson.Fault as fault:
            reason = f"writers cannot be told of its description and input: {fault}"
            raise ToolsError([f"tool {self.name}: {reason}"]) from None
        except ValueError as error:
            raise ToolsError([f"tool {self.name}: input: {error}"]) from None

    def described(self) -> dict[str, Any]:
        """Return what relay.json says about the tool."""
        return {"name": self.name, "description": self.description, "input": self.input}


def python_tool(
    name: str,
    function: Callable[..., Any],
    *,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> Tool:
    """Make a tool of a Python callable, whose keywords are the arguments.

    Args:
        name: the tool's name.
        function: sync or async; its result is a text, something that JSON can hold, or ``PAUSED``.
        description: without it, the first paragraph of the callable's documentation.
        schema: the JSON Schema of the arguments; without it, the callable's signature.
        timeout: the tool's own limit in seconds.

    Raises:
        ToolsError: the name, the schema or the signature cannot be right.
    """
    if not callable(function):
        raise ToolsError([f"tool {name}: {type(function).__name__} is not callable"])
    if schema is None:
        try:
            schema = schema_of(function)
        except ValueError as error:
            raise ToolsError([f"tool {name}: {error}"]) from None

    def handler(args: dict[str, Any], call: Call) -> Any:
        _serving.set(call)
        return function(**args)

    return Tool(
        name=name,
        description=_first_paragraph(function) if description is None else description,
        input=schema,
        handler=handler,
        blocking=not _is_async(function),
        timeout=timeout,
    )


def _first_paragraph(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether a call gives a coroutine: of a function, or of an object's ``__call__``."""
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not whether there is one, but its kind
    )


class Registry(Mapping[str, Tool]):
    """The tools of one runner, by name, in the order in which they were given.

    A runner opens it before it announces the tools, and closes it when it has stopped. ``policy``
    decides about each call whose arguments fit; ``guard`` is asked where a runner was given none.

    Raises:
        ToolsError: two tools have one name.
    """

    policy: Any = None
    guard: Any = None
    #: The names of the MCP servers whose tools are to come, once it is open.
    servers: Sequence[str] = ()

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        problems = []
        for tool in tools:
            if tool.name in self._tools:
                problems.append(f"tool {tool.name}: the name is taken twice; rename one of the two")
            self._tools[tool.name] = tool
        if problems:
            raise ToolsError(problems)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the tool of that name, else ``default``."""
        return self._tools.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    async def open(self, changed: Callable[[], None]) -> None:
        """Make the tools ready; ``changed`` is called whenever they are others."""

    async def close(self, changed: Callable[[], None]) -> None:
        """Let go of what the tools need; ``changed`` is what was given to ``open``."""

    @classmethod
    def of(cls, tools: Mapping[str, Callable[..., Any] | Tool] | Iterable[Tool]) -> Registry:
        """Make a registry of what a user has: tools, or names with callables.

        Raises:
            ToolsError: with every fault of every tool.
        """
        if isinstance(tools, Registry):
            return tools
        if not isinstance(tools, Mapping):
            return cls(tools)
        made = []
        problems: list[str] = []
        for name, given in tools.items():
            try:
                made.append(given if isinstance(given, Tool) else python_tool(name, given))
            except ToolsError as error:
                problems.extend(error.problems)
        if problems:
            raise ToolsError(problems)
        return cls(made)


def text_of(result: object) -> str:
    """Return a handler's result as the text of the answer: a ``str`` as it is, else as JSON.

    Raises:
        TypeError, ValueError: JSON cannot hold it.
    """
    if isinstance(result, str):
        return result
    return json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
