"""The relay's settings: every environment variable and flag, declared once.

The contract, the reference, the example files and the vectors are generated from this class; the
in-sandbox writer honours the same grammars and ranges through the contract.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import SecretStr

from relayconf.declare import (
    AppliesLive,
    Breaker,
    Bytes,
    Clamp,
    Doc,
    Env,
    Example,
    Flag,
    Groups,
    Jitter,
    LessThan,
    NotBelow,
    Rollout,
    Url,
    ms,
    seconds,
)
from relayconf.settings import Settings

_KIB = 1024
_MIB = 1024 * _KIB
_AGENTA = "AGENTA_AGENT_TOOLS_RELAY_"


class Mode(StrEnum):
    """How a relay learns of new files."""

    AUTO = "auto"
    WATCH = "watch"
    POLL = "poll"


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The least severe log line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class RelaySettings(Settings, target="relay", prefix="RELAY_"):
    """Everything that can be set about a relay."""

    dir: Annotated[
        Path | None,
        Env("RELAY_DIR", legacy=(_AGENTA + "DIR",)),
        Example("/run/relay/session"),
        Doc(
            "The session's directory, shared by one sandbox and its runner.",
            "The writer publishes requests in it and the runner publishes responses. It must be on "
            "a file system that both see; a tmpfs is best.",
        ),
    ] = None
    root: Annotated[
        Path | None,
        Env("RELAY_ROOT"),
        Example("/run/relay"),
        Doc(
            "A directory whose sub-directories are sessions, all served by one runner.",
            "Use it instead of RELAY_DIR where there are many sandboxes.",
        ),
    ] = None
    backend: Annotated[
        str,
        Env("RELAY_BACKEND"),
        Example("local"),
        Doc(
            "How the runner reaches the session's directory: local, daemon or ssh.",
            "local needs nothing but the directory itself. Other names are registered by installed "
            "distributions.",
        ),
    ] = "local"
    mode: Annotated[
        Mode,
        Env("RELAY_MODE"),
        AppliesLive(),
        Doc(
            "Whether file events are used: auto, watch or poll.",
            "auto follows the flag of each hop. poll uses no file events anywhere. watch refuses "
            "to start where its watch cannot be armed. A killed flag beats every mode.",
        ),
    ] = Mode.AUTO
    poll: Annotated[
        timedelta,
        Env("RELAY_POLL_MS", legacy=(_AGENTA + "POLLING",)),
        Clamp("10ms", "60s"),
        AppliesLive(),
        Doc(
            "How often a directory is looked at when no file event comes.",
            "Events only wake; this poll always runs underneath, so it is the longest that a lost "
            "event can delay a busy relay. Shorter costs CPU, longer costs latency where there is "
            "no watch.",
        ),
    ] = ms(300)
    poll_max: Annotated[
        timedelta,
        Env("RELAY_POLL_MAX_MS", legacy=(_AGENTA + "POLLING_MAX",)),
        Clamp("10ms", "5m"),
        AppliesLive(),
        NotBelow("RELAY_POLL_MS"),
        Doc(
            "The longest pause between two looks at a directory where nothing happens.",
            "An idle relay doubles its pause up to this. It is never below RELAY_POLL_MS.",
        ),
    ] = ms(1500)
    idle_grow_after: Annotated[
        int,
        Env("RELAY_IDLE_GROW_AFTER", legacy=(_AGENTA + "IDLE_GROW_AFTER",)),
        Clamp("0", "10000"),
        AppliesLive(),
        Doc(
            "How many looks in a row find nothing before the pause begins to grow.",
            "Any request resets the pause to RELAY_POLL_MS.",
        ),
    ] = 5
    timeout: Annotated[
        timedelta,
        Env("RELAY_TIMEOUT_MS", legacy=(_AGENTA + "TIMEOUT",)),
        Clamp("100ms", "24h"),
        AppliesLive(),
        Doc(
            "How long a caller waits for its answer, where the call does not say.",
            "A request that is older when a runner finds it is answered 'expired' and not run. "
            "Responses that nobody fetched are removed after the same time.",
        ),
    ] = seconds(60)
    response_watch: Annotated[
        bool,
        Env("RELAY_RESPONSE_WATCH_ENABLED", legacy=(_AGENTA + "RESPONSE_WATCH_ENABLED",)),
        AppliesLive(),
        Groups("watch"),
        Flag(
            kind="kill-switch",
            kill=False,
            owner="relay",
            why="an operator must always be able to fall back to polling",
        ),
        Doc(
            "Hop 1: the writer waits for its response on file events.",
            "Off, it polls at RELAY_POLL_MS. It reaches writers in sandboxes through relay.json.",
        ),
    ] = True
    local_watch: Annotated[
        bool,
        Env("RELAY_LOCAL_WATCH_ENABLED"),
        AppliesLive(),
        Groups("watch"),
        Flag(
            kind="kill-switch",
            kill=False,
            owner="relay",
            why="an operator must always be able to fall back to polling",
        ),
        Doc(
            "Hop 2, local: the runner waits for requests on file events.",
            "Off, it polls at RELAY_POLL_MS, growing to RELAY_POLL_MAX_MS while idle.",
        ),
    ] = True
    remote_watch: Annotated[
        Rollout,
        Env("RELAY_REMOTE_WATCH_ENABLED", legacy=(_AGENTA + "REMOTE_WATCH_ENABLED",)),
        AppliesLive(),
        Groups("watch"),
        Flag(
            kind="kill-switch",
            kill=False,
            owner="relay",
            why="an operator must always be able to fall back to polling",
            breaker=Breaker(event="demotion", at_least=3, share=0.2, window=seconds(300)),
        ),
        Example("25%"),
        Doc(
            "Hop 2, remote: the runner waits inside the sandbox for requests.",
            "A share such as 25% turns it on for that part of the relays, always the same ones. "
            "Off, the runner lists the directory every RELAY_POLL_MS.",
        ),
    ] = False
    remote_watch_window: Annotated[
        timedelta,
        Env("RELAY_REMOTE_WATCH_WINDOW_MS", legacy=(_AGENTA + "REMOTE_WATCH_WINDOW_MS",)),
        Clamp("5s", "120s"),
        Jitter(-0.2, 0),
        AppliesLive(),
        LessThan("RELAY_SAFETY_POLL_MS"),
        Doc(
            "How long one wait inside a remote sandbox lasts before it is issued again.",
            "It stays below RELAY_SAFETY_POLL_MS, or each safety poll would look like a missed "
            "event. Each wait is drawn up to 20 % shorter, so that relays do not move in step.",
        ),
    ] = seconds(25)
    remote_watch_grace: Annotated[
        timedelta,
        Env("RELAY_REMOTE_WATCH_GRACE_MS"),
        Clamp("500ms", "30s"),
        AppliesLive(),
        Doc("How much longer than its window a remote wait may take before it counts as failed."),
    ] = seconds(5)
    remote_rescan: Annotated[
        timedelta,
        Env("RELAY_REMOTE_RESCAN_MS"),
        Clamp("50ms", "30s"),
        AppliesLive(),
        LessThan("RELAY_REMOTE_WATCH_WINDOW_MS"),
        Doc("How often a remote wait looks at the directory by itself, inside the sandbox."),
    ] = seconds(2)
    safety_poll: Annotated[
        timedelta,
        Env("RELAY_SAFETY_POLL_MS"),
        Clamp("6s", "10m"),
        AppliesLive(),
        Doc(
            "How often a remote directory is listed from outside while its watch is healthy.",
            "It depends on no part of the watch, so it bounds what a silent failure can cost.",
        ),
    ] = seconds(30)
    demote_after: Annotated[
        int,
        Env("RELAY_DEMOTE_AFTER"),
        Clamp("1", "100"),
        AppliesLive(),
        Doc(
            "How many failures of the remote watch in a row demote a relay to polling.",
            "It is tried again after a minute, then after twice as long each time.",
        ),
    ] = 3
    backoff_base: Annotated[
        timedelta,
        Env("RELAY_BACKOFF_BASE_MS"),
        Clamp("10ms", "60s"),
        Jitter(-0.2, 0),
        AppliesLive(),
        Doc("The pause after the first failure of a remote wait; each further one doubles it."),
    ] = seconds(1)
    backoff_max: Annotated[
        timedelta,
        Env("RELAY_BACKOFF_MAX_MS"),
        Clamp("10ms", "10m"),
        Jitter(-0.2, 0),
        AppliesLive(),
        NotBelow("RELAY_BACKOFF_BASE_MS"),
        Doc("The longest pause between two tries of a remote wait."),
    ] = seconds(30)
    file_op_timeout: Annotated[
        timedelta,
        Env("RELAY_FILE_OP_TIMEOUT_MS"),
        Clamp("100ms", "5m"),
        AppliesLive(),
        Doc(
            "How long one file operation may take on a remote, network or FUSE file system.",
            "Operations on local file systems are not bounded by it.",
        ),
    ] = seconds(10)
    tool_timeout: Annotated[
        timedelta,
        Env("RELAY_TOOL_TIMEOUT_MS"),
        Clamp("100ms", "24h"),
        AppliesLive(),
        Doc("How long a tool may run; a tool's own timeout in the tools file wins."),
    ] = seconds(60)
    drain_timeout: Annotated[
        timedelta,
        Env("RELAY_DRAIN_TIMEOUT_MS"),
        Clamp("0", "10m"),
        AppliesLive(),
        Doc("How long a stopping runner lets the calls in flight finish before it cancels them."),
    ] = seconds(3)
    max_request: Annotated[
        int,
        Env("RELAY_MAX_REQUEST_BYTES"),
        Bytes(),
        Clamp("1KiB", "256MiB"),
        AppliesLive(),
        Doc("The largest request that is read; a larger one is answered 'too_large'."),
    ] = 4 * _MIB
    max_response: Annotated[
        int,
        Env("RELAY_MAX_RESPONSE_BYTES"),
        Bytes(),
        Clamp("1KiB", "256MiB"),
        AppliesLive(),
        Doc(
            "The largest response that is published or read; a larger one becomes 'too_large'.",
            "It is also where the output of a tool's process is cut off.",
        ),
    ] = 16 * _MIB
    max_in_flight: Annotated[
        int,
        Env("RELAY_MAX_IN_FLIGHT"),
        Clamp("1", "100000"),
        AppliesLive(),
        Doc("How many requests one runner works on at once; the rest wait in their directories."),
    ] = 256
    session_max_in_flight: Annotated[
        int,
        Env("RELAY_SESSION_MAX_IN_FLIGHT"),
        Clamp("1", "100000"),
        AppliesLive(),
        Doc("How many requests of one session a runner works on at once."),
    ] = 64
    tools_file: Annotated[
        Path | None,
        Env("RELAY_TOOLS_FILE"),
        Example("/etc/relay/tools.toml"),
        Doc(
            "The file that says which tools the runner offers (TOML).",
            "The sandbox sees a tool's name, description and input schema, and nothing else of it.",
        ),
    ] = None
    daemon_url: Annotated[
        Url | None,
        Env("RELAY_DAEMON_URL"),
        Example("https://sandbox.example:2468"),
        Doc("Where a remote sandbox's daemon listens (backend daemon)."),
    ] = None
    daemon_token: Annotated[
        SecretStr | None,
        Env("RELAY_DAEMON_TOKEN"),
        Doc("The token of the sandbox's daemon; sent as a bearer token, never shown."),
    ] = None
    ssh_target: Annotated[
        str | None,
        Env("RELAY_SSH_TARGET"),
        Example("sandbox@host.example:22"),
        Doc("The sandbox's SSH server, as user@host:port (backend ssh)."),
    ] = None
    ssh_key_file: Annotated[
        Path | None,
        Env("RELAY_SSH_KEY_FILE"),
        Example("/run/secrets/ssh_key"),
        Doc("The private key with which the runner logs in (backend ssh)."),
    ] = None
    ssh_known_hosts: Annotated[
        Path | None,
        Env("RELAY_SSH_KNOWN_HOSTS"),
        Example("/etc/relay/known_hosts"),
        Doc("The file of host keys that the runner accepts (backend ssh)."),
    ] = None
    log_format: Annotated[
        LogFormat,
        Env("RELAY_LOG_FORMAT"),
        AppliesLive(),
        Doc("How log lines on stderr are written: text or json."),
    ] = LogFormat.TEXT
    log_level: Annotated[
        LogLevel,
        Env("RELAY_LOG_LEVEL"),
        AppliesLive(),
        Doc("The least severe log line that is written: debug, info, warning or error."),
    ] = LogLevel.INFO
    metrics_addr: Annotated[
        str | None,
        Env("RELAY_METRICS_ADDR"),
        Example("127.0.0.1:9464"),
        Doc(
            "Where Prometheus may scrape the runner's metrics, as host:port.",
            "A port alone means loopback. Without it nothing listens.",
        ),
    ] = None
