"""What tests of MCP servers share: an agent whose model calls their tools, and the results."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead import Agent, AgentOptions, Discovery
from fairlead.core import events as e
from fairlead.core.messages import ImageContent, TextContent, ToolCall
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

SUPPORT = Path(__file__).parent.parent / "support"
#: Seconds after which something that has not happened will not happen.
PATIENCE = 30


def real_server(**entry: Any) -> dict[str, Any]:
    """A server made with the server side of the `mcp` package."""
    return {"command": sys.executable, "args": ["-W", "ignore", str(SUPPORT / "mcp_server.py")], **entry}


def raw_server(mode: str, argument: object = "", **entry: Any) -> dict[str, Any]:
    """A server of an older protocol, which may misbehave."""
    return {"command": sys.executable, "args": ["-S", "-E", str(SUPPORT / "raw_mcp_server.py"), mode, str(argument)], **entry}


def calls(name: str, **arguments: Any) -> Turn:
    return Turn(tool_calls=[ToolCall(f"call-{name}", name, arguments)])


class Scene:
    """A running agent, the events it emitted, and its model."""

    def __init__(self, agent: Agent, model: Scripted) -> None:
        self.agent = agent
        self.model = model
        self.events: list[e.Event] = []
        self._changed = asyncio.Event()
        agent.session.subscribe(self._hear)

    def _hear(self, event: e.Event) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, kind: type[e.Event]) -> e.Event:
        while not (found := [event for event in self.events if isinstance(event, kind)]):
            self._changed.clear()
            await self._changed.wait()
        return found[0]

    async def until_there_is(self, tool: str) -> None:
        """Wait until the session has a tool with this name."""
        toolbox = self.agent.session.tools
        changed = asyncio.Event()
        replace = toolbox.replace

        def watched(*arguments: Any, **named: Any) -> None:
            replace(*arguments, **named)
            changed.set()

        toolbox.replace = watched
        while tool not in toolbox:
            changed.clear()
            await changed.wait()

    def ends(self) -> list[e.ToolEnd]:
        return [event for event in self.events if isinstance(event, e.ToolEnd)]

    def texts(self) -> list[tuple[str, bool]]:
        """The text of each result, and whether it is an error."""
        return [(text_of(event), event.is_error) for event in self.ends()]

    def errors(self) -> list[tuple[str, str, str]]:
        return [(x.extension_path, x.event, x.error) for x in self.events if isinstance(x, e.ExtensionError)]

    def offered(self, request: int = -1) -> list[str]:
        """The tools of MCP servers that the model was offered."""
        return [tool.name for tool in self.model.requests[request].tools if tool.name.startswith("mcp_")]


def text_of(event: e.ToolEnd) -> str:
    return "\n".join(block.text for block in event.result.content if isinstance(block, TextContent))


def images_of(event: e.ToolEnd) -> list[ImageContent]:
    return [block for block in event.result.content if isinstance(block, ImageContent)]


@asynccontextmanager
async def scene(
    folder: Path, servers: Mapping[str, Mapping[str, Any]], turns: Sequence[Turn] = (Turn(text="ok"),), **options: Any
) -> AsyncGenerator[Scene]:
    """An agent with these servers, whose model plays these turns."""
    config = folder / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    model = Scripted(turns)
    options = {"isolated": True, "discovery": Discovery(mcp_config=[config]), "cwd": folder, **options}
    async with asyncio.timeout(PATIENCE), Agent(AgentOptions(model=SCRIPTED_MODEL, stream=model, **options)) as agent:
        yield Scene(agent, model)
