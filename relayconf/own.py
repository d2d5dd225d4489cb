"""relayconf's own settings, declared like everybody else's (target ``relayconf``)."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import SecretStr

from relayconf.declare import Clamp, Doc, Env, Example, NotBelow, Url, ms, seconds
from relayconf.settings import Settings


class Durability(StrEnum):
    """What a change of the fleet has to reach before it counts as safe."""

    MEMORY = "memory"
    DISK = "disk"
    REPLICA = "replica"


class RelayconfSettings(Settings, target="relayconf", prefix="RELAYCONF_"):
    """Where relayconf looks, and how strict it is."""

    deployment: Annotated[
        str | None,
        Env("RELAYCONF_DEPLOYMENT"),
        Example("prod"),
        Doc(
            "The name of this deployment.",
            "Selects the sections and files of settings that apply; every answer shows it.",
        ),
    ] = None
    env_file: Annotated[
        tuple[Path, ...],
        Env("RELAYCONF_ENV_FILE"),
        Example("base.env,prod.env"),
        Doc(
            "The env files to read, separated by commas; later ones win.",
            "Used where no --env-file is given. A .env in the working directory is never read by "
            "itself.",
        ),
    ] = ()
    config_dir: Annotated[
        Path | None,
        Env("RELAYCONF_CONFIG_DIR"),
        Example("/etc/app"),
        Doc(
            "The directory of the settings files.",
            "Without it they are looked for in the working directory, never in its parents.",
        ),
    ] = None
    secrets_dir: Annotated[
        Path,
        Env("RELAYCONF_SECRETS_DIR"),
        Doc(
            "The directory in which secrets arrive as files named after their setting.",
            "Compose mounts a service's secrets here.",
        ),
    ] = Path("/run/secrets")
    state_dir: Annotated[
        Path | None,
        Env("RELAYCONF_STATE_DIR"),
        Example("/var/lib/relayconf"),
        Doc(
            "The directory of overrides, audit, instances and locks.",
            "Every process that shares kills, or serves the same session directory, must use the "
            "same one. Without it: relayconf/ in the user's XDG state folder.",
        ),
    ] = None
    state_group: Annotated[
        str | None,
        Env("RELAYCONF_STATE_GROUP"),
        Example("relay"),
        Doc(
            "The group (name or number) that shares the state directory.",
            "Containers run under different users; with a group the directory is made 2770 and its "
            "files 0660. Members of the group are trusted.",
        ),
    ] = None
    fleet_url: Annotated[
        Url | None,
        Env("RELAYCONF_FLEET_URL"),
        Example("rediss://redis.internal:6379/0"),
        Doc(
            "The Redis or Valkey server through which kills and overrides reach every host.",
            "redis:// is plain TCP, rediss:// is TLS; the path is the number of the database. A "
            "user and a password in it are a secret; better give them by their own settings. Where "
            "it is set, kill, set and restore act on the fleet, unless --local is given. Without "
            "it everything stays on this host.",
        ),
    ] = None
    fleet_user: Annotated[
        str | None,
        Env("RELAYCONF_FLEET_USER"),
        Example("relayconf"),
        Doc(
            "The ACL user of the fleet's server.",
            "Without it, and without one in the url, the server's default user.",
        ),
    ] = None
    fleet_password: Annotated[
        SecretStr | None,
        Env("RELAYCONF_FLEET_PASSWORD"),
        Doc(
            "The password for the fleet's server.",
            "Best as a file: a Compose secret named after it, or RELAYCONF_FLEET_PASSWORD_FILE. It "
            "beats one in the url. A file is read again before each connection, so that a new "
            "password needs no restart.",
        ),
    ] = None
    fleet_ca_file: Annotated[
        Path | None,
        Env("RELAYCONF_FLEET_CA_FILE"),
        Example("/run/secrets/fleet_ca.pem"),
        Doc(
            "The certificates (PEM) by which the fleet's server is known over TLS.",
            "Without it the system's own. A server that none of them vouches for is never talked "
            "to, and so is one of another name.",
        ),
    ] = None
    fleet_prefix: Annotated[
        str,
        Env("RELAYCONF_FLEET_PREFIX"),
        Example("relayconf"),
        Doc(
            "What the names of the fleet's keys on its server begin with.",
            "Fleets that share a server differ in it. A key is called {relayconf}:state, say, so "
            "that all lie in one slot of a cluster, and an ACL rule can name them.",
        ),
    ] = "relayconf"
    fleet_heartbeat: Annotated[
        timedelta,
        Env("RELAYCONF_FLEET_HEARTBEAT_MS"),
        Clamp("100ms", "30s"),
        Doc(
            "How often each process compares what it has with the fleet's server.",
            "A process is FRESH while its last comparison is at most twice as long ago. Each "
            "comparison is one question to the server, which answers it by a script of six "
            "commands.",
        ),
    ] = seconds(1)
    fleet_blind_after: Annotated[
        timedelta,
        Env("RELAYCONF_FLEET_BLIND_AFTER_MS"),
        Clamp("1s", "24h"),
        NotBelow("RELAYCONF_FLEET_HEARTBEAT_MS"),
        Doc(
            "How long a process may be STALE before it counts as BLIND.",
            "Until then every override stays in force as it was. After it each flag does what it "
            "declares for being blind: hold what it has, its safe value, or what is configured. A "
            "kill that is known stays in force in any case.",
        ),
    ] = seconds(300)
    fleet_durability: Annotated[
        Durability,
        Env("RELAYCONF_FLEET_DURABILITY"),
        Doc(
            "How safe a change must be on the fleet's server: memory, disk or replica.",
            "memory: the server has it. disk: its append-only file is synced (Redis 7.2, Valkey). "
            "replica: at least one replica has it too. A change that does not get there is in "
            "force all the same; the command says what was reached, and --wait exits 3.",
        ),
    ] = Durability.MEMORY
    fleet_timeout: Annotated[
        timedelta,
        Env("RELAYCONF_FLEET_TIMEOUT_MS"),
        Clamp("50ms", "60s"),
        Doc(
            "How long a connection, or an answer, of the fleet's server may take.",
            "A command that has to give up takes a kill to this host alone and leaves it for the "
            "server.",
        ),
    ] = ms(2000)
    strict: Annotated[
        bool,
        Env("RELAYCONF_STRICT"),
        Doc(
            "Refuse to start on any value that would not be used as it is written.",
            "Invalid, clamped and repaired values become one error at start that lists them all "
            "(exit 78). It never affects a running process, and never refuses a kill.",
        ),
    ] = False
