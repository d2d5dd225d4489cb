"""The process that judges arguments by a schema where that may take long, and what it speaks.

A pattern can take longer than the universe on thirty characters, and Python cannot be interrupted
while it matches. So it happens here: one frame in, one frame out, each a length and a JSON object.
A question that is not answered in time ends this process, by a timer that needs nobody's help.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import BinaryIO

from relay.tools.validate import Validator

#: Bytes of a frame's length, big-endian.
HEADER = 4

#: How much longer than its asker this process holds out, in seconds: the asker may have died.
_AFTER = 0.5


def frame(body: object) -> bytes:
    """Return an object as it travels."""
    data = json.dumps(body, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return len(data).to_bytes(HEADER, "big") + data


def read_frame(stream: BinaryIO) -> dict[str, object] | None:
    """Return the next object, or ``None`` at the end."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    body: dict[str, object] = json.loads(stream.read(int.from_bytes(header, "big")))
    return body


def main() -> None:
    """Answer until there is no more to answer.

    A question is ``{"schema": number, "is": the schema where it is new, "args": ..., "bound":
    seconds}``; an answer is ``{"fault": text or null}`` or ``{"failed": text}``.
    """
    known: dict[object, Validator] = {}
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while (asked := read_frame(stdin)) is not None:
        number, bound = asked["schema"], asked["bound"]
        # The default action of the signal is to end the process, whatever it is doing.
        signal.setitimer(signal.ITIMER_REAL, float(str(bound)) + _AFTER)
        try:
            if "is" in asked:
                known[number] = Validator(asked["is"])  # type: ignore[arg-type]  # judged before
            answer = {"fault": known[number].fault(asked["args"])}  # type: ignore[arg-type]  # so is this
        except Exception as error:  # noqa: BLE001 - whatever it is, the asker is told
            answer = {"failed": f"{type(error).__name__}: {error}"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        stdout.write(frame(answer))
        stdout.flush()
