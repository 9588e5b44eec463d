"""Talks to `toolcrib demo-server`, or to a gateway in front of it, as a client of the Python SDK or of FastMCP would:
demo_client.py mcp|fastmcp legacy|auto URL | PROGRAM ARGS…"""

import asyncio
import sys


async def with_sdk(mode, target, *args):
    from mcp import Client, StdioServerParameters
    from mcp.client.sse import sse_client
    from mcp_types import ElicitResult

    async def elicit(context, params):
        return ElicitResult(action="accept", content={"name": "Ada"})

    if not target.startswith("http"):
        server = StdioServerParameters(command=target, args=args)
    else:
        server = sse_client(target) if target.endswith("/sse") else target
    steps = []

    async def progress(done, total, message):
        steps.append((done, total))

    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        expected = "2025-11-25" if mode == "legacy" else "2026-07-28"
        assert client.protocol_version == expected, client.protocol_version
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["echo", "add", "counter", "slow", "fail", "image", "elicit"], tools
        assert len((await client.list_resources()).resources) == 1
        assert len((await client.list_resource_templates()).resource_templates) == 1
        assert len((await client.list_prompts()).prompts) == 1
        # The client checks this against the output schema.
        added = await client.call_tool("add", {"a": 2, "b": 40})
        assert added.structured_content == {"sum": 42}, added
        first = (await client.call_tool("counter", {})).structured_content
        second = (await client.call_tool("counter", {"counter": first["counter"]})).structured_content
        assert second["value"] == first["value"] + 1, second
        assert (await client.call_tool("fail", {})).is_error
        assert (await client.call_tool("image", {})).content[0].mime_type == "image/png"
        slow = await client.call_tool("slow", {"seconds": 0.2}, progress_callback=progress)
        assert not slow.is_error and steps == [(n, 4) for n in (1, 2, 3, 4)], steps
        greeted = await client.call_tool("elicit", {})
        assert greeted.content[0].text == "Hello, Ada!", greeted
        read = await client.read_resource("demo://square/12")
        assert read.contents[0].text == "144", read
        prompt = await client.get_prompt("introduce", {"name": "Ada"})
        assert "Ada" in prompt.messages[0].content.text
        if mode == "legacy":
            await client.send_ping()


async def with_fastmcp(mode, target, *args):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async def elicit(message, response_type, params, context):
        return {"name": "Ada"}

    is_url = target.startswith("http")
    server = target if is_url else StdioTransport(command=target, args=list(args))
    async with Client(server, mode=mode, elicitation_handler=elicit) as client:
        assert len(await client.list_tools()) == 7
        assert (await client.call_tool("add", {"a": 2, "b": 40})).structured_content == {"sum": 42}
        greeted = await client.call_tool("elicit", {})
        assert greeted.content[0].text == "Hello, Ada!", greeted
        assert (await client.read_resource("demo://square/12"))[0].text == "144"
        assert len((await client.get_prompt("introduce", {"name": "Ada"})).messages) == 1


kind, *words = sys.argv[1:]
asyncio.run(with_sdk(*words) if kind == "mcp" else with_fastmcp(*words))
print("all as it should be")
