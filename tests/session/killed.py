"""Sessions as a killed process would have left them on disk, and their runs that continue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.session.scene import PATIENCE, a_tool, file_of, settled
from tests.support.session_file import copy_session

from fairlead.core.messages import TextContent, ToolCall, ToolResultMessage
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import NothingToResume
from fairlead.session.session import Session
from fairlead.testing import Turn


class Counted:
    """A tool that notes its calls, and waits where it is told to."""

    def __init__(self, name: str, *, idempotent: bool = False, waits: bool = False) -> None:
        self.calls: list[str] = []
        self.go = asyncio.Event()
        self._called = asyncio.Event()
        if not waits:
            self.go.set()
        self.tool: Tool = replace(a_tool(name, self._run), idempotent=idempotent)

    async def _run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.calls.append(context.call_id)
        self._called.set()
        await self.go.wait()
        return ToolResult.text(f"{self.tool.name} ran")

    async def called(self, times: int = 1) -> None:
        """Wait until it was called so often."""
        async with asyncio.timeout(PATIENCE):
            while len(self.calls) < times:
                self._called.clear()
                await self._called.wait()


def call(name: str, id: str) -> ToolCall:
    return ToolCall(id, name, {})


def as_killed(session: Session) -> Path:
    """A copy of the session's file as it is now, which is what a process leaves that is killed now."""
    path = file_of(session)
    return copy_session(path, path.with_name(f"killed-{path.name}"))


def results(session: Session) -> dict[str, str]:
    """The results of tools by the ids of their calls, in order."""
    found: dict[str, str] = {}
    for message in session.messages:
        if isinstance(message, ToolResultMessage):
            block = message.content[0]
            assert isinstance(block, TextContent) and message.tool_call_id not in found
            found[message.tool_call_id] = block.text
    return found


async def resumed(session: Session) -> Session:
    assert session.activity.is_interrupted
    await session.activity.resume()
    await settled(session)
    assert not session.activity.is_interrupted
    with pytest.raises(NothingToResume):
        await session.activity.resume()
    return session


DONE = Turn(text="done")
