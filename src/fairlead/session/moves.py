"""From one conversation to another, and from one branch to another.

Whatever runs is ended first, with all its events. What cannot be done is refused before that, as far as it can be known.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.messages import UserMessage, user_text
from fairlead.errors import BadCommand, EntryNotFound, SessionError
from fairlead.session.entries import Entry, role_of, selected
from fairlead.session.tokens import estimate_all

if TYPE_CHECKING:
    from fairlead.session.conversation import Conversation
    from fairlead.session.log import Log
    from fairlead.session.session import Session


#: How a session begins that another one was handed off to.
HANDED_OFF = "This conversation continues another one. Here is what its agent wrote down for you:\n\n{}"


async def new_session(session: Session, parent: str | None = None) -> None:
    """Begin anew. `parent` is the file of the session that this one comes from, if the host wants that on record."""
    await session.stop()
    session.adopt(session.sessions.new(parent=parent))


async def switch_session(session: Session, name: str) -> bool:
    """Go on with the session in a file; True if there was none, so that a new one will be kept there. Raises SessionError."""
    if not name.strip():
        raise BadCommand("sessionPath: expected the path of a session file, got an empty string")
    path = session.workspace.resolve(name)
    present = session.conversation
    known = next((each for each in (present, *session.unsaved) if _is_kept_in(each, path)), None)
    if known is None:
        conversation, created = session.sessions.open_or_new(path)
        await session.stop()
        session.adopt(conversation)
        return created
    await session.stop()
    if known is not present and known not in session.unsaved:  # all of it could be written meanwhile, and it was let go of
        known = session.sessions.open(path)
    if known.has_begun:  # as if it were opened again: at its end
        entries = known.log.entries()
        known.move(entries[-1].id if entries else None)
    if known is not present:
        session.adopt(known)
    else:
        session.stands_elsewhere()
    return False


async def open_folder(session: Session, name: str) -> bool:
    """Keep sessions in another folder from here on; True if it had one to go on with. Raises SessionError, changing nothing."""
    from fairlead.session.listing import latest_session

    if not name.strip():
        raise BadCommand("sessionDir: expected the path of a folder, got an empty string")
    folder = session.workspace.resolve(name)
    if folder.exists() and not folder.is_dir():
        raise SessionError(f"{folder} is not a folder: no session can be kept there.")
    latest = latest_session(folder)
    if latest is not None and latest == session.conversation.path:
        session.sessions.folder = folder
        return True
    conversation = session.sessions.open(latest) if latest is not None else None
    await session.stop()
    session.sessions.folder = folder
    session.adopt(conversation or session.sessions.new())
    return conversation is not None


async def hand_off(session: Session, instructions: str | None = None) -> None:
    """Begin a new session with what the model writes down of this one. Raises what a compaction raises, changing nothing."""
    left = session.conversation
    told = [entry for entry, _ in selected(left.log.path())]
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
    session.adopt(conversation)


async def fork(session: Session, entry_id: str) -> str:
    """Go on in a new session with all that came before a message of the user's. Returns its text. Raises EntryNotFound."""
    text = _said(session.conversation.log, entry_id)
    if text is None:
        raise EntryNotFound(f"Entry {entry_id} is not a message of the user's.")
    await session.stop()
    session.adopt(session.sessions.fork(session.conversation, before=entry_id))
    return text


async def clone(session: Session) -> None:
    """Go on in a new session that has everything up to here."""
    await session.stop()
    session.adopt(session.sessions.fork(session.conversation))


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
    conversation = session.conversation
    log = conversation.log
    way = [entry.id for entry in log.path(target)] if target is not None else []
    session.cancel()
    try:
        return await _go(session, way, target, summarise=summarise, instructions=instructions)
    finally:
        session.add_deferred()


async def _go(session: Session, way: list[str], target: str | None, *, summarise: bool, instructions: str | None) -> Arrival:
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
        if summarise and any(estimate_all(log.read(entry)) for entry in left):
            summary = await session.compactor.summarise_branch(left, instructions, stop)
    conversation.move(arrival.leaf)
    if summary is not None:
        try:
            entry = log.branch_summary(before, summary.text, details=summary.details, usage=summary.usage)
        except SessionError:
            conversation.move(before)
            raise
        conversation.changed()
        arrival.leaf = arrival.summary = entry.id
    session.stands_elsewhere()
    return arrival


def _said(log: Log, entry_id: str) -> str | None:
    """The text of a message of the user's; None if the entry is something else, or not there."""
    if entry_id not in log or role_of(log.get(entry_id)) != "user":
        return None
    return next((user_text(message) for message in log.read(log.get(entry_id)) if isinstance(message, UserMessage)), None)


def _left_behind(path: list[Entry], way: set[str]) -> list[Entry]:
    return [entry for entry in path if entry.id not in way]


def _is_kept_in(conversation: Conversation, path: Path) -> bool:
    if conversation.path is None:
        return False
    try:
        return path == conversation.path or os.path.samefile(path, conversation.path)  # noqa: PTH121
    except OSError:
        return False
