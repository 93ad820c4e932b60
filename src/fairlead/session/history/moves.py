"""Moves a session from one conversation to another, and from one branch to another.

Running work is stopped first, with all its events. A move that is known to be impossible is refused before that. So is one that
an extension blocks, with MoveCancelled.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct

from fairlead.core.events import BranchChanged, CommandsChanged, ExtensionError, SessionReplaced
from fairlead.core.messages import BashExecutionMessage, CustomMessage, UserMessage, user_text
from fairlead.core.runtime import Interrupted
from fairlead.errors import BadCommand, EntryNotFound, MoveCancelled, SessionError
from fairlead.session.additions import Extensions
from fairlead.session.behaviour import Behaviour
from fairlead.session.compaction.compactor import Compactor
from fairlead.session.context.tokens import estimate_all
from fairlead.session.history.current import ConversationStore, CurrentConversation
from fairlead.session.history.entries import BRANCH, CustomMessageEntry, Entry, entries_in_context, role_of
from fairlead.session.history.run_log import find_undelivered
from fairlead.session.hooks import Cancelled, TreePlan
from fairlead.session.run.message_queue import MessageQueue
from fairlead.session.run.state import Activity, Stopper
from fairlead.session.selection import Selection
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.log import Log
    from fairlead.session.hooks import Summary
    from fairlead.session.host import Host


#: How a session begins that another one was handed off to.
HANDED_OFF = "This conversation continues another one. Here is what its agent wrote down for you:\n\n{}"


class Arrival(Struct):
    """Where the conversation stands after a move within its tree."""

    leaf: str | None
    #: The text of the user's message at the place that was chosen, to be edited and sent again.
    text: str | None = None
    #: The entry that tells the model about the branch that was left.
    summary: str | None = None


class _Leaving(Struct):
    """How a branch is left: what `navigate` takes, and the summary that an extension wrote instead of the model."""

    summarise: bool = False
    instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None
    written: Summary | None = None


class Moves:
    """Moves one session. Commands of the user that ended meanwhile are added after each move within a conversation.

    `fairlead.session.history.current.History` and `Session` document what the methods take, return and raise.
    """

    def __init__(
        self,
        current: CurrentConversation,
        sessions: ConversationStore,
        host: Host,
        selection: Selection,
        compactor: Compactor,
        extensions: Extensions,
        activity: Activity,
        stopper: Stopper,
        queue: MessageQueue,
        *,
        behaviour: Behaviour,
    ) -> None:
        self._current = current
        self._behaviour = behaviour
        self._sessions = sessions
        self._workspace = host.workspace
        self._selection = selection
        self._compactor = compactor
        self._extensions = extensions
        self._activity = activity
        self._stopper = stopper
        self._queue = queue
        self._notify = host.notify
        self._on_end = host.add_finished_commands

    # To another conversation

    async def new(self, parent: str | None) -> None:
        await self._ask_to_switch("new")
        await self._stopper.stop()
        if not self._behaviour.keeps_model:
            self._selection.reset()
        await self._change(self._sessions.new(parent=parent), "new")

    async def switch(self, name: str) -> bool:
        if not name.strip():
            raise BadCommand("sessionPath: expected the path of a session file, got an empty string")
        archive = self._sessions.archive
        name = archive.resolve(name, self._workspace.resolve)
        await self._ask_to_switch("resume", archive.path_at(name))
        current = self._current
        present = current.conversation
        known = next((each for each in (present, *current.unsaved) if archive.is_at(each, name)), None)
        if known is None:
            await current.wait_closed()
            conversation, created = self._sessions.open_or_new(name)
            await conversation.open()
            await self._stopper.stop()
            await self._change(conversation, "resume")
            return created
        await self._stopper.stop()
        if known is not present and known not in current.unsaved:  # all of it could be written meanwhile, and it was closed
            known = self._sessions.open(name)
        before = after = None
        if known.has_begun:  # as if it were opened again: at its end
            before, after = known.log.leaf, known.log.find_end()
            known.move(after)
        await self._change(known, "resume")
        if known is present and before != after:
            self._notify(BranchChanged(after))
        return False

    async def open_folder(self, name: str) -> bool:
        if not name.strip():
            raise BadCommand("sessionDir: expected the path of a folder, got an empty string")
        folder = self._workspace.resolve(name)
        archive = self._sessions.archive
        latest = archive.latest_in(self._sessions, folder)
        if latest is not None and latest == self._current.conversation.path:
            archive.use(folder)
            return True
        await self._ask_to_switch("new" if latest is None else "resume", latest)
        conversation = self._sessions.open(str(latest)) if latest is not None else None
        await self._stopper.stop()
        archive.use(folder)
        await self._change(conversation or self._sessions.new(), "new" if conversation is None else "resume")
        return conversation is not None

    async def hand_off(self, instructions: str | None) -> None:
        await self._ask_to_switch("new")
        left = self._current.conversation
        told = [entry for entry, _ in entries_in_context(left.log.path())]
        with self._compactor.stoppable() as stop:
            summary = await self._compactor.summarise_branch(told, instructions, stop)
        # Written before the switch: what cannot be written changes nothing.
        conversation = self._sessions.new(parent=self._sessions.name_of(left))
        log, model = conversation.log, self._selection.model
        self._selection.save(log)
        log.custom_message("handoff", HANDED_OFF.format(summary.text), display=True)
        if model is not None:
            conversation.keep(lambda: log.usage("handoff", model.provider, model.id, summary.usage, "the notes above", keep=True))
        await self._stopper.stop()
        await self._change(conversation, "new")

    async def fork(self, entry_id: str) -> str:
        text = _user_text(self._current.log, entry_id)
        if text is None:
            raise EntryNotFound(f"Entry {entry_id} is not a message of the user.")
        await self._ask_to_fork(entry_id, "before")
        await self._stopper.stop()
        await self._change(self._sessions.fork(self._current.conversation, before=entry_id), "fork")
        return text

    async def clone(self, entry_id: str | None) -> None:
        last = self._current.log.leaf if entry_id is None else self._current.log.get(entry_id).id
        if last is not None:
            await self._ask_to_fork(last, "at")
        await self._stopper.stop()
        # Without an entry, what the run that was stopped has added belongs to it.
        await self._change(self._sessions.fork(self._current.conversation, at=entry_id), "fork")

    def adopt(self, conversation: Conversation) -> None:
        """Work with another conversation. Nothing may be running."""
        if self._behaviour.drops_queue and len(self._queue):
            self._queue.clear()
        queued = len(self._queue)
        folder = self._workspace.cwd
        problems = self._current.replace(conversation)
        self._notify(SessionReplaced())
        if self._workspace.cwd != folder:
            self._notify(CommandsChanged())
        if queued or len(self._queue):
            self._notify(self._queue.update())
        for problem in problems:
            self._notify(ExtensionError("session", "open", problem))

    async def _ask_to_switch(self, reason: Literal["new", "resume"], target: Path | None = None) -> None:
        hooks = await self._extensions.ready(stoppable=True)
        if hooks is not None and hooks.wants("session_before_switch"):
            await self._ask(hooks.before_switch(reason, None if target is None else str(target)))

    async def _ask_to_fork(self, entry_id: str, position: Literal["before", "at"]) -> None:
        hooks = await self._extensions.ready(stoppable=True)
        if hooks is not None and hooks.wants("session_before_fork"):
            await self._ask(hooks.before_fork(entry_id, position))

    async def _ask(self, question: Awaitable[Cancelled | None]) -> None:
        """Raises MoveCancelled if an extension blocks the move, or if the session is cancelled before it answers."""
        try:
            blocked = await self._extensions.ask(question)
        except Interrupted:
            raise MoveCancelled("it was aborted.") from None
        if blocked is not None:
            raise MoveCancelled(blocked.reason)

    async def _change(self, conversation: Conversation, reason: Literal["new", "resume", "fork"]) -> None:
        """Work with another conversation, or with the present one from where it stands. Extensions get the end and the start."""
        left, hooks = self._current.conversation, await self._extensions.ready()
        if hooks is not None:
            with suppress(Interrupted):
                await self._extensions.ask(hooks.session_ends(reason, _file(conversation)))
            await self._stopper.stop()  # extensions may have started something meanwhile
        with suppress(SessionError):
            await left.wait_written()  # so that no event about it comes after the change
        if conversation is left:
            self._current.reload()
        else:
            self.adopt(conversation)
        if hooks is not None:
            with suppress(Interrupted):
                await self._extensions.ask(hooks.session_started(reason, _file(left)))

    # To another place in this conversation

    async def navigate(
        self,
        target: str | None,
        *,
        summarise: bool,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Arrival:
        log = self._current.log
        way = [entry.id for entry in log.path(target)] if target is not None else []
        leaving = _Leaving(summarise, instructions, replace_instructions, label)
        await self._ask_to_leave(way, target, leaving)
        self._activity.cancel()
        try:
            arrival, before = await self._go(way, target, leaving)
        finally:
            self._on_end()
        if self._extensions.hooks is not None:
            from_extension = leaving.written is not None and arrival.summary is not None
            await self._extensions.hooks.on_move(arrival.leaf, before, arrival.summary, from_extension)
        return arrival

    async def allow_branch(self, entry_id: str) -> None:
        way = [entry.id for entry in self._current.log.path(entry_id)]
        await self._ask_to_leave(way, entry_id, _Leaving())

    async def branch(self, entry_id: str) -> None:
        conversation = self._current.conversation
        log = conversation.log
        entry = log.get(entry_id)
        await self._stopper.stop()
        before = log.leaf
        conversation.move(entry.id)
        # A session that is opened again would otherwise stand at its last entry, which is on the branch that was left.
        conversation.keep(lambda: log.note(BRANCH, {"entryId": entry.id}))
        self._report_move()
        if self._extensions.hooks is not None:
            await self._extensions.hooks.on_move(log.leaf, before, None, False)

    async def _ask_to_leave(self, way: list[str], target: str | None, leaving: _Leaving) -> None:
        """Have extensions change how the branch is left. Raises MoveCancelled if one of them blocks the move."""
        hooks = await self._extensions.ready(stoppable=True)
        if hooks is None or not hooks.wants("session_before_tree"):
            return

        log = self._current.log
        left = log.plain(_list_left_entries(log.path(), set(way)))
        with self._compactor.stoppable() as stop:
            asked = leaving.summarise, leaving.instructions, stop, leaving.replace_instructions, leaving.label
            plan = TreePlan(target, log.leaf, left, *asked)
            try:
                answer = await self._extensions.ask(hooks.before_tree(plan), stop)
            except Interrupted:
                raise MoveCancelled("it was aborted.") from None
        if isinstance(answer, Cancelled):
            raise MoveCancelled(answer.reason)
        if answer is None:
            return
        if answer.instructions is not UNSET:
            leaving.instructions = answer.instructions
        if answer.replace_instructions is not UNSET:
            leaving.replace_instructions = answer.replace_instructions
        if answer.label is not UNSET:
            leaving.label = answer.label
        leaving.written = answer.summary if leaving.summarise else None

    async def _go(self, way: list[str], target: str | None, leaving: _Leaving) -> tuple[Arrival, str | None]:
        """Go there. Returns where the conversation stands, and where it stood."""
        written = leaving.written
        conversation = self._current.conversation
        log = conversation.log
        # From here on an abort means the summary, also while the run is still ending.
        with self._compactor.stoppable() as stop:
            await self._activity.idle()
            text = _text_to_edit(log, target) if target is not None else None
            if text is not None:
                way.pop()
            arrival = Arrival(way[-1] if way else None, text)
            before = log.leaf
            left = _list_left_entries(log.path(), set(way))
            summary = None
            if written is None and leaving.summarise and any(estimate_all(log.read(entry)) for entry in left):
                summary = await self._compactor.summarise_branch(
                    left, leaving.instructions, stop, replace_instructions=leaving.replace_instructions
                )
        conversation.move(arrival.leaf)
        if summary is not None or written is not None:
            try:
                if summary is not None:
                    entry = log.branch_summary(before, summary.text, details=summary.details, usage=summary.usage)
                else:
                    assert written is not None
                    details = UNSET if written.details is None else written.details
                    entry = log.branch_summary(before, written.text, details=details, usage=written.usage, from_hook=True)
            except SessionError:
                conversation.move(before)
                raise
            conversation.forget_computed()
            arrival.leaf = arrival.summary = entry.id
        labelled = arrival.summary or target
        try:
            if leaving.label and labelled is not None:
                arrival.leaf = conversation.lasting_log.label(labelled, leaving.label).id
        finally:
            self._report_move()
        return arrival, before

    def _report_move(self) -> None:
        """Have everything read again that is kept in the conversation, and report the move."""
        self._current.reload()
        self._notify(BranchChanged(self._current.log.leaf))


def resume(
    conversation: Conversation, selection: Selection, workspace: Workspace, queue: MessageQueue, *, model: bool, level: bool
) -> list[str]:
    """Continue as the conversation left off: with its choices, if they are wanted, in its directory, with what waits in it.

    Returns what is wrong, in sentences.
    """
    log = conversation.log
    problems = [*conversation.problems, *selection.restore(log, model=model, level=level)]
    problems += _follow(workspace, log.header.cwd)
    for queued in find_undelivered(log):
        if isinstance(queued.message, BashExecutionMessage):
            conversation.add(queued.message)
        else:
            queue.restore(queued.queue, queued.message)
    return problems


def _follow(workspace: Workspace, cwd: str) -> list[str]:
    """Work in the directory of the conversation, as pi does."""
    if not cwd or Path(cwd) == workspace.cwd:
        return []
    try:
        is_folder = os.path.isdir(cwd)
    except OSError:
        is_folder = False
    if is_folder and not workspace.may_work_in(Path(cwd)):
        return [f"The session's working directory {cwd} is outside {workspace.root}; work continues in {workspace.cwd}."]
    if is_folder:
        workspace.cwd = Path(cwd)
        return []
    return [f"The session's working directory {cwd} no longer exists; work continues in {workspace.cwd}."]


def _file(conversation: Conversation) -> str | None:
    return None if conversation.path is None else str(conversation.path)


def _user_text(log: Log, entry_id: str) -> str | None:
    """The text of a user's message; None if the entry is something else, or does not exist."""
    if entry_id not in log or role_of(log.get(entry_id)) != "user":
        return None
    return next((user_text(message) for message in log.read(log.get(entry_id)) if isinstance(message, UserMessage)), None)


def _text_to_edit(log: Log, entry_id: str) -> str | None:
    """The text of a message of the user, or of one that an extension sent in their place; None if the entry is something else."""
    if entry_id in log and isinstance(log.get(entry_id), CustomMessageEntry):
        sent = (message for message in log.read(log.get(entry_id)) if isinstance(message, CustomMessage))
        return next((user_text(UserMessage(message.content, message.timestamp)) for message in sent), None)
    return _user_text(log, entry_id)


def _list_left_entries(path: list[Entry], way: set[str]) -> list[Entry]:
    return [entry for entry in path if entry.id not in way]
