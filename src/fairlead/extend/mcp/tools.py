"""The tools of MCP servers, as tools of the session.

Their names are valid for every provider: letters, digits, `_` and `-`, at most 64 characters. They are the same in every run: a
name never depends on which server connected first.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.extend.mcp.results import progress_text, tool_result
from fairlead.tools.pace import Paced
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from mcp import ClientSession, types

    from fairlead.extend.mcp.server import McpServer


MAX_NAME = 64
_PREFIX = "mcp__"
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")
_UNDERSCORES = re.compile(r"_{2,}")
#: Hexadecimal digits that are added to a name to make it unique.
_DIGEST_CHARS = 8


def server_keys(names: Iterable[str]) -> dict[str, str]:
    """Return a key for each server name. Keys contain no `__`, so that a tool's name shows where the server's key ends."""
    plain = {name: _UNDERSCORES.sub("_", _ILLEGAL.sub("_", name)).strip("_") or "server" for name in names}
    return _made_unique(plain, "")


def tool_names(key: str, names: Iterable[str]) -> dict[str, str]:
    """Return the name that the model sees for each tool of a server: `mcp__<server>__<tool>`."""
    prefix = f"{_PREFIX}{key}__"
    return _made_unique({name: prefix + _ILLEGAL.sub("_", name) for name in names}, prefix)


def _made_unique(plain: dict[str, str], prefix: str) -> dict[str, str]:
    """Add a digest to names that are too long or not unique. A tool whose own name is valid keeps it."""
    shared = {name for name, count in Counter(plain.values()).items() if count > 1}
    unique: dict[str, str] = {}
    for original, name in plain.items():
        is_valid = len(name) <= MAX_NAME and (name not in shared or name == prefix + original)
        unique[original] = name if is_valid else _with_digest(name, original)
    return unique


def _with_digest(name: str, original: str) -> str:
    digest = hashlib.sha256(f"{name}\0{original}".encode("utf-8", "replace")).hexdigest()
    return f"{name[: MAX_NAME - _DIGEST_CHARS - 1]}_{digest[:_DIGEST_CHARS]}"


#: How many progress reports are passed on at once, and the seconds between two later ones.
_UNPACED_REPORTS, _PACE = 100, 0.1


def server_tools(server: McpServer, workspace: Workspace, taken: Collection[str], problems: list[str]) -> list[Tool]:
    """Return the tools of a server.

    Tools with an invalid schema, and tools with a name in `taken`, are left out and added to `problems`.
    """
    offered = {tool.name: tool for tool in server.offer.tools}
    names = tool_names(server.key, offered)
    found: list[Tool] = []
    for name, offer in offered.items():
        tool = _tool(server, names[name], offer, workspace)
        try:
            tool.check_schema()
            if tool.name in taken:
                raise ToolError(f"A tool named {tool.name} already exists.")
        except ToolError as error:
            problems.append(f'The tool "{name}" of the MCP server "{server.config.name}" is left out: {error}')
        else:
            found.append(tool)
    return found


def _tool(server: McpServer, name: str, offer: types.Tool, workspace: Workspace) -> Tool:
    hints = offer.annotations
    title = offer.title or (hints.title if hints is not None else None)
    return Tool(
        name=name,
        description=offer.description or title or offer.name,
        parameters=offer.input_schema,
        run=partial(_run, server, offer.name, workspace),
        label=title or f"{server.key}: {offer.name}",
        exclusive=hints is None or not hints.read_only_hint,
        timeout=server.config.timeout or workspace.default_timeout,
    )


async def _run(server: McpServer, name: str, workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    shown = 0
    latest = ToolResult.text("")
    soon = Paced(lambda: context.update(latest), _PACE)

    async def show(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown, latest
        details: dict[str, Any] = {"progress": progress}
        if total is not None:
            details["total"] = total
        latest = ToolResult.text(progress_text(progress, total, message), details)
        shown += 1
        if shown <= _UNPACED_REPORTS:
            context.update(latest)
        else:
            soon()

    async def call(session: ClientSession) -> types.CallToolResult:
        from mcp import types

        # Not `call_tool`, which raises if an answer does not match the schema that the server has declared. Such an answer is
        # more useful to the model than an error.
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))
        return await session.send_request(request, types.CallToolResult, progress_callback=show)

    try:
        answer = await server.request(f'The call of "{name}"', call, context.cancel)
    finally:
        soon.stop()
    return tool_result(answer, server.key, workspace)
