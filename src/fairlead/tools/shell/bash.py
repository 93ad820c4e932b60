"""The bash tool: a shell command whose output is shown while it runs."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.core.messages import TextContent
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.shell.output import CommandOutput
from fairlead.tools.shell.process import ShellResult, run_into, with_remarks
from fairlead.tools.truncate import Truncation
from fairlead.tools.workspace import Workspace

#: Seconds between two updates.
_PACE = 0.1


#: Seconds; some thirty years.
_LONGEST_TIMEOUT = 1e9


async def run_bash(workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    timeout: float | None = min(arguments.get("timeout") or 0, _LONGEST_TIMEOUT) or None
    output = CommandOutput(workspace.log_dir, workspace.keep_log)
    updates = _Updates(output, context)
    try:
        result = await run_into(
            output, workspace, arguments["command"], cancel=context.cancel, timeout=timeout, on_output=updates.changed
        )
    finally:
        updates.stop()
    updates.flush()
    text = result.output
    details: dict[str, Any] | None = None
    if result.truncation.truncated:
        text += f"\n\n{output.notice(result.truncation)}"
        details = _details(result.truncation, result.full_output_path)
    text = with_remarks(text, result.remarks)
    problem = problem_of(result, timeout)
    if problem is None:
        return ToolResult.text(text or "(no output)", details)
    if result.exit_code is not None:
        text = text or "(no output)"
    raise ToolError(f"{text}\n\n{problem}" if text else problem, details)


def problem_of(result: ShellResult, timeout: float | None) -> str | None:
    """Say why a command failed, in a sentence; None if it did not."""
    if result.cancelled:
        return "Command aborted"
    if result.timed_out:
        return f"Command timed out after {timeout:g} seconds"
    if result.exit_code is None:
        return "Command did not end, even after it was killed"
    return f"Command exited with code {result.exit_code}" if result.exit_code else None


def _details(shown: Truncation, log_path: str | None) -> dict[str, Any]:
    if not shown.truncated:
        return {}
    details: dict[str, Any] = {"truncation": shown.as_details()}
    if log_path is not None:
        details["fullOutputPath"] = log_path
    return details


class _Updates:
    """Shows the host the end of the output: an empty update at once, the first text as it comes, then at a steady pace."""

    def __init__(self, output: CommandOutput, context: ToolContext) -> None:
        self._output = output
        self._update = context.update
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._dirty = False
        self._not_before = 0.0
        self._update(ToolResult([]))

    def changed(self, _: str) -> None:
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
