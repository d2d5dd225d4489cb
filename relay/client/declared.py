"""A writer's settings, for a copy of it that came without the published contract.

Whoever copies ``relay/`` and ``relayconf/`` out of a checkout into a sandbox leaves ``schema/``
behind. What a writer needs of it is little, and said here once more; a test compares. Ground floor.
"""

from __future__ import annotations

from relayconf.setting import Contract, Rule, Setting

_LEGACY = "AGENTA_AGENT_TOOLS_RELAY_"

_SETTINGS = (
    Setting(
        "RELAY_POLL_MS",
        "duration",
        300,
        unit="ms",
        minimum=10,
        maximum=60_000,
        legacy=(f"{_LEGACY}POLLING",),
    ),
    Setting(
        "RELAY_POLL_MAX_MS",
        "duration",
        1500,
        unit="ms",
        minimum=10,
        maximum=300_000,
        legacy=(f"{_LEGACY}POLLING_MAX",),
    ),
    Setting(
        "RELAY_IDLE_GROW_AFTER",
        "integer",
        5,
        minimum=0,
        maximum=10_000,
        legacy=(f"{_LEGACY}IDLE_GROW_AFTER",),
    ),
    Setting(
        "RELAY_TIMEOUT_MS",
        "duration",
        60_000,
        unit="ms",
        minimum=100,
        maximum=24 * 3_600_000,
        legacy=(f"{_LEGACY}TIMEOUT",),
    ),
    Setting("RELAY_MAX_RESPONSE_BYTES", "size", 16 << 20, minimum=1 << 10, maximum=256 << 20),
    Setting(
        "RELAY_RESPONSE_WATCH_ENABLED",
        "boolean",
        default=True,
        legacy=(f"{_LEGACY}RESPONSE_WATCH_ENABLED",),
    ),
    Setting("RELAY_MODE", "enum", "auto", choices=("auto", "watch", "poll")),
)

CONTRACT = Contract(
    "relay",
    "RELAY_",
    {setting.name: setting for setting in _SETTINGS},
    (Rule("RELAY_POLL_MS", "RELAY_POLL_MAX_MS", strict=False, moves="RELAY_POLL_MAX_MS"),),
)
