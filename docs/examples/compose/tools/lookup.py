"""The tool that the sandbox is given: one kind of question to one upstream, with our credentials.

The address and the token stay on this side. What the sandbox may choose is one identifier, checked
before it becomes part of a path.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import httpx

from relay import ToolError

ORDER = re.compile(r"[A-Z0-9]{4,20}")


async def order_status(order: str) -> str:
    """Say where an order is, by its number (4 to 20 capital letters and digits)."""
    if not ORDER.fullmatch(order):
        raise ToolError("order: 4 to 20 capital letters and digits")
    headers = {"Authorization": f"Bearer {_token()}"}
    async with httpx.AsyncClient(base_url=os.environ["UPSTREAM_URL"], timeout=10) as upstream:
        try:
            answer = await upstream.get(f"/orders/{order}", headers=headers)
        except httpx.TransportError as error:
            # The sandbox learns that, and not where the service is.
            raise ToolError("the order service cannot be reached") from error
    if answer.is_error:
        raise ToolError(f"the order service answered {answer.status_code}")
    return answer.text


def _token() -> str:
    # Read at each call, so that a rotated secret is in force at once.
    place = os.environ.get("UPSTREAM_TOKEN_FILE", "/run/secrets/upstream_token")
    return Path(place).read_text(encoding="utf-8").strip()
