"""The smallest FastMCP server: one tool, so that tests meet that SDK's way of answering."""

from fastmcp import FastMCP

server = FastMCP("toolcrib-fastmcp-peer")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
