"""A server made with the MCP SDK, on stdio, that does its work and goes down before it can say so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("forgetful", log_level="CRITICAL")


@server.tool()
async def publish(page: int, key: str) -> str:
    with Path(sys.argv[1]).open("a") as ledger:  # noqa: ASYNC230 - a word
        ledger.write(f"{key} page {page} is revision 18\n")
    os._exit(3)


if __name__ == "__main__":
    server.run("stdio")
