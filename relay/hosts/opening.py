"""Which host RELAY_BACKEND means, and how one is opened from the settings.

``daemon`` and ``ssh`` are here; any other name is an entry point of the group ``relay.hosts``: a
callable that takes the relay's settings and returns a ``Host``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from relay.hosts.host import Host, HostError
from relay.settings import RelaySettings

GROUP = "relay.hosts"

#: Makes a host from the settings.
Opener = Callable[[RelaySettings], Host]


def open_host(settings: RelaySettings) -> Host:
    """Return the host that the settings name; nothing is sent yet.

    Raises:
        HostError: no such backend, or settings that it needs are missing or unusable.
    """
    opener = _BUILT_IN.get(settings.backend)
    if opener is None:
        opener = _registered(settings.backend)
    return opener(settings)


def _registered(name: str) -> Opener:
    found = entry_points(group=GROUP)
    for point in found:
        if point.name == name:
            try:
                opener: Any = point.load()
            except (ImportError, AttributeError) as error:
                raise HostError(f"RELAY_BACKEND={name}: {point.value} fails: {error}") from error
            return _checked(name, opener)
    known = sorted({"local", *_BUILT_IN, *(point.name for point in found)})
    raise HostError(f"RELAY_BACKEND is {name}; known are {', '.join(known)}")


def _checked(name: str, opener: Any) -> Opener:
    def call(settings: RelaySettings) -> Host:
        host = opener(settings)
        if not isinstance(host, Host):
            raise HostError(f"RELAY_BACKEND={name}: its entry point gives no relay.hosts.Host")
        return host

    return call


def _daemon(settings: RelaySettings) -> Host:
    from relay.hosts.daemon import DaemonHost  # noqa: PLC0415 - httpx, only where it is used

    if settings.daemon_url is None:
        raise HostError("RELAY_BACKEND is daemon; set RELAY_DAEMON_URL to where it listens")
    token = settings.daemon_token
    return DaemonHost(
        str(settings.daemon_url),
        token=None if token is None else token.get_secret_value(),
        timeout=settings.file_op_timeout.total_seconds(),
    )


def _ssh(settings: RelaySettings) -> Host:
    try:
        from relay.hosts.ssh import open_ssh  # noqa: PLC0415 - asyncssh is an extra
    except ImportError:
        raise HostError("RELAY_BACKEND=ssh needs asyncssh: install relayconf[ssh]") from None

    return open_ssh(settings)


_BUILT_IN: dict[str, Opener] = {"daemon": _daemon, "ssh": _ssh}
