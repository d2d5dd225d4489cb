"""Exporting: the environment of a command that is to read resolved values by itself.

A setting that a layer sets, or a rule moved, is there in canonical text, under its name and its
legacy names. A setting that nobody sets is not there, whatever the inherited environment held for
it: a blank or an invalid text never reaches the command, and its own default stays its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from relayconf.names import pointers
from relayconf.resolve import Effective, Resolution
from relayconf.values import render


def exported(resolution: Resolution, environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the environment for a command.

    Args:
        resolution: the values of its contract.
        environ: what is inherited (``os.environb``); every foreign variable is kept as it is.

    Returns:
        Bytes, as the operating system wants them; secrets in plain.
    """
    result = dict(environ)
    for name in pointers(resolution.contract):
        # Images refuse to start where a secret comes both by itself and in a file.
        result.pop(os.fsencode(name), None)
    for effective in resolution.settings.values():
        setting = effective.setting
        text = canonical_text(effective)
        for name in (setting.name, *setting.legacy):
            result.pop(os.fsencode(name), None)
            if text is not None:
                result[os.fsencode(name)] = _encode(text)
    return result


def canonical_text(effective: Effective) -> str | None:
    """Return the text of a value as a command reads it; ``None`` where it is to stay unset."""
    if effective.value is None or effective.untouched:
        return None
    return render(effective.setting, effective.value)


def _encode(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:  # a locale that lacks the character; a file is UTF-8 in any of them
        return text.encode()
