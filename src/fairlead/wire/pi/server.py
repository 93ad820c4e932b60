"""Serves one host of the pi family, with one session and one profile."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from fairlead.core.events import AgentSettled, Event, SessionReplaced, SubagentEvent, SubagentLifecycle, SubagentProgress
from fairlead.protocol.pi.commands import Command
from fairlead.session.session import Session
from fairlead.wire.connection import Connection
from fairlead.wire.dialects import dialect_named
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.messages import HostReply, Request, RouteTable
from fairlead.wire.pi.codec import PiCodec
from fairlead.wire.pi.encode import EventFrames
from fairlead.wire.pi.profile import Profile
from fairlead.wire.pi.routes import command_name, family_routes
from fairlead.wire.pi.updates import ChunkedOutlet, Form, Pacing, Updates
from fairlead.wire.questions import Questions

if TYPE_CHECKING:
    from fairlead.core.runtime import Ui
    from fairlead.models.logins import Logins
    from fairlead.wire.pi.host_tools import HostTools, HostUris
    from fairlead.wire.pi.omp_handlers import AnnouncedCommands
    from fairlead.wire.pi.subagent_frames import SubagentFrames

_OF_SUBAGENTS = frozenset({SubagentLifecycle, SubagentProgress, SubagentEvent})


class PiServer:
    """Implements `fairlead.wire.messages.Service`. Handlers reach everything they need through it."""

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
            from fairlead.wire.pi.outcomes import Outcomes

            self.codec.outcomes = Outcomes(session, self.frames)
        #: Reports the outcome of each prompt. None if hosts of this profile do not get such reports.
        self.outcomes = self.codec.outcomes
        #: Announces the slash commands. None if hosts of this profile ask for them.
        self.commands: AnnouncedCommands | None = None
        if profile.omp_events:
            from fairlead.wire.pi.omp_handlers import AnnouncedCommands

            self.commands = AnnouncedCommands(session.additions, self.frames.send)
        self.dispatcher = Dispatcher(connection, self)
        self._is_extended = not session.extensions.may_exist
        if dialect_named(profile.name).can_ask:
            session.host.make_ui = self._make_ui
        session.subscribe(self._send_event, gate=connection.output)

    def make_routes(self) -> RouteTable:
        """Return the routes of the dialect."""
        return family_routes()

    async def serve(self) -> None:
        """Serve the host until its input ends or it asks to shut down."""
        self.frames.greet()
        if self.commands is not None:
            await self.commands.announce()
        await self.dispatcher.serve()

    # For the dispatcher

    def when_written(self, action: Callable[[], object]) -> None:
        self.session.history.when_written(action)

    def receive_reply(self, reply: HostReply) -> None:
        self.questions.receive(reply)

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        """Return what a command waits for.

        Most commands wait until extensions are loaded, because an extension can add what a command refers to.
        """
        if self._is_extended or request.route is None or not request.route.needs_extensions:
            return None
        return self._extended()

    async def _extended(self) -> None:
        await self.session.extensions.ready(stoppable=True)
        self._is_extended = True
        if self.commands is not None:
            await self.commands.announce()

    def serving(self, request: Request) -> AbstractContextManager[None]:
        return nullcontext()

    # For handlers

    def acknowledge(self, command: Command) -> None:
        """Send a success response for a command that is still running."""
        self.dispatcher.answer(Request(command_name(type(command)), command.id, None))

    @cached_property
    def subagents(self) -> SubagentFrames:
        from fairlead.wire.pi.subagent_frames import SubagentFrames

        return SubagentFrames(self.outlet, self.profile, self.frames, self.updates)

    @cached_property
    def host_tools(self) -> HostTools:
        from fairlead.wire.pi.host_tools import HostTools

        return HostTools(self.session.tools, self.questions)

    @cached_property
    def host_uris(self) -> HostUris:
        from fairlead.wire.pi.host_tools import HostUris

        return HostUris(self.questions, self.session.host.workspace)

    def _make_ui(self) -> Ui:
        from fairlead.wire.pi.ui import WireUi

        return WireUi(self.questions, self.frames.send, self.session.host.notify, self.profile, os.environ)

    def _send_event(self, event: Event) -> None:
        if type(event) in _OF_SUBAGENTS:
            self.subagents.send_event(event)  # pyright: ignore[reportArgumentType]
            return
        if self.outcomes is not None:
            self.outcomes.observe(event)
        self.frames.send_event(event)
        if self.commands is not None and isinstance(event, SessionReplaced | AgentSettled):
            self.commands.announce_soon()
