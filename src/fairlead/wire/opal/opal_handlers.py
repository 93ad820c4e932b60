"""Handlers for the methods of Opal's protocol."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import UNSET

from fairlead import __version__
from fairlead.agent.tool_sets import opal
from fairlead.errors import EntryNotFound, LoginFailed, MoveCancelled, NothingToCompact
from fairlead.models.credentials import store_key
from fairlead.protocol.opal import opal_methods as m
from fairlead.protocol.opal.opal_objects import PROTOCOL_VERSION, ListedSession, Nothing
from fairlead.stores.paths import iso
from fairlead.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, BadParams, RpcError
from fairlead.wire.opal.opal_codec import encode_model, history, in_use, level_named, model_named
from fairlead.wire.opal.session_table import own_folder
from fairlead.wire.routing import Answer, Request, RequestRoute

if TYPE_CHECKING:
    from fairlead.wire.opal.opal_server import OpalServer
    from fairlead.wire.opal.opal_session import OpalSession

#: The name of the Erlang node of Opal's server when it runs without one.
NODE_NAME = "nonode@nohost"


# Sessions


async def _start(server: OpalServer, params: m.SessionStart) -> Answer:
    session = await server.table.start(params)
    result = m.Started(
        session_id=session.id,
        session_dir=str(own_folder(server.table.defaults.catalogue.cwd, session.id)),
        context_files=session.narrator.context_files(),
        available_skills=session.skills(),
        node_name=NODE_NAME,
        auth=server.auth(session.session.model),
    )
    return Answer(result, session.narrator.announce_context_files)


async def _list(server: OpalServer, params: m.SessionList) -> m.SavedSessions:
    catalogue, warn = server.table.defaults.catalogue, server.table.defaults.base.behaviour.warn
    found = await catalogue.archive.summaries(catalogue.cwd, everywhere=True)
    for info in found:
        if info.problem is not None and warn is not None:
            warn(f"session/list leaves out a damaged session. {info.problem}")
    usable = [info for info in found if info.problem is None]
    return m.SavedSessions(
        [ListedSession(info.id, info.title() or None, iso(info.modified).partition(".")[0]) for info in usable]
    )


def _history(server: OpalServer, params: m.SessionHistory) -> m.HistoryMessages:
    return m.HistoryMessages(history(server.table.get(params.session_id).session.history.conversation))


async def _branch(server: OpalServer, params: m.SessionBranch) -> Answer:
    session = server.table.get(params.session_id)
    try:
        return Answer(Nothing(), await session.branch(params.entry_id))
    except (EntryNotFound, MoveCancelled) as error:
        raise RpcError(INTERNAL_ERROR, "Branch failed", str(error)) from None


async def _compact(server: OpalServer, params: m.SessionCompact) -> Nothing:
    session = server.table.get(params.session_id)
    with suppress(NothingToCompact):  # it is short enough already
        await session.compact(params.keep_recent)
    return Nothing()


async def _delete(server: OpalServer, params: m.SessionDelete) -> Answer:
    tell_all = await server.table.delete(params.session_id)
    if tell_all is None:
        raise RpcError(INVALID_PARAMS, "Session not found", params.session_id)
    return Answer(m.Done(ok=True), tell_all)


# Running


async def _prompt(server: OpalServer, params: m.AgentPrompt) -> Answer:
    session = server.table.get(params.session_id)
    if session.session.model is None:
        server.choose_model(session)
    prompted = await session.prompt(params.text)
    return Answer(m.Accepted(prompted.queued), prompted.then)


async def _resume(server: OpalServer, params: m.AgentResume) -> Answer:
    return Answer(Nothing(), await server.table.get(params.session_id).resume())


def _abort(server: OpalServer, params: m.AgentAbort) -> Answer:
    return Answer(Nothing(), server.table.get(params.session_id).stop)


def _abort_early(server: OpalServer, request: Request, before: Iterable[Request]) -> bool:
    """Whether an abort acts before its turn. It does not if earlier requests may start something that it is meant for."""
    session_id = _session_id(request)
    return session_id is None or all(_session_id(each) != session_id for each in before)


def _session_id(request: Request) -> str | None:
    """The session that a request names. The request in progress is decoded already."""
    match request.body, request.parameters:
        case {"session_id": str(session_id)}, _:
            return session_id
        case _, m.OfSession(session_id=session_id):
            return session_id
        case _:
            return None


def _state(server: OpalServer, params: m.AgentState) -> m.SessionState:
    session = server.table.get(params.session_id)
    inner = session.session
    return m.SessionState(
        session_id=session.id,
        status=session.status,
        model=in_use(inner.model, inner.thinking),
        message_count=inner.history.count,
        tools=session.tools().enabled,
        token_usage=session.narrator.usage(),
    )


def _tasks(server: OpalServer, params: m.TasksList) -> m.Tasks:
    return m.Tasks(
        opal.open_tasks(opal.tasks_of(server.table.get(params.session_id).session.history.conversation).tasks.values())
    )


# Models


def _models(server: OpalServer, params: m.ModelsList) -> m.ListedModels:
    return m.ListedModels([encode_model(model) for model in server.registry.available()])


def _set_model(server: OpalServer, params: m.ModelSet) -> m.ModelChosen:
    session = server.table.get(params.session_id).session
    level = None if params.thinking_level is None else level_named(params.thinking_level, "thinking_level")
    model = model_named(server.registry, params.model_id)
    session.models.set_model(model.provider, model.id)
    if level is not None:
        session.models.set_thinking(level)
    return m.ModelChosen(in_use(session.model, session.thinking))


def _set_thinking(server: OpalServer, params: m.ThinkingSet) -> m.ThinkingChosen:
    session = server.table.get(params.session_id).session
    session.models.set_thinking(level_named(params.level, "level"))
    return m.ThinkingChosen(in_use(session.model, session.thinking).thinking_level)


# Credentials


def _auth_status(server: OpalServer, params: m.AuthStatus) -> m.CredentialStatus:
    auth = server.auth(None, in_full=True)
    return m.CredentialStatus(auth.status == "ready", auth)


def _set_key(server: OpalServer, params: m.AuthSetKey) -> m.Done:
    registry = server.registry
    if not params.provider.strip() or not params.api_key.strip():
        raise BadParams("provider and api_key must not be empty")
    registry.home.refuse_if_shared("The keys of the server")  # whatever the provider
    provider = params.provider.strip()
    if not any(provider == known for known, _ in registry.providers()):
        raise BadParams(f"provider: {registry.unknown_provider(provider)}")
    store_key(registry.home, provider, params.api_key)
    registry.keys_changed()
    return m.Done(ok=True)


async def _login(server: OpalServer, params: m.AuthLogin) -> m.LoginBegun:
    try:
        code = await server.logins.begin(server.logins.provider(server.table.defaults.base.provider))
    except LoginFailed as error:
        raise RpcError(INTERNAL_ERROR, "Login flow failed", str(error)) from None
    return m.LoginBegun(code.user_code, code.verification_uri, code.device_code, code.interval)


async def _poll(server: OpalServer, params: m.AuthPoll) -> m.LoggedIn:
    if params.interval < 0:
        raise BadParams(f"interval: expected a number of seconds, got {params.interval}")
    try:
        preferred = server.table.defaults.base.provider
        await server.logins.finish(params.device_code, params.interval, otherwise=preferred, sleep=server.pause)
    except LoginFailed as error:
        raise RpcError(INTERNAL_ERROR, "Auth polling failed", str(error)) from None
    return m.LoggedIn(authenticated=True)


# Settings


def _settings(server: OpalServer, params: m.SettingsGet) -> m.SettingsResult:
    return m.SettingsResult(server.table.defaults.saved.read())


def _save(server: OpalServer, params: m.SettingsSave) -> m.SettingsResult:
    return m.SettingsResult(server.table.defaults.saved.save(params.settings))


def _config(server: OpalServer, params: m.ConfigGet) -> m.Config:
    return _encode_config(server.table.get(params.session_id))


def _configure(server: OpalServer, params: m.ConfigSet) -> m.Config:
    session = server.table.get(params.session_id)
    if params.distribution is not None and params.distribution is not UNSET:
        raise BadParams("distribution: an Erlang node cannot be started here; leave it out, or give null")
    session.configure(params.features, params.tools)
    return _encode_config(session)


def _encode_config(session: OpalSession) -> m.Config:
    return m.Config(session.features, session.tools(), None)


# The connection


def _ping(server: OpalServer, params: m.Ping) -> Nothing:
    return Nothing()


def _version(server: OpalServer, params: m.Version) -> m.Versions:
    return m.Versions(__version__, PROTOCOL_VERSION)


#: Each session loads its own extensions, so no request waits for those of another session.
ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(m.SessionStart, _start, needs_extensions=False),
    RequestRoute(m.SessionList, _list, needs_extensions=False),
    RequestRoute(m.SessionHistory, _history, needs_extensions=False),
    RequestRoute(m.SessionBranch, _branch, needs_extensions=False),
    RequestRoute(m.SessionCompact, _compact, needs_extensions=False, when="late"),
    RequestRoute(m.SessionDelete, _delete, needs_extensions=False),
    RequestRoute(m.AgentPrompt, _prompt, needs_extensions=False),
    RequestRoute(m.AgentResume, _resume, needs_extensions=False),
    RequestRoute(m.AgentAbort, _abort, needs_extensions=False, urgent=_abort_early),
    RequestRoute(m.AgentState, _state, needs_extensions=False),
    RequestRoute(m.TasksList, _tasks, needs_extensions=False),
    RequestRoute(m.ModelsList, _models, needs_extensions=False),
    RequestRoute(m.ModelSet, _set_model, needs_extensions=False),
    RequestRoute(m.ThinkingSet, _set_thinking, needs_extensions=False),
    RequestRoute(m.AuthStatus, _auth_status, needs_extensions=False),
    RequestRoute(m.AuthSetKey, _set_key, needs_extensions=False),
    RequestRoute(m.AuthLogin, _login, needs_extensions=False, when="late"),
    RequestRoute(m.AuthPoll, _poll, needs_extensions=False, when="late"),
    RequestRoute(m.SettingsGet, _settings, needs_extensions=False),
    RequestRoute(m.SettingsSave, _save, needs_extensions=False),
    RequestRoute(m.ConfigGet, _config, needs_extensions=False),
    RequestRoute(m.ConfigSet, _configure, needs_extensions=False),
    RequestRoute(m.Ping, _ping, needs_extensions=False, when="now"),
    RequestRoute(m.Version, _version, needs_extensions=False),
)
