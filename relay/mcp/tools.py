"""What a session offers, in the words of MCP: the tools of relay.json, followed as it changes.

A relay.json that is gone or damaged changes nothing: the tools last read stay. Ground floor.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from relay.client.directory import Directory, Held
from relay.client.options import Told, stamp_of, told
from relay.client.wakes import Waiter
from relay.errors import NoDirectory

#: The most bytes of a request where no runner has said so (the default of RELAY_MAX_REQUEST_BYTES).
_USUAL_REQUEST = 4 * 1024 * 1024

#: What the waiter on relay.json waits for: a name that never appears. A waiter by its own name
#: would take it from the calls, which are woken by it, too.
_NOTHING = "relay.json is read by whoever waits"


class Offer:
    """The tools of one session.

    Raises:
        NoDirectory: there is no such directory.
    """

    def __init__(self, path: str) -> None:
        self._directory = Directory(path)
        self.waiter = Waiter(self._directory.current(), watch=True)
        self.waiter.name = _NOTHING
        self._stamp: object = None
        self._said: Optional[Tuple[Dict[str, Any], ...]] = None
        #: The most bytes that a request may have.
        self.max_request = _USUAL_REQUEST
        self.tools: List[Dict[str, Any]] = []
        self.names: Dict[str, Dict[str, Any]] = {}
        self.look()

    @property
    def announced(self) -> bool:
        """Whether a runner has said what it offers."""
        return self._said is not None

    def look(self) -> bool:
        """Read relay.json anew; tell whether the tools have changed."""
        try:
            held: Optional[Held] = self._directory.current()
        except NoDirectory:
            # It may be made again; until then each call says that it is gone.
            held = None
        if held is None:
            return False
        self.waiter.held = held
        stamp = stamp_of(held)
        if stamp is None or stamp == self._stamp:
            return False
        # RACE: one that is published after this stamp has another, and is read next time.
        self._stamp = stamp
        found = told(held)
        if found is None:
            return False
        self.max_request = found.max_request or _USUAL_REQUEST
        self.waiter.signals = found.signals
        return self._take(found)

    def _take(self, found: Told) -> bool:
        if found.tools == self._said:
            return False
        self._said = found.tools
        self.tools = [_described(tool) for tool in found.tools]
        self.names = {tool["name"]: tool for tool in self.tools}
        return True


def _described(tool: Dict[str, Any]) -> Dict[str, Any]:
    """Return a tool as ``tools/list`` has it."""
    schema, description = tool.get("input"), tool.get("description")
    # MCP wants to be told that arguments are an object; here a schema may leave that out.
    shape = {**schema, "type": "object"} if isinstance(schema, dict) else {"type": "object"}
    said = {"name": tool["name"], "inputSchema": shape}
    if isinstance(description, str) and description:
        said["description"] = description
    return said
