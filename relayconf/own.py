"""relayconf's own settings, declared like everybody else's (target ``relayconf``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from relayconf.declare import Doc, Env, Example
from relayconf.settings import Settings


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
    strict: Annotated[
        bool,
        Env("RELAYCONF_STRICT"),
        Doc(
            "Refuse to start on any value that would not be used as it is written.",
            "Invalid, clamped and repaired values become one error at start that lists them all "
            "(exit 78). It never affects a running process, and never refuses a kill.",
        ),
    ] = False
