"""JSON-RPC 2.0 as MCP puts it on a pipe: one message a line, read strictly and within a bound.

A line that cannot be used still gets its answer where the id can be told from it, since a client
waits for that id. Ground floor.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from relay import strictjson

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
UNSUPPORTED_VERSION = -32022

#: What a request is known by.
Id = Union[str, int]

#: An id is looked for this near either end of a line, and is at most this long.
_NEAR = 4096
_LONGEST_ID = 200

_END = b"\n"

#: How clients write that a request is a call of a tool.
_CALL = re.compile(rb'"method"\s*:\s*"tools/call"')


class Rejected(Exception):
    """A message that is answered with an error of JSON-RPC."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Message(NamedTuple):
    """A request, or where it has no id a notification."""

    method: str
    params: Dict[str, Any]
    id: Optional[Id]


class Lines:
    """Cuts what arrives into lines of at most ``limit`` bytes; of a longer one the ends are kept.

    ``limit`` may be changed at any time.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: List[bytes] = []
        self._size = 0
        self._head = b""

    def feed(self, data: bytes) -> List[Union[bytes, TooLong]]:
        """Take in some bytes and return the lines that they complete."""
        *ends, rest = data.split(_END)
        lines: List[Union[bytes, TooLong]] = []
        for end in ends:
            if end or self._parts:
                self._add(end)
                lines.append(self._take())
        if rest:
            self._add(rest)
        return [line for line in lines if not isinstance(line, bytes) or line.strip()]

    def _add(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > self.limit and len(self._parts) > 1:
            whole = b"".join(self._parts)
            self._head = self._head or whole[:_NEAR]
            self._parts = [whole[-_NEAR:]]

    def _take(self) -> Union[bytes, TooLong]:
        line, head, size = b"".join(self._parts), self._head, self._size
        self._parts, self._size, self._head = [], 0, b""
        if size <= self.limit:
            return line
        pieces = _outside_params(head or line[:_NEAR], line[-_NEAR:])
        return TooLong(size, _guessed_id(pieces), any(_CALL.search(p) for p in pieces))


class TooLong(NamedTuple):
    """A line over the limit: its length in bytes; its id, and whether it is a call, as far as seen.

    Both are looked for outside of the params.
    """

    size: int
    id: Optional[Id]
    is_call: bool = False


def read(line: bytes) -> List[Union[Message, Dict[str, Any]]]:
    """Return what a line holds: messages, or the answers to those that are none.

    More than one comes from a batch, which one version of MCP has. Answers of a client, for
    which nothing was asked, are left out.
    """
    try:
        body = strictjson.load(line, whole_strings=False)
    except strictjson.Fault as fault:
        id_ = guess_id(line[:_NEAR], line[-_NEAR:])
        code = PARSE_ERROR if id_ is None else INVALID_REQUEST
        return [error(id_, code, f"the message cannot be used: {fault}")]
    batch = body if isinstance(body, list) and body else [body]
    return [_message(each) for each in batch if not _is_answer(each)]


def _is_answer(body: Any) -> bool:
    return isinstance(body, dict) and "method" not in body and ("result" in body or "error" in body)


def _message(body: Any) -> Union[Message, Dict[str, Any]]:
    id_ = body.get("id") if isinstance(body, dict) else None
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        if isinstance(body, dict) and "id" in body:
            return error(None, INVALID_REQUEST, "an id is a text or a whole number")
        id_ = None
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        return error(id_, INVALID_REQUEST, "this is no message of JSON-RPC 2.0")
    method, params = body.get("method"), body.get("params")
    if not isinstance(method, str):
        return error(id_, INVALID_REQUEST, "method is missing or not a text")
    if params is not None and not isinstance(params, dict):
        return error(id_, INVALID_PARAMS, "params is not an object")
    return Message(method, params or {}, id_)


def guess_id(head: bytes, tail: bytes) -> Optional[Id]:
    """Return the id of a request that cannot be parsed, where it stands as clients write it.

    That is before the params or right at the end, outside of both.
    """
    return _guessed_id(_outside_params(head, tail))


def _outside_params(head: bytes, tail: bytes) -> Tuple[bytes, bytes]:
    """Return what stands before the params, and what stands after them."""
    end = tail.rstrip().rpartition(b"}")[0]
    return head.partition(b'"params"')[0], end.rpartition(b"}")[2]


def _guessed_id(pieces: Tuple[bytes, bytes]) -> Optional[Id]:
    before = pieces[0].partition(b'"method"')
    for piece in (before[0], before[2], pieces[1]):
        found = _id_in(piece)
        if found is not None:
            return found
    return None


def _id_in(piece: bytes) -> Optional[Id]:
    _, mark, rest = piece.rpartition(b'"id"')
    if not mark:
        return None
    text = rest.lstrip(b" \t:")[:_LONGEST_ID]
    if text[:1] == b'"':
        inside, closed, _ = text[1:].partition(b'"')
        return inside.decode("utf-8", "replace") if closed and b"\\" not in inside else None
    digits = text.partition(b",")[0].strip()
    if digits.lstrip(b"-").isdigit():
        return int(digits)
    return None


def result(id_: Id, body: Dict[str, Any]) -> Dict[str, Any]:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": id_, "result": body}


def error(id_: Optional[Id], code: int, message: str, data: Any = None) -> Dict[str, Any]:
    """Return the answer to a request that is refused; without an id where that is not known."""
    body: Dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": id_, "error": body}


def notification(method: str, params: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Return a message that nobody answers."""
    body: Dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        body["params"] = params
    return body


def line(body: Dict[str, Any]) -> bytes:
    """Return a message as a line. Half of a surrogate pair in it becomes U+FFFD."""
    try:
        return strictjson.dump(body) + _END
    except strictjson.Fault:
        return strictjson.dump(_mended(body)) + _END


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return strictjson.whole(value)
    if isinstance(value, dict):
        return {_mended(name): _mended(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_mended(each) for each in value]
    return value
