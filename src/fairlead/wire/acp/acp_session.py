"""One session of an ACP client: its prompts, each with exactly one answer, its options and its commands."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from msgspec import Struct

from fairlead.agent import Agent
from fairlead.core import events as core
from fairlead.core.messages import UserMessage, readable_error
from fairlead.core.runtime import CancelToken
from fairlead.errors import CompactingError, ConfigError, FairleadError, NoCredentials, RunAborted
from fairlead.protocol.acp import updates as acp
from fairlead.protocol.acp.acp_sessions import PromptResponse, SessionConfigOption, SessionModeState, StopReason
from fairlead.protocol.acp.content import AUTH_REQUIRED, ContentBlock
from fairlead.session.session import Session
from fairlead.session.session_events import Gate
from fairlead.wire.acp.acp_narrator import Narrator
from fairlead.wire.acp.session_updates import (
    MODE,
    MODEL,
    THINKING,
    Updates,
    choose_level,
    choose_model,
    config_options,
    mode_named,
    mode_state,
)
from fairlead.wire.acp.tool_reports import PromptContent, prompt_content
from fairlead.wire.jsonrpc import BadParams, RpcError
from fairlead.wire.pending import AcceptedPrompts, PromptOutcome

#: How the texts of errors begin that mean that the model refused, and the reasons that providers give for it.
REFUSED = "The model refused"
REFUSALS = frozenset({"refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII"})
#: Seconds that a cancelled command of an extension has to end.
COMMAND_GRACE = 0.2
#: Seconds that a session which is being closed waits for its prompts.
CLOSE_PATIENCE = 1.0
#: The command that continues an interrupted run. The protocol has no method for it: `session/resume` opens a session.
RESUME = "resume"
LOG_IN = "Log in with `fairlead login`, or put a provider's key into the environment of the agent, such as ANTHROPIC_API_KEY."


class _Turn(Struct, eq=False):
    """A prompt that has not been answered."""

    outcome: asyncio.Future[PromptOutcome]
    #: Done when there is nothing left to do but to answer.
    ended: asyncio.Future[None]
    #: Fires when the client cancels it.
    cancel: CancelToken

    @property
    def is_cancelled(self) -> bool:
        return self.cancel.fired


class AcpSession:
    """Implements `fairlead.sessions.open_sessions.OpenSession`."""

    def __init__(self, id: str, agent: Agent, updates: Updates, narrator: Narrator, *, gate: Gate) -> None:
        self.id = id
        self.agent = agent
        self.narrator = narrator
        self._updates = updates
        self._turns: list[_Turn] = []
        self._prompts: AcceptedPrompts[_Turn] = AcceptedPrompts(agent.session)
        #: Prompts are accepted in the order in which they came.
        self._accepting = asyncio.Lock()
        self._stopping: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._commands: list[acp.AvailableCommand] | None = None
        #: What the client is about to learn from an answer, so that no update says it too.
        self._answers_mode = self._answers_options = False
        self._is_closed = False
        #: Fires when the client cancels what is running, and with it the questions to the user.
        self.questions = CancelToken()
        agent.session.subscribe(self._on_event, gate)
        agent.session.queue.steering.mode = "all"

    @property
    def session(self) -> Session:
        return self.agent.session

    @property
    def in_turn(self) -> bool:
        """Whether a prompt is being answered."""
        return bool(self._turns)

    # Prompts

    def prompt(self, blocks: list[ContentBlock]) -> Coroutine[Any, Any, PromptResponse]:
        """Take a prompt. Returns the work on it, which can be cancelled from now on. Raises BadParams if it cannot be used."""
        content = prompt_content(blocks)
        loop = asyncio.get_running_loop()
        turn = _Turn(loop.create_future(), loop.create_future(), CancelToken())
        self._turns.append(turn)
        return self._answer(turn, content)

    async def _answer(self, turn: _Turn, content: PromptContent) -> PromptResponse:
        try:
            reason = await self._work(turn, content)
        except FairleadError as error:
            if not turn.is_cancelled and not isinstance(error, RunAborted):
                raise as_auth_error(error) from None
            reason = "cancelled"
        finally:
            self._turns.remove(turn)
            turn.ended.set_result(None)
        return PromptResponse("cancelled" if turn.is_cancelled else reason)

    async def _work(self, turn: _Turn, content: PromptContent) -> StopReason:
        session = self.session
        if content.text.strip() == f"/{RESUME}" and session.activity.is_interrupted and not await self._has_command(RESUME):
            return await self._resume(turn, content)
        hooks = await session.extensions.ready(stoppable=True) if content.text.startswith("/") else None
        if hooks is not None and hooks.has_command(content.text):
            # It may take long and ask the user, so other prompts do not wait for it.
            await self._command(turn, content)
            message = None
        else:
            async with self._accepting:
                message = await self._start_or_steer(turn, content)
                if message is not None:
                    self._prompts.add(message, turn)
        if turn.is_cancelled and message is None:
            return "cancelled"
        if message is None:
            if (hooks := session.extensions.hooks) is not None:
                await hooks.flush_outbox()
            if not session.activity.is_streaming:
                return "end_turn"
            self._prompts.add(None, turn)
        return self._stop_reason(await turn.outcome)

    async def _resume(self, turn: _Turn, content: PromptContent) -> StopReason:
        """Continue an interrupted run, without a message of the user."""
        async with self._accepting:
            await self._wait_until_stopped()
            if turn.is_cancelled:
                return "cancelled"
            self.narrator.begin_turn(content.text)
            await self.session.activity.resume()
            self._prompts.add(None, turn)
        return self._stop_reason(await turn.outcome)

    async def _has_command(self, name: str) -> bool:
        """Whether an extension, a skill or a template has a command with this name."""
        await self.session.extensions.ready(stoppable=True)
        await self.session.additions.prepare()
        return any(command.name == name for command in self.session.additions.slash_commands())

    async def _command(self, turn: _Turn, content: PromptContent) -> None:
        """Run a command of an extension. If it does not end when it is cancelled, it is left alone."""
        await self._wait_until_stopped()
        self.narrator.begin_turn(content.text)
        work = asyncio.ensure_future(self.session.prompt(content.text, content.images, source="rpc"))
        cancelled = asyncio.get_running_loop().create_future()
        forget = turn.cancel.on_fire(lambda: cancelled.done() or cancelled.set_result(None))
        try:
            await asyncio.wait([work, cancelled], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await asyncio.wait([work], timeout=COMMAND_GRACE)
        finally:
            forget()
        if work.done():
            await work
        else:
            work.add_done_callback(_ignore_error)

    async def _start_or_steer(self, turn: _Turn, content: PromptContent) -> UserMessage | None:
        """Start a run with a prompt, or steer the run that is active; None if it was cancelled or an extension handled it."""
        while True:
            await self._wait_until_stopped()
            if turn.is_cancelled:
                return None
            self.narrator.begin_turn(content.text)
            try:
                return await self.session.prompt(content.text, content.images, source="rpc", behavior="steer")
            except CompactingError:
                await self.session.activity.idle()

    async def _wait_until_stopped(self) -> None:
        """Wait until the run that the client cancelled has ended."""
        while self._stopping is not None and not self._stopping.done():
            await asyncio.wait([self._stopping])

    def _stop_reason(self, outcome: PromptOutcome) -> StopReason:
        """Return why a run ended, and tell the user if the model failed. Raises RpcError if its provider refuses the key."""
        end = outcome.end
        if outcome.status == "aborted" or end is None:
            return "cancelled"
        message = end.message
        if message.raw_stop_reason in REFUSALS or (message.error_message or "").startswith(REFUSED):
            return "refusal"
        if outcome.status == "completed":
            return "max_tokens" if message.stop_reason == "length" else "end_turn"
        text = readable_error(message.error_message or "The model failed without saying why.")
        if end.is_final:
            self.narrator.notice("warning", text)
            return "max_turn_requests"
        if end.status in (401, 403):
            raise RpcError(AUTH_REQUIRED, text, {"message": LOG_IN})
        # Clients take an error for a broken agent, and say that it is not installed.
        self.narrator.show_failure(text)
        return "end_turn"

    def stop(self) -> None:
        """Cancel every prompt that has not been answered, and everything that runs."""
        for turn in self._turns:
            turn.cancel.fire()
        questions, self.questions = self.questions, CancelToken()
        questions.fire()
        if len(self.session.queue):
            self.session.queue.clear()
        self.session.activity.cancel()
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.create_task(self._stop(), name="fairlead-stop")

    async def _stop(self) -> None:
        await self.session.abort()
        self._settle()

    def _settle(self) -> None:
        """Resolve the prompts whose run has ended, and handle those that the run left in the queue."""
        for turn, outcome in self._prompts.take_finished():
            if not turn.outcome.done():
                turn.outcome.set_result(outcome)

    # Events

    def _on_event(self, event: core.Event) -> None:
        if (
            isinstance(event, core.MessageEnd)
            and isinstance(event.message, UserMessage)
            and not self._prompts.expects(event.message)
        ):
            self.narrator.show_user_message(event.message)
        self._prompts.observe(event)
        self.narrator.send_event(event)
        match event:
            case core.AgentSettled():
                self._on_settled(event)
            case core.ModelSelected() | core.ThinkingLevelChanged():
                self._emit_options()
            case core.ApprovalModeChanged():
                self._emit_mode()
                self._emit_options()
            case core.CommandsChanged() | core.SessionReplaced():
                self.announce_commands()
            case _:
                return

    def _on_settled(self, event: core.AgentSettled) -> None:
        self._settle()
        self.announce_commands()
        if not len(self._prompts):
            return
        # Prompts are left in the queue: the run was stopped by something else than the client.
        if event.aborted or self._is_closed:
            self.session.queue.clear()
            self._settle()
        else:
            asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        """Start a run with the prompts that are left in the queue."""
        if self.session.activity.is_streaming:
            return
        try:
            self.session.queue.start_run()
        except FairleadError:
            self.session.queue.clear()
            self._settle()

    # Options

    @property
    def modes(self) -> SessionModeState:
        return mode_state(self.session.approvals.mode)

    @property
    def options(self) -> list[SessionConfigOption]:
        return config_options(self.session)

    def set_mode(self, mode_id: str) -> None:
        """Change the approval mode. Raises BadParams if there is no such mode."""
        self._answers_mode = True
        try:
            self.session.approvals.set_mode(mode_named(mode_id))
        finally:
            self._answers_mode = False

    def set_option(self, option_id: str, value: str | bool) -> list[SessionConfigOption]:
        """Change an option, and return all of them. Raises BadParams if there is no such option or value."""
        if not isinstance(value, str):
            raise BadParams(f"value: expected one of the values of {option_id!r}, found {value!r}")
        self._answers_options = True
        try:
            match option_id:
                case "mode":
                    self.session.approvals.set_mode(mode_named(value))
                case "model":
                    choose_model(self.session, value)
                case "thinking":
                    choose_level(self.session, value)
                case _:
                    raise BadParams(f"Unknown option {option_id!r}. The options are: {MODE}, {MODEL}, {THINKING}")
        finally:
            self._answers_options = False
        return self.options

    def _emit_mode(self) -> None:
        if not self._answers_mode:
            self._updates.send(acp.CurrentModeUpdate(self.session.approvals.mode))

    def _emit_options(self) -> None:
        if not self._answers_options:
            self._updates.send(acp.ConfigOptionUpdate(self.options))

    # Commands

    def announce_commands(self) -> None:
        """Send the slash commands, unless the client has the same list. They are read in the background."""
        if not self._is_closed:
            self._keep(self._announce_commands())

    async def _announce_commands(self) -> None:
        session = self.session
        try:
            await session.extensions.ready()
            await session.additions.prepare()
        except FairleadError as error:
            self.narrator.notice("error", "The commands cannot be read", str(error))
            return
        commands = [
            acp.AvailableCommand(
                command.name, command.description or command.name, input=acp.UnstructuredCommandInput(hint="arguments")
            )
            for command in session.additions.slash_commands()
        ]
        if session.activity.is_interrupted and all(command.name != RESUME for command in commands):
            commands.append(acp.AvailableCommand(RESUME, "Continue the run that was interrupted"))
        if commands != self._commands and not self._is_closed:
            self._commands = commands
            self._updates.send(acp.AvailableCommandsUpdate(commands))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # The end

    def cancel(self) -> None:
        """Stop what is running, because the process ends."""
        self.stop()

    async def close(self) -> None:
        """Cancel what is running, answer the prompts, and release the session file."""
        self._is_closed = True
        self.stop()
        await self._wait_until_stopped()
        for task in list(self._background):
            task.cancel()
        await self.agent.close()
        self._settle()
        if self._turns:  # each is answered before the session is gone
            await asyncio.wait([turn.ended for turn in self._turns], timeout=CLOSE_PATIENCE)


def _ignore_error(work: asyncio.Future[Any]) -> None:
    """Take the outcome of work that is left alone."""
    if not work.cancelled():
        work.exception()


def as_auth_error(error: FairleadError) -> FairleadError:
    """Return the error that lets a client offer a login, if that is what is missing."""
    if isinstance(error, NoCredentials) or (isinstance(error, ConfigError) and str(error).startswith("No model selected")):
        return RpcError(AUTH_REQUIRED, f"{error} {LOG_IN}", {"message": LOG_IN})
    return error
