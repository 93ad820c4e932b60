"""The handlers of the commands that omp and xcsh add."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, to_builtins

from fairlead.core.lenient import scrub_text
from fairlead.errors import BadCommand, CompactionCancelled, FairleadError, LoginFailed, MoveCancelled, RunAborted
from fairlead.models.catalog import provider_label
from fairlead.protocol.pi import omp_commands as c
from fairlead.protocol.pi.frames import (
    BOUND,
    BOUNDED_VERSION,
    AvailableCommand,
    AvailableCommandsUpdate,
    CommandHint,
    Frame,
    Notice,
)
from fairlead.wire.routing import RequestRoute

if TYPE_CHECKING:
    from fairlead.session.additions import SessionAdditions
    from fairlead.session.slash_commands import SlashCommand
    from fairlead.wire.pi.pi_server import PiServer


#: The APIs with a choice of service tiers, as omp has it.
_APIS_WITH_TIERS = frozenset(("anthropic-messages", "openai-responses", "google-generative-ai"))
#: What omp says to the user when a model has no faster mode.
NO_FAST_MODE = "The current model has no service-tier control for /fast to toggle."
#: A simplified language tag (BCP 47): a language, then parts such as a script or a region.
_LOCALE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")


def _negotiate_protocol(server: PiServer, command: c.NegotiateProtocol) -> c.Negotiated:
    if command.protocol_version != BOUNDED_VERSION:
        raise BadCommand(f"Unsupported RPC protocol version: {command.protocol_version}")
    server.outlet.max_frame = BOUND  # exactly this: omp's client accepts chunks with no other limit
    return c.Negotiated(BOUNDED_VERSION)


def _set_event_filter(server: PiServer, command: c.SetEventFilter) -> c.EventFilter:
    events: Any = command.events
    if events is not None:
        names = cast("list[Any]", events) if isinstance(events, list) else [None]
        if not all(isinstance(name, str) and name for name in names):
            raise BadCommand("events must be null or an array of non-empty event type strings")
        events = names
    server.frames.want(events)
    return c.EventFilter(events)


async def _open_session(server: PiServer, command: c.OpenSession) -> c.OpenedSession:
    session = server.session
    try:
        resumed = await session.history.open_folder(command.session_dir)
    except MoveCancelled:
        return c.OpenedSession(cancelled=True)
    return c.OpenedSession(
        cancelled=False, resumed=resumed, session_id=session.history.id, session_file=str(session.history.path)
    )


async def _handoff(server: PiServer, command: c.Handoff) -> c.HandedOff:
    session = server.session
    if not session.history.count:
        raise FairleadError("Nothing to hand off (no messages yet)")
    if session.activity.is_streaming:
        raise FairleadError("Cannot hand off while a response is in progress")
    try:
        await session.history.hand_off(command.custom_instructions)
    except (CompactionCancelled, MoveCancelled):
        raise FairleadError("Handoff cancelled") from None
    path = session.history.path
    return c.HandedOff(UNSET if path is None else str(path))


def _set_todos(server: PiServer, command: c.SetTodos) -> c.TodoPhases:
    todos = server.session.todos
    todos.set(command.phases)
    return c.TodoPhases(to_builtins(todos.phases))


def _set_fast_mode(server: PiServer, command: c.SetFastMode) -> c.FastMode:
    model = server.session.model
    has_tiers = model is not None and model.api in _APIS_WITH_TIERS
    if not has_tiers and server.profile.omp_events:
        server.frames.send(Notice("info", NO_FAST_MODE, "priority"))
    if not has_tiers and command.enabled:
        raise FairleadError("Fast mode is unavailable for the current model.")
    server.fast_mode = command.enabled and has_tiers
    return c.FastMode(enabled=server.fast_mode, active=False)


def _get_login_providers(server: PiServer, command: c.GetLoginProviders) -> c.LoginProviders:
    possible = () if server.logins is None else server.logins().possible()
    return c.LoginProviders(
        [
            c.LoginProvider(name, provider_label(name), available=name in possible, authenticated=has_key)
            for name, has_key in server.session.models.providers()
        ]
    )


async def _login(server: PiServer, command: c.Login) -> None:
    name, ui = command.provider_id, server.session.host.ui
    if not any(name == known for known, _ in server.session.models.providers()):
        raise BadCommand(f"Unknown OAuth provider: {name}")
    logins = None if server.logins is None else server.logins()
    if logins is None or name not in logins.possible():
        raise FairleadError(
            f"There is no login for {name}. Put its key into the environment or into auth.json; see `fairlead help models.md`."
        )

    if await logins.log_in_with_extension(name, ui):
        return

    async def pause(seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not ui.available:
            raise LoginFailed("The host has left.")

    code = await logins.begin(name)
    ui.open_url(code.verification_uri, f"Enter the code {code.user_code}")
    await logins.finish(code.device_code, code.interval, sleep=pause)


def _set_locale(server: PiServer, command: c.SetLocale) -> c.Locale:
    return c.Locale(set_locale(server, command.locale))


def set_locale(server: PiServer, locale: str) -> str:
    """Make the model answer in the language of `locale`. Raises BadCommand if it is not a language tag."""
    locale = locale.strip()
    if locale and not _LOCALE.fullmatch(locale):
        raise BadCommand(f'locale: expected a language tag such as "en" or "pt-BR", got "{locale}"')
    server.session.host.locale = locale or None
    return locale


def _get_integrations(server: PiServer, command: c.GetIntegrations) -> c.Integrations:
    return c.Integrations([])


class AnnouncedCommands:
    """Sends the slash commands to hosts of omp: once at the start, and when they have changed."""

    def __init__(self, additions: SessionAdditions, send: Callable[[Frame], None]) -> None:
        self._additions = additions
        self._send = send
        self._announced: list[AvailableCommand] | None = None
        self._task: asyncio.Task[None] | None = None

    async def announce(self) -> None:
        """Send the commands, unless the host knows them."""
        with suppress(RunAborted):
            await self._additions.prepare()
        commands = [_available(command) for command in self._additions.slash_commands()]
        if commands != self._announced:
            self._announced = commands
            self._send(AvailableCommandsUpdate(commands))

    def announce_soon(self) -> None:
        """The same, when the caller is done."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self.announce(), name="fairlead-commands")


def _available(command: SlashCommand) -> AvailableCommand:
    source = "file" if command.source == "prompt" else command.source
    return AvailableCommand(scrub_text(command.name), source, scrub_text(command.description) or UNSET, CommandHint("arguments"))


ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(c.NegotiateProtocol, _negotiate_protocol, needs_extensions=False),
    RequestRoute(c.SetEventFilter, _set_event_filter, needs_extensions=False),
    RequestRoute(c.OpenSession, _open_session),
    RequestRoute(c.Handoff, _handoff),
    RequestRoute(c.SetTodos, _set_todos),
    RequestRoute(c.SetFastMode, _set_fast_mode),
    RequestRoute(c.GetLoginProviders, _get_login_providers),
    RequestRoute(c.Login, _login, when="late"),
    RequestRoute(c.SetLocale, _set_locale),
    RequestRoute(c.GetIntegrations, _get_integrations),
)
