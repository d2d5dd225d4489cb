"""An MCP server for the files of one folder, FILES_ROOT; any other server would do as well."""

from __future__ import annotations

import os
from pathlib import Path

from mcp.server import MCPServer

ROOT = Path(os.environ["FILES_ROOT"]).resolve()

app = MCPServer("files")


def place(path: str) -> Path:
    """Return where a path leads, if that is below the root."""
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT):
        raise ValueError("outside of the folder")
    return found


@app.tool()
def list(path: str = ".") -> str:  # noqa: A001 - what an agent would look for
    """List a folder."""
    return "\n".join(sorted(each.name for each in place(path).iterdir()))


@app.tool()
def read(path: str) -> str:
    """Read a text file."""
    return place(path).read_text(encoding="utf-8")


@app.tool()
def write(path: str, text: str) -> str:
    """Write a text file."""
    place(path).write_text(text, encoding="utf-8")
    return "written"


if __name__ == "__main__":
    app.run("stdio")
