"""The dispatcher: lines to commands, commands to handlers, results to responses, events to frames.

Commands take effect in the order received; a getter sees all that came before it. Only those in
`all_handlers.LATE` may be answered later. While the host does not read, commands wait, but those that abort
something and `shutdown` act the moment they arrive, and so do the host's answers to what it was asked.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead import __version__
from fairlead.core.events import (
    AgentSettled,
    Event,
    MessageEnd,
    SessionReplaced,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
)
from fairlead.core.messages import UserMessage
from fairlead.core.runtime import Cancel
from fairlead.errors import BadCommand, BusyError, FairleadError
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.commands import ANSWERS, AbortAndPrompt, Prompt
from fairlead.session.session import Session
from fairlead.wire.connection import Connection
from fairlead.wire.pi import decode
from fairlead.wire.pi.dispatch import declaration, handler, is_late
from fairlead.wire.pi.encode import Spliced, event_frames
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.questions import Questions
from fairlead.wire.pi.updates import Form, Pacing, Updates

if TYPE_CHECKING:
    from fairlead.wire.pi.host_tools import HostTools
    from fairlead.wire.pi.host_uris import HostUris
    from fairlead.wire.pi.subagent_frames import SubagentFrames

Id = Raw | UnsetType


class Server:
    """One host, one session, one profile."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        profile: Profile,
        *,
        pacing: Pacing,
        updates: Form,
        persist: Callable[[str, Any], None],
    ) -> None:
        self.connection = connection
        self.session = session
        self.profile = profile
        #: Writes one key of the user's settings.
        self.persist = persist
        self.updates = Updates(connection.output, pacing, updates)
        #: Called once, when the host has had its first answer.
        self.after_first_command: Callable[[], None] | None = None
        #: How many lines have had their turn.
        self.handled = 0
        #: Set by `shutdown`: the session is to end after the answer.
        self.stopping = False
        self._frames = event_frames(connection.output, profile, self.updates)
        self.questions = Questions(self._frames.send)
        self._prompts: list[_Accepted] = []
        self._late: set[asyncio.Task[None]] = set()
        self._stalled = False
        #: Fires when the host asked to shut down: then nothing waits for it to read any more.
        self._leaving = Cancel()
        #: The abort_bash lines (by identity) that have acted before their turn, and whether the present line is one.
        self._acted: set[int] = set()
        self._has_acted = False
        session.gate = connection.output
        session.subscribe(self._tell)
        connection.on_arrival = self._arrived

    async def serve(self) -> None:
        """Answer the host until its input ends or it asks to shut down."""
        self._greet()
        while not self.stopping:
            try:
                line = await self.connection.next_line()
            except EOFError:
                return
            self._has_acted = id(line) in self._acted
            self._acted.discard(id(line))
            work = self._handle(line)
            self.handled += 1
            if work is not None:
                await self._without_stalling(work)
            if self.after_first_command is not None:
                self.after_first_command()
                self.after_first_command = None
            if self.connection.output.paused and not self.stopping:
                await self._without_stalling(self.connection.output.wait(self._leaving))

    def _greet(self) -> None:
        if self.profile.ready == "version":
            self._frames.send(frames.Ready(__version__))
        elif self.profile.ready == "protocols":
            self._frames.send(
                frames.Ready(
                    protocol_version=1,
                    supported_protocol_versions=[1, frames.BOUNDED_VERSION],
                    max_frame_bytes=frames.BOUND,
                    max_reassembled_frame_bytes=frames.REASSEMBLED_BOUND,
                )
            )

    def accepted(self, message: UserMessage, ident: Id, *, queued: bool) -> None:
        """Remember a prompt whose outcome the host is to be told. As in omp, the queued ones are told of first."""
        if self.profile.prompt_results:
            self._prompts.append(_Accepted(message, ident, queued))

    def show_output(self, ident: Id, text: str) -> None:
        """Tell of new output of one of the host's commands. While the host does not keep up, the answer has to do."""
        if not self.connection.output.behind:
            self._frames.send(frames.BashExecutionUpdate(id=ident, delta=text))

    def filter_events(self, names: list[str] | None) -> None:
        """Send only events of these types from here on; None: all."""
        self.updates.flush()
        self._frames.want(names)

    def abort_bash(self) -> None:
        """Stop the latest of the host's commands, unless that was done when the command for it arrived."""
        if not self._has_acted:
            self.session.commands.abort()

    @cached_property
    def subagents(self) -> SubagentFrames:
        from fairlead.wire.pi.subagent_frames import SubagentFrames

        return SubagentFrames(self.connection.output, self.profile, self._frames, self.updates)

    @cached_property
    def host_tools(self) -> HostTools:
        from fairlead.wire.pi.host_tools import HostTools

        return HostTools(self.session.toolbox, self.questions)

    @cached_property
    def host_uris(self) -> HostUris:
        from fairlead.wire.pi.host_uris import HostUris

        uris = self.session.workspace.uris = HostUris(self.questions)
        return uris

    async def late_answers(self) -> None:
        """Wait for the commands that are still being worked on."""
        if self._late:
            await asyncio.wait(self._late)

    # Input

    async def _without_stalling(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that may take long, while commands that must not wait act as they arrive."""
        task = asyncio.ensure_future(work)
        # It begins before anything that came behind it acts: an abort must find the run that it means.
        await asyncio.sleep(0)
        self._stalled = True
        try:
            for line in self.connection.waiting():
                self._arrived(line)
            await task
        finally:
            self._stalled = False

    def _arrived(self, line: bytes) -> bool:
        """Act on a line before its turn, if it must not wait. True if there is nothing left to do with it."""
        try:
            if b'"host_' in line and self.profile.form == "family" and self._is_heard(line):
                return True
            if self._stalled and (b'"abort' in line or b'"shutdown"' in line):
                self._act_early(line)
        except Exception:  # a bug of ours: the line has its turn still, and those behind it arrive
            traceback.print_exc(file=sys.stderr)
        return False

    def _is_heard(self, line: bytes) -> bool:
        """Whether a line is the host's answer to a question, and was taken as such; a malformed one is told so at once."""
        try:
            outer, line = decode.envelope(line)
        except BadCommand:
            return False
        if outer.type not in ANSWERS:
            return False
        self._hear(outer.type, outer.id, line)
        return True

    def _act_early(self, line: bytes) -> None:
        name = _name(line)
        if name in ("abort", "abort_and_prompt", "shutdown"):
            self.session.cancel()
            if name == "shutdown":
                self._leaving.fire()
        elif name == "abort_retry":
            self.session.attempts.call_off()
        elif name == "abort_bash" and id(line) not in self._acted and not self._bash_waits_before(line):
            # Once only: another time it would stop another command.
            self._acted.add(id(line))
            self.session.commands.abort()

    def _bash_waits_before(self, line: bytes) -> bool:
        """Whether a command of the host's that has yet to start is the one that `line` means to stop."""
        before = takewhile(lambda other: other is not line, self.connection.waiting())
        return any(b'"bash"' in other and _name(other) == "bash" for other in before)

    def _handle(self, line: bytes | None) -> Coroutine[Any, Any, None] | None:
        """Act on one line. What takes time, and must be over before the next line's turn, is returned."""
        if line is None:
            self._fail(UNSET, "parse", "Failed to parse command: the line is too long")
            return None
        if not line.strip():
            return None
        try:
            outer, line = decode.envelope(line)
        except BadCommand as error:
            self._fail(UNSET, "parse", f"Failed to parse command: {error}")
            return None
        except Exception as error:  # whatever a line holds, the next one gets its turn
            traceback.print_exc(file=sys.stderr)
            self._fail(UNSET, "parse", f"Failed to parse command: {type(error).__name__}: {error}")
            return None
        name = outer.type
        if name is None:
            self._fail(outer.id, "parse", "Failed to parse command: type: expected the name of a command, as a string")
        elif (declared := declaration(name, self.profile)) is not None:
            return self._run(declared, name, outer.id, line)
        elif name in ANSWERS and self.profile.form == "family":
            self._hear(name, outer.id, line)
        else:
            ident = outer.id if self.profile.unknown_command_echoes_id else UNSET
            self._fail(ident, name, f"Unknown command: {name}")
        return None

    def _hear(self, name: str, ident: Id, line: bytes) -> None:
        """Take the host's answer to a question; a malformed one is told so."""
        try:
            self.questions.hear(name, ident, line)
        except BadCommand as error:
            self._fail(ident, name, str(error))

    def _run(self, declared: type[Command], name: str, ident: Id, line: bytes) -> Coroutine[Any, Any, None] | None:
        try:
            command = decode.command(declared, line)
        except BadCommand as error:
            self._fail(ident, name, str(error))
            return None
        command.id = ident
        with self._answering(name, command):
            result = handler(declared)(self, command)
            if not isinstance(result, Coroutine):
                self._succeed(command, name, result)
                return None
            work = self._finish(name, command, cast("Coroutine[Any, Any, Any]", result))
            if not is_late(declared):
                return work
            task = asyncio.create_task(work)
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        return None

    async def _finish(self, name: str, command: Command, work: Coroutine[Any, Any, Any]) -> None:
        with self._answering(name, command):
            self._succeed(command, name, await work)

    @contextmanager
    def _answering(self, name: str, command: Command) -> Generator[None]:
        """Turns an error of a command into its response."""
        try:
            yield
        except BusyError:
            self._refuse(name, command, self.profile.busy)
        except FairleadError as error:
            self._refuse(name, command, str(error), code=error.code if isinstance(error, BadCommand) else None)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._fail(command.id, name, f"Internal error: {type(error).__name__}: {error}")

    # Output

    def _refuse(self, name: str, command: Command, error: str, *, code: str | None = None) -> None:
        is_acknowledged = self.profile.late_prompt_errors and isinstance(command, Prompt | AbortAndPrompt)
        if is_acknowledged:
            self._frames.respond(frames.Response(id=command.id, command=name, success=True))
        self._fail(command.id, name, error, code=code)
        if is_acknowledged and self.profile.prompt_results:
            # Whoever waits for the outcome of an acknowledged prompt may have stopped looking at responses.
            self._frames.send(
                frames.PromptResult(
                    id=command.id,
                    agent_invoked=False,
                    status="error",
                    session_settled=not self.session.is_streaming,
                    error=frames.PromptError(message=error, retryable=False),
                )
            )

    def _succeed(self, command: Command, name: str, result: Any) -> None:
        response = frames.Response(id=command.id, command=name, success=True)
        if isinstance(result, Spliced):
            self._frames.answer(response, result)
            return
        if command.result is not None:
            response.data = result
        self._frames.respond(response)

    def _fail(self, ident: Id, name: str, error: str, *, code: str | None = None) -> None:
        self._frames.respond(frames.Response(id=ident, command=name, success=False, error=error, code=code or UNSET))

    def _tell(self, event: Event) -> None:
        if isinstance(event, SubagentLifecycle | SubagentProgress | SubagentEvent):
            self.subagents.tell(event)
            return
        if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
            for prompt in self._prompts:
                prompt.heard = prompt.heard or prompt.message is event.message
        elif isinstance(event, AgentSettled):
            self._frames.settle()  # the outcome of a prompt comes after the end of its run
            self.report_prompts()
            if self.profile.prompt_results:
                self._frames.send(frames.SessionSettled())
        elif isinstance(event, SessionReplaced):
            self.report_prompts()
        self._frames.tell(event)

    def report_prompts(self) -> None:
        """What became of each prompt that no longer waits: the ones that were queued, then the one that began the run."""
        queues = self.session.queues
        queued = {id(message) for queue in (queues.steering, queues.follow_up) for message in queue.messages}
        done = [prompt for prompt in self._prompts if id(prompt.message) not in queued]
        self._prompts = [prompt for prompt in self._prompts if id(prompt.message) in queued]
        for prompt in sorted(done, key=lambda prompt: not prompt.queued):
            self._frames.send(self._outcome(prompt))

    def _outcome(self, prompt: _Accepted) -> frames.PromptResult:
        end = self.session.last_end
        result = frames.PromptResult(id=prompt.id, agent_invoked=prompt.heard, status="completed", session_settled=True)
        if end is None or end.message.stop_reason == "aborted" or not prompt.heard:
            result.status = "aborted"
        elif end.message.stop_reason == "error":
            message = end.message
            result.status = "error"
            result.error = frames.PromptError(
                message=message.error_message or "unknown error",
                retryable=end.transient,
                provider=message.provider,
                model=message.model,
                http_status=UNSET if end.status is None else end.status,
            )
        return result


class _Accepted(Struct, eq=False):
    """A prompt whose outcome the host is to be told."""

    message: UserMessage
    id: Id
    queued: bool
    #: Whether it has become part of the conversation.
    heard: bool = False


def _name(line: bytes) -> str | None:
    """The command that a line names, if it names one."""
    try:
        return decode.envelope(line)[0].type
    except BadCommand:
        return None
