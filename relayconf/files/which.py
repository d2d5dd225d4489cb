"""Which settings files there are: a short list of names in one directory, lowest first.

Nothing is searched: not the parents, not sub-directories. A name that is there counts, whatever it
is, so that a directory or a dangling link in its place is reported instead of skipped. Ground
floor.
"""

from __future__ import annotations

import os
from typing import Iterator, List, Optional

from relayconf.errors import SourceError

#: Where two files differ in their extension alone, the later one wins; dynaconf's own order.
EXTENSIONS = ("toml", "yaml", "yml", "json")

#: The directory that nobody had to name. It may have been deleted, or not be ours to search.
WORKING_DIRECTORY = "."


def settings_files(directory: str, deployment: Optional[str]) -> List[str]:
    """Return the paths of the settings files that apply, lowest first.

    Args:
        directory: the only place that is looked into; ``.`` is the working directory.
        deployment: the name in ``settings.<deployment>.toml``.

    Raises:
        SourceError: the directory cannot be searched, or the deployment cannot be in a file's name.
    """
    if not _is_plain(deployment or ""):
        message = "the name of a deployment consists of letters, digits and _ - . only"
        raise SourceError(f"{message}; {deployment!a} does not")
    names = (f"{stem}.{extension}" for stem in _stems(deployment) for extension in EXTENSIONS)
    if directory == WORKING_DIRECTORY:
        return [name for name in names if _is_there(name)]
    try:
        if not os.path.isdir(directory):
            os.listdir(directory)
        return [path for path in (os.path.join(directory, n) for n in names) if _is_there(path)]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"cannot search the directory: {reason}", origin=directory) from None


def _stems(deployment: Optional[str]) -> Iterator[str]:
    for stem in ("settings", ".secrets"):
        yield stem
        if deployment:
            yield f"{stem}.{deployment}"


def _is_plain(deployment: str) -> bool:
    return all(char.isalnum() or char in "_-." for char in deployment)


def _is_there(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        if os.path.dirname(path):
            raise
        return False
    return True
