"""The reference server of the official conformance suite: reference_server.py stdio|http|sse.

The server itself comes from the sources of the Python SDK, which setup unpacks into .cache; only what it listens on
is ours. Over HTTP it says its address in one line, and it ends when its stdin ends."""

import asyncio
import os
import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / ".cache/reference-server"))

import uvicorn
from mcp_everything_server.server import event_store, mcp


def main(transport: str) -> None:
    match transport:
        case "stdio":
            mcp.run("stdio")
        case "http":
            # As its own command line starts it.
            listen(mcp.streamable_http_app(event_store=event_store, retry_interval=100), "/mcp")
        case "sse":
            listen(mcp.sse_app(), "/sse")
        case _:
            sys.exit(__doc__)


def listen(app, path: str) -> None:
    # Only of a socket that says that it is TCP does asyncio know that nothing is to be held back.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    asyncio.run(server.serve(sockets=[listener]))


def end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


main(*sys.argv[1:])
