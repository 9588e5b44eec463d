"""A FastMCP server, so that tests meet that framework's way of answering: a tool for each thing that can happen
in a call. `fastmcp_server.py [http]`; over HTTP it says its address in one line. It ends when its stdin ends."""

import asyncio
import os
import socket
import sys
import threading

from fastmcp import Context, FastMCP
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

QUESTION = "What is your name?"

server = FastMCP("toolcrib-fastmcp-peer")
cancelled = 0


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
async def slow(ctx: Context, steps: int = 20, pause_ms: int = 50) -> str:
    """Counts to `steps`, `pause_ms` apart."""
    global cancelled
    try:
        for step in range(1, steps + 1):
            await asyncio.sleep(pause_ms / 1000)
            await ctx.report_progress(step, steps)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    return f"counted to {steps}"


@server.tool
def cancelled_calls() -> int:
    """How many calls of `slow` were cancelled."""
    return cancelled


@server.tool
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name and greets: in the new era the call ends with the question, in the old one it stays open."""
    if ctx.request_context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        answer = await ctx.elicit(QUESTION, str)
        return f"hello {answer.data}" if answer.action == "accept" else "no name"
    if not ctx.input_responses:
        schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
        params = ElicitRequestFormParams(message=QUESTION, requested_schema=schema)
        return InputRequiredResult(input_requests={"name": ElicitRequest(params=params)}, request_state="asked")
    answer = ctx.input_responses["name"]
    greets = answer.action == "accept" and ctx.request_state == "asked"
    return f"hello {answer.content['value']}" if greets else "no name"


@server.tool
async def change(ctx: Context) -> str:
    """Adds the tool `extra`."""
    server.add_tool(extra)
    await ctx.send_notification(ToolListChangedNotification())
    return "added"


@server.prompt
def greet(name: str) -> str:
    """Greets a person."""
    return f"Say hello to {name}."


@server.resource("peer://motto")
def motto() -> str:
    return "every tool in its place"


@server.resource("peer://mottos/{number}")
def mottos(number: int) -> str:
    return f"motto {number}"


def extra() -> str:
    """Comes later."""
    return "here"


def over_http() -> None:
    # Only of a socket that says that it is TCP does asyncio know that nothing is to be held back.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    asyncio.run(server.run_http_async(show_banner=False, log_level="error", sockets=[listener]))


def end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        over_http()
    else:
        server.run(transport="stdio", show_banner=False)
