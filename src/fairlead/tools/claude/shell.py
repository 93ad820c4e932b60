"""Bash. A change of the working directory lasts for the next command if it stays inside the workspace."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairlead.config.project_files import read_start
from fairlead.core.tool import Tool, ToolContext, ToolResult, ToolSubject
from fairlead.errors import ToolError
from fairlead.tools import repair_arguments, string
from fairlead.tools.claude.files import Machine, closed_schema
from fairlead.tools.shell import command_process
from fairlead.tools.workspace import Workspace

#: In milliseconds.
_TIMEOUT, _LONGEST_TIMEOUT = 120_000, 600_000
#: Shells that run a trap when they exit.
_SHELLS = frozenset(("ash", "bash", "dash", "sh", "zsh"))
#: What a program that was stopped with SIGTERM exits with.
_TERMINATED = 143
#: In bytes.
_LONGEST_PATH = 64 * 1024


class Shell:
    """Runs the commands of one session, and remembers its working directory."""

    def __init__(self, workspace: Workspace, log_dir: Callable[[], Path] | None = None) -> None:
        self._workspace = workspace
        #: Where long outputs are kept.
        self._log_dir = log_dir or workspace.log_dir
        self._cwd = workspace.cwd

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        timeout = min(arguments.get("timeout") or _TIMEOUT, _LONGEST_TIMEOUT) / 1000
        workspace = replace(self._workspace, cwd=self.find_cwd())
        command, report = arguments["command"], None
        if Path(workspace.find_shell()).name in _SHELLS:
            report = workspace.log_dir() / f"cwd-{os.urandom(6).hex()}"
            command = f"trap 'pwd -P >| {shlex.quote(str(report))} 2>/dev/null' EXIT\n{command}"
        output = command_process.CommandOutput(self._log_dir, workspace.keep_log)
        result = await command_process.run_into(output, workspace, command, cancel=context.cancel, timeout=timeout)
        if report is not None:
            self._remember(report)
        shown = result.output.strip("\n").rstrip()
        details: dict[str, Any] = {
            "stdout": shown,
            "stderr": "",
            "interrupted": result.cancelled,
            "isImage": False,
            "noOutputExpected": False,
        }
        text = shown
        if result.truncation.truncated:
            text = f"{shown}\n\n{output.notice(result.truncation)}"
            if result.full_output_path is not None:
                details["persistedOutputPath"] = result.full_output_path
                details["persistedOutputSize"] = _find_size(result.full_output_path)
        text = command_process.with_remarks(text, result.remarks)
        if result.timed_out:
            raise ToolError(f"Exit code {_TERMINATED}\nCommand timed out after {timeout:g}s\n{text}".rstrip(), details)
        if result.cancelled or result.exit_code is None:
            raise ToolError(f"{text}\nThe command was stopped.".lstrip(), details)
        if result.exit_code:
            raise ToolError(f"Exit code {result.exit_code}\n{text}".rstrip(), details)
        return ToolResult.text(text or "(no output)", details)

    def find_cwd(self) -> Path:
        """Return the directory that the next command runs in."""
        return self._cwd if os.path.isdir(self._cwd) else self._workspace.cwd

    def _remember(self, report: Path) -> None:
        """Use the directory in which the command ended from now on, if it is inside the workspace."""
        try:
            ended = Path(os.fsdecode(read_start(report, _LONGEST_PATH)).removesuffix("\n"))
            report.unlink()
        except OSError:  # it was killed, or has its own trap
            return
        folders = (self._workspace.cwd, *self._workspace.more)
        inside = any(ended.is_relative_to(os.path.realpath(folder)) for folder in folders)
        self._cwd = ended if inside else self._workspace.cwd


def _find_size(path: str) -> int:
    return Path(path).stat().st_size


def bash_tool(machine: Machine) -> Tool:
    shell = Shell(machine.workspace, machine.log_dir)
    return Tool(
        name="Bash",
        description=(
            "Run a shell command. Its working directory lasts until the next command, its variables do not. Both streams are"
            " returned as they were written, and the end of a long output. Standard input is empty."
        ),
        parameters=closed_schema(
            {
                "command": string("The command, as for bash -c"),
                "description": string("A few words that tell people what it does"),
                "timeout": {
                    "type": "number",
                    "minimum": 0,
                    "description": "Milliseconds until it is stopped, at most 600000; 120000 if left out",
                },
            },
            "command",
        ),
        run=partial(Shell.run, shell),
        kind="execute",
        title=lambda arguments: arguments.get("description") or arguments["command"],
        subject=ToolSubject("command", "command", folder=lambda: str(shell.find_cwd())),
        snippet="Run shell commands",
        exclusive=True,
        timeout=None,
        prepare=repair_arguments,
    )
