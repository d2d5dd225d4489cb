"""Where the state directory is. Ground floor."""

from __future__ import annotations

import os
from typing import Mapping, Optional

#: What names the directory, and the group that shares it.
DIR_NAME = "RELAYCONF_STATE_DIR"
GROUP_NAME = "RELAYCONF_STATE_GROUP"


def state_path(environ: Mapping[str, str], named: Optional[str] = None) -> Optional[str]:
    """Return the absolute path of the state directory that an environment means.

    Args:
        environ: names it as ``RELAYCONF_STATE_DIR``, else as ``relayconf`` in the user's XDG state
            folder.
        named: a path that was found elsewhere and comes first.

    Returns:
        ``None`` where nothing names one and there is no home to have one in: an empty state.
    """
    named = named or environ.get(DIR_NAME, "").strip(" \t\n\r\v\f")
    if named:
        return os.path.abspath(named)
    base = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        home = environ.get("HOME") or _home_of_user()
        if home is None or not os.path.isabs(home):
            return None
        base = os.path.join(home, ".local", "state")
    return os.path.join(base, "relayconf")


def _home_of_user() -> Optional[str]:
    import pwd  # noqa: PLC0415 - only where the environment says nothing

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return None
