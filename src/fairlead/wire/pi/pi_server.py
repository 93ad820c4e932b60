"""Serves one host of the pi family, with one session and one profile, and reports the outcome of each prompt."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import UNSET

from fairlead.core.events import (
    AgentSettled,
    AgentStart,
    Event,
    SessionReplaced,
)
from fairlead.core.messages import UserMessage
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.commands import Command
from fairlead.session.session import Session
from fairlead.wire.dialects import dialect_named
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.host_connection import Connection
from fairlead.wire.pending import AcceptedPrompts, PromptOutcome, Questions
from fairlead.wire.pi import host_tools, omp_handlers, omp_subagents, session_handlers
from fairlead.wire.pi.basic_handlers import BASIC_ROUTES
from fairlead.wire.pi.paced_updates import ChunkedOutlet, Form, Pacing, Updates
from fairlead.wire.pi.pi_codec import PROMPTS, PiCodec
from fairlead.wire.pi.pi_encoding import SUBAGENT_EVENTS, EventFrames
from fairlead.wire.pi.profile import Profile
from fairlead.wire.routing import HostReply, Id, Request, RequestRoute, RouteTable

if TYPE_CHECKING:
    from fairlead.core.runtime import Ui
    from fairlead.models.logins import Logins
    from fairlead.session.hooks import Hooks


class PiServer:
    """Implements `fairlead.wire.routing.Service`. Handlers reach everything they need through it."""

    codec_type: ClassVar[type[PiCodec]] = PiCodec
    events_type: ClassVar[type[EventFrames]] = EventFrames

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
        reload_extensions: Callable[[], Awaitable[list[str]]] | None = None,
        max_frame: int | None = None,
        starting: asyncio.Task[None] | None = None,
    ) -> None:
        self.session = session
        self.profile = profile
        #: Saves one key of the user's settings.
        self.persist = persist
        #: Returns the logins to providers. None if login is not possible.
        self.logins = logins
        #: Reloads all extensions and returns their names. None if there are none.
        self.reload_extensions = reload_extensions
        #: Whether the host has asked for a faster service tier.
        self.fast_mode = False
        self.outlet = ChunkedOutlet(connection.output, max_frame)
        self.updates = Updates(self.outlet, pacing, updates)
        self.codec = self.codec_type(profile, self.outlet)
        self.routes = self.make_routes()
        self.send = self.outlet.send
        self.frames = self.events_type(self.outlet, profile, self.updates)
        self.questions = Questions(self.frames.send)
        if profile.prompt_results:
            self.codec.outcomes = Outcomes(session, self.frames)
        #: Reports the outcome of each prompt. None if hosts of this profile do not get such reports.
        self.outcomes = self.codec.outcomes
        #: Announces the slash commands. None if hosts of this profile ask for them.
        self.commands: omp_handlers.AnnouncedCommands | None = None
        if profile.omp_events:
            self.commands = omp_handlers.AnnouncedCommands(session.additions, self.frames.send)
        self.dispatcher = Dispatcher(connection, self)
        self._connection = connection
        #: The rest of the start of the process, until it is done.
        self._starting = starting
        self._is_extended = not session.extensions.may_exist
        if dialect_named(profile.name).can_ask:
            session.host.make_ui = self._make_ui
        if self.outcomes is not None:
            session.subscribe(self.outcomes.observe)
        session.subscribe(self.frames.send_event, gate=connection.output)
        session.subscribe(self._send_subagent_event, kinds=SUBAGENT_EVENTS)
        if self.commands is not None:
            session.subscribe(self._announce_commands, kinds=(SessionReplaced, AgentSettled))

    def make_routes(self) -> RouteTable:
        """Return the routes of the dialect."""
        return family_routes()

    async def serve(self) -> None:
        """Serve the host until its input ends or it asks to shut down.

        As in omp, a host hears nothing before the required extensions are loaded. But a prompt does not wait for them.
        """
        if self._starting is not None:
            prompt = asyncio.create_task(self._connection.wait_queued(_is_prompt))
            await asyncio.wait({self._starting, prompt}, return_when=asyncio.FIRST_COMPLETED)
            prompt.cancel()
            if self._starting.done() and self._starting.exception() is not None:
                return
        self.frames.greet()
        if self.commands is not None:
            await self.commands.announce()
        await self.dispatcher.serve()

    # For the dispatcher

    def call_when_written(self, action: Callable[[], object]) -> None:
        self.session.history.call_when_written(action)

    def receive_reply(self, reply: HostReply) -> None:
        self.questions.receive(reply)

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        """Return what a command waits for.

        Most commands wait until extensions are loaded, because an extension can add what a command refers to.
        """
        if self._is_extended or request.route is None or not request.route.needs_extensions:
            return None
        return self._wait_for_extensions()

    async def ready(self) -> Hooks | None:
        """Wait until all extensions are loaded, and return the hooks. Raises what `Extensions.ready` and the start raise."""
        hooks = await self.session.extensions.ready(stoppable=True)
        if self._starting is not None:
            await asyncio.shield(self._starting)
        return hooks

    async def _wait_for_extensions(self) -> None:
        await self.ready()
        self._is_extended = True
        if self.commands is not None:
            await self.commands.announce()

    def serving(self, request: Request) -> AbstractContextManager[None]:
        return nullcontext()

    # For handlers

    @cached_property
    def subagents(self) -> omp_subagents.SubagentFrames:
        return omp_subagents.SubagentFrames(self.outlet, self.profile, self.frames, self.updates)

    @cached_property
    def host_tools(self) -> host_tools.HostTools:
        return host_tools.HostTools(self.session.tools, self.questions)

    @cached_property
    def host_uris(self) -> host_tools.HostUris:
        return host_tools.HostUris(self.questions, self.session.host.workspace)

    def _make_ui(self) -> Ui:
        return host_tools.WireUi(self.questions, self.frames.send, self.session.host.notify, self.profile, os.environ)

    def _send_subagent_event(self, event: Event) -> None:
        self.subagents.send_event(event)  # pyright: ignore[reportArgumentType]

    def _announce_commands(self, event: Event) -> None:
        if self.commands is not None:
            self.commands.announce_soon()


def _is_prompt(message: Any) -> bool:
    return isinstance(message, Request) and message.name in PROMPTS


def family_routes() -> RouteTable:
    """Return the routes of all dialects of the family except pi-2025."""
    return RouteTable(command_name, BASIC_ROUTES, _session_routes, _other_routes)


def command_name(declaration: type[Command]) -> str:
    """Return the `type` of the command on the wire."""
    return str(declaration.__struct_config__.tag)


def _session_routes() -> Iterable[RequestRoute]:
    return session_handlers.ROUTES


def _other_routes() -> Iterable[RequestRoute]:
    return (*omp_subagents.ROUTES, *omp_handlers.ROUTES, *host_tools.ROUTES)


class Outcomes:
    """The prompts whose outcome has not been reported yet."""

    def __init__(self, session: Session, to_host: EventFrames) -> None:
        #: The number of runs that started without a prompt from the host.
        self.unprompted_runs = 0
        self._session = session
        self._to_host = to_host
        self._prompts: AcceptedPrompts[Id] = AcceptedPrompts(session)

    def record_accepted(self, message: UserMessage, ident: Id) -> None:
        """Record a prompt that started a run or was queued."""
        self._prompts.add(message, ident)

    def refusal(self, ident: Id, error: str) -> frames.PromptResult:
        """Return the outcome of a prompt that was acknowledged but could not start."""
        result = self._without_prompt(ident, "error")
        result.error = frames.PromptError(message=error, retryable=False)
        return result

    async def report_handled(self, ident: Id, runs_before: int | None = None) -> None:
        """Report the outcome of a prompt that an extension handled.

        If the extension started a run, the outcome is that of the run. `runs_before` is the value of `unprompted_runs` from
        before the extension was called.
        """
        hooks = self._session.extensions.hooks
        before = self.unprompted_runs if runs_before is None else runs_before
        if hooks is not None:
            await hooks.flush_outbox()
        if self._session.activity.is_streaming and not self._prompts:
            self._prompts.add(None, ident)
            return
        result = self._without_prompt(ident, "completed")
        result.agent_invoked = self.unprompted_runs > before
        self._to_host.send(result)

    def observe(self, event: Event) -> None:
        """Update the outcomes for an event, before its frames are sent."""
        if isinstance(event, AgentStart):
            self.unprompted_runs += not self._prompts
        self._prompts.observe(event)
        if isinstance(event, AgentSettled):
            self._to_host.settle()  # the outcome of a prompt follows the end of its run
            self.report()
            self._to_host.send(frames.SessionSettled())
        elif isinstance(event, SessionReplaced):
            self.report()

    def report(self) -> None:
        """Report the outcome of each prompt that is no longer queued. As in omp, prompts that were queued come first."""
        for ident, outcome in self._prompts.take_finished():
            self._to_host.send(_result(ident, outcome))

    def _without_prompt(self, ident: Id, status: Literal["completed", "error"]) -> frames.PromptResult:
        """Return the outcome of a prompt that never reached the agent."""
        is_settled = not self._session.activity.is_streaming
        return frames.PromptResult(id=ident, agent_invoked=False, status=status, session_settled=is_settled)


def _result(ident: Id, outcome: PromptOutcome) -> frames.PromptResult:
    result = frames.PromptResult(id=ident, agent_invoked=outcome.delivered, status=outcome.status, session_settled=True)
    if outcome.status == "error" and outcome.end is not None:
        message = outcome.end.message
        result.error = frames.PromptError(
            message=message.error_message or "unknown error",
            retryable=outcome.end.transient,
            provider=message.provider,
            model=message.model,
            http_status=UNSET if outcome.end.status is None else outcome.end.status,
        )
    return result
