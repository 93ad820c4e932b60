"""A workspace in a temporary directory, and its tools called as a run would call them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.core.messages import TextContent, UserBlock
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.shell.command_process import ShellResult, run_shell
from fairlead.tools.workspace import Workspace


@dataclass
class Outcome:
    """How a call ended."""

    content: list[UserBlock]
    details: Any  # JSON, or None
    is_error: bool
    updates: list[ToolResult]

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, TextContent))


@dataclass
class Box:
    """The tools of a workspace whose files are in `cwd` and whose logs are in `logs`."""

    cwd: Path
    logs: Path
    kept: list[Path] = field(default_factory=list[Path])

    def __post_init__(self) -> None:
        self.cwd.mkdir()
        self.workspace = Workspace(self.cwd, dict(os.environ), log_dir=self.make_logs, keep_log=self.kept.append)

    def make_logs(self) -> Path:
        self.logs.mkdir(exist_ok=True)
        return self.logs

    async def acall(
        self,
        name: str,
        arguments: dict[str, Any],
        cancel: CancelToken | None = None,
        on_update: Callable[[ToolResult], None] | None = None,
    ) -> Outcome:
        tool = builtin_tools(self.workspace)[name]
        updates: list[ToolResult] = []

        def update(result: ToolResult) -> None:
            updates.append(result)
            if on_update is not None:
                on_update(result)

        context = ToolContext("call", cancel or CancelToken(), update)
        try:
            result = await tool.run(tool.check_arguments(arguments), context)
        except ToolError as error:
            return Outcome([TextContent(str(error))], error.details, True, updates)
        return Outcome(result.content, result.details, False, updates)

    def call(self, name: str, **arguments: Any) -> Outcome:
        return asyncio.run(self.acall(name, arguments))

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def shell(box: Box, command: str, **options: Any) -> ShellResult:
    """Run a command as a user's own command is run, without a tool."""
    options = {"cancel": CancelToken(), "timeout": None, **options}
    return asyncio.run(run_shell(box.workspace, command, **options))
