"""Units that run tools and report what they observe. Needs the extra `execution`; MCP needs `mcp` as well.

    unit                        module         a stop is
    LocalCommand                local          confirmed: no process of the command is left, or it is named
    FunctionCall, async         functions      confirmed, when the function gave way
    FunctionCall, sync          functions      never confirmed: a thread cannot be stopped
    RemoteCall                  mcp            asked for; confirmed by nobody but the answer

Each is a small frozen record with `run(permit, report, control)`; what the three are, and what `run` promises,
stands in `contract`. `operations` makes ids of business operations and decides what may be tried again.
No unit asks the launch gate: a permit is given to it, and whoever gives it has asked.
"""
