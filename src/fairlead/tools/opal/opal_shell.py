"""Opal's shell tool: runs a command, or waits for, writes to or kills one that is still running. They end with the session."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import COMMAND, command_title, integer, object_schema, repair_arguments, string
from fairlead.tools.background import Paced
from fairlead.tools.opal.anchors import FileAccess
from fairlead.tools.shell import command_process as commands
from fairlead.tools.shell import output as outputs
from fairlead.tools.truncate import MAX_BYTES, Truncation, format_size
from fairlead.tools.workspace import Confined, Workspace

#: Seconds after which a command is always stopped.
HARD_LIMIT = 600.0
#: The longest that one call waits for a command.
_LONGEST_WAIT = HARD_LIMIT
#: How many ended commands are kept whose end was not reported yet.
_REMEMBERED = 20
#: Seconds between asking background processes to end and killing them.
_GRACE = 0.2
_END_OF_INPUT = "\x04"


class Process:
    """A command that was started, running or ended."""

    def __init__(self, id: str, workspace: Workspace) -> None:
        self.id = id
        #: Called with every new piece of its output.
        self.listeners: list[Callable[[str], None]] = []
        #: Its process group; 0 before it has started.
        self.group = 0
        self._output = outputs.CommandOutput(workspace.log_dir, workspace.keep_log)
        self._told = outputs.Mark()
        self._cancel = CancelToken()
        self._stdin: int | None = None
        self._input: asyncio.WriteTransport | None = None
        self._work: asyncio.Task[commands.ShellResult] | None = None
        self._confined: Confined | None = None
        self._started_at = time.monotonic()

    def age(self) -> float:
        """The seconds since its start."""
        return time.monotonic() - self._started_at

    async def start(self, workspace: Workspace, command: str, ended: Callable[[Process], None]) -> None:
        """Start the command, and call `ended` when it has ended. Raises ToolError if it cannot be started."""
        try:
            read_end, self._stdin = os.pipe()
        except OSError as error:
            raise ToolError(f"The command could not be started: {error.strerror}.") from error
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_begin(group: int, confined: Confined | None) -> None:
            self.group, self._confined = group, confined
            started.set_result(None)

        self._work = asyncio.create_task(self._run(workspace, command, read_end, on_begin), name=f"fairlead-shell-{self.id}")
        try:
            await asyncio.wait([self._work, started], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.stop()  # its sandbox may still be in preparation
            self._work.add_done_callback(lambda _: ended(self))
            raise
        if not started.done():
            self._work.result()  # raises, unless it was stopped before it could start
        self._work.add_done_callback(lambda _: ended(self))

    @property
    def is_over(self) -> bool:
        return self._work is not None and self._work.done()

    async def wait(self, seconds: float | None, cancel: CancelToken | None = None) -> commands.ShellResult | None:
        """Wait for its end. Returns None if it has not ended in that time. Stops it if `cancel` fires meanwhile."""
        assert self._work is not None, "it was started"
        forget = cancel.on_fire(self.stop) if cancel is not None else None
        try:
            await asyncio.wait([self._work], timeout=seconds)
            if cancel is not None and cancel.fired:
                await asyncio.wait([self._work])
        finally:
            if forget is not None:
                forget()
        return self._work.result() if self._work.done() else None

    def stop(self) -> None:
        """Stop the command and its process group, without waiting."""
        self._cancel.fire()

    async def end(self) -> None:
        """Stop the command and wait until it has ended."""
        self.stop()
        if self._work is not None:
            await asyncio.wait([self._work])

    async def send(self, text: str) -> None:
        """Write to its standard input; a Ctrl-D at the end closes it. Raises ToolError if it is closed already."""
        if self._input is None and self._stdin is not None:
            file, self._stdin = os.fdopen(self._stdin, "wb", buffering=0), None
            self._input, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, file)
        if self._input is None or self._input.is_closing():
            raise ToolError(f"The standard input of process {self.id} is closed.")
        self._input.write(text.removesuffix(_END_OF_INPUT).encode("utf-8", "replace"))
        if text.endswith(_END_OF_INPUT):
            self._input.close()

    def unread_output(self) -> str:
        """The end of its output since `take_output`."""
        return self._output.since(self._told).content

    def take_output(self) -> tuple[Truncation, str]:
        """Return its output since the last call, and a note about what is left out, if anything is."""
        shown = self._output.since(self._told)
        self._told = self._output.mark
        return shown, self._output.notice(shown) if shown.truncated else ""

    async def remarks(self) -> Sequence[str]:
        """Remarks of the sandbox about the command so far."""
        return () if self._confined is None else await commands.check(self._confined, "", ended=False)

    async def _run(
        self, workspace: Workspace, command: str, stdin: int, begun: Callable[[int, Confined | None], None]
    ) -> commands.ShellResult:
        ours = contextlib.ExitStack()
        ours.callback(os.close, stdin)

        def on_start(group: int, confined: Confined | None) -> None:
            ours.close()  # only the command may hold this end of the pipe, so that it closes when the command ends
            begun(group, confined)

        try:
            return await commands.run_into(
                self._output,
                workspace,
                command,
                cancel=self._cancel,
                timeout=HARD_LIMIT,
                on_output=self._notify_listeners,
                stdin=stdin,
                on_start=on_start,
            )
        finally:
            ours.close()
            if self._stdin is not None:
                os.close(self._stdin)
                self._stdin = None
            if self._input is not None and not self._input.is_closing():
                self._input.abort()

    def _notify_listeners(self, text: str) -> None:
        for listener in list(self.listeners):
            listener(text)


class Processes:
    """The commands of a session that are running, or whose end was not reported yet."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._processes: dict[str, Process] = {}
        self._started = 0
        #: Process groups whose command has ended, with other processes still running.
        self._left_running: set[int] = set()

    async def start(self, command: str, listener: Callable[[str], None]) -> Process:
        """Start a command. `listener` gets all of its output. Raises ToolError if it cannot be started."""
        self._started += 1
        process = self._processes[f"p{self._started}"] = Process(f"p{self._started}", self._workspace)
        process.listeners.append(listener)
        try:
            await process.start(self._workspace, command, self._on_end)
        except ToolError:
            self.forget(process)
            raise
        return process

    def find(self, id: str) -> Process:
        if id not in self._processes:
            known = f"There are: {', '.join(self._processes)}." if self._processes else "None is running."
            raise ToolError(f"There is no process {id!r}. {known}")
        return self._processes[id]

    def forget(self, process: Process) -> None:
        """Forget a command whose end was reported."""
        self._processes.pop(process.id, None)

    async def close(self) -> None:
        """Stop all commands and their background processes."""
        processes = list(self._processes.values())
        for process in processes:
            process.stop()
        for group in self._left_running:
            _signal(group, signal.SIGTERM)
        for process in processes:
            await process.end()
        self._processes.clear()
        self._look_after_groups()
        if self._left_running:
            await asyncio.sleep(_GRACE)
        for group in self._left_running:
            _signal(group, signal.SIGKILL)
        self._left_running.clear()

    def _on_end(self, process: Process) -> None:
        self._look_after_groups()
        if process.group and _is_there(process.group):  # 0: it never started
            self._left_running.add(process.group)
        over = [each for each in self._processes.values() if each.is_over]
        for each in over[:-_REMEMBERED]:
            self.forget(each)

    def _look_after_groups(self) -> None:
        """Forget empty groups: the system may reuse their numbers for other processes."""
        self._left_running = {group for group in self._left_running if _is_there(group)}


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as another user by now
        return True
    return True


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


#: How many milliseconds a call waits by default.
TIMEOUT = 30_000
#: Seconds between two updates with output.
_PACE = 0.1


_PARAMETERS = object_schema(
    {
        "command": string("The command to run"),
        "action": {
            "type": "string",
            "enum": ["run", "wait", "input", "kill"],
            "description": "run command (if left out); or wait for the process id, write input to it, kill it",
        },
        "id": string("wait, input, kill: which process"),
        "input": string("input: what to write, with the newline that ends a line; \\u0004 as the last character ends the input"),
        "timeout": integer("Milliseconds to wait until the result comes in any case; 30000 if left out"),
    }
)


def shell_tool(files: FileAccess) -> Tool:
    processes = Processes(files.workspace)
    return Tool(
        name="shell",
        description=(
            "Run a shell command in the working directory. Returns stdout and stderr as they came, cut to the last 2000 lines or"
            " 50KB; a longer output is saved in full to a file that the result names. A command that has not ended within timeout"
            " keeps running: the result has its id, with which to wait for it, give it input or kill it. After 10 minutes it is"
            " stopped. Standard input stays open: a command that reads it waits for input (give rg a path to search)."
        ),
        parameters=_PARAMETERS,
        run=partial(_run_shell, processes),
        kind="execute",
        title=_shell_title,
        subject=COMMAND,
        snippet="Run shell commands",
        exclusive=True,
        bound=True,
        timeout=None,
        prepare=repair_arguments,
        close=processes.close,
    )


def _shell_title(arguments: Mapping[str, Any]) -> str:
    match arguments.get("action", "run"):
        case "wait":
            return f"Wait for process {arguments['id']}"
        case "input":
            return f"Write to process {arguments['id']}"
        case "kill":
            return f"Kill process {arguments['id']}"
        case _:
            return command_title(arguments)


async def _run_shell(processes: Processes, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    action = arguments.get("action", "run")
    seconds = min(max(arguments.get("timeout", TIMEOUT), 0), _LONGEST_WAIT * 1000) / 1000
    chunks = _Chunks(context)
    process = await _process(processes, action, arguments, chunks)
    try:
        if action == "kill":
            process.stop()
        elif action == "input" and not process.is_over:
            await process.send(_require(arguments, "input", action))
        result = await process.wait(None if action == "kill" else seconds, context.cancel)
    finally:
        process.listeners.remove(chunks.add)
        chunks.stop()
    chunks.flush()
    if result is None:
        remarks = await process.remarks()
        return ToolResult.text(
            commands.with_remarks(_with(_output(process), _format_next_steps(process, seconds, action)), remarks)
        )
    processes.forget(process)
    return _make_end_result(process, result, action, aborted=context.cancel.fired)


async def _process(processes: Processes, action: str, arguments: dict[str, Any], chunks: _Chunks) -> Process:
    """The process of the call; for `run`, a new one. From now on its output goes to `chunks`."""
    if action == "run":
        return await processes.start(_require(arguments, "command", action), chunks.add)
    process = processes.find(_require(arguments, "id", action))
    chunks.add(process.unread_output())
    process.listeners.append(chunks.add)
    return process


def _require(arguments: dict[str, Any], name: str, action: str) -> str:
    value = arguments.get(name)
    if not value:
        raise ToolError(f"{name}: is required for the action {action}")
    return value


def _make_end_result(process: Process, result: commands.ShellResult, action: str, *, aborted: bool) -> ToolResult:
    text = commands.with_remarks(_output(process), result.remarks)
    if action == "kill":
        return ToolResult.text(_with(text, f"[Process {process.id} was killed.]"))
    if result.cancelled and not aborted:
        raise ToolError(_with(text, f"Process {process.id} was killed meanwhile."))
    problem = commands.problem_of(result, _LONGEST_WAIT)
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


def _format_next_steps(process: Process, seconds: float, action: str) -> str:
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
