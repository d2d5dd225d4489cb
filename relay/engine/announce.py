"""relay.json: what the writers of a session are told about their runner.

It holds the settings that a writer goes by, each with the layer that it comes from, and the tools;
never a secret, and nothing about how a tool is run.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from relay.protocol import CANCELS, MAX_RELAY_JSON, PROTOCOL, SIGNALS
from relay.settings import RelaySettings
from relay.tools.registry import Registry, ToolsError
from relayconf.live.snapshot import Snapshot
from relayconf.values import present

#: The settings that a writer goes by. None of them is a secret.
WRITER_SETTINGS = (
    "RELAY_MODE",
    "RELAY_POLL_MS",
    "RELAY_POLL_MAX_MS",
    "RELAY_IDLE_GROW_AFTER",
    "RELAY_TIMEOUT_MS",
    "RELAY_RESPONSE_WATCH_ENABLED",
    "RELAY_MAX_REQUEST_BYTES",
    "RELAY_MAX_RESPONSE_BYTES",
)


#: Bytes of relay.json that are not its tools: the settings above, and who says it.
_REST = 8 * 1024


class Announcement(NamedTuple):
    """The bytes of relay.json: for sessions whose answers are signalled, and for others."""

    signalling: bytes
    plain: bytes


def refuse_too_much(tools: Registry) -> None:
    """Refuse more tools than writers would read of; they would obey nothing else in it, either.

    Raises:
        ToolsError: so it is.
    """
    size = len(_json([tool.described() for tool in tools.values()]))
    if size > MAX_RELAY_JSON - _REST:
        problem = (
            f"the tools take {size} bytes in relay.json, and writers read at most {MAX_RELAY_JSON} "
            "in all: shorten descriptions and schemas, or offer fewer"
        )
        raise ToolsError([problem])


def announcement(
    runner: str, snapshot: Snapshot[RelaySettings], tools: Registry, *, cancels: bool = False
) -> Announcement:
    """Return what relay.json says for one snapshot of the settings.

    ``cancels`` says that the runner stops what its caller has taken back.
    """
    settings = {}
    features = [CANCELS] if cancels else []
    for name in WRITER_SETTINGS:
        effective = snapshot.resolution.settings[name]
        value = present(effective.setting, effective.value)
        settings[name] = {"value": value, "layer": effective.layer}
    body = {
        "protocol": PROTOCOL,
        "runner": runner,
        "generation": snapshot.generation,
        "settings": settings,
        "features": features,
        "tools": [tool.described() for tool in tools.values()],
    }
    plain = _json(body)
    return Announcement(_json({**body, "features": [*features, SIGNALS]}), plain)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
