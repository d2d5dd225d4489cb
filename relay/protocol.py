"""The relay protocol as it lies on disk: names, bodies, and how a file appears.

It owns the spelling of every name in a session directory, the JSON of requests and responses,
and ``publish``, by which a final name always holds complete bytes. Both sides build on it, and a
writer or runner of the TypeScript original understands the same files. It keeps no state and
opens nothing but the file that it publishes. Ground floor.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from relay import strictjson
from relay.errors import BadRequest, BadResponse

REQUEST_SUFFIX = ".req.json"
RESPONSE_SUFFIX = ".res.json"
CANCEL_SUFFIX = ".cancel"
RELAY_JSON = "relay.json"

#: The number in relay.json that a writer of this version understands.
PROTOCOL = 1

#: Bytes of the longest relay.json, tools and their schemas in it. A writer reads no longer one: it
#: trusts its runner, not its disk.
MAX_RELAY_JSON = 1024 * 1024

#: What relay.json lists under ``features`` where its runner obeys cancels. A writer asks no other
#: runner to stop: the file would lie there for good.
CANCELS = "cancel"

#: What relay.json lists there where its runner *signals*: after a response, or relay.json, has its
#: name, its mode is set once more. That changes nothing and is reported as IN_ATTRIB, which a
#: writer can wait for instead of the rename: a rename is reported while the directory is locked,
#: so that on one processor whoever it wakes runs into that lock and waits for the runner's turn to
#: be over; and the rename of the claim wakes it for nothing. See docs/decisions/0140.
SIGNALS = "signal"

#: What a response's ``code`` may be.
CODES = frozenset(
    {
        "bad_request",
        "unknown_tool",
        "invalid_args",
        "refused",
        "too_large",
        "timeout",
        "expired",
        "not_executed",
        "interrupted",
        "tool_error",
        "busy",
    }
)

#: Longest request id and runner id. With a temp suffix, a name stays under NAME_MAX, 255.
_ID_LENGTH = 200
_RUNNER_LENGTH = 32
_NONCE_LENGTH = 80

_WORD_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_NONCE_CHARS = _WORD_CHARS + "."

#: Relay-owned names beside requests and responses that are written under a temp name.
_OTHER_OWNED = frozenset({RELAY_JSON, "relay-probe", ".relay-lease"})

#: Characters of the caller's own id that are kept in a request's id (design section 7).
_CALL_ID_KEPT = 100

_OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

#: A source of random bytes: takes their number. ``os.urandom``, or a test's own.
RandomBytes = Callable[[int], bytes]


class Request(NamedTuple):
    """What a writer asks. ``timeout_ms`` is ``None`` where the runner's own default counts."""

    tool: str
    call_id: str
    args: Dict[str, Any]
    timeout_ms: Optional[int]


class Response(NamedTuple):
    """What a runner answers: a text, an error with its code, or *paused*, which comes first."""

    ok: bool
    text: str = ""
    error: str = ""
    code: str = ""
    paused: bool = False


def request_id(name: str) -> Optional[str]:
    """Return the id in a request's file name, or ``None`` where the name is foreign."""
    if not name.endswith(REQUEST_SUFFIX):
        return None
    id_ = name[: -len(REQUEST_SUFFIX)]
    return id_ if _is_word(id_, _ID_LENGTH) else None


def new_id(call_id: str, *, random: RandomBytes = os.urandom) -> str:
    """Return an id for a new request: readable by its call id, and never met twice.

    Args:
        call_id: the caller's own id, any text; what is no letter, digit, ``_`` or ``-`` is
            replaced, and it is cut to 100 characters.
        random: the source of the 12 hexadecimal digits that make two equal call ids differ.
    """
    kept = call_id[:_CALL_ID_KEPT]
    if kept.strip(_WORD_CHARS):
        kept = "".join(c if c in _WORD_CHARS else "_" for c in kept)
    cleaned = kept or "call"
    return f"{cleaned}-{random(6).hex()}"


def claim_name(id: str, runner: str) -> str:  # noqa: A002 - the protocol's own word
    """Return the name of a request that ``runner`` has taken."""
    return f"{id}.claim.{runner}"


def parse_claim(name: str) -> Optional[Tuple[str, str]]:
    """Return a claim's id and runner, or ``None`` where ``name`` is no claim."""
    id_, dot, runner = name.partition(".claim.")
    if dot and _is_word(id_, _ID_LENGTH) and _is_word(runner, _RUNNER_LENGTH):
        return id_, runner
    return None


def cancel_name(id: str) -> str:  # noqa: A002 - as above
    """Return the name of the file by which a writer tells the runner of ``id`` to stop."""
    return f"{id}{CANCEL_SUFFIX}"


def parse_cancel(name: str) -> Optional[str]:
    """Return the id of the request that a file asks to stop, or ``None`` where it is none such."""
    id_ = name[: -len(CANCEL_SUFFIX)]
    return id_ if name.endswith(CANCEL_SUFFIX) and _is_word(id_, _ID_LENGTH) else None


def temp_name(name: str, *, random: RandomBytes = os.urandom) -> str:
    """Return a fresh name for ``name`` while it is being written."""
    return f"{name}.tmp.{random(6).hex()}"


def is_temp(name: str) -> bool:
    """Tell whether ``name`` is a relay's own temporary file; any other ``.tmp.`` is foreign."""
    final, dot, nonce = name.partition(".tmp.")
    if not dot or not _is_word(nonce, _NONCE_LENGTH, _NONCE_CHARS):
        return False
    if final in _OTHER_OWNED or request_id(final) is not None:
        return True
    return final.endswith(RESPONSE_SUFFIX) and _is_word(final[: -len(RESPONSE_SUFFIX)], _ID_LENGTH)


def _is_word(text: str, longest: int, chars: str = _WORD_CHARS) -> bool:
    # Nothing but such characters: stripped of them, nothing is left.
    return 0 < len(text) <= longest and not text.strip(chars)


def encode_request(request: Request) -> bytes:
    """Return the body of a request, in the key order of the existing ecosystem.

    Raises:
        BadRequest: the tool has no name, or the arguments cannot be written as JSON.
    """
    if not request.tool:
        raise BadRequest("the tool has no name")
    body: Dict[str, Any] = {
        "toolName": request.tool,
        "toolCallId": request.call_id,
        "args": request.args,
    }
    if request.timeout_ms is not None:
        body["timeoutMs"] = request.timeout_ms
    try:
        return strictjson.dump(body)
    except strictjson.Fault as fault:
        raise BadRequest(
            f"the request for {request.tool[:60]!a} cannot be written as JSON: {fault}"
        ) from None


def decode_request(data: bytes) -> Request:
    """Return the request in ``data``, which a hostile writer may have written.

    ``args``, ``toolCallId`` and ``timeoutMs`` may be missing or null; unknown fields are ignored.

    Raises:
        BadRequest: the bytes break a rule; the message says which. Nothing else is raised.
    """
    try:
        body = strictjson.load(data)
    except strictjson.Fault as fault:
        raise BadRequest(f"the request is refused: {fault}") from None
    if not isinstance(body, dict):
        raise BadRequest("the request is not a JSON object")
    tool = body.get("toolName")
    if not isinstance(tool, str) or not tool:
        raise BadRequest("toolName is missing or not a text")
    call_id = body.get("toolCallId")
    if call_id is None:
        call_id = ""
    elif not isinstance(call_id, str):
        raise BadRequest("toolCallId is not a text")
    args = body.get("args")
    if args is None:
        args = {}
    elif not isinstance(args, dict):
        raise BadRequest("args is not a JSON object")
    return Request(tool, call_id, args, _timeout_ms(body.get("timeoutMs")))


def _timeout_ms(value: object) -> Optional[int]:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRequest("timeoutMs is not a whole number of milliseconds")
    return value


def encode_response(response: Response) -> bytes:
    """Return the body of a response. Half a surrogate pair in its text becomes U+FFFD."""
    body: Dict[str, Any]
    if response.paused:
        body = {"ok": True, "paused": True}
    elif response.ok:
        body = {"ok": True, "text": response.text}
    else:
        body = {"ok": False, "error": response.error, "code": response.code}
    try:
        return strictjson.dump(body)
    except strictjson.Fault:
        mended = {k: strictjson.whole(v) if isinstance(v, str) else v for k, v in body.items()}
        return strictjson.dump(mended)


def decode_response(data: bytes) -> Response:
    """Return the response in ``data``. ``paused`` is checked before ``ok``.

    An error without a code, as the TypeScript original writes it, is a ``tool_error``.

    Raises:
        BadResponse: the bytes are no response; the message says what is wrong with them.
    """
    try:
        body = strictjson.load(data, whole_strings=False)
    except strictjson.Fault as fault:
        raise BadResponse(f"the response cannot be read: {fault}") from None
    if not isinstance(body, dict):
        raise BadResponse("the response is not a JSON object")
    if body.get("paused") is True:
        return Response(ok=True, paused=True)
    ok = body.get("ok")
    if ok is True:
        return Response(ok=True, text=_text(body, "text"))
    if ok is False:
        return Response(
            ok=False, error=_text(body, "error"), code=_text(body, "code") or "tool_error"
        )
    raise BadResponse("the response says neither that it is ok nor that it is not")


def _text(body: Dict[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadResponse(f"the response's {name} is not a text")
    return value if value.isascii() else strictjson.whole(value)


def file_mode(dirfd: int) -> int:
    """Return the mode for files in the directory held by ``dirfd``.

    0600, but 0660 where the directory is setgid: there a file takes the directory's group, so
    that runner and writer may be different users.
    """
    return mode_of_files(os.fstat(dirfd).st_mode)


def mode_of_files(directory: int) -> int:
    """Return the mode for files in a directory whose own mode is given; see ``file_mode``."""
    return 0o660 if directory & stat.S_ISGID else 0o600


def publish(dirfd: int, name: str, data: bytes, *, mode: int = 0o600, signal: bool = False) -> bool:
    """Make ``name`` appear in a directory, complete or not at all.

    It is written under a temporary name and renamed; never linked, since a link count of two is
    refused. It is not made durable: a session's files need not outlive the machine.

    Args:
        dirfd: the directory, held open.
        name: the final name; a file that has it is replaced.
        data: all its bytes.
        mode: the permission bits, exactly (see ``file_mode``).
        signal: signal it (see ``SIGNALS``). Not on a file system where others see a file's bytes
            only once it is closed.

    Returns:
        Whether it was signalled: not every file system lets a mode be set.

    Raises:
        OSError: no space, no permission, the directory is gone, a directory has the name.
            Nothing is left behind then.
    """
    temp = temp_name(name)
    signalled = False
    fd = os.open(temp, _OPEN_NEW, mode, dir_fd=dirfd)
    try:
        try:
            if mode & 0o077:
                os.fchmod(fd, mode)
            written = os.write(fd, data)
            while written < len(data):
                written += os.write(fd, memoryview(data)[written:])
            if signal:
                os.rename(temp, name, src_dir_fd=dirfd, dst_dir_fd=dirfd)
                signalled = _signal(fd, mode)
        finally:
            os.close(fd)
        if not signal:
            # Where the bytes are on another machine only once the file is closed, it comes first.
            os.rename(temp, name, src_dir_fd=dirfd, dst_dir_fd=dirfd)
    except BaseException:
        discard(dirfd, temp)
        raise
    return signalled


def _signal(fd: int, mode: int) -> bool:
    try:
        os.fchmod(fd, mode)
    except OSError:
        # The file is there all the same; whoever waits for the signal finds it by polling.
        return False
    return True


def ask_to_stop(dirfd: int, id: str, *, mode: int = 0o600) -> bool:  # noqa: A002 - as above
    """Tell the runner that has a request that nobody waits for it; tell whether that was written.

    The file is empty, so it is complete as soon as it is there.
    """
    try:
        fd = os.open(cancel_name(id), _OPEN_NEW, mode, dir_fd=dirfd)
    except OSError:
        # Whoever cancels goes on in any case; the call ends at its deadline then.
        return False
    try:
        if mode & 0o077:
            os.fchmod(fd, mode)
    finally:
        os.close(fd)
    return True


def discard(dirfd: int, name: str) -> bool:
    """Unlink ``name`` where it can be, and tell whether it was there to be unlinked."""
    try:
        os.unlink(name, dir_fd=dirfd)
    except OSError:
        # RACE: whoever took or removed it first wins; a directory in its place stays.
        return False
    return True
