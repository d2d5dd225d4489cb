"""Where a runner may connect to: public addresses, and private ones only where that was allowed.

A name is resolved here, each of its addresses is judged, and the connection is made to the very
address that was judged and judged once more by what the socket says, so that no answer of a name
server moves it. Made for httpcore, which calls a backend for every connection it opens.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from relay.engine.threads import Threads
from relay.tools.heads import Headed
from relay.tools.registry import Failure

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: IPv6 addresses that carry an IPv4 one, to which a gateway would pass what is sent (RFC 6052).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

_LAST_PORT = 65535

#: Threads that resolve names. A name server that is silent takes one for up to half a minute.
_RESOLVERS = 8


class Allowed:
    """The networks beside the public ones to which connections may be made."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def __contains__(self, address: Address) -> bool:
        return all(self._fits(each) for each in (address, *_inside(address)))

    def _fits(self, address: Address) -> bool:
        if any(address in network for network in self._networks):
            return True
        # A multicast address may count as global, and is no place to connect to.
        return address.is_global and not address.is_multicast


def _inside(address: Address) -> list[Address]:
    """Return the IPv4 addresses that an IPv6 address stands for or leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address] = []
    if address.ipv4_mapped is not None:
        found.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def networks(texts: Iterable[str]) -> list[Network]:
    """Read networks, such as ``10.1.0.0/16`` or ``::1``.

    Raises:
        ValueError: a text is none.
    """
    return [ipaddress.ip_network(text) for text in texts]


class NotAllowed(Failure):
    """A connection would go to an address that is not allowed. ``host`` is for the log alone."""

    def __init__(self, host: str) -> None:
        super().__init__("refused", "the service is at an address that is not allowed")
        self.host = host


class CheckedBackend:
    """httpcore's way to the network, for allowed addresses alone.

    Args:
        backend: makes the connections, to addresses.
        allowed: which addresses.
        unreachable: raised where a name has no address; httpcore's own error for it.
        broken: raised where an answer's head has no end; likewise.
    """

    def __init__(
        self,
        backend: Any,
        allowed: Allowed,
        *,
        unreachable: type[Exception],
        broken: type[Exception],
    ) -> None:
        self._backend = backend
        self._allowed = allowed
        self._unreachable = unreachable
        self._broken = broken
        self._threads: Threads | None = None
        #: Names that are being resolved: whoever asks for one meanwhile waits for the same answer,
        #: so that a silent name server takes one thread for each, and leaves the others' free.
        self._looking: dict[tuple[str, int], asyncio.Task[Sequence[Address]]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        """Connect to an allowed address of a host, whichever answers first in order.

        Raises:
            NotAllowed: none of its addresses is allowed.
        """
        if not 0 < port <= _LAST_PORT:
            raise self._unreachable("there is no such port")
        addresses = await self._addresses(host, port)
        allowed = [address for address in addresses if address in self._allowed]
        if not allowed:
            raise NotAllowed(host)
        for number, address in enumerate(allowed, 1):
            try:
                stream = await self._backend.connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except Exception:
                # Whatever it was, the next address may do.
                if number == len(allowed):
                    raise
                continue
            return await self._judged(stream, host)
        raise NotAllowed(host)  # pragma: no cover - the loop returns or raises

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> Any:
        """Refuse: a tool is reached over the network."""
        raise NotAllowed(path)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Let the threads go."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None
        for task in self._looking.values():
            task.cancel()

    async def _judged(self, stream: Any, host: str) -> Any:
        peer = stream.get_extra_info("server_addr")
        if ipaddress.ip_address(str(peer[0]).partition("%")[0]) in self._allowed:
            return Headed(stream, self._broken)
        await stream.aclose()
        raise NotAllowed(host)

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        try:
            return [ipaddress.ip_address(host.strip("[]"))]
        except ValueError:
            pass
        name = (host, port)
        task = self._looking.get(name)
        if task is None:
            task = self._looking[name] = asyncio.create_task(self._look(host, port))
            task.add_done_callback(partial(self._looked, name))
        return await asyncio.shield(task)

    def _looked(self, name: tuple[str, int], task: asyncio.Task[Any]) -> None:
        del self._looking[name]
        if not task.cancelled():
            # Those that have waited for it may all have gone.
            task.exception()

    async def _look(self, host: str, port: int) -> Sequence[Address]:
        if self._threads is None:
            self._threads = Threads(asyncio.get_running_loop(), most=_RESOLVERS)
        look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            found = await self._threads.run(look)
        except OSError as error:
            raise self._unreachable(f"the name has no address: {error.strerror}") from None
        return [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
