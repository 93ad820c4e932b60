"""From one conversation to another, and from one branch to another.

Whatever runs is ended first, with all its events. What cannot be done is refused before that, as far as it can be known, and so
is what an extension forbids: MoveCancelled.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct

from fairlead.core.events import ExtensionError, SessionReplaced
from fairlead.core.messages import UserMessage, user_text
from fairlead.core.runtime import Interrupted
from fairlead.errors import BadCommand, EntryNotFound, MoveCancelled, SessionError
from fairlead.session.context.tokens import estimate_all
from fairlead.session.history.entries import BRANCH, Entry, entries_in_context, role_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.log import Log
    from fairlead.session.hooks import Cancelled, Summary
    from fairlead.session.session import Session


#: How a session begins that another one was handed off to.
HANDED_OFF = "This conversation continues another one. Here is what its agent wrote down for you:\n\n{}"


async def new_session(session: Session, parent: str | None = None) -> None:
    """Begin anew. `parent` is the file of the session that this one comes from, if the host wants that on record."""
    await _allowed_to_switch(session, "new")
    await session.stop()
    await _change(session, session.sessions.new(parent=parent), "new")


async def switch_session(session: Session, name: str) -> bool:
    """Go on with the session in a file; True if there was none, so that a new one will be kept there. Raises SessionError."""
    if not name.strip():
        raise BadCommand("sessionPath: expected the path of a session file, got an empty string")
    path = session.workspace.resolve(name)
    await _allowed_to_switch(session, "resume", path)
    present = session.conversation
    known = next((each for each in (present, *session.unsaved) if each.is_kept_in(path)), None)
    if known is None:
        conversation, created = session.sessions.open_or_new(path)
        await session.stop()
        await _change(session, conversation, "resume")
        return created
    await session.stop()
    if known is not present and known not in session.unsaved:  # all of it could be written meanwhile, and it was let go of
        known = session.sessions.open(path)
    if known.has_begun:  # as if it were opened again: at its end
        entries = known.log.entries()
        known.move(entries[-1].id if entries else None)
    await _change(session, known, "resume")
    return False


async def open_folder(session: Session, name: str) -> bool:
    """Keep sessions in another folder from here on; True if it had one to go on with. Raises SessionError, changing nothing."""
    from fairlead.session.history.listing import latest_session

    if not name.strip():
        raise BadCommand("sessionDir: expected the path of a folder, got an empty string")
    folder = session.workspace.resolve(name)
    if folder.exists() and not folder.is_dir():
        raise SessionError(f"{folder} is not a folder: no session can be kept there.")
    latest = latest_session(folder)
    if latest is not None and latest == session.conversation.path:
        session.sessions.folder = folder
        return True
    await _allowed_to_switch(session, "new" if latest is None else "resume", latest)
    conversation = session.sessions.open(latest) if latest is not None else None
    await session.stop()
    session.sessions.folder = folder
    await _change(session, conversation or session.sessions.new(), "new" if conversation is None else "resume")
    return conversation is not None


async def hand_off(session: Session, instructions: str | None = None) -> None:
    """Begin a new session with what the model writes down of this one. Raises what a compaction raises, changing nothing."""
    await _allowed_to_switch(session, "new")
    left = session.conversation
    told = [entry for entry, _ in entries_in_context(left.log.path())]
    with session.compactor.stoppable() as stop:
        summary = await session.compactor.summarise_branch(told, instructions, stop)
    # Kept before it is gone to: what cannot be written changes nothing.
    conversation = session.sessions.new(parent=str(left.path) if left.is_saved else None)
    log, model = conversation.log, session.model
    session.selection.write_down(log)
    log.custom_message("handoff", HANDED_OFF.format(summary.text), display=True)
    if model is not None:
        conversation.keep(lambda: log.usage("handoff", model.provider, model.id, summary.usage, "the notes above", keep=True))
    await session.stop()
    await _change(session, conversation, "new")


async def fork(session: Session, entry_id: str) -> str:
    """Go on in a new session with all that came before a message of the user's. Returns its text. Raises EntryNotFound."""
    text = _said(session.conversation.log, entry_id)
    if text is None:
        raise EntryNotFound(f"Entry {entry_id} is not a message of the user's.")
    await _allowed_to_fork(session, entry_id, "before")
    await session.stop()
    await _change(session, session.sessions.fork(session.conversation, before=entry_id), "fork")
    return text


async def clone(session: Session) -> None:
    """Go on in a new session that has everything up to here."""
    leaf = session.conversation.log.leaf
    if leaf is not None:
        await _allowed_to_fork(session, leaf, "at")
    await session.stop()
    await _change(session, session.sessions.fork(session.conversation), "fork")


async def _allowed_to_switch(session: Session, reason: Literal["new", "resume"], target: Path | None = None) -> None:
    hooks = await session.ready(stoppable=True)
    if hooks is not None and hooks.wants("session_before_switch"):
        await _allowed(session, hooks.before_switch(reason, None if target is None else str(target)))


async def _allowed_to_fork(session: Session, entry_id: str, position: Literal["before", "at"]) -> None:
    hooks = await session.ready(stoppable=True)
    if hooks is not None and hooks.wants("session_before_fork"):
        await _allowed(session, hooks.before_fork(entry_id, position))


async def _allowed(session: Session, question: Awaitable[Cancelled | None]) -> None:
    """Raises MoveCancelled if an extension says so, or if nobody waits for its answer any more."""
    try:
        forbidden = await session.ask(question)
    except Interrupted:
        raise MoveCancelled("it was aborted.") from None
    if forbidden is not None:
        raise MoveCancelled(forbidden.reason)


async def _change(session: Session, conversation: Conversation, reason: Literal["new", "resume", "fork"]) -> None:
    """Go on with another conversation, or with the present one from where it stands, and tell extensions on both sides of it."""
    left, hooks = session.conversation, await session.ready()
    if hooks is not None:
        with suppress(Interrupted):
            await session.ask(hooks.session_ends(reason, _file(conversation)))
        await session.stop()  # whatever they have begun meanwhile
    if conversation is left:
        session.stands_elsewhere()
    else:
        adopt(session, conversation)
    if hooks is not None:
        with suppress(Interrupted):
            await session.ask(hooks.session_started(reason, _file(left)))


def adopt(session: Session, conversation: Conversation) -> None:
    """Go on with another conversation. Nothing may be running."""
    queued = len(session.queues)
    left, session.conversation = session.conversation, conversation
    session.unsaved = [each for each in (*session.unsaved, left) if each is not conversation and not each.close()]
    session.intake.forget()
    session.last_end = None
    if session.additions is not None:
        session.additions.reload()
    if session.subagents is not None:
        session.subagents.forget()
    problems = session.take_up()
    session.tell(SessionReplaced())
    if queued or len(session.queues):
        session.tell(session.queues.update())
    for problem in problems:
        session.tell(ExtensionError("session", "open", problem))


def _file(conversation: Conversation) -> str | None:
    return None if conversation.path is None else str(conversation.path)


class Arrival(Struct):
    """Where the conversation stands after a move within its tree."""

    leaf: str | None
    #: What the user said at the place that was chosen, to be said anew.
    text: str | None = None
    #: The entry that tells the model of the branch that was left.
    summary: str | None = None


async def navigate(session: Session, target: str | None, *, summarise: bool, instructions: str | None = None) -> Arrival:
    """Go to another entry of the tree; None is the beginning. A message of the user's is gone before, and its text returned.

    With `summarise` the model is told what happened on the branch that is left. Raises EntryNotFound, and what a compaction
    raises; then the conversation stands where it stood.
    """
    log = session.conversation.log
    way = [entry.id for entry in log.path(target)] if target is not None else []
    written = await _from_extensions(session, way, target, summarise=summarise, instructions=instructions)
    session.cancel()
    try:
        arrival, before = await _go(session, way, target, written, summarise=summarise, instructions=instructions)
    finally:
        session.commands.take_places()
    if session.hooks is not None:
        await session.hooks.moved(arrival.leaf, before, arrival.summary, written is not None and arrival.summary is not None)
    return arrival


async def allow_branch(session: Session, entry_id: str) -> None:
    """Whether `branch` may go there. What runs goes on meanwhile. Raises EntryNotFound, and MoveCancelled if an extension forbids
    it."""
    way = [entry.id for entry in session.conversation.log.path(entry_id)]
    await _from_extensions(session, way, entry_id, summarise=False, instructions=None)


async def branch(session: Session, entry_id: str) -> None:
    """Go on behind any entry of the tree, also when the session is opened again. Raises EntryNotFound."""
    conversation = session.conversation
    log = conversation.log
    entry = log.get(entry_id)
    await session.stop()
    before = log.leaf
    conversation.move(entry.id)
    # A session that is opened again stands at its last entry: that has to be on the new branch.
    conversation.keep(lambda: log.custom(BRANCH, {"entryId": entry.id}, keep=True))
    session.stands_elsewhere()
    if session.hooks is not None:
        await session.hooks.moved(log.leaf, before, None, False)


async def _from_extensions(
    session: Session, way: list[str], target: str | None, *, summarise: bool, instructions: str | None
) -> Summary | None:
    """The summary that an extension wrote in the place of the model's. Raises MoveCancelled if it forbids the move."""
    hooks = await session.ready(stoppable=True)
    if hooks is None or not hooks.wants("session_before_tree"):
        return None
    from fairlead.session.hooks import Cancelled, TreePlan

    log = session.conversation.log
    left = log.plain(_left_behind(log.path(), set(way)))
    with session.compactor.stoppable() as stop:
        plan = TreePlan(target, log.leaf, left, summarise, instructions, stop)
        try:
            answer = await session.ask(hooks.before_tree(plan), stop)
        except Interrupted:
            raise MoveCancelled("it was aborted.") from None
    if isinstance(answer, Cancelled):
        raise MoveCancelled(answer.reason)
    return answer if summarise else None


async def _go(
    session: Session, way: list[str], target: str | None, written: Summary | None, *, summarise: bool, instructions: str | None
) -> tuple[Arrival, str | None]:
    """Go there. Returns where the conversation stands, and where it stood."""
    conversation = session.conversation
    log = conversation.log
    # From here on an abort means the summary, also while the run is still ending.
    with session.compactor.stoppable() as stop:
        await session.idle()
        text = _said(log, target) if target is not None else None
        if text is not None:
            way.pop()
        arrival = Arrival(way[-1] if way else None, text)
        before = log.leaf
        left = _left_behind(log.path(), set(way))
        summary = None
        if written is None and summarise and any(estimate_all(log.read(entry)) for entry in left):
            summary = await session.compactor.summarise_branch(left, instructions, stop)
    conversation.move(arrival.leaf)
    if summary is not None or written is not None:
        try:
            if summary is not None:
                entry = log.branch_summary(before, summary.text, details=summary.details, usage=summary.usage)
            else:
                assert written is not None
                details = UNSET if written.details is None else written.details
                entry = log.branch_summary(before, written.text, details=details, from_hook=True)
        except SessionError:
            conversation.move(before)
            raise
        conversation.changed()
        arrival.leaf = arrival.summary = entry.id
    session.stands_elsewhere()
    return arrival, before


def _said(log: Log, entry_id: str) -> str | None:
    """The text of a message of the user's; None if the entry is something else, or not there."""
    if entry_id not in log or role_of(log.get(entry_id)) != "user":
        return None
    return next((user_text(message) for message in log.read(log.get(entry_id)) if isinstance(message, UserMessage)), None)


def _left_behind(path: list[Entry], way: set[str]) -> list[Entry]:
    return [entry for entry in path if entry.id not in way]
