"""HTTP callbacks as tools: the arguments as the JSON body, the answer's body as the text.

The address, the headers and the credentials in them are the tools file's and never the caller's.
A redirect is followed to allowed hosts alone, and to another origin without the headers; an answer
is read within a bound. What goes wrong is told with the status and a little of the body; where the
service is, and which credentials it was sent, is not.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpcore
import httpx

from relay.engine.telemetry import escaped
from relay.errors import ToolError
from relay.tools.addresses import NotAllowed
from relay.tools.credentials import Credentials, Template, Unresolvable
from relay.tools.libraries import mask_logs
from relay.tools.registry import Call, Failure, Tool
from relay.tools.transport import UNPACKED, Reach, checked_client

_log = logging.getLogger("relay.tools")

#: Methods whose arguments go into the query: a body of theirs means nothing.
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

#: How much of an answer that is an error its caller is shown.
_SHOWN = 2000

#: Redirects of one call. Browsers allow 20; a service that was configured needs one or two.
_MOST_REDIRECTS = 5

#: Seconds to send, and between two pieces of an answer; and to connect. The call's deadline holds
#: beside them.
_PATIENCE = 60.0
_BOUNDS = {"timeout": httpx.Timeout(_PATIENCE, connect=10.0).as_dict()}

#: The most bytes of an answer at all (the maximum of RELAY_MAX_RESPONSE_BYTES); a call has less.
_MOST_BYTES = 256 * 1024 * 1024

#: What goes wrong between here and a service.
_BROKEN = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    OSError,
)

_OWN_HEADERS = {
    "accept": "application/json, text/*;q=0.9, */*;q=0.5",
    **UNPACKED,
    "user-agent": "relay",
}


class Hosts:
    """The hosts that requests may go to. ``*.example.com`` stands for every name below it."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)

    def __contains__(self, host: str) -> bool:
        host = host.lower().rstrip(".")
        if host in self._names:
            return True
        below = [host[at:] for at in range(len(host)) if host[at] == "."]
        return any(f"*{end}" in self._names for end in below)


@dataclass(slots=True)
class Web:
    """What all HTTP tools of a runner share: their connections, opened when first needed."""

    credentials: Credentials
    reach: Reach
    _client: httpx.AsyncClient | None = field(default=None, init=False)

    def client(self) -> httpx.AsyncClient:
        """Return the client that keeps the connections."""
        if self._client is None:
            mask_logs(self.credentials)
            self._client = checked_client(self.reach, limit=_MOST_BYTES, timeout=_PATIENCE)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a tool's calls go. ``hosts`` are those that its url and redirects may lead to."""

    url: Template
    method: str
    headers: Mapping[str, Template]
    hosts: Hosts | None


def http_tool(
    name: str,
    endpoint: Endpoint,
    web: Web,
    *,
    description: str,
    schema: Mapping[str, Any],
    timeout: float | None = None,
) -> Tool:
    """Make a tool of an HTTP service.

    Args:
        name: the tool's name.
        endpoint: where its calls go.
        web: the connections.
        description: what the sandbox is told.
        schema: the JSON Schema of the arguments.
        timeout: the tool's own limit in seconds.

    Raises:
        ToolsError: the name or the schema cannot be right.
    """

    async def handler(args: dict[str, Any], call: Call) -> str:
        try:
            return web.credentials.masked(await _Request(name, endpoint, web, call).send(args))
        except ToolError as error:
            raise ToolError(web.credentials.masked(str(error))) from None
        except Unresolvable as error:
            _log.warning("tool %s: %s", name, error)
            raise ToolError("the runner lacks a credential for this service") from None

    return Tool(name, description, schema, handler, blocking=False, timeout=timeout)


class _Request:
    """One call of a service."""

    def __init__(self, tool: str, endpoint: Endpoint, web: Web, call: Call) -> None:
        self._tool = tool
        self._endpoint = endpoint
        self._web = web
        self._call = call

    async def send(self, args: dict[str, Any]) -> str:
        """Send the arguments, and return the text of the answer.

        Raises:
            ToolError: there is no answer, or one that is an error.
            Failure: it would go where it may not, or is too large.
        """
        try:
            return await self._send(args)
        except NotAllowed as error:
            _log.warning("tool %s: %s: %s", self._tool, escaped(error.host), error)
            raise
        except _BROKEN as error:
            said = self._web.credentials.masked(f"{type(error).__name__}: {error}")
            _log.warning("tool %s: %s", self._tool, escaped(said))
            slow = isinstance(error, (httpcore.TimeoutException, httpx.TimeoutException))
            what = "does not answer" if slow else "cannot be reached"
            raise ToolError(f"the service {what}") from None

    async def _send(self, args: dict[str, Any]) -> str:
        endpoint = self._endpoint
        url = httpx.URL(endpoint.url.fill())
        hosts = endpoint.hosts if endpoint.hosts is not None else Hosts([url.host])
        headers = {n: value.fill() for n, value in endpoint.headers.items()}
        request = self._build(endpoint.method, url, headers, args)
        for _ in range(_MOST_REDIRECTS + 1):
            if request.url.host not in hosts or request.url.scheme not in ("http", "https"):
                raise Failure("refused", f"the service leads to {request.url.host[:100]!a}")
            response = await self._web.client().send(request, stream=True)
            try:
                following = response.next_request
                if following is None:
                    return await self._text(response)
            finally:
                await response.aclose()
            request = self._redirected(request, following)
        raise ToolError(f"the service redirects more than {_MOST_REDIRECTS} times")

    def _build(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], args: dict[str, Any]
    ) -> httpx.Request:
        all_headers = {**_OWN_HEADERS, **{n.lower(): v for n, v in headers.items()}}
        if method in _WITHOUT_BODY:
            query = [pair for name, value in args.items() for pair in _query(name, value)]
            merged = url.copy_merge_params(httpx.QueryParams(tuple(query))) if query else url
            return httpx.Request(method, merged, headers=all_headers, extensions=_BOUNDS)
        content = json.dumps(args, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        all_headers.setdefault("content-type", "application/json")
        return httpx.Request(method, url, headers=all_headers, content=content, extensions=_BOUNDS)

    def _redirected(self, sent: httpx.Request, following: httpx.Request) -> httpx.Request:
        """Return the request that a redirect asks for; a credential never leaves its origin."""
        if sent.url.scheme == "https" and following.url.scheme != "https":
            raise Failure("refused", "the service leads from https to http")
        if following.url.userinfo:
            # They would take the place of the file's.
            raise Failure("refused", "the service leads to a url with a user in it")
        if _origin(sent.url) != _origin(following.url):
            for name in self._endpoint.headers:
                following.headers.pop(name, None)
        # A cookie that one call was given is no other call's.
        following.headers.pop("cookie", None)
        return following

    async def _text(self, response: httpx.Response) -> str:
        if not response.is_success:
            shown = (await self._beginning(response)).strip()
            raise ToolError(f"the service answered {response.status_code}: {shown}".rstrip(": "))
        limit = self._call.max_bytes
        data = bytearray()
        async for part in response.aiter_raw():
            data += part
            if len(data) > limit:
                raise Failure("too_large", f"the answer is larger than {limit} bytes")
        return _decoded(data, response)

    async def _beginning(self, response: httpx.Response) -> str:
        """Return as much of an error's body as its caller is shown."""
        credentials = self._web.credentials
        # Masked before it is cut: half a credential is none that would be known.
        most = _SHOWN + credentials.longest()
        data = bytearray()
        async for part in response.aiter_raw():
            data += part
            if len(data) >= most:
                break
        return credentials.masked(_decoded(data[:most], response))[:_SHOWN]


def _query(name: str, value: Any) -> list[tuple[str, str]]:
    """Return an argument as the query has it: a list repeats its name, an object is JSON."""
    if isinstance(value, list):
        return [pair for each in value for pair in _query(name, each)]
    if isinstance(value, str):
        return [(name, value)]
    return [(name, json.dumps(value, ensure_ascii=False, allow_nan=False))]


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _decoded(data: bytes | bytearray, response: httpx.Response) -> str:
    """Return a body as text, by the charset that it names where that is one for texts."""
    with suppress(LookupError, ValueError):
        return data.decode(response.charset_encoding or "utf-8", "replace")
    return data.decode("utf-8", "replace")
