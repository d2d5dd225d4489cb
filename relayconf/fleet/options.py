"""Where the fleet's server is, and how it is talked to: relayconf's own settings, as one record.

Nothing here shows the password: not the record's repr, and not ``address``. Ground floor.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional

from relayconf.errors import SourceError
from relayconf.files.regular import read_regular
from relayconf.files.secret import MAX_SECRET_BYTES
from relayconf.resolve import Resolution
from relayconf.values import mask_userinfo

_PREFIX = "RELAYCONF_FLEET_"

URL_NAME = "RELAYCONF_FLEET_URL"

#: Plain TCP, TLS, and a socket of this host.
SCHEMES = ("redis", "rediss", "unix")


class FleetOptions(NamedTuple):
    """How to reach the fleet.

    Attributes:
        url: the server's, which may hold a user and a password.
        user: the ACL user; ``None`` for the one in the url, else the server's default.
        password: as it was read last; it beats the url's.
        password_file: where it was read, to be read again before each connection.
        ca_file: the certificates by which the server is known; ``None`` for the system's.
        prefix: what the names of its keys begin with.
        heartbeat_ms: how often an instance compares what it has with the server.
        blind_after_ms: how long it may be stale before it counts as blind.
        durability: ``memory``, ``disk`` or ``replica``.
        timeout_ms: how long a connection or an answer may take.
        deployment: of this process, for entries that are for one deployment alone.
        fault: why the fleet cannot be reached whatever its server does; ``None`` for no fault.
    """

    url: str
    user: Optional[str] = None
    password: Optional[str] = None
    password_file: Optional[str] = None
    ca_file: Optional[str] = None
    prefix: str = "relayconf"
    heartbeat_ms: int = 1000
    blind_after_ms: int = 300_000
    durability: str = "memory"
    timeout_ms: int = 2000
    deployment: Optional[str] = None
    fault: Optional[str] = None

    def __repr__(self) -> str:
        return f"FleetOptions({self.address!r}, prefix={self.prefix!r})"

    @property
    def address(self) -> str:
        """The url as any output may show it: without a user, a password and a query."""
        if not self.url:
            return f"({URL_NAME})"
        scheme, found, rest = self.url.partition("://")
        shown = mask_userinfo(self.url)
        if shown == self.url:
            # A query may hold a password too.
            return self.url.partition("?")[0]
        rest = rest.rpartition("@")[2].partition("?")[0]
        return f"{scheme}{found}{rest}" if found else shown

    def secret(self) -> Optional[str]:
        """Return the password, from its file as that is now."""
        if self.password_file is None:
            return self.password
        try:
            text = read_regular(self.password_file, limit=MAX_SECRET_BYTES).decode("utf-8")
        except (SourceError, UnicodeDecodeError):
            # RACE: a file that is just being replaced; what it held before may still be right.
            return self.password
        return text.rstrip("\r\n") or self.password


def fleet_options(own: Resolution, *, deployment: Optional[str]) -> Optional[FleetOptions]:
    """Return what relayconf's own settings say of a fleet; ``None`` where there is none.

    A fleet that is meant and cannot be is one with a fault, never none: a kill that stayed on this
    host unnoticed would be the worst of outcomes.

    Args:
        own: the settings.
        deployment: of this process.
    """
    values: Mapping[str, Any] = own.values
    url = own.settings[URL_NAME]
    password = own.settings[_PREFIX + "PASSWORD"]
    if url.value is None and url.status != "invalid":
        return None
    options = FleetOptions(
        str(url.value or ""),
        values[_PREFIX + "USER"],
        values[_PREFIX + "PASSWORD"],
        password.origin if password.layer == "secret-file" else None,
        values[_PREFIX + "CA_FILE"],
        values[_PREFIX + "PREFIX"],
        values[_PREFIX + "HEARTBEAT_MS"],
        values[_PREFIX + "BLIND_AFTER_MS"],
        values[_PREFIX + "DURABILITY"],
        values[_PREFIX + "TIMEOUT_MS"],
        deployment,
    )
    return options._replace(fault=_fault(options))


def _fault(options: FleetOptions) -> Optional[str]:
    if not options.url:
        return f"{URL_NAME} holds no url that can be used"
    scheme = options.url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        return f"{URL_NAME} starts with {scheme}://; it must be {' or '.join(SCHEMES)}"
    if options.ca_file is not None and scheme != "rediss":
        return f"{_PREFIX}CA_FILE is for TLS, and {URL_NAME} does not ask for it; write rediss://"
    return None
