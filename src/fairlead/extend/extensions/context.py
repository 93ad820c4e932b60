"""`context`: what handlers, tools and commands use to look at the agent and to act on it."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Literal

from msgspec import Struct, json

from fairlead.core.functions import as_tool_result
from fairlead.core.runtime import CancelToken, Ui
from fairlead.errors import MoveCancelled, ToolError
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.ui import ExtensionUi
from fairlead.extend.extensions.values import copy_message
from fairlead.platform.process import child_guard, run_in_thread

if TYPE_CHECKING:
    from subprocess import Popen

    from fairlead.core.events import CompactionResult
    from fairlead.core.messages import Message
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.tool import CallTool, ToolContext, ToolResult
    from fairlead.extend.extensions.engine import Engine
    from fairlead.session.behaviour import Mode
    from fairlead.session.context.budget import ContextUsage
    from fairlead.session.history.history import History
    from fairlead.session.session import Session


class SessionView:
    """The session, read-only."""

    def __init__(self, history: History) -> None:
        self._history = history

    @property
    def id(self) -> str:
        return self._history.id

    @property
    def file(self) -> Path | None:
        """The session file, or None if the session is kept in memory only."""
        return self._history.path

    @property
    def name(self) -> str | None:
        """The name that the user gave the session, or None."""
        return self._history.name

    @property
    def leaf(self) -> str | None:
        """The id of the entry where the session currently is, or None if it has no entries."""
        return self._history.leaf

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries of all branches, as dicts with the fields of the session file."""
        conversation = self._history.conversation
        return json.decode(conversation.log.entries_json()) if conversation.has_begun else []

    def branch(self) -> list[dict[str, Any]]:
        """Return the entries from the first one to the current one, as dicts with the fields of the session file."""
        conversation = self._history.conversation
        if not conversation.has_begun:
            return []
        way = {entry.id for entry in conversation.log.path()}
        return [entry for entry in self.entries() if entry.get("id") in way]

    def messages(self) -> list[Message]:
        """Return copies of the messages of the current branch."""
        return [copy_message(message) for message in self._history.conversation.messages]


def pause_deadline(context: Context) -> AbstractContextManager[None]:
    """Stop the clock of the call that a context belongs to."""
    return context._deadline.paused()  # pyright: ignore[reportPrivateUsage]


class Context:
    """The agent, as a handler sees it. A context is valid for one call of one handler."""

    def __init__(self, engine: Engine, deadline: Deadline) -> None:
        self._engine = engine
        self._deadline = deadline

    # Reading

    @property
    def ui(self) -> Ui:
        """Asks the user questions and shows them messages. The time spent waiting for an answer does not count against the
        handler's timeout.
        """
        return ExtensionUi(self._session.host.ui, self._deadline, self._engine)

    @property
    def has_ui(self) -> bool:
        """Whether there is a user who can answer questions."""
        return self._session.host.ui.available

    @property
    def mode(self) -> Mode:
        """How the agent is used: `rpc`, `print`, `json` or `library`."""
        return self._engine.host.mode

    @property
    def cwd(self) -> Path:
        """The agent's working directory."""
        return self._session.host.workspace.cwd

    @property
    def session(self) -> SessionView:
        """The session, read-only."""
        return SessionView(self._session.history)

    @property
    def model(self) -> Model | None:
        """The model in use, or None if there is none."""
        return self._session.model

    @property
    def models(self) -> list[Model]:
        """The models that have credentials."""
        return self._session.models.available()

    @property
    def thinking_level(self) -> ThinkingLevel:
        """The model's thinking level."""
        return self._session.thinking

    @property
    def is_idle(self) -> bool:
        """Whether no run is active. A prompt that handlers of `input` see has not begun one."""
        activity = self._session.activity
        return not activity.is_streaming or (self._engine.hears_prompt and activity.is_at_rest)

    @property
    def is_project_trusted(self) -> bool:
        """Whether the project's own extensions may run."""
        return self._engine.host.trust.is_trusted(self.cwd)

    @property
    def cancel(self) -> CancelToken | None:
        """Fires when the active run is aborted. None if no run is active."""
        return self._session.activity.run_cancel

    @property
    def has_pending_messages(self) -> bool:
        """Whether messages are queued for the agent."""
        return len(self._session.queue) > 0

    @property
    def context_usage(self) -> ContextUsage | None:
        """How much of the model's context window is in use, or None without a model."""
        return self._session.usage.context

    @property
    def system_prompt(self) -> str:
        """The system prompt."""
        return self._session.additions.system_prompt()

    # Acting

    def abort(self) -> None:
        """Abort the active run. This method does not wait for the run to end."""
        self._engine.run_on_agent_thread(self._session.activity.cancel)

    def shutdown(self) -> None:
        """Exit the process with code 0, after current work has ended and been answered.

        When fairlead is used as a library, the process does not exit; `Agent.shutdown_requested` becomes true instead.
        """
        self._engine.run_on_agent_thread(self._engine.host.shutdown)

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Abort the active run and replace older messages with a summary.

        Do not call this in a handler that the run waits for, because the run would then wait for itself. Commands and the tasks
        they start may call it.

        Args:
            instructions: what the summary should focus on.

        Returns the result of the compaction. Raises FairleadError if it fails, and RuntimeError on a thread other
        than the agent's.
        """
        self._engine.require_agent_thread()
        return await self._session.compact(instructions)

    @property
    def _session(self) -> Session:
        return self._engine.session


class ToolRunContext(Context):
    """The agent, as a tool of an extension sees it."""

    def __init__(self, engine: Engine, deadline: Deadline, call: ToolContext) -> None:
        super().__init__(engine, deadline)
        self.call_id = call.call_id
        #: Calls other tools; None if the tool does not run in a run.
        self.calls: CallTool | None = call.call_tool
        self._cancel = call.cancel
        self._update = call.update

    @property
    def cancel(self) -> CancelToken:
        """Fires when the tool call is aborted. The tool should then return soon."""
        return self._cancel

    def update(self, result: Any) -> None:
        """Show the host a partial result: text, content blocks or a `ToolResult`. Never blocks; updates may be dropped."""
        shown = as_tool_result(result)
        self._engine.run_on_agent_thread(lambda: self._update(shown))

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call another tool that the model may use. Extensions, approvals and rules are asked about it as usual.

        Returns the result. Raises ToolError if the call fails or is refused, and RuntimeError on a thread other than the agent's.
        """
        self._engine.require_agent_thread()
        if self.calls is None:
            raise ToolError("Only a tool that is running can call other tools.")
        tool = self._session.tools.active_tools().get(name)
        outcome = await self.calls(name, tool, arguments, self._cancel, lambda partial: None)
        if outcome.is_error:
            text = "".join(getattr(block, "text", "") for block in outcome.result.content)
            raise ToolError(text, outcome.result.details)
        return outcome.result


class CommandContext(Context):
    """The agent, as a command of an extension sees it.

    Only commands may switch to another session or another entry, because no run waits for them. Methods that switch return False
    if an extension cancelled the switch.
    """

    #: Whether the command has ended in another process, so that its response comes soon.
    is_ending: Callable[[], bool] | None = None

    async def wait_for_idle(self) -> None:
        """Wait until no run is active and all messages that extensions sent have reached the session."""
        await self._engine.outbox.flush()
        await self._session.activity.idle()

    async def new_session(self, parent: str | None = None) -> bool:
        """Start a new session. `parent` is the file of the session it comes from, to be recorded in the new one."""

        return await self._move(lambda: self._session.history.new(parent))

    async def fork(self, entry_id: str, position: Literal["before", "at"] = "before") -> bool:
        """Copy everything before a user message, or everything up to any entry, to a new session and switch to it.

        Raises EntryNotFound.
        """
        if position == "at":
            return await self._move(lambda: self._session.history.clone(entry_id))
        return await self._move(lambda: self._session.fork(entry_id))

    async def navigate(
        self,
        target_id: str | None,
        *,
        summarise: bool = False,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> bool:
        """Move to another entry of the tree; None is the beginning. Raises EntryNotFound.

        Args:
            target_id: the id of the entry.
            summarise: whether the model gets a summary of the branch that is left.
            instructions: what the summary should focus on.
            replace_instructions: whether `instructions` take the place of what the model is told about summaries.
            label: labels the summary, or the entry if there is none.
        """

        return await self._move(
            lambda: self._session.navigate(
                target_id, summarise=summarise, instructions=instructions, replace_instructions=replace_instructions, label=label
            )
        )

    async def switch_session(self, path: str | Path) -> bool:
        """Resume the session in a file. Raises SessionError."""

        return await self._move(lambda: self._session.history.switch(str(path)))

    async def reload(self) -> None:
        """Load all extensions again. Variables of this command's extension are lost; `fl.state` is kept."""
        await self._engine.host.reload()

    async def _move(self, move: Callable[[], Awaitable[Any]]) -> bool:
        """Switch to another session or entry. Returns False if an extension cancelled it."""
        self._engine.save_states()
        try:
            await move()
        except MoveCancelled:
            return False
        return True


#: The types of parameters that get the context of a tool call.
TOOL_CONTEXTS = (Context, ToolRunContext)


#: Seconds between terminating a program with its children and killing them.
_GRACE = 0.2
#: The most bytes of output of a program, and how often to look how many there are, in seconds.
MOST_OUTPUT, _LOOK = 256 * 1024 * 1024, 0.1


class ExecResult(Struct, frozen=True):
    """How a program ended.

    `code` is its exit code, or 128 + n if signal n killed it. `killed` says whether it was killed because of a timeout, a
    cancellation, or more than 256 MiB of output.
    """

    stdout: str
    stderr: str
    code: int
    killed: bool


async def run_program(
    command: str, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None, cancel: CancelToken | None
) -> ExecResult:
    """Run a program, without a shell, until it ends, `timeout` seconds have passed, `cancel` fires or its output is too long.

    Its output goes to unnamed files, so that a background child that keeps them open does not keep the caller waiting. Raises
    OSError if the program cannot be started.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        child_guard.prepare()
        process = subprocess.Popen(  # noqa: ASYNC220 (only a thread waits for it)
            [command, *args], stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True
        )
        child_guard.add(process.pid)
        try:
            killed = await _wait_for_exit(process, timeout, cancel, (stdout, stderr))
        finally:
            child_guard.remove(process.pid)
        stdout.seek(0)
        stderr.seek(0)
        texts = [file.read(MOST_OUTPUT).decode("utf-8", "replace") for file in (stdout, stderr)]
    code = process.returncode
    return ExecResult(texts[0], texts[1], code if code >= 0 else 128 - code, killed)


async def _wait_for_exit(
    process: Popen[bytes], timeout: float | None, cancel: CancelToken | None, files: Sequence[IO[bytes]]
) -> bool:
    """Wait for a program to exit. Returns whether it had to be killed, also because the files with its output are too long."""
    ended = asyncio.ensure_future(run_in_thread(process.wait))
    fired = asyncio.Event()
    forget = cancel.on_fire(fired.set) if cancel is not None else (lambda: None)
    cancelled = asyncio.ensure_future(fired.wait())
    try:
        end = math.inf if timeout is None else monotonic() + timeout
        while not cancelled.done() and (left := end - monotonic()) > 0 and sum(map(_size, files)) <= MOST_OUTPUT:
            await asyncio.wait({ended, cancelled}, timeout=min(left, _LOOK), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return False
        _signal(process, signal.SIGTERM)
        await asyncio.wait({ended}, timeout=_GRACE)
        _signal(process, None)  # even if it has exited: its children may still run
        return True
    finally:
        forget()
        cancelled.cancel()
        if not ended.done():
            _signal(process, None)
            await asyncio.shield(ended)


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _signal(process: Popen[bytes], number: signal.Signals | None) -> None:
    """Send a signal to a program and its children. None kills them."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL if number is None else number)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        return
