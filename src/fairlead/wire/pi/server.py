"""The dispatcher: lines to commands, commands to handlers, results to responses, events to frames.

Commands take effect in the order received; a getter sees all that came before it. Only those of which `dispatch.is_late` says so,
and commands of extensions, may be answered later. While the host does not read, commands wait, but those that abort
something and `shutdown` act the moment they arrive, and so do the host's answers to what it was asked.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from fairlead import __version__
from fairlead.core.events import Event, SubagentEvent, SubagentLifecycle, SubagentProgress
from fairlead.core.runtime import Cancel
from fairlead.errors import BadCommand, BusyError, FairleadError
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.commands import ANSWER_NAMES, AbortAndPrompt, Prompt
from fairlead.session.session import Session
from fairlead.wire.connection import Connection
from fairlead.wire.pi import decode
from fairlead.wire.pi.decode import Id
from fairlead.wire.pi.dispatch import BEFORE_EXTENSIONS, declaration, handler, is_late
from fairlead.wire.pi.encode import Handled, Late, Spliced, event_frames
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.questions import Questions
from fairlead.wire.pi.updates import Form, Pacing, Updates

if TYPE_CHECKING:
    from fairlead.core.ui import Ui
    from fairlead.models.logins import Logins
    from fairlead.wire.pi.host_tools import HostTools
    from fairlead.wire.pi.host_uris import HostUris
    from fairlead.wire.pi.outcomes import Outcomes
    from fairlead.wire.pi.subagent_frames import SubagentFrames


#: Seconds that a command has to end which the host has sent before it asked to shut down.
LEAVING_PATIENCE = 0.5


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
        logins: Callable[[], Logins] | None = None,
    ) -> None:
        self.connection = connection
        self.session = session
        self.profile = profile
        #: Writes one key of the user's settings.
        self.persist = persist
        #: Logs in at providers; None: nobody can.
        self.logins = logins
        self.updates = Updates(connection.output, pacing, updates)
        #: Loads extensions anew, and gives the names of those there are then.
        self.reload_extensions: Callable[[], Awaitable[list[str]]] = _no_extensions
        #: Called once, when the host has had its first answer.
        self.after_first_command: Callable[[], None] | None = None
        #: How many lines have had their turn.
        self.handled = 0
        #: Set by `shutdown`: the session is to end after the answer.
        self.stopping = False
        self._frames = event_frames(connection.output, profile, self.updates)
        self.questions = Questions(self._frames.send)
        #: What becomes of each prompt; None: this host is not told.
        self.outcomes: Outcomes | None = None
        if profile.prompt_results:
            from fairlead.wire.pi.outcomes import Outcomes

            self.outcomes = Outcomes(session, self._frames)
        self._late: set[asyncio.Task[None]] = set()
        self._stalled = False
        #: Whether there are no extensions to wait for.
        self._is_extended = not session.may_be_extended
        #: Fires when the host asked to shut down: then nothing waits for it to read any more.
        self._leaving = Cancel()
        #: The bash lines that wait for their turn, by identity.
        self._waiting_bash: set[int] = set()
        #: The abort_bash lines (by identity) that have acted before their turn, and whether the present line is one.
        self._acted: set[int] = set()
        self._has_acted = False
        session.gate = connection.output
        if profile.form == "family":
            session.make_ui = self._make_ui
        session.subscribe(self._tell)
        connection.on_arrival = self._arrived
        connection.is_urgent = _is_urgent

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
            self._waiting_bash.discard(id(line))
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
        from fairlead.tools.uris import beside
        from fairlead.wire.pi.host_uris import HostUris

        uris, workspace = HostUris(self.questions), self.session.workspace
        workspace.uris = beside(uris, workspace.uris)
        return uris

    def _make_ui(self) -> Ui:
        from fairlead.wire.pi.ui import WireUi

        return WireUi(self.questions, self._frames.send, self.session.tell, self.profile, os.environ)

    def flush(self) -> None:
        """Tell what was held back to be told later."""
        self._frames.flush()

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
        if task.done():
            return task.result()
        self._stalled = True
        try:
            self._act_on_waiting()
            await self._unless_leaving(task)
        finally:
            self._stalled = False

    async def _unless_leaving(self, task: asyncio.Future[None]) -> None:
        """Wait for something. A host that wants to leave does not wait much longer."""
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        forget = self._leaving.on_fire(lambda: loop.call_later(LEAVING_PATIENCE, task.cancel))
        try:
            await task
        except asyncio.CancelledError:
            if me is not None and me.cancelling():
                raise
        finally:
            forget()

    def _arrived(self, line: bytes) -> bool:
        """Act on a line before its turn, if it must not wait. True if there is nothing left to do with it."""
        try:
            is_answer = b'"host_' in line or b'"extension_ui_response"' in line
            if is_answer and self.profile.form == "family" and self._is_heard(line):
                return True
            if _is_urgent(line) and (name := _name(line)) is not None:
                if self._stalled:
                    self._act_early(line, name, bash_waits=bool(self._waiting_bash))
                if name == "bash":
                    self._waiting_bash.add(id(line))
        except Exception:  # a bug of ours: the line has its turn still, and those behind it arrive
            traceback.print_exc(file=sys.stderr)
        return False

    def _is_heard(self, line: bytes) -> bool:
        """Whether a line is the host's answer to a question, and was taken as such; a malformed one is told so at once."""
        try:
            outer, line = decode.envelope(line)
        except BadCommand:
            return False
        if outer.type not in ANSWER_NAMES:
            return False
        self._hear(outer.type, outer.id, line)
        return True

    def _act_on_waiting(self) -> None:
        """Act on the lines that must not wait for what is going on."""
        bash_waits = False
        for line in self.connection.urgent():
            try:
                name = _name(line)
                if name is not None:
                    self._act_early(line, name, bash_waits=bash_waits)
            except Exception:  # a bug of ours: the line has its turn still, and so have those behind it
                traceback.print_exc(file=sys.stderr)
            bash_waits = bash_waits or id(line) in self._waiting_bash

    def _act_early(self, line: bytes, name: str, *, bash_waits: bool) -> None:
        """`bash_waits`: a command of the host has yet to start, and is the one that an abort_bash in this place means."""
        if name in ("abort", "abort_and_prompt", "shutdown"):
            self.session.cancel()
            if name == "shutdown":
                self._leaving.fire()
        elif name == "abort_retry":
            self.session.attempts.call_off()
        elif name == "abort_bash" and id(line) not in self._acted and not bash_waits:
            # Once only: another time it would stop another command.
            self._acted.add(id(line))
            self.session.commands.abort()

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
        elif name in ANSWER_NAMES and self.profile.form == "family":
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
        if not self._is_extended and name not in BEFORE_EXTENSIONS:
            return self._once_extended(declared, name, command)
        return self._begin(declared, name, command)

    async def _once_extended(self, declared: type[Command], name: str, command: Command) -> None:
        """Wait until extensions are loaded: they may have brought what the command is about."""
        with self._answering(name, command):
            await self.session.ready(stoppable=True)
            self._is_extended = True
            work = self._begin(declared, name, command)
            if work is not None:
                await work

    def _begin(self, declared: type[Command], name: str, command: Command) -> Coroutine[Any, Any, None] | None:
        with self._answering(name, command):
            result = handler(declared)(self, command)
            if not isinstance(result, Coroutine):
                self._succeed(command, name, result)
                return None
            work = self._finish(name, command, cast("Coroutine[Any, Any, Any]", result))
            if not is_late(declared):
                return work
            self._go_on_beside(work)
        return None

    def _go_on_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something while later commands have their turn."""
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _finish(self, name: str, command: Command, work: Coroutine[Any, Any, Any]) -> None:
        with self._answering(name, command):
            result = await work
            if isinstance(result, Late):
                self._go_on_beside(self._finish(name, command, result.work))
            elif isinstance(result, Handled):
                if not result.is_answered:
                    self._succeed(command, name, None)
                if self.outcomes is not None:
                    await self.outcomes.handled(command.id, result)
            else:
                self._succeed(command, name, result)

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
        except asyncio.CancelledError:
            self._refuse(name, command, "Not done: the agent was told to shut down.")
            raise

    # Output

    def acknowledge(self, command: Command) -> None:
        """Answer a command that goes on."""
        self._succeed(command, str(command.__struct_config__.tag), None)

    def _refuse(self, name: str, command: Command, error: str, *, code: str | None = None) -> None:
        is_acknowledged = self.profile.late_prompt_errors and isinstance(command, Prompt | AbortAndPrompt)
        if is_acknowledged:
            self._frames.respond(frames.Response(id=command.id, command=name, success=True))
        self._fail(command.id, name, error, code=code)
        if is_acknowledged and self.outcomes is not None:
            # Whoever waits for the outcome of an acknowledged prompt may have stopped looking at responses.
            self.outcomes.refused(command.id, error)

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
        if self.outcomes is not None:
            self.outcomes.hear(event)
        self._frames.tell(event)


async def _no_extensions() -> list[str]:
    return []


def _is_urgent(line: bytes) -> bool:
    """Whether a line may have to act before its turn, or decides whether another one does."""
    return b'"abort' in line or b'"shutdown"' in line or b'"bash"' in line


def _name(line: bytes) -> str | None:
    """The command that a line names, if it names one."""
    try:
        return decode.envelope(line)[0].type
    except BadCommand:
        return None
