"""The sessions of one process: starting, finding and deleting them, and asking the user of their client."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from fairlead.agent import Agent, Shared
from fairlead.agent.options import AgentOptions, Storage
from fairlead.agent.tool_sets import opal
from fairlead.config import json_files, project_files
from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny, NewRule
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import AssistantMessage
from fairlead.core.model import Model
from fairlead.core.runtime import CancelToken, NotifyKind, Placement
from fairlead.errors import ConfigError, FairleadError, ModelNotFound
from fairlead.models.model_patterns import qualify
from fairlead.protocol.opal import opal_events as asked
from fairlead.protocol.opal.opal_events import NOTIFICATION
from fairlead.protocol.opal.opal_methods import SessionStart
from fairlead.protocol.opal.opal_objects import ADVICE, FeatureChanges, Features, Method
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
from fairlead.session.session import Session
from fairlead.sessions.catalogue import Catalogue, Common
from fairlead.sessions.open_sessions import OpenSessions, opening
from fairlead.stores.paths import transcripts_folder
from fairlead.wire.host_connection import HostOutput
from fairlead.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, BadParams, OutboundRequests, RpcError, notification_line
from fairlead.wire.opal.opal_codec import level_named, model_named
from fairlead.wire.opal.opal_narrator import Narrator
from fairlead.wire.opal.opal_session import SERVER_TOOLS, OpalSession, change_features, do_nothing
from fairlead.wire.pending import Unanswered

#: The features of a session, unless the client says otherwise.
DEFAULT_FEATURES = Features(sub_agents=True, skills=True, debug=False)

FAILED_TO_START = "Failed to start session"


class SessionDefaults(Struct, frozen=True, kw_only=True):
    """What sessions have in common, and their options unless the client says otherwise."""

    #: The options from the command line.
    base: AgentOptions
    #: The saved sessions. Its directory has the other files of sessions too.
    catalogue: Catalogue
    #: Whether new sessions are saved.
    keeps: bool
    #: The settings that clients have saved.
    saved: OpalSettings
    shared: Shared
    #: The user's settings, without those of any project.
    settings: Settings
    #: Called with each agent when its session is open.
    opened: Callable[[Agent], object] | None = None


class SessionTable(OpenSessions[str, OpalSession]):
    """The sessions that clients have started."""

    def __init__(self, defaults: SessionDefaults, output: HostOutput, requests: OutboundRequests) -> None:
        super().__init__()
        self.defaults = defaults
        self._output = output
        self._requests = requests

    def get(self, session_id: str) -> OpalSession:
        """Return a running session. Raises RpcError if there is no such session."""
        found = self.find(session_id)
        if found is None:
            raise RpcError(INVALID_PARAMS, "Session not found", f'No session "{session_id}" has been started.')
        return found

    async def start(self, wanted: SessionStart) -> OpalSession:
        """Begin a session or resume a saved one.

        Raises RpcError, and changes nothing then. Requests to start are handled one at a time, so no other session
        takes the id meanwhile."""
        defaults = self.defaults
        session_id = check_id(wanted.session_id) if wanted.session_id is not None else os.urandom(16).hex()
        running = self.find(session_id)
        if running is not None and not running.is_lost:
            raise RpcError(INTERNAL_ERROR, FAILED_TO_START, f'The session "{session_id}" has been started already.')
        kept = defaults.keeps and (bool(wanted.session) or wanted.session_id is not None)
        try:
            resumed = kept and await defaults.catalogue.find(session_id) is not None
            agent = Agent(self._options(wanted, session_id, kept=kept, resumed=resumed), shared=defaults.shared)
            async with opening(agent):
                session = await self._begin(agent, session_id, wanted)
        except RpcError:
            raise
        except FairleadError as error:
            raise RpcError(INTERNAL_ERROR, FAILED_TO_START, str(error)) from None
        if running is not None:
            await self.end(running)
        self.add(session_id, session)
        return session

    async def _begin(self, agent: Agent, session_id: str, wanted: SessionStart) -> OpalSession:
        """Make the session of an agent that is open. Raises RpcError."""
        defaults = self.defaults
        if wanted.working_dir is not None:  # not the working directory that the conversation had before
            agent.session.host.workspace.cwd = _folder(defaults.base, wanted.working_dir)
        if defaults.opened is not None:
            defaults.opened(agent)
        await agent.session.additions.prepare()
        return self._session(session_id, agent, wanted)

    async def delete(self, session_id: str) -> Callable[[], None] | None:
        """Close a session and delete its files.

        Returns a function that sends the events of the run that was stopped for it; None if there is no such session. Raises
        SessionError."""
        session = self.find(session_id)
        archive = self.defaults.catalogue.archive
        name = archive.name_for(session_id)
        if session is None:
            return do_nothing if await archive.delete(name) else None
        with session.silent() as tell_all:
            await self.end(session)
            await archive.delete(name)
            return tell_all

    # Assembling a session

    def _options(self, wanted: SessionStart, session_id: str, *, kept: bool, resumed: bool) -> AgentOptions:
        defaults = self.defaults
        base, catalogue = defaults.base, defaults.catalogue
        allowed = base.tool_names() if wanted.tools is None else wanted.tools

        def conversation(sessions: ConversationStore) -> Conversation:
            if not kept:
                return sessions.new(id=session_id)
            sessions.archive = catalogue.archive
            return sessions.open_or_new(catalogue.archive.name_for(session_id), session_id)[0]

        options = replace(
            base,
            cwd=_folder(base, wanted.working_dir),
            store=Storage(durability=base.storage.durability),
            keep=False,
            extra_tools=[tool for tool in base.own_tools() if tool.name not in base.exclude_tools],
            # Of the tools that come later, those of MCP servers are chosen here. `OpalSession` chooses the others.
            tools=opal.opal_tools(
                data_dir=own_folder(catalogue.cwd, session_id),
                excluded=base.exclude_tools,
                only=None if allowed is None else _list_server_tools(allowed),
            ),
            exclude_tools=_list_server_tools(base.exclude_tools),
            behaviour=replace(
                base.behaviour,
                conversation=conversation,
                advice=[*base.behaviour.advice, ADVICE],
                # Requests are answered in order: a key that takes long to find must not hold up those of other sessions.
                waits_for_key=False,
            ),
        )
        if wanted.system_prompt is not None:
            options.system_prompt = wanted.system_prompt
        self._choose_model(options, wanted, resumed)
        return options

    def _choose_model(self, options: AgentOptions, wanted: SessionStart, resumed: bool) -> None:
        """Choose the client's model, else that of the command line, else, for a new session, that of Opal's settings."""
        registry = self.defaults.shared.registry
        if wanted.model is not None:
            options.model, options.provider = model_named(registry, wanted.model.id, wanted.model.provider), None
            if wanted.model.thinking_level is not None:
                options.thinking = level_named(wanted.model.thinking_level, "model.thinking_level")
        elif options.model is None and options.provider is None and not options.behaviour.models and not resumed:
            saved = self.defaults.saved.default_model()
            if saved is not None:
                try:
                    options.model = model_named(registry, saved)
                except BadParams as error:
                    if options.behaviour.warn is not None:
                        options.behaviour.warn(f"{self.defaults.saved.path}: default_model: {error}")

    def usual_model(self) -> Model | None:
        """Return the model of a new session whose client names none; None if it would have none.

        An extension may add the model that the command line names. Until it is loaded, the default stands in.
        """
        base, registry = self.defaults.base, self.defaults.shared.registry
        options = replace(base, behaviour=replace(base.behaviour, warn=None))
        self._choose_model(options, SessionStart(), resumed=False)
        with suppress(ModelNotFound):
            if isinstance(options.model, str) and options.model:
                return registry.match(qualify(options.provider, options.model))[0]
            if options.provider and not isinstance(options.model, Model):
                return registry.default_of(options.provider)
        return options.model if isinstance(options.model, Model) else registry.default(self.defaults.settings)

    def _session(self, session_id: str, agent: Agent, wanted: SessionStart) -> OpalSession:
        """Make the session. Raises BadParams if the client names tools that do not exist."""
        base, session = self.defaults.base, agent.session
        own = [name for name in opal.TOOL_NAMES if name not in base.exclude_tools]

        def window(answer: AssistantMessage | None) -> int:
            found = None if answer is None else self.defaults.shared.registry.find(answer.provider, answer.model)
            model = found or session.model
            return 0 if model is None else session.models.window(model)

        narrator = Narrator(
            session_id,
            self._output,
            lambda event: self._output.send(notification_line(NOTIFICATION, event)),
            window,
            frozenset(own),
            lambda: _context_files(session),
        )
        excluded = frozenset(base.exclude_tools)
        made = OpalSession(
            session_id,
            agent,
            narrator,
            own,
            excluded,
            change_features(DEFAULT_FEATURES, wanted.features or FeatureChanges()),
            gate=self._output,
        )
        session.host.make_ui = lambda: OpalUi(session_id, self._requests, made.show)
        if wanted.tools is None:
            made.allow(base.tool_names())
        else:
            made.configure(None, wanted.tools)
        return made


def _context_files(session: Session) -> list[str]:
    """The paths of the context files."""
    return [scrub_text(str(path)) for path in session.additions.context_files()]


def _folder(base: AgentOptions, working_dir: str | None) -> Path:
    """The working directory of a session. Raises BadParams if it does not exist."""
    if working_dir is None:
        return Path(base.cwd)
    folder = Path(base.cwd, os.path.expanduser(working_dir))  # noqa: PTH111  # Path.expanduser raises for unknown users
    try:
        # Asked first: otherwise, a client could find out what exists elsewhere.
        confinement = base.behaviour.confinement
        if confinement is not None and not confinement.allows(folder):
            raise BadParams(f"working_dir: {working_dir!r} is outside the directories that sessions may work in")
        is_folder = os.path.isdir(folder)
    except (OSError, ValueError):
        is_folder = False
    if not is_folder:
        raise BadParams(f"working_dir: expected the path of a folder, got {working_dir!r}")
    return folder


def _list_server_tools(names: Sequence[str]) -> list[str]:
    """Those of the names that can be MCP tools."""
    return [name for name in names if name.startswith(SERVER_TOOLS)]


#: The longest session id that a client may choose.
LONGEST_ID = 1024
#: Ids that are valid file names on every system. Files of other sessions are named by the hash of the id.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


def opal_catalogue(common: Common) -> tuple[Catalogue, bool]:
    """Return the catalogue of Opal's sessions, and whether new ones are saved.

    Their folder is that of the command line, or one in the home.
    """
    base, archive = common.base, common.archive()
    given = base.storage.folder
    folder = common.home.root / "opal" / "sessions" if given is None else Path(base.cwd, given)
    return Catalogue(archive.in_folder(folder, partial(file_of, folder)), folder), archive.keeps


def file_of(folder: Path, session_id: str) -> Path:
    """Return the file of a session."""
    plain = _PLAIN.fullmatch(session_id)
    return folder / f"{session_id if plain else '=' + sha256(session_id.encode()).hexdigest()}.jsonl"


def own_folder(folder: Path, session_id: str) -> Path:
    """Return the folder for the other files of a session. It may not exist yet."""
    return transcripts_folder(file_of(folder, session_id))


class OpalSettings(Struct, frozen=True):
    """The settings that clients save."""

    home: Home

    @property
    def path(self) -> Path:
        return self.home.root / "opal" / "settings.json"

    def read(self) -> dict[str, Any]:
        """The settings that clients have saved. Raises ConfigError if the file cannot be read."""
        data = None if self.home.isolated else project_files.read_bytes(self.path)
        return {} if data is None else json_files.parse_object(self.path, data)

    def save(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Add or replace settings. Returns all settings. Raises ConfigError."""
        self.home.refuse_if_shared("The settings of the server")
        if self.home.isolated:
            raise ConfigError("Settings are not saved in an isolated run.")
        json_files.update_object(self.path, lambda content: content.update(settings))
        return self.read()

    def default_model(self) -> str | None:
        """The saved default model; None if there is none, or the file cannot be read."""
        try:
            chosen = self.read().get("default_model")
        except ConfigError:
            return None
        return chosen if isinstance(chosen, str) and chosen.strip() else None


def check_id(session_id: str) -> str:
    """Return a session id that a client chose. Raises BadParams if it is empty or too long."""
    if not 1 <= len(session_id) <= LONGEST_ID:
        raise BadParams(f"session_id: expected 1 to {LONGEST_ID} characters, got {len(session_id)}")
    return session_id


R = TypeVar("R", bound=Struct)

#: Seconds to wait for an approval or a text, unless the caller says how long. Questions from the model have no limit.
DEFAULT_TIMEOUT = 30.0

#: What the user can answer to an approval. Everything but the two that allow the call refuses it.
ACTIONS: Mapping[str, Allow | None] = {"allow": Allow(), "deny": None, "allow_session": Allow(for_session=True)}
#: What the user can answer as well if a rule can be written, which the message then describes.
ALLOW_ALWAYS = "allow_always"


class OpalUi:
    """Implements `fairlead.core.runtime.Ui` for one session. `show` sends a status."""

    #: Hosts show lines of text alone.
    canvas = None

    def __init__(self, session_id: str, requests: OutboundRequests, show: Callable[[str], None]) -> None:
        self._session_id = session_id
        self._requests = requests
        self._show = show

    @property
    def available(self) -> bool:
        return self._requests.can_be_asked

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        """Return what the user chose. A client may answer with another text; without options it has to."""
        request = asked.AskUser(session_id=self._session_id, question=title, choices=list(options))
        try:
            return (await self._request(request, asked.UserAnswer, timeout=timeout, cancel=cancel)).answer
        except Unanswered:
            return None

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        request = asked.Input(session_id=self._session_id, prompt=title, sensitive=False)
        try:
            answer = await self._request(request, asked.InputText, timeout=timeout or DEFAULT_TIMEOUT, cancel=cancel)
        except Unanswered:
            return None
        return answer.text

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return await self.input(title, prefill, cancel=cancel)

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        request = asked.Confirm(session_id=self._session_id, title=title, message=message, actions=["allow", "deny"])
        answer = await self._confirm(request, timeout, cancel)
        return answer is not None and answer.action == "allow"

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        offer = request.rules
        rule = None if offer is None else NewRule(offer.patterns[0])
        always = "" if offer is None or rule is None else f"Always: {offer.describe(rule)}."
        confirm = asked.Confirm(
            session_id=self._session_id,
            title=request.title,
            message="\n\n".join(filter(None, (request.message, request.scope and f"For the session: {request.scope}.", always))),
            actions=[*ACTIONS, *([] if rule is None else [ALLOW_ALWAYS])],
            tool=request.tool_name,
            call_id=request.call_id,
            args=request.arguments,
            diff=UNSET if request.diff is None else request.diff,
        )
        answer = await self._confirm(confirm, timeout, cancel)
        if answer is None:
            return None
        if answer.action == ALLOW_ALWAYS and rule is not None:
            return Allow(rule=rule)
        return ACTIONS.get(answer.action) or Deny("" if answer.reason is UNSET else answer.reason)

    async def _confirm(
        self, request: asked.Confirm, timeout: float | None, cancel: CancelToken | None
    ) -> asked.Confirmation | None:
        try:
            return await self._request(request, asked.Confirmation, timeout=timeout or DEFAULT_TIMEOUT, cancel=cancel)
        except Unanswered:
            return None

    async def _request(self, request: Method, result: type[R], *, timeout: float | None, cancel: CancelToken | None) -> R:
        return await self._requests.request(request.method, request, result, timeout=timeout, cancel=cancel)

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        self._show(message)

    def set_status(self, key: str, text: str | None) -> None:
        if text:
            self._show(text)

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        """Opal's protocol has nothing for this."""

    def set_title(self, title: str) -> None:
        """Opal's protocol has nothing for this."""

    def set_editor_text(self, text: str) -> None:
        """Opal's protocol has nothing for this."""

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._show(f"{instructions} {url}" if instructions else url)
