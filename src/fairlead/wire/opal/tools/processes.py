"""Shell commands that may outlive the call that started them: they run on, can be waited for, written to and killed.

They end with the session. So does what they leave running in the background, unless it has left the process group (`setsid`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence

from fairlead.core.runtime import Cancel
from fairlead.errors import ToolError
from fairlead.tools.guard import Confined
from fairlead.tools.shell.output import Mark, Output
from fairlead.tools.shell.process import ShellResult, check, run_into
from fairlead.tools.truncate import Truncation
from fairlead.tools.workspace import Workspace

#: Seconds after which a command is stopped, whoever may still want it.
HARD_LIMIT = 600.0
#: Commands whose end nobody has asked for yet that are remembered.
_REMEMBERED = 20
#: Seconds between asking what runs in the background to end and killing it.
_GRACE = 0.2
_END_OF_INPUT = "\x04"


class Process:
    """A command that was started."""

    def __init__(self, id: str, workspace: Workspace) -> None:
        self.id = id
        #: Called with every new piece of its output.
        self.listeners: list[Callable[[str], None]] = []
        #: The number of its process group; 0 before it has started.
        self.group = 0
        self._output = Output(workspace.log_dir, workspace.keep_log)
        self._told = Mark()
        self._cancel = Cancel()
        self._stdin: int | None = None
        self._input: asyncio.WriteTransport | None = None
        self._work: asyncio.Task[ShellResult] | None = None
        self._confined: Confined | None = None
        self._started_at = time.monotonic()

    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._started_at

    async def start(self, workspace: Workspace, command: str, ended: Callable[[Process], None]) -> None:
        """Start it; `ended` is called when it is over. Raises ToolError if it cannot be started."""
        try:
            read_end, self._stdin = os.pipe()
        except OSError as error:
            raise ToolError(f"The command could not be started: {error.strerror}.") from error
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begun(group: int, confined: Confined | None) -> None:
            self.group, self._confined = group, confined
            started.set_result(None)

        self._work = asyncio.create_task(self._run(workspace, command, read_end, begun), name=f"fairlead-shell-{self.id}")
        try:
            await asyncio.wait([self._work, started], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.stop()  # a sandbox may still be made ready for it
            self._work.add_done_callback(lambda _: ended(self))
            raise
        if not started.done():
            self._work.result()  # raises, unless it was stopped before it could start
        self._work.add_done_callback(lambda _: ended(self))

    @property
    def is_over(self) -> bool:
        return self._work is not None and self._work.done()

    async def wait(self, seconds: float | None, cancel: Cancel | None = None) -> ShellResult | None:
        """How it ended; None if it has not in that time. It is stopped if `cancel` fires meanwhile."""
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
        """Tell it, and all in its group, to end."""
        self._cancel.fire()

    async def end(self) -> None:
        """Stop it, and wait until it is over."""
        self.stop()
        if self._work is not None:
            await asyncio.wait([self._work])

    async def send(self, text: str) -> None:
        """Write to its standard input, which a Ctrl-D at the end closes. Raises ToolError if that is closed already."""
        if self._input is None and self._stdin is not None:
            file, self._stdin = os.fdopen(self._stdin, "wb", buffering=0), None
            self._input, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, file)
        if self._input is None or self._input.is_closing():
            raise ToolError(f"The standard input of process {self.id} is closed.")
        self._input.write(text.removesuffix(_END_OF_INPUT).encode("utf-8", "replace"))
        if text.endswith(_END_OF_INPUT):
            self._input.close()

    def untold(self) -> str:
        """The end of what it wrote since `take_output`."""
        return self._output.since(self._told).content

    def take_output(self) -> tuple[Truncation, str]:
        """What it wrote since this was last asked for, and a note on the part that is left out, if any is."""
        shown = self._output.since(self._told)
        self._told = self._output.mark
        return shown, self._output.notice(shown) if shown.truncated else ""

    async def remarks(self) -> Sequence[str]:
        """What a sandbox has to say about the command so far."""
        return () if self._confined is None else await check(self._confined, "", ended=False)

    async def _run(
        self, workspace: Workspace, command: str, stdin: int, begun: Callable[[int, Confined | None], None]
    ) -> ShellResult:
        ours = contextlib.ExitStack()
        ours.callback(os.close, stdin)

        def started(group: int, confined: Confined | None) -> None:
            ours.close()  # only the command may hold this end, so that it is closed when the command ends
            begun(group, confined)

        try:
            return await run_into(
                self._output,
                workspace,
                command,
                cancel=self._cancel,
                timeout=HARD_LIMIT,
                on_output=self._hear,
                stdin=stdin,
                on_start=started,
            )
        finally:
            ours.close()
            if self._stdin is not None:
                os.close(self._stdin)
                self._stdin = None
            if self._input is not None and not self._input.is_closing():
                self._input.abort()

    def _hear(self, text: str) -> None:
        for listener in list(self.listeners):
            listener(text)


class Processes:
    """The commands of a session that run, or whose end was not asked for yet."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._processes: dict[str, Process] = {}
        self._started = 0
        #: Process groups whose command has ended, but not all that it started.
        self._left_running: set[int] = set()

    async def start(self, command: str, listener: Callable[[str], None]) -> Process:
        """Start a command whose output `listener` hears from the first byte on. Raises ToolError if it cannot be started."""
        self._started += 1
        process = self._processes[f"p{self._started}"] = Process(f"p{self._started}", self._workspace)
        process.listeners.append(listener)
        try:
            await process.start(self._workspace, command, self._ended)
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
        """Its end was told."""
        self._processes.pop(process.id, None)

    async def close(self) -> None:
        """End everything."""
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

    def _ended(self, process: Process) -> None:
        self._look_after_groups()
        if process.group and _is_there(process.group):  # 0: it has not started
            self._left_running.add(process.group)
        over = [each for each in self._processes.values() if each.is_over]
        for each in over[:-_REMEMBERED]:
            self.forget(each)

    def _look_after_groups(self) -> None:
        """Forget groups that are empty: after a while, their numbers may be given to processes that are not ours."""
        self._left_running = {group for group in self._left_running if _is_there(group)}


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as somebody else by now
        return True
    return True


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
