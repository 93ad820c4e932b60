"""A home with keys in it, and the tools in a working directory beside it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from fairlead.config.home import Home
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext
from fairlead.errors import ToolError
from fairlead.policy.protected import Protected, key_files, read_only_in_sandbox
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.workspace import Workspace

SECRET = "sk-this-is-secret"
REFUSED = "is a protected file"


class Place:
    """A home with keys in it, a working directory, and the tools in it."""

    def __init__(self, root: Path, *listed: str, confined: bool = False, path: str | None = None) -> None:
        self.home, self.cwd = root / "home", root / "work"
        self.auth = self.home / ".fairlead" / "auth.json"
        self.auth.parent.mkdir(parents=True)
        self.auth.write_text(SECRET)
        self.cwd.mkdir()
        env = {"PATH": path if path is not None else os.environ["PATH"], "HOME": str(self.home)}
        self.workspace = Workspace(self.cwd, env, log_dir=lambda: root, keep_log=lambda _: None)
        self.workspace.guard = Protected(
            key_files(Home.find(env), env),
            listed,
            cwd=lambda: self.cwd,
            home=self.home,
            read_only=read_only_in_sandbox(Home.find(env)) if confined else None,
        )

    def call(self, name: str, tools: dict[str, Tool] | None = None, **arguments: Any) -> str:
        """What a tool says, error or not."""

        async def run() -> str:
            tool = (tools or builtin_tools(self.workspace))[name]
            context = ToolContext("1", CancelToken(), lambda _: None)
            try:
                result = await tool.run(tool.check_arguments(arguments), context)
            except ToolError as error:
                return str(error)
            return "".join(getattr(block, "text", "") for block in result.content)

        return asyncio.run(run())
