"""A real MCP server, made with the package's own server side, to be run as a program of its own.

mcp_server.py         on standard input and output
mcp_server.py http    as streamable HTTP on loopback; it writes its port to its standard output
mcp_server.py sse     the same as HTTP with server-sent events
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage

#: The smallest PNG there is.
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

server = MCPServer("test")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True, title="Echo"))
def echo(text: str) -> str:
    """Say it again."""
    return f"echo: {text}"


@server.tool()
async def count(to: int, ctx: Context[Any, Any]) -> str:
    """Count, and tell of every step."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
    return "counted"


@server.tool()
async def hang(began: str, cancelled: str) -> str:
    """Never end. It writes to one named pipe when it begins, and to another when it is told that nobody waits any more."""
    tell(began)
    try:
        await asyncio.Event().wait()
    finally:
        tell(cancelled)
    return "never"


def tell(pipe: str) -> None:
    Path(pipe).write_text("\n")


@server.tool()
def crash(code: int = 3) -> str:
    """End the server."""
    os._exit(code)


@server.tool()
def fail() -> types.CallToolResult:
    """Fail, and say why."""
    return types.CallToolResult(content=[types.TextContent(text="it went wrong")], is_error=True)


@server.tool()
def big(lines: int) -> str:
    """A long text."""
    return "\n".join(f"line {number}" for number in range(lines))


@server.tool()
def everything() -> types.CallToolResult:
    """All kinds of content."""
    image = base64.b64encode(PNG).decode()
    return types.CallToolResult(
        content=[
            types.TextContent(text="a text"),
            types.ImageContent(data=image, mime_type="image/png"),
            types.AudioContent(data="AAAA", mime_type="audio/wav"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="note://one", text="embedded")),
            types.ResourceLink(uri="note://two", name="two", description="Another."),
        ],
        structured_content={"kinds": 5},
    )


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """From now on there is another tool."""

    def grown() -> str:
        """The other tool."""
        return "grown"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "there is more"


@server.tool()
async def speak(ctx: Context[Any, Any]) -> str:
    """Log a line."""
    await ctx.info("a line of the log")  # pyright: ignore[reportDeprecated] (servers still send them)
    return "spoken"


@server.tool()
def surroundings() -> dict[str, str | None]:
    """What the server was started with."""
    names = ("INHERITED", "GIVEN", "HOME")
    return {"pid": str(os.getpid()), "cwd": str(Path.cwd()), **{name: os.environ.get(name) for name in names}}


@server.resource("note://one", mime_type="text/plain", description="The first note.")
def note() -> str:
    return "first line\nsecond line"


@server.resource("note://picture", mime_type="image/png")
def picture() -> bytes:
    return PNG


@server.resource("note://by-name/{name}")
def named(name: str) -> str:
    return f"the note of {name}"


@server.prompt()
def review(file: str, focus: str = "everything") -> str:
    """Review a file."""
    return f"Review {file} and look at {focus}."


@server.prompt()
def dialogue() -> list[Any]:
    """Two voices."""
    return [UserMessage("Who are you?"), AssistantMessage("A server.")]


def serve_http(kind: str) -> None:
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    app = server.sse_app() if kind == "sse" else server.streamable_http_app()
    running = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    running.run(sockets=[listener])


def end_with_parent() -> None:
    """A test that is killed leaves nothing behind."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    if sys.argv[1:2] in (["http"], ["sse"]):
        end_with_parent()
        serve_http(sys.argv[1])
    else:
        server.run()
