"""The bash tool: runs a command and shows the end of its output while it runs."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from fairlead.core.messages import TextContent
from fairlead.core.tool import StructuredResult, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import COMMAND, command_title, object_schema, string
from fairlead.tools.shell import command_process
from fairlead.tools.truncate import Truncation
from fairlead.tools.workspace import Workspace

#: Seconds between two updates.
_PACE = 0.1
#: How many bytes of the output a host gets as data.
_MOST_STRUCTURED = 1 << 20
#: In seconds: about thirty years.
_LONGEST_TIMEOUT = 1e9

_PARAMETERS = object_schema(
    {
        "command": string("The command, as for bash -c"),
        "timeout": {"type": "number", "minimum": 0, "description": "Seconds until it is stopped; no limit if left out"},
    },
    "command",
)


def bash_tool(workspace: Workspace) -> Tool:
    return Tool(
        name="bash",
        label="bash",
        description=(
            "Run a shell command in the working directory. Returns stdout and stderr as they came, cut to the last 2000 lines or"
            " 50KB; a longer output is saved in full to a file that the result names. Standard input is empty."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_bash, workspace),
        kind="execute",
        title=command_title,
        subject=COMMAND,
        snippet="Run shell commands",
        exclusive=True,
        timeout=None,
    )


async def _run_bash(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    timeout: float | None = min(arguments.get("timeout") or 0, _LONGEST_TIMEOUT) or None
    output = command_process.CommandOutput(workspace.log_dir, workspace.keep_log)
    updates = _Updates(output, context)
    began = time.monotonic()
    try:
        result = await command_process.run_into(
            output, workspace, arguments["command"], cancel=context.cancel, timeout=timeout, on_output=updates.on_change
        )
    finally:
        updates.stop()
    updates.flush()
    structured = partial(_build_structured, output, result, time.monotonic() - began)
    text = result.output
    details: dict[str, Any] | None = None
    if result.truncation.truncated:
        text += f"\n\n{output.notice(result.truncation)}"
        details = _details(result.truncation, result.full_output_path)
    text = command_process.with_remarks(text, result.remarks)
    problem = command_process.problem_of(result, timeout)
    if problem is None:
        return StructuredResult([TextContent(text or "(no output)")], details, structured=structured)
    if result.exit_code is not None:
        text = text or "(no output)"
    said = structured if result.exit_code is not None else None
    raise ToolError(f"{text}\n\n{problem}" if text else problem, details, structured=said)


def _build_structured(
    output: command_process.CommandOutput, result: command_process.ShellResult, seconds: float
) -> dict[str, Any]:
    """The result as data, in the form of pi 1.5."""
    text, is_cut = output.whole(_MOST_STRUCTURED)
    structured: dict[str, Any] = {"output": text, "truncated": is_cut}
    if is_cut and result.full_output_path is not None:
        structured["full_output_path"] = result.full_output_path
    return {**structured, "exit_code": result.exit_code, "wall_time_seconds": round(seconds, 1)}


def _details(shown: Truncation, log_path: str | None) -> dict[str, Any]:
    if not shown.truncated:
        return {}
    details: dict[str, Any] = {"truncation": shown.as_details()}
    if log_path is not None:
        details["fullOutputPath"] = log_path
    return details


class _Updates:
    """Shows the host the end of the output: an empty update at once, the first text as it comes, then at a steady pace."""

    def __init__(self, output: command_process.CommandOutput, context: ToolContext) -> None:
        self._output = output
        self._update = context.update
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._dirty = False
        self._not_before = 0.0
        self._update(ToolResult([]))

    def on_change(self, _: str) -> None:
        self._dirty = True
        if self._timer is not None:
            return
        now = self._loop.time()
        if now >= self._not_before:
            self.flush()
        else:
            self._timer = self._loop.call_at(self._not_before, self.flush)

    def flush(self) -> None:
        self._timer = None
        if not self._dirty:
            return
        self._dirty = False
        self._not_before = self._loop.time() + _PACE
        shown = self._output.snapshot()
        self._update(ToolResult([TextContent(shown.content)], _details(shown, self._output.log_path)))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
