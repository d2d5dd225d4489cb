"""Settings files and secret files as layers: which of them apply, and what stands in them.

Looking whether any settings file is there needs the standard library alone; reading one is the
floor above (dynaconf decides the order, ruamel.yaml reads YAML) and is imported only then. Secret
files need nothing. Ground floor, but for what reads a settings file.
"""

from __future__ import annotations

from typing import Optional, Tuple

from relayconf.errors import SourceError
from relayconf.files.which import settings_files
from relayconf.layers import Entry
from relayconf.setting import Contract


def settings_entries(
    contract: Contract, directory: str, deployment: Optional[str]
) -> Tuple[Entry, ...]:
    """Read the settings files that apply in one directory.

    Args:
        contract: what the keys are looked up in; keys of other services are handed on unjudged.
        directory: the only place that is looked into.
        deployment: selects sections and files; without it, only what is for all of them applies.

    Returns:
        Every assignment, low to high, each with ``path:line:column`` as its origin.

    Raises:
        SourceError: the directory is missing, or one of the files cannot be read or parsed.
    """
    paths = settings_files(directory, deployment)
    if not paths:
        return ()
    try:
        from relayconf.files.entries import read_entries  # noqa: PLC0415 - only where a file is
    except ImportError as error:
        missing = (error.name or "a module").partition(".")[0]
        message = f"reading a settings file needs {missing}, which this Python does not have"
        raise SourceError(message, origin=paths[0]) from None
    return read_entries(contract, paths, deployment)
