"""A server made with the MCP SDK, as a program: `stdio`, or `http PORT` on 127.0.0.1."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("loopback", log_level="CRITICAL")


@server.tool()
async def publish(page: int) -> str:
    return f"published page {page}"


@server.tool()
async def slow(seconds: float, effect: str, ctx: Context) -> str:
    await ctx.report_progress(1, 3, "begun")
    await anyio.sleep(seconds)
    Path(effect).write_text("done")  # noqa: ASYNC240 - a word
    return "slow, and done"


@server.tool()
async def fail() -> str:
    raise ValueError("no such page")


@server.tool()
async def vanish() -> str:
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[2]))
