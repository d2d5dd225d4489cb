"""How many files this process may have open: each session holds one, and 1,024 is the usual."""

from __future__ import annotations

import resource

from relay.engine.telemetry import log


def raise_limit() -> int:
    """Allow as many open files as the hard limit does, and return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.debug("the limit of open files stays %d: %s", soft, error)
        return soft
    return hard
