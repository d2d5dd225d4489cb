"""What an MCP server's answer is as the one text that a caller gets."""

from __future__ import annotations

import json
from typing import Any

import mcp_types


def text_of(result: Any) -> str:
    """Return an answer as text: its texts as they are, one under the other; else as JSON."""
    parts = [
        part.text
        if isinstance(part, mcp_types.TextContent)
        else part.model_dump_json(by_alias=True, exclude_none=True)
        for part in result.content
    ]
    structured = getattr(result, "structured_content", None)
    if not parts and structured is not None:
        parts = [json.dumps(structured, ensure_ascii=False)]
    return "\n".join(parts)
