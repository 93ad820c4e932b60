"""The handlers of the commands for sessions and their history."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from fairlead.errors import BadCommand, CompactionCancelled, EntryNotFound, FairleadError, MoveCancelled
from fairlead.export import export_lines
from fairlead.platform.process import run_in_thread
from fairlead.protocol.pi import session_commands as c
from fairlead.wire.pi.pi_encoding import Spliced
from fairlead.wire.routing import Late, RequestRoute

if TYPE_CHECKING:
    from fairlead.core.events import CompactionResult
    from fairlead.wire.pi.pi_server import PiServer

#: The most messages on a page, the number of messages if the host gives no limit, and the most bytes on a page.
MOST_MESSAGES, DEFAULT_MESSAGES, PAGE_BYTES = 256, 100, 768 * 1024
#: The most digits of the offset in a cursor. Python refuses to parse thousands of them.
LONGEST_OFFSET = 18


# Switching between sessions


async def _new_session(server: PiServer, command: c.NewSession) -> c.Switched:
    try:
        await server.session.history.new(command.parent_session)
    except MoveCancelled:
        return c.Switched(cancelled=True)
    return c.Switched(cancelled=False)


async def _switch_session(server: PiServer, command: c.SwitchSession) -> c.Switched:
    try:
        created = await server.session.history.switch(command.session_path)
    except MoveCancelled:
        return c.Switched(cancelled=True)
    return c.Switched(cancelled=False, created=created or UNSET)


async def _fork(server: PiServer, command: c.Fork | c.Branch) -> c.Forked:
    try:
        return c.Forked(cancelled=False, text=await server.session.fork(command.entry_id))
    except MoveCancelled:
        return c.Forked(cancelled=True)
    except EntryNotFound:
        what = "forking" if isinstance(command, c.Fork) else "branching"
        raise BadCommand(f"Invalid entry ID for {what}") from None


async def _clone(server: PiServer, command: c.Clone) -> c.Switched:
    if not server.session.history.count:
        raise BadCommand("This session has not been saved yet. Send a message before cloning or forking it.")
    try:
        await server.session.history.clone()
    except MoveCancelled:
        return c.Switched(cancelled=True)
    return c.Switched(cancelled=False)


async def _list_sessions(server: PiServer, command: c.ListSessions) -> c.SessionList:
    return c.SessionList(await server.session.history.list_saved(everywhere=bool(command.all)))


async def _delete_session(server: PiServer, command: c.DeleteSession) -> None:
    await server.session.history.delete(command.session_path)


def _set_session_name(server: PiServer, command: c.SetSessionName) -> None:
    server.session.history.set_name(command.name)


# The tree


def _get_fork_messages(server: PiServer, command: c.GetForkMessages | c.GetBranchMessages) -> c.ForkMessages:
    found = server.session.history.log.user_messages()
    return c.ForkMessages([c.ForkMessage(entry_id, text) for entry_id, text in found])


def _get_entries(server: PiServer, command: c.GetEntries) -> Spliced:
    log = server.session.history.log
    try:
        entries = log.entries_json(command.since)
    except EntryNotFound:
        raise BadCommand(f"Unknown entries cursor: {command.since}", code="unknown_since") from None
    return Spliced((b'{"entries":', entries, b',"leafId":', msgspec.json.encode(log.leaf), b"}"))


def _get_tree(server: PiServer, command: c.GetTree) -> Spliced:
    log = server.session.history.log
    return Spliced((b'{"tree":', log.tree_json(), b',"leafId":', msgspec.json.encode(log.leaf), b"}"))


async def _navigate_tree(server: PiServer, command: c.NavigateTree) -> c.Navigated:
    session = server.session
    try:
        arrival = await session.navigate(
            command.target_id, summarise=bool(command.summarize), instructions=command.custom_instructions
        )
    except (CompactionCancelled, MoveCancelled):
        return c.Navigated(cancelled=True, leaf_id=session.history.log.leaf)
    return c.Navigated(
        cancelled=False,
        leaf_id=arrival.leaf,
        editor_text=UNSET if arrival.text is None else arrival.text,
        summary_entry_id=UNSET if arrival.summary is None else arrival.summary,
    )


def _set_label(server: PiServer, command: c.SetLabel) -> c.Labelled:
    return c.Labelled(server.session.history.set_label(command.target_id, command.label))


# Long histories


def _get_messages_page(server: PiServer, command: c.GetMessagesPage) -> Spliced:
    session = server.session
    limit = DEFAULT_MESSAGES if command.limit is None else command.limit
    if not 1 <= limit <= MOST_MESSAGES:
        raise BadCommand(f"RPC message page limit must be between 1 and {MOST_MESSAGES}")
    if session.activity.is_streaming or session.activity.is_compacting:
        raise BadCommand("Cannot page messages while the session is changing", code="session_busy")
    log = session.history.log
    place = f"{session.history.id}:{log.leaf}"
    first = _offset(command.cursor, place)
    messages = log.raw_messages()
    if first > len(messages):
        raise BadCommand("Invalid RPC message cursor")
    end, size = first, 0
    while end < min(first + limit, len(messages)) and (end == first or size + len(messages[end]) <= PAGE_BYTES):
        size += len(messages[end])
        end += 1
    following = b',"nextCursor":%b' % msgspec.json.encode(f"{place}:{end}") if end < len(messages) else b""
    page = b",".join(messages[first:end])
    return Spliced((b'{"messages":[', page, b'],"totalMessages":%d' % len(messages), following, b"}"))


def _offset(cursor: str | None, place: str) -> int:
    if cursor is None:
        return 0
    where, _, offset = cursor.rpartition(":")
    if ":" not in where or not offset.isdecimal() or len(offset) > LONGEST_OFFSET:
        raise BadCommand("Invalid RPC message cursor")
    if where != place:
        raise BadCommand("The conversation has changed since this cursor was given", code="stale_cursor")
    return int(offset)


# Compaction


def _compact(server: PiServer, command: c.Compact) -> Coroutine[Any, Any, CompactionResult]:
    # The compaction starts immediately, so that a prompt right after it finds it.
    return _result(server.session.compact(command.custom_instructions))


async def _result(compaction: asyncio.Task[CompactionResult]) -> CompactionResult:
    return await compaction


def _set_auto_compaction(server: PiServer, command: c.SetAutoCompaction) -> None:
    if command.persist:
        server.persist("compaction.enabled", command.enabled)
    server.session.activity.auto_compaction = command.enabled


# Export


def _export_html(server: PiServer, command: c.ExportHtml) -> Coroutine[Any, Any, c.Exported]:
    history = server.session.history
    conversation = history.conversation
    if history.sessions.archive.name_of(conversation) is None:
        raise FairleadError("Cannot export in-memory session to HTML")
    if not history.count and not server.profile.exports_empty:
        raise FairleadError("Nothing to export yet - start a conversation first")
    if command.output_path == "":
        raise BadCommand("outputPath: expected the path of a file, got an empty string")
    name = conversation.id if conversation.path is None else conversation.path.stem
    target = command.output_path or f"{server.profile.name}-session-{name}.html"
    workspace = server.session.host.workspace
    path = workspace.resolve(target)
    if not workspace.may_work_in(path):
        raise BadCommand(f"outputPath: {target} is outside {workspace.root}, and sessions may not write there")
    if conversation.path is not None and (path.resolve() == conversation.path.resolve() or conversation.is_kept_in(path)):
        raise BadCommand("outputPath: that is the session's own file, which the page would replace")
    # A copy: entries that are added while the page is written are not part of it.
    return _export(conversation.log.lines_of_file(), conversation.log.leaf, path, target)


async def _export(lines: list[bytes], leaf: str | None, path: Path, name: str) -> c.Exported:
    # The thread must not delay the exit of the process: exporting a long session takes a while.
    await run_in_thread(lambda: export_lines(lines, leaf, path))
    return c.Exported(name)


async def _reload(server: PiServer, command: c.Reload) -> c.Reloaded:
    return c.Reloaded([] if server.reload_extensions is None else await server.reload_extensions())


async def _resume(server: PiServer, command: c.Resume) -> Late | None:
    await server.session.history.open()
    hooks = await server.session.extensions.ready(stoppable=True)
    work = server.session.activity.resume()
    if hooks is None or not hooks.wants("before_agent_start"):
        return await work
    return Late(work)  # as a prompt: an extension may take long to prepare the run


ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(c.NewSession, _new_session),
    RequestRoute(c.SwitchSession, _switch_session),
    RequestRoute(c.Fork, _fork),
    RequestRoute(c.Branch, _fork),
    RequestRoute(c.Clone, _clone),
    RequestRoute(c.ListSessions, _list_sessions),
    RequestRoute(c.DeleteSession, _delete_session),
    RequestRoute(c.SetSessionName, _set_session_name),
    RequestRoute(c.GetForkMessages, _get_fork_messages),
    RequestRoute(c.GetBranchMessages, _get_fork_messages),
    RequestRoute(c.GetEntries, _get_entries),
    RequestRoute(c.GetTree, _get_tree),
    RequestRoute(c.NavigateTree, _navigate_tree),
    RequestRoute(c.SetLabel, _set_label),
    RequestRoute(c.GetMessagesPage, _get_messages_page),
    RequestRoute(c.Compact, _compact, when="late"),
    RequestRoute(c.SetAutoCompaction, _set_auto_compaction),
    RequestRoute(c.ExportHtml, _export_html, when="late"),
    RequestRoute(c.Resume, _resume, needs_extensions=False),
    RequestRoute(c.Reload, _reload, when="late", needs_extensions=False),
)
