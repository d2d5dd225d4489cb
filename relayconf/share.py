"""Shares: which keys a flag that is rolled out to some percent of them is on for.

A key is on where the first 8 bytes of the SHA-256 of ``flag:key``, read big-endian, lie below
share x 2^64. So the answer for a key never changes while the share stays (sticky), keys spread
evenly (uniform), and a larger share keeps every key that a smaller one had (monotonic); another
flag picks other keys. Everything is computed in integers, so every language gets the same answer.
Ground floor.
"""

from __future__ import annotations

from relayconf.setting import Value
from relayconf.values.words import WHOLE, hundredths

_BITS = 64


def share(value: Value) -> int:
    """Return the share that a rollout's canonical value stands for.

    Args:
        value: a boolean, or text like ``"12.5%"``.

    Returns:
        Hundredths of a percent, 0 to 10,000.

    Raises:
        ValueError: the value is not one of a rollout.
    """
    if isinstance(value, bool):
        return WHOLE if value else 0
    part = hundredths(value) if isinstance(value, str) else None
    if part is None:
        raise ValueError(f"not a rollout value: {value!r}")
    return part


def decide(flag: str, key: str, value: Value) -> bool:
    """Decide whether a flag is on for one key.

    Args:
        flag: the setting's name.
        key: what the decision sticks to; for a relay its session directory's base name. A name
            that is not UTF-8 counts by its bytes, as the file system has them.
        value: a rollout's canonical value.

    Raises:
        ValueError: the value is not one of a rollout.
    """
    part = share(value)
    if part in {0, WHOLE}:
        return part == WHOLE
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and most flags are settled one way

    digest = hashlib.sha256(_encode(f"{flag}:{key}")).digest()
    point = int.from_bytes(digest[: _BITS // 8], "big")
    return point * WHOLE < part << _BITS


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # No file name holds such a character; any fixed answer will do, and an exception would not.
        return text.encode("utf-8", "surrogatepass")
