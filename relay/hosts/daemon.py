"""A sandbox daemon's HTTP API as a host (``sandbox-agent`` 0.4.2 and what speaks like it).

One request is one round trip on a connection that is kept alive; every answer is bounded while it
is read, and every failure becomes one ``HostError`` in one place. Files are published by one
``run`` that writes and renames inside the sandbox, since the API's own PUT is not atomic and its
move with ``overwrite`` loses the target.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from relay.hosts.connections import Connections
from relay.hosts.host import (
    LATE,
    Denied,
    Done,
    Entry,
    Exists,
    Faulty,
    Host,
    HostError,
    Missing,
    NoCommand,
    TimedOut,
    TooLarge,
    Unreachable,
)
from relay.hosts.publishing import is_argument, judge, publish_argv, temp_path

#: A request's body may have 2 MiB in all; a larger file goes in parts.
_PART = 1_500_000

#: The longest answer that is no file: a listing of some hundred thousand names.
_LARGEST_ANSWER = 32 * 1024 * 1024

#: The daemon cuts a command's output here, whatever is asked for.
_LARGEST_OUTPUT = 1024 * 1024

#: A byte of output may take six in JSON; and there is something around it.
_ESCAPED = 6
_AROUND = 64 * 1024

#: Requests at once, beside the commands of callers.
_SHORT_REQUESTS = 16

#: What the daemon says of a refused operation, and what is raised for it.
_SAYINGS: tuple[tuple[str, type[HostError]], ...] = (
    ("path not found", Missing),
    ("path is not a directory", Missing),
    ("destination already exists", Exists),
    ("failed to spawn", NoCommand),
    ("argument list too long", TooLarge),
    ("(os error 2)", Missing),
)

_STATUSES: Mapping[int, type[HostError]] = {
    401: Denied,
    403: Denied,
    408: TimedOut,
    413: TooLarge,
    429: Unreachable,
    503: Unreachable,
    504: TimedOut,
}


class DaemonHost(Host):
    """A sandbox behind a daemon.

    Args:
        url: where the daemon listens. Certificates are verified, by the system's authorities or
            those that SSL_CERT_FILE names.
        token: its bearer token.
        timeout: seconds that an operation which is no command may take; may be changed at any time.

    Raises:
        HostError: the url cannot be used.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 10.0) -> None:
        self._base = _base(url)
        super().__init__(f"daemon at {self._base}", timeout=timeout)
        headers = {"Accept-Encoding": "identity"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        secure = self._base.startswith("https:")
        self._connections = Connections(headers, secure=secure)
        self._short = asyncio.Semaphore(_SHORT_REQUESTS)

    @property
    def sockets(self) -> int:
        """See ``Host.sockets``."""
        return self._connections.open

    def renew(self) -> None:
        """See ``Host.renew``."""
        self._connections.renew()

    async def close(self) -> None:
        """See ``Host.close``."""
        await self._connections.close()

    async def run(
        self, argv: Sequence[str], *, seconds: float, max_output: int, kind: str = "run"
    ) -> Done:
        """See ``Host.run``. It is sent once more where the connection breaks."""
        return await self._run(argv, seconds, max_output, kind)

    async def _run(
        self,
        argv: Sequence[str],
        seconds: float,
        max_output: int,
        kind: str,
        *,
        repeats: bool = True,
    ) -> Done:
        wanted = min(max_output, _LARGEST_OUTPUT)
        body = {
            "command": argv[0],
            "args": list(argv[1:]),
            "timeoutMs": max(1, round(seconds * 1000)),
            "maxOutputBytes": wanted,
        }
        answer = await self._ask(
            "POST",
            "/v1/processes/run",
            kind,
            what=f"running {posixpath.basename(argv[0])}",
            json=body,
            seconds=seconds + LATE,
            limit=2 * wanted * _ESCAPED + _AROUND,
            repeats=repeats,
        )
        with self._making_sense("running a command"):
            found = json.loads(answer)
            code, timed_out = found["exitCode"], bool(found["timedOut"])
            if code is not None and not isinstance(code, int):
                raise TypeError(code)
            return Done(
                None if timed_out else code,
                str(found["stdout"]),
                str(found["stderr"]),
                timed_out=timed_out,
                cut=bool(found.get("stdoutTruncated") or found.get("stderrTruncated")),
            )

    async def entries(self, path: str, *, kind: str = "list") -> list[Entry]:
        """See ``Host.entries``."""
        params = {"path": path}
        what = f"listing {path}"
        answer = await self._briefly("GET", "/v1/fs/entries", kind, what=what, params=params)
        with self._making_sense(what):
            return [_entry(found) for found in json.loads(answer)]

    async def stat(self, path: str) -> Entry:
        """See ``Host.stat``."""
        what = f"looking at {path}"
        answer = await self._briefly("GET", "/v1/fs/stat", "stat", what=what, params={"path": path})
        with self._making_sense(what):
            return _entry({"name": posixpath.basename(path), **json.loads(answer)})

    async def read(self, path: str, *, limit: int) -> bytes:
        """See ``Host.read``."""
        return await self._briefly(
            "GET",
            "/v1/fs/file",
            "read",
            what=f"reading {path}",
            params={"path": path},
            limit=limit,
        )

    async def write(
        self,
        path: str,
        data: bytes,
        *,
        instead_of: str | None = None,
        kind: str = "write",
    ) -> None:
        """See ``Host.write``. Up to 117 KiB of text are one request; beyond, parts come first."""
        if is_argument(data):
            text = data.decode()
            argv = publish_argv(path, len(data), "=", text, gone=instead_of)
            await self._publish(path, argv, kind)
            return
        # The daemon makes missing parents, and a relay's directory that is gone must stay gone.
        await self.stat(posixpath.dirname(path) or "/")
        parts: list[str] = []
        try:
            for start in range(0, len(data) or 1, _PART):
                parts.append(temp_path(path))
                await self._put(parts[-1], data[start : start + _PART])
            argv = publish_argv(path, len(data), "+", *parts, gone=instead_of)
            await self._publish(path, argv, kind)
        except HostError:
            for part in parts:
                await self._discard(part)
            raise

    async def _publish(self, path: str, argv: list[str], kind: str) -> None:
        with self._mapping(f"writing {path}", self.timeout):
            async with asyncio.timeout(self.timeout + LATE), self._short:
                done = await self._run(argv, self.timeout, 4096, kind, repeats=False)
        judge(self, path, done)

    async def _put(self, path: str, data: bytes) -> None:
        await self._briefly(
            "PUT",
            "/v1/fs/file",
            "put",
            what=f"writing {path}",
            params={"path": path},
            content=data,
        )

    async def _discard(self, path: str) -> None:
        try:
            await self.remove(path)
        except HostError:
            # RACE: it is a temporary name; whoever sweeps the directory removes it later.
            return

    async def move(self, source: str, target: str) -> None:
        """See ``Host.move``."""
        # RACE: of two that move at once to one target, the daemon lets the second replace it if
        # both looked before either moved; the relay's targets are names that one runner uses.
        body = {"from": source, "to": target}
        await self._briefly(
            "POST", "/v1/fs/move", "move", what=f"moving {source}", json=body, repeats=False
        )

    async def remove(self, path: str) -> None:
        """See ``Host.remove``."""
        try:
            await self._briefly(
                "DELETE",
                "/v1/fs/entry",
                "remove",
                what=f"removing {path}",
                params={"path": path},
            )
        except Missing:
            return

    async def _briefly(self, method: str, path: str, kind: str, **more: Any) -> bytes:
        with self._mapping(more["what"], self.timeout):
            async with asyncio.timeout(self.timeout), self._short:
                return await self._ask(method, path, kind, seconds=self.timeout, **more)

    async def _ask(
        self,
        method: str,
        path: str,
        kind: str,
        *,
        what: str,
        seconds: float,
        limit: int = _LARGEST_ANSWER,
        repeats: bool = True,
        **more: Any,
    ) -> bytes:
        """Send one request and return the bytes of its answer, at most ``limit``."""
        with self._mapping(what, seconds):
            async with asyncio.timeout(seconds), self._connections.borrow() as borrowed:
                # A kept connection may have been closed by the other side just now: then nothing
                # was done, or what is done may be repeated, and a fresh one is tried once.
                for attempt in (1, 2):
                    self.requests[kind] += 1
                    try:
                        return await self._answer(
                            borrowed.client, method, self._base + path, what, limit, **more
                        )
                    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                        if attempt == 2 or not repeats:
                            raise
        raise AssertionError("unreachable")  # pragma: no cover - the loop returns or raises

    async def _answer(
        self,
        client: httpx.AsyncClient,
        method: str,
        url: str,
        what: str,
        limit: int,
        **more: Any,
    ) -> bytes:
        async with (
            self._connections.noting() as noted,
            client.stream(method, url, timeout=None, extensions=noted, **more) as answer,
        ):
            if answer.is_success:
                return await self._bounded(answer, limit, what)
            said = await self._bounded(answer, _AROUND, what)
        raise self._refusal(answer.status_code, said, what)

    async def _bounded(self, answer: httpx.Response, limit: int, what: str) -> bytes:
        pieces, size, now = [], 0, asyncio.get_running_loop().time
        try:
            # What has begun goes on or is lost, however long its beginning was to be waited for.
            async with asyncio.timeout(self.timeout) as patience:
                # As it comes: what somebody in between has compressed could be of any size.
                async for piece in answer.aiter_raw():
                    patience.reschedule(now() + self.timeout)
                    size += len(piece)
                    if size > limit:
                        told = f"the answer is longer than {limit} bytes"
                        raise TooLarge(f"{self.name}: {what}: {told}")
                    pieces.append(piece)
        except TimeoutError:
            raise TimedOut(f"{self.name}: {what}: the answer stopped half-way") from None
        return b"".join(pieces)

    def _refusal(self, status: int, said: bytes, what: str) -> HostError:
        try:
            detail = str(json.loads(said)["detail"])
        except (ValueError, KeyError, TypeError):
            detail = said.decode(errors="replace")
        told = " ".join(detail.split())[:200] or "no reason given"
        kind = _STATUSES.get(status)
        if kind is None:
            lower = told.lower()
            kind = next((error for text, error in _SAYINGS if text in lower), Faulty)
        if status in {502, 503, 504} and not said.lstrip().startswith(b"{"):
            # Not the daemon's own words: what is in between could not reach it.
            kind = Unreachable
        if kind is Denied:
            told += "; see RELAY_DAEMON_TOKEN"
        return kind(f"{self.name}: {what}: {status}: {told}")

    @contextmanager
    def _mapping(self, what: str, seconds: float) -> Iterator[None]:
        """Turn whatever goes wrong on the way into one error of this package."""
        try:
            yield
        except HostError:
            raise
        except (TimeoutError, httpx.TimeoutException) as error:
            raise TimedOut(f"{self.name}: {what} took longer than {seconds:g} s") from error
        except httpx.ConnectError as error:
            if "certificate" in str(error).lower():
                raise Denied(f"{self.name}: its certificate is refused: {error}") from error
            raise Unreachable(f"{self.name}: nobody answers: {error}") from error
        except httpx.TransportError as error:
            told = str(error) or type(error).__name__
            raise Unreachable(f"{self.name}: {what}: the connection broke: {told}") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise Faulty(f"{self.name}: {what}: {error}") from error

    @contextmanager
    def _making_sense(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Faulty(f"{self.name}: {what}: the answer makes no sense") from None


def _base(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname
        _ = parts.port
    except ValueError:
        known = None
    if not known:
        raise HostError("the daemon's url is none: it starts with https:// or http://, then a host")
    if parts.username is not None or parts.password is not None:
        raise HostError("the daemon's url holds a user or a password; use RELAY_DAEMON_TOKEN")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _entry(found: Any) -> Entry:
    return Entry(
        str(found["name"]),
        directory=found["entryType"] == "directory",
        size=int(found["size"]),
        modified=_seconds(str(found["modified"])),
    )


def _seconds(stamp: str) -> float:
    """Return the seconds of a time like ``2026-11-30T15:07:41.542989090+00:00``."""
    return datetime.fromisoformat(stamp).timestamp()
