"""An agent in the sandbox: a stock MCP client whose server is one file, relay.pyz.

It has no network, and relay.pyz needs nothing that is installed. A real agent's configuration says
the same in its own words: the command ``python3 relay.pyz mcp --dir /session``.
"""

from __future__ import annotations

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters


async def main() -> None:
    """List the tools and use them."""
    pyz, session = os.environ.get("RELAY_PYZ", "relay.pyz"), os.environ["RELAY_DIR"]
    server = StdioServerParameters(command=sys.executable, args=[pyz, "mcp", "--dir", session])
    async with Client(server) as relay:
        tools = (await relay.list_tools()).tools
        show("tools", ", ".join(tool.name for tool in tools))
        await use(relay, "files_list", {})
        await use(relay, "files_read", {"path": "greeting.txt"})
        await use(relay, "files_write", {"path": "greeting.txt", "text": "mine"})
        await use(relay, "files_read", {"path": "../../etc/passwd"})
        await use(relay, "weather", {"town": "Oslo"})


async def use(relay: Client, tool: str, arguments: dict[str, str]) -> None:
    """Call a tool and show what it says."""
    result = await relay.call_tool(tool, arguments)
    text = " ".join(getattr(part, "text", "") for part in result.content).strip()
    show(tool, f"failed: {text}" if result.is_error else text.replace("\n", ", "))


def show(name: str, text: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{name}: {text}\n")


if __name__ == "__main__":
    asyncio.run(main())
