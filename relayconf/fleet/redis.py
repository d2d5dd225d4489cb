"""The engine for a Redis or Valkey server, version 6.2 or later.

One connection, opened when it is needed and given up at the first error. Everything that must be
one instant is one script (``relayconf.fleet.scripts``). No text that comes from here holds a
password.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import redis.asyncio
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from relayconf.errors import FleetUnavailable
from relayconf.fleet.chain import audit_line, body_text, read_item
from relayconf.fleet.durability import reached
from relayconf.fleet.engine import (
    Change,
    Durability,
    InstanceRecord,
    Item,
    Outcome,
    Snapshot,
    Standing,
)
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.record import NOWHERE, Json, Position, is_change_id, key_text
from relayconf.fleet.records import applied_text, read_applied, read_record, record_text
from relayconf.fleet.scripts import (
    APPLIED,
    AUDIT,
    CHANGE,
    HEARTBEAT,
    INSTANCES,
    LISTED_MS,
    SEEN,
    SNAPSHOT,
    STREAM,
    Script,
    keys,
)
from relayconf.setting import MASK

#: How many changes are taken at once by whoever follows.
_BATCH = 200


class RedisEngine:
    """A connection to a server; an ``Engine``.

    Args:
        options: where it is, and how long anything may take.
    """

    def __init__(self, options: FleetOptions) -> None:
        self._options = options
        self._keys = keys(options.prefix)
        self._client: redis.asyncio.Redis | None = None
        self._node: tuple[str, int] | None = None
        self._said: dict[str, tuple[str, Position]] = {}
        self._secrets = _secrets(options)

    async def snapshot(self, since: Position = NOWHERE) -> Snapshot:
        """See ``Engine``."""
        k = self._keys
        async with self._asking():
            found = await self._run(SNAPSHOT, (k.meta, k.state, k.stream), str(since.revision))
            standing = _standing(found)
            # What is no entry is passed on as such, so that somebody hears of it.
            whole = tuple(read_item(_text(line)) or Item(None, NOWHERE) for line in found[5])
            first = _stream_item(found[4]) if found[4] else None
        return Snapshot(standing, whole, _continues(since, standing.position, first))

    async def follow(self, since: Position, timeout_ms: int) -> Sequence[Item]:
        """See ``Engine``."""
        words: list[Any] = ["XREAD", "COUNT", _BATCH]
        if timeout_ms > 0:
            words.extend(("BLOCK", timeout_ms))
        words.extend(("STREAMS", self._keys.stream, f"{since.revision}-0"))
        async with self._asking():
            found = await self._ask(*words, longer_ms=max(0, timeout_ms))
            streams = found.items() if isinstance(found, dict) else found or ()
            entries = (entry for _, entries in streams for entry in entries)
            # What is no change fits nowhere, which is noticed.
            return [_stream_item(entry) or Item(None, NOWHERE) for entry in entries]

    async def change(self, change: Change) -> Outcome:
        """See ``Engine``."""
        if not is_change_id(change.id):
            raise ValueError(f"{change.id!r} cannot be the id of a change")
        k = self._keys
        epoch, revision, _ = change.expected
        ttl = "" if change.ttl_ms is None else str(change.ttl_ms)
        arguments = (
            os.urandom(8).hex(),
            change.id,
            key_text(change.entry.key),
            body_text(change),
            epoch,
            str(revision),
            ttl,
            str(change.after_ms),
            str(STREAM),
            str(SEEN),
            str(AUDIT),
        )
        async with self._asking():
            names = (k.meta, k.state, k.stream, k.audit, k.seen, k.seenlog)
            word, *found = await self._run(CHANGE, names, *arguments)
            word, standing, own = _text(word), _standing(found), int(found[4])
            if word == "conflict":
                return Outcome(False, False, standing, 0, read_item(_text(found[5])))
            safety = Durability()
            if word == "written":
                safety = await reached(self._ask, self._options)
            return Outcome(True, word == "seen", standing, own, durability=safety)

    async def heartbeat(self, record: InstanceRecord) -> Standing:
        """See ``Engine``."""
        text = record_text(record)
        said, applied = self._said.get(record.id, ("", record.applied))
        news = applied_text(record) if said and applied != record.applied else ""
        async with self._asking():
            found = await self._beat(record.id, "" if text == said else text, news)
            if not int(found[4]):
                found = await self._beat(record.id, text, "")
            self._said = {record.id: (text, record.applied)}
            return _standing(found)

    async def instances(self, *, silent_ms: int = 0) -> Sequence[InstanceRecord]:
        """See ``Engine``."""
        async with self._asking():
            now, records, alive = await self._run(
                INSTANCES, (self._keys.instances, self._keys.alive), str(silent_ms)
            )
            heard = {_text(i): float(at) for i, at in zip(alive[::2], alive[1::2], strict=True)}
            ages = {name: int(now) - round(at) for name, at in heard.items()}
            listed = [
                read_record(_text(text), ages.get(_text(name), LISTED_MS))
                for name, text in zip(records[::2], records[1::2], strict=True)
            ]
        return [record for record in listed if record is not None]

    async def sign_off(self, instance: str) -> None:
        """See ``Engine``."""
        async with self._asking():
            await self._ask("ZREM", self._keys.alive, instance)
            await self._ask("HDEL", self._keys.instances, instance)

    async def audit(self, limit: int = AUDIT) -> Sequence[Json]:
        """See ``Engine``."""
        async with self._asking():
            found = await self._last(self._keys.audit, limit)
            return [audit_line(f["line"], f["prev"], f["head"]) for f in found]

    async def applied(self, limit: int = APPLIED) -> Sequence[Json]:
        """See ``Engine``."""
        async with self._asking():
            found = await self._last(self._keys.applied, limit)
            lines = (
                read_applied(f["line"], int(f["at_ms"]), int(f["revision"]), int(f["written_ms"]))
                for f in found
            )
            return [line for line in lines if line is not None]

    async def close(self) -> None:
        """See ``Engine``."""
        client, self._client = self._client, None
        self._said = {}
        if client is not None:
            with suppress(Exception):
                async with asyncio.timeout(self._options.timeout_ms / 1000):
                    await client.aclose()

    def descriptor(self) -> int | None:
        """Return the connection's file descriptor, for a forked child to let go of."""
        connection = None if self._client is None else self._client.connection
        writer = getattr(connection, "_writer", None)
        held = None if writer is None else writer.get_extra_info("socket")
        return None if held is None else held.fileno()

    async def _beat(self, instance: str, text: str, news: str) -> Any:
        k = self._keys
        names = (k.meta, k.instances, k.alive, k.applied)
        return await self._run(HEARTBEAT, names, instance, text, news, str(APPLIED), str(LISTED_MS))

    async def _last(self, key: str, limit: int) -> list[dict[str, str]]:
        found = await self._ask("XREVRANGE", key, "+", "-", "COUNT", limit)
        return [_fields(entry) for entry in reversed(found)]

    async def _run(self, script: Script, names: Sequence[str], *arguments: str) -> Any:
        rest = (len(names), *names, *arguments)
        try:
            return await self._ask("EVALSHA", script.sha, *rest)
        except exceptions.NoScriptError:
            return await self._ask("EVAL", script.text, *rest)

    async def _ask(self, *words: Any, longer_ms: int = 0) -> Any:
        """Send one command, and return the answer as the server gave it."""
        limit = (self._options.timeout_ms + longer_ms) / 1000
        client = await self._connected()
        async with asyncio.timeout(limit):
            await client.connection.send_command(*words)
            answer = await client.connection.read_response()
        if isinstance(answer, exceptions.RedisError):
            raise answer
        return answer

    async def _connected(self) -> Any:
        if self._client is not None:
            return self._client
        for _ in range(3):
            client = _client(self._options, self._node)
            self._client = client
            async with asyncio.timeout(self._options.timeout_ms / 1000):
                await client.initialize()
                await client.connection.connect()
            if await self._is_right_node(client):
                break
            await self.close()
        return self._client

    async def _is_right_node(self, client: Any) -> bool:
        """Whether a server has the fleet's keys; in a cluster another one may."""
        try:
            async with asyncio.timeout(self._options.timeout_ms / 1000):
                await client.connection.send_command("HGET", self._keys.meta, "epoch")
                await client.connection.read_response()
        except exceptions.MovedError as moved:
            self._node = (moved.host, moved.port)
            return False
        return True

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Turn whatever goes wrong into one error, and give up the connection with it."""
        try:
            yield
        except BaseException as error:
            await self.close()
            if not isinstance(error, Exception):
                raise
            raise FleetUnavailable(self._text(error)) from None

    def _text(self, error: Exception) -> str:
        text = str(error)
        if not isinstance(error, FleetUnavailable):
            text = f"the fleet's server {self._options.address} {_reason(error)}"
        for secret in (*self._secrets, *_secrets(self._options)):
            text = text.replace(secret, MASK)
        return text


def _client(options: FleetOptions, node: tuple[str, int] | None) -> Any:
    """Return a client with one connection, not yet open.

    Raises:
        FleetUnavailable: the url is none.
    """
    facts: dict[str, Any] = {
        "socket_connect_timeout": options.timeout_ms / 1000,
        "socket_timeout": None,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": False,
    }
    password = options.secret()
    if password is not None:
        facts["password"] = password
    if options.user is not None:
        facts["username"] = options.user
    if options.url.lower().startswith("rediss:"):
        facts.update(ssl_cert_reqs="required", ssl_check_hostname=True)
        if options.ca_file is not None:
            facts["ssl_ca_certs"] = str(options.ca_file)
    try:
        client = redis.asyncio.Redis.from_url(options.url, single_connection_client=True, **facts)
        # What stands in the url beats what is given along with it, and must not.
        client.connection_pool.connection_kwargs.update(facts)
    except ValueError:
        # Its text may hold a part of the url that is a password.
        raise FleetUnavailable(f"{options.address} is no url of a Redis or Valkey server") from None
    if node is not None:
        host, port = node
        client.connection_pool.connection_kwargs.update(host=host, port=port)
    return client


def _reason(error: Exception) -> str:
    """Say what went wrong, and what to do, the most specific first."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, TimeoutError | exceptions.TimeoutError):
        return "did not answer in time"
    if isinstance(error, exceptions.AuthenticationError) or text.startswith("NOAUTH"):
        return f"refuses the user or the password ({text}); see RELAYCONF_FLEET_PASSWORD"
    if isinstance(error, exceptions.NoPermissionError) or text.startswith("NOPERM"):
        return f"does not let its user do what a fleet needs ({text})"
    if isinstance(error, exceptions.ReadOnlyError):
        return "is a replica, which takes no changes; name the primary"
    if isinstance(error, exceptions.ConnectionError | OSError):
        return f"cannot be reached: {text}"
    if isinstance(error, exceptions.RedisError):
        return f"refuses: {text}"
    return f"gives an answer that makes no sense ({type(error).__name__})"


def _secrets(options: FleetOptions) -> tuple[str, ...]:
    """Return what no text may hold."""
    found = [options.secret()]
    with suppress(ValueError):
        parts = urlsplit(options.url)
        found.extend((parts.password, unquote(parts.password or "")))
    return tuple(each for each in found if each)


def _standing(found: Sequence[Any]) -> Standing:
    position = Position(_text(found[0]), int(found[1]), _text(found[2]))
    return Standing(position, int(found[3]))


def _continues(since: Position, theirs: Position, first: Item | None) -> bool | None:
    """Whether a history is the one that somebody knew.

    Args:
        since: what was known.
        theirs: where the server stands.
        first: the first change that it still knows, from that revision on.
    """
    if since == NOWHERE:
        return True
    if since.epoch != theirs.epoch or since.revision > theirs.revision:
        return False
    if since.revision == theirs.revision:
        return since.head == theirs.head
    if first is None:
        return None
    if first.position.revision == since.revision:
        return first.position.head == since.head
    if first.position.revision == since.revision + 1:
        return first.previous == since.head
    return None


def _stream_item(entry: Any) -> Item | None:
    """Return a change from the stream; ``None`` where what stands there is none."""
    fields = _fields(entry)
    if not {"line", "prev", "head"} <= fields.keys():
        return None
    return read_item(fields["line"], fields["prev"], fields["head"])


def _fields(entry: Any) -> dict[str, str]:
    _, flat = entry
    pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
    return {_text(name): _text(value) for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
