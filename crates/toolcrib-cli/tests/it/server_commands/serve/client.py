"""A client of the official Python SDK: lists and calls through a server that it starts."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        opened = await session.initialize()
        print(opened.server_info.name, opened.protocol_version)
        listed = await session.list_tools()
        print(" ".join(sorted(tool.name for tool in listed.tools)))
        called = await session.call_tool("demo__add", {"a": 19, "b": 23})
        print(called.structured_content["sum"])
        resources = await session.list_resources()
        read = await session.read_resource(resources.resources[0].uri)
        print(read.contents[0].mime_type)
        prompts = await session.list_prompts()
        got = await session.get_prompt(prompts.prompts[0].name, {"name": "Ada"})
        print(len(got.messages))


asyncio.run(main())
