"""Two clients of the Python SDK with a browser each, at once, through a gateway: browser_client.py legacy|auto URL

Each opens a page of its own and must see nothing of the other's."""

import asyncio
import http.server
import sys
import threading

from mcp import Client
from mcp_types import Implementation


NAMES = ["ada", "grace"]


class Pages(http.server.BaseHTTPRequestHandler):
    """`/NAME` is a page with that heading, and keeps a cookie of that name."""

    def do_GET(self):
        name = self.path.strip("/")
        # Browsers ask for an icon on their own account.
        if name not in NAMES:
            return self.send_error(404)
        seen = self.headers.get("Cookie", "no cookie")
        body = f"<title>{name}</title><h1>The page of {name}</h1><p>{seen}</p>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", f"visitor={name}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


async def browse(mode, url, pages, name, other, together):
    # In the modern era a dialog is known by its client's name.
    async with Client(url, mode=mode, client_info=Implementation(name=name, version="0")) as client:

        async def say(tool, arguments):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result
            return "\n".join(block.text for block in result.content if block.type == "text")

        await together.wait()
        await say("browser__browser_navigate", {"url": f"{pages}/{name}"})
        # Both are at their pages before anybody looks.
        await together.wait()
        for _ in range(2):
            seen = await say("browser__browser_snapshot", {})
            assert f"The page of {name}" in seen and other not in seen, seen
            await together.wait()
            # The second time each brings its own cookie.
            await say("browser__browser_navigate", {"url": f"{pages}/{name}"})
        seen = await say("browser__browser_snapshot", {})
        assert f"visitor={name}" in seen and other not in seen, seen
        await together.wait()
        await say("browser__browser_close", {})


class Together:
    """Where two wait for each other; a failure of one must not leave the other waiting."""

    def __init__(self):
        self.barrier = asyncio.Barrier(2)

    async def wait(self):
        async with asyncio.timeout(50):
            await self.barrier.wait()


async def main(mode, url):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages, together = f"http://127.0.0.1:{server.server_port}", Together()
    async with asyncio.TaskGroup() as group:
        for name, other in [NAMES, reversed(NAMES)]:
            group.create_task(browse(mode, url, pages, name, other, together))


asyncio.run(main(*sys.argv[1:]))
print("all as it should be")
