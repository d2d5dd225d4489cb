"""How the compose reader refuses: one error class, one kind for each sort of refusal.

A refusal says what Docker Compose itself would refuse, in our words but with Compose's key phrase
in it, and where. No message quotes a value: keys, paths, positions and single characters only.
Ground floor.
"""

from __future__ import annotations

from typing import Optional

from relayconf.errors import SourceError

#: The kinds of refusal, each a stable word that a program may compare with.
KINDS = frozenset(
    {
        "dotenv",  # an env file in Compose's own dialect that does not parse
        "raw",  # an env file in the raw format that does not parse
        "template",  # a ``$`` expression that is not one
        "required",  # ``${NAME:?text}`` and NAME is missing
        "missing-file",  # a file that is named and not there, or is a directory
        "unreadable",  # a file that is there and cannot be read or decoded
        "yaml",  # a compose file that is not YAML
        "schema",  # YAML that is not a compose file
        "merge",  # files, or merge keys, that cannot be put together
        "extends",  # a service that cannot be extended
        "include",  # an include that cannot be followed
        "project",  # a whole that is inconsistent although its parts are right
        "limit",  # more nesting, expansion or text than this reader follows
    }
)

#: A message is cut to so many characters; only names out of a hostile file make one longer.
LONGEST = 600


class ComposeError(SourceError):
    """A file, or the project that the files add up to, is refused as Compose refuses it.

    Args:
        message: what is wrong and with which name; never a value.
        kind: one of ``KINDS``.
        origin: ``path``, ``path:line`` or ``path:line:column``, as precise as is known.
    """

    code = "compose"

    def __init__(self, message: str, *, kind: str, origin: Optional[str] = None) -> None:
        super().__init__(printable(message), origin=origin)
        self.kind = kind


def printable(text: str, limit: int = LONGEST) -> str:
    """A text that may hold names out of a file, made fit for one line on a terminal.

    Args:
        text: any text.
        limit: characters that are kept; what is cut is said.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text) - limit} more characters)"
    return text
