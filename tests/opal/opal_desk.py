"""Opal's tools at work in a temporary folder, called as a run would call them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairlead.agent.tool_sets.opal import machine_tools
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.opal.anchors import line_hash
from fairlead.tools.workspace import Workspace
from fairlead.wire.opal.opal_codec import outcome


class Desk:
    """Files are in `cwd`, Opal's own data in `data`, logs in `logs`."""

    def __init__(self, root: Path) -> None:
        self.cwd, self.data, self.logs = root / "work", root / "data", root / "logs"
        for folder in (self.cwd, self.data, self.logs):
            folder.mkdir()
        self.kept: list[Path] = []
        self.workspace = Workspace(self.cwd, dict(os.environ), log_dir=lambda: self.logs, keep_log=self.kept.append)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in machine_tools(self.workspace, self.data)}

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    async def acall(
        self, name: str, cancel: CancelToken | None = None, on_chunk: Callable[[str], None] | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """The result as the wire has it."""

        def update(result: ToolResult) -> None:
            if on_chunk is not None:
                on_chunk(outcome(result, False)["output"])

        tool = self.tools[name]
        try:
            result = await tool.run(tool.check_arguments(arguments), ToolContext("call", cancel or CancelToken(), update))
        except ToolError as error:
            return outcome(ToolResult.text(str(error), error.details), True)
        return outcome(result, False)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        async def main() -> dict[str, Any]:
            try:
                return await self.acall(name, **arguments)
            finally:
                await self.close()

        return asyncio.run(main())

    def text(self, name: str, **arguments: Any) -> str:
        """The output of a call that succeeds."""
        result = self.call(name, **arguments)
        assert result["ok"], result
        return result["output"]

    def error(self, name: str, **arguments: Any) -> str:
        """The error of a call that fails."""
        result = self.call(name, **arguments)
        assert not result["ok"], result
        return result["error"]

    async def close(self) -> None:
        """What happens when the session ends."""
        for tool in self.tools.values():
            if tool.close is not None:
                await tool.close()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[None]:
        """Processes live until the end of the block, which takes no longer than a test may."""
        async with asyncio.timeout(20):
            try:
                yield
            finally:
                await self.close()


def tag(number: int, text: str) -> str:
    return f"{number}:{line_hash(text)}"


def tags(*lines: str) -> list[str]:
    """The anchors of the lines of a file."""
    return [tag(number, line) for number, line in enumerate(lines, 1)]
