"""The shell tool: runs a command, or waits for, writes to or kills one that is still running."""

from __future__ import annotations

from typing import Any

from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.background import Paced
from fairlead.tools.shell.bash import problem_of
from fairlead.tools.shell.process import ShellResult, with_remarks
from fairlead.tools.truncate import MAX_BYTES, format_size
from fairlead.wire.opal.tools.processes import HARD_LIMIT, Process, Processes

#: How many milliseconds a call waits by default.
TIMEOUT = 30_000
#: Seconds between two updates with output.
_PACE = 0.1


async def run_shell(processes: Processes, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    action = arguments.get("action", "run")
    seconds = min(max(arguments.get("timeout", TIMEOUT), 0), HARD_LIMIT * 1000) / 1000
    chunks = _Chunks(context)
    process = await _process(processes, action, arguments, chunks)
    try:
        if action == "kill":
            process.stop()
        elif action == "input" and not process.is_over:
            await process.send(_required(arguments, "input", action))
        result = await process.wait(None if action == "kill" else seconds, context.cancel)
    finally:
        process.listeners.remove(chunks.add)
        chunks.stop()
    chunks.flush()
    if result is None:
        remarks = await process.remarks()
        return ToolResult.text(with_remarks(_with(_output(process), _how_to_go_on(process, seconds, action)), remarks))
    processes.forget(process)
    return _ended(process, result, action, aborted=context.cancel.fired)


async def _process(processes: Processes, action: str, arguments: dict[str, Any], chunks: _Chunks) -> Process:
    """The process of the call; for `run`, a new one. From now on its output goes to `chunks`."""
    if action == "run":
        return await processes.start(_required(arguments, "command", action), chunks.add)
    process = processes.find(_required(arguments, "id", action))
    chunks.add(process.untold())
    process.listeners.append(chunks.add)
    return process


def _required(arguments: dict[str, Any], name: str, action: str) -> str:
    value = arguments.get(name)
    if not value:
        raise ToolError(f"{name}: is required for the action {action}")
    return value


def _ended(process: Process, result: ShellResult, action: str, *, aborted: bool) -> ToolResult:
    text = with_remarks(_output(process), result.remarks)
    if action == "kill":
        return ToolResult.text(_with(text, f"[Process {process.id} was killed.]"))
    if result.cancelled and not aborted:
        raise ToolError(_with(text, f"Process {process.id} was killed meanwhile."))
    problem = problem_of(result, HARD_LIMIT)
    if problem is None:
        return ToolResult.text(text or "(no output)")
    raise ToolError(_with(text, problem))


def _output(process: Process) -> str:
    shown, notice = process.take_output()
    return _with(shown.content, notice)


def _with(text: str, note: str) -> str:
    if not text or not note:
        return text or note
    return text.removesuffix("\n") + f"\n\n{note}"


def _how_to_go_on(process: Process, seconds: float, action: str) -> str:
    # The age makes each result of waiting different, so that waiting does not count as going round in circles.
    age = f" It was started {process.age():.1f} seconds ago." if action == "wait" else ""
    return (
        f"[The command is still running after {seconds:g} seconds, as process {process.id}. Call shell with id {process.id} and"
        f" the action wait, input or kill.{age}]"
    )


class _Chunks:
    """Sends output as it arrives: the first piece at once, later ones merged.

    If too much arrives between two updates, only the end is sent. The result and the log have the rest.
    """

    def __init__(self, context: ToolContext) -> None:
        self._update = context.update
        self._text = ""
        self._left_out = 0
        self._soon = Paced(self.flush, _PACE)

    def add(self, text: str) -> None:
        if not text:
            return
        self._text += text
        excess = len(self._text) - MAX_BYTES
        if excess > 0:
            self._text = self._text[excess:]
            self._left_out += excess
        self._soon()

    def flush(self) -> None:
        if self._text:
            note = f"[... {format_size(self._left_out)} not shown ...]\n" if self._left_out else ""
            self._update(ToolResult.text(note + self._text))
            self._text, self._left_out = "", 0

    def stop(self) -> None:
        self._soon.stop()
