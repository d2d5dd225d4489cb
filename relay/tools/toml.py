"""A TOML file that an operator wrote by hand: read whole, within bounds, or refused in one line.

A wrong path may lead to anything: a pipe, a device, a picture. None of these blocks the reader or
fills memory, and no text that is no TOML ends in a traceback.
"""

from __future__ import annotations

import os
import stat
import tomllib
from typing import Any

from relay.tools.registry import ToolsError

#: Bytes of the largest file that is read.
LARGEST = 1024 * 1024


def read_toml(path: str, what: str) -> tuple[str, dict[str, Any]]:
    """Return the text of a file, and the document that it is.

    Args:
        path: the file.
        what: what messages call it, such as ``the tools file``.

    Raises:
        ToolsError: it cannot be read, or is not TOML; one line that says why.
    """
    text = _text(path, what)
    try:
        return text, tomllib.loads(text)
    except RecursionError:
        raise ToolsError([f"{path}: this is not TOML that can be read: nested too deep"]) from None
    except ValueError as error:
        # A TOMLDecodeError, or what Python says to a numeral of thousands of digits.
        raise ToolsError([f"{path}: this is not TOML: {error}"]) from None


def _text(path: str, what: str) -> str:
    try:
        # A pipe without a writer would block an ordinary open for ever.
        with open(path, "rb", opener=_open_without_blocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ToolsError([f"{path}: {what} is not a regular file"])
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ToolsError([f"{path}: {what} cannot be read: {reason}"]) from None
    if len(data) > LARGEST:
        raise ToolsError([f"{path}: {what} is larger than {LARGEST} bytes"])
    try:
        # Editors of one system begin a file with a mark that says nothing here.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ToolsError([f"{path}: {what} is not UTF-8 (byte {error.start})"]) from None


def _open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
