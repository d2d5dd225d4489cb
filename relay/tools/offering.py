"""What a tools file offers, while it is offered: its tools, and those of the servers it names.

The servers are connected when a runner starts and disconnected when it stops. Two tools of one name
are refused at the start; later, the one that was there first stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from relay.engine.announce import refuse_too_much
from relay.tools.registry import Registry, Tool, ToolsError

_log = logging.getLogger("relay.tools")


class Source(Protocol):
    """Something whose tools come and go: a connection to an MCP server."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Its tools now."""

    async def start(self) -> None:
        """Begin; the tools are there afterwards, where they can be had soon."""

    async def stop(self) -> None:
        """End."""


class Offering(Registry):
    """The tools of one tools file.

    Args:
        tools: those that are always there.
        sources: makes the sources, given what to call when their tools have changed.
        closing: what to await at the end.
        policy: decides about each call.
        guard: asked before each call.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        sources: Iterable[Callable[[Callable[[], None]], Source]] = (),
        closing: Iterable[Callable[[], Any]] = (),
        policy: Any = None,
        guard: Any = None,
    ) -> None:
        super().__init__(tools)
        self.policy = policy
        self.guard = guard
        self._always = tuple(self._tools.values())
        self._makers = tuple(sources)
        self._closing = tuple(closing)
        self._sources: tuple[Source, ...] = ()
        self._listeners: list[Callable[[], None]] = []
        self._ready = False

    async def open(self, changed: Callable[[], None]) -> None:
        """Connect the servers.

        Args:
            changed: called whenever the tools have changed.

        Raises:
            ToolsError: two tools have one name; everything is disconnected again.
        """
        self._listeners.append(changed)
        if len(self._listeners) > 1:
            return
        try:
            self._sources = tuple(make(self._sources_changed) for make in self._makers)
            await asyncio.gather(*(source.start() for source in self._sources))
            self._refuse_collisions()
            self._ready = True
        except BaseException:
            await self.close(changed)
            raise

    async def close(self, changed: Callable[[], None]) -> None:
        """Disconnect the servers, when this was the last who had opened them."""
        if changed in self._listeners:
            self._listeners.remove(changed)
        if self._listeners:
            return
        self._ready = False
        sources, self._sources = self._sources, ()
        await asyncio.gather(*(source.stop() for source in sources))
        for close in self._closing:
            await close()

    def _refuse_collisions(self) -> None:
        problems = self._combine()
        if problems:
            raise ToolsError(problems)
        refuse_too_much(self)

    def _sources_changed(self) -> None:
        if not self._ready:
            return
        before = self._tools
        for problem in self._combine():
            _log.warning("%s", problem)
        try:
            refuse_too_much(self)
        except ToolsError as error:
            _log.warning("%s; what was offered before stays", error)
            self._tools = before
        for listener in tuple(self._listeners):
            listener()

    def _combine(self) -> list[str]:
        """Put all tools together; return what is wrong with that."""
        found = {tool.name: tool for tool in self._always}
        problems = []
        for source in self._sources:
            for tool in source.tools:
                if tool.name in found:
                    problems.append(
                        f"tool {tool.name}: the name is taken twice; rename the tool, or the "
                        "[mcp.NAME] that it comes from"
                    )
                else:
                    found[tool.name] = tool
        self._tools = found
        return problems
