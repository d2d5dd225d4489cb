"""The methods of MCP that a session can answer, in both eras of the protocol.

Until 2025 a client opens with ``initialize``, and a version holds for the connection; from 2026 on
each request carries its version and ``server/discover`` says what is there. Each request is
answered in the era it belongs to, and tells nothing of any other. Ground floor.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Set

from relay.client.exchange import Exchange
from relay.errors import CallError, RelayError, call_error
from relay.mcp import messages
from relay.mcp.calls import Calls, Done, call_id, error_result
from relay.mcp.messages import Id, Message, Rejected, TooLong
from relay.mcp.tools import Offer
from relay.protocol import PROTOCOL

#: Versions that open with ``initialize``, oldest first, and those whose requests carry theirs.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE_VERSIONS = ("2026-07-28",)

_VERSIONS = [*ENVELOPE_VERSIONS, *reversed(HANDSHAKE_VERSIONS)]

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"

_SERVER = {"name": "relay", "version": str(PROTOCOL)}
_CAPABILITIES = {"tools": {"listChanged": True}}

#: What a client may keep of an answer, and for how long: nothing; it is told when tools change.
_NEVER_KEPT = {"ttlMs": 0, "cacheScope": "private"}

_CHANGED = "notifications/tools/list_changed"

#: Calls and subscriptions of one client at a time; a sandbox has one client.
_MOST_CALLS = 1024
_MOST_SUBSCRIPTIONS = 64

#: Makes a call that is not begun: tool, arguments, the caller's id.
Ask = Callable[[str, Dict[str, Any], str], Exchange]

#: Takes what is to be sent.
Send = Callable[[Dict[str, Any]], None]


class Request(NamedTuple):
    """A request that can be judged: its id, its params, and whether it carries its version."""

    id: Id
    params: Dict[str, Any]
    enveloped: bool


class Connection:
    """One client: what it has asked for, and what it is told, through ``send``. It never waits."""

    def __init__(self, offer: Offer, calls: Calls, *, ask: Ask, send: Send) -> None:
        self._offer = offer
        self._calls = calls
        self._ask = ask
        self._send = send
        self._initialized = False
        #: Calls in flight whose request carried its version.
        self._enveloped: Set[Id] = set()
        #: By the id of the request that opened it, whether it is told of changed tools.
        self._subscriptions: Dict[Id, bool] = {}
        #: A method returns its answer, or ``None`` where that comes later.
        self._methods: Dict[str, Callable[[Request], Optional[Dict[str, Any]]]] = {
            "initialize": _initialize,
            "server/discover": _discover,
            "ping": lambda _: {},
            "tools/list": self._list,
            "tools/call": self._call,
            "subscriptions/listen": self._listen,
        }

    def take(self, message: Message) -> None:
        """Take in a message of the client's."""
        id_ = message.id
        if id_ is None:
            self._take_notification(message)
            return
        try:
            request = Request(id_, message.params, _is_enveloped(message))
            answer = self._answer(message.method, request)
        except Rejected as refusal:
            self._send(messages.error(id_, refusal.code, str(refusal), refusal.data))
            return
        if answer is not None:
            self._send_result(id_, answer, enveloped=request.enveloped)

    def take_too_long(self, line: TooLong) -> None:
        """Refuse a message that is larger than any that can be published."""
        most = self._offer.max_request
        text = f"the message has {line.size} bytes; the runner's RELAY_MAX_REQUEST_BYTES is {most}"
        if line.id is None or not line.is_call:
            self._send(messages.error(line.id, messages.INVALID_REQUEST, text))
            return
        refusal = CallError(text, code="too_large", may_have_run=False)
        # Which era it belongs to stood in what was dropped; who never initialised is of the newer.
        enveloped = not self._initialized
        self._send_result(line.id, error_result(refusal), enveloped=enveloped)

    def ended(self, done: Done) -> None:
        """Send the result of a call."""
        self._send_result(done.id, done.result, enveloped=done.id in self._enveloped)
        self._enveloped.discard(done.id)

    def tools_changed(self) -> None:
        """Tell that the tools have changed."""
        if self._initialized:
            self._send(messages.notification(_CHANGED))
        for id_, wanted in self._subscriptions.items():
            if wanted:
                self._send(messages.notification(_CHANGED, {"_meta": {_SUBSCRIPTION_KEY: id_}}))

    def close(self) -> None:
        """Tell that the subscriptions are over."""
        for id_ in self._subscriptions:
            over = {"_meta": {_SUBSCRIPTION_KEY: id_}}
            self._send_result(id_, over, enveloped=True)
        self._subscriptions.clear()

    def _send_result(self, id_: Id, body: Dict[str, Any], *, enveloped: bool) -> None:
        if enveloped:
            meta = {_SERVER_KEY: _SERVER, **body.get("_meta", {})}
            body = {"resultType": "complete", **body, "_meta": meta}
        self._send(messages.result(id_, body))

    def _take_notification(self, message: Message) -> None:
        if message.method == "notifications/initialized":
            self._initialized = True
        elif message.method == "notifications/cancelled":
            id_ = message.params.get("requestId")
            if isinstance(id_, (str, int)) and not isinstance(id_, bool):
                self._calls.cancel(id_)
                self._enveloped.discard(id_)
                self._subscriptions.pop(id_, None)

    def _answer(self, name: str, request: Request) -> Optional[Dict[str, Any]]:
        if request.id in self._calls or request.id in self._subscriptions:
            raise Rejected(messages.INVALID_REQUEST, "a request with this id is still open")
        method = self._methods.get(name)
        if method is None:
            raise Rejected(messages.METHOD_NOT_FOUND, f"there is no method {name[:60]!a}")
        return method(request)

    def _list(self, request: Request) -> Dict[str, Any]:
        if request.params.get("cursor") is not None:
            raise Rejected(messages.INVALID_PARAMS, "all tools are on one page; there is no cursor")
        found: Dict[str, Any] = {"tools": self._offer.tools}
        if request.enveloped:
            found.update(_NEVER_KEPT)
        return found

    def _call(self, request: Request) -> Optional[Dict[str, Any]]:
        name, args = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise Rejected(messages.INVALID_PARAMS, "name is missing or not a text")
        if args is not None and not isinstance(args, dict):
            raise Rejected(messages.INVALID_PARAMS, "arguments is not an object")
        if not self._offer.announced:
            return error_result(call_error("not_executed", "no runner serves this session yet"))
        if name not in self._offer.names:
            raise Rejected(messages.INVALID_PARAMS, f"Unknown tool: {name[:128]}")
        if len(self._calls) >= _MOST_CALLS:
            return error_result(call_error("busy", f"{_MOST_CALLS} calls are open already"))
        try:
            exchange = self._ask(name, args or {}, call_id(request.id))
        except RelayError as error:
            return error_result(error)
        done = self._calls.begin(request.id, exchange, _progress_token(request))
        if done is not None:
            return done.result
        if request.enveloped:
            self._enveloped.add(request.id)
        return None

    def _listen(self, request: Request) -> None:
        wanted = request.params.get("notifications")
        if not isinstance(wanted, dict):
            raise Rejected(messages.INVALID_PARAMS, "notifications is missing or not an object")
        if len(self._subscriptions) >= _MOST_SUBSCRIPTIONS:
            raise Rejected(messages.INVALID_REQUEST, "too many subscriptions are open already")
        tools = wanted.get("toolsListChanged") is True
        self._subscriptions[request.id] = tools
        honored = {"toolsListChanged": True} if tools else {}
        params = {"notifications": honored, "_meta": {_SUBSCRIPTION_KEY: request.id}}
        self._send(messages.notification("notifications/subscriptions/acknowledged", params))


def _initialize(request: Request) -> Dict[str, Any]:
    asked = request.params.get("protocolVersion")
    version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _SERVER}


def _discover(_: Request) -> Dict[str, Any]:
    return {"supportedVersions": _VERSIONS, "capabilities": _CAPABILITIES, **_NEVER_KEPT}


def _is_enveloped(message: Message) -> bool:
    """Tell whether a request carries its version.

    Raises:
        Rejected: it does, and that one is not spoken here, or half of the envelope is missing.
    """
    meta = message.params.get("_meta")
    if not isinstance(meta, dict) or _VERSION_KEY not in meta or message.method == "initialize":
        return False
    version = meta[_VERSION_KEY]
    if not isinstance(version, str):
        raise Rejected(messages.INVALID_PARAMS, f"{_VERSION_KEY} is not a text")
    if not isinstance(meta.get(_CAPABILITIES_KEY), dict):
        raise Rejected(messages.INVALID_PARAMS, f"{_CAPABILITIES_KEY} is missing or not an object")
    if version not in ENVELOPE_VERSIONS:
        data = {"supported": _VERSIONS, "requested": version}
        raise Rejected(messages.UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return True


def _progress_token(request: Request) -> Optional[Id]:
    meta = request.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None
