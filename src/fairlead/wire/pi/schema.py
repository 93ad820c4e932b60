"""Collects the lines of each dialect of the family for its schema."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from fairlead.core.messages import AssistantBlock, Message, UserBlock
from fairlead.protocol.pi import frames, omp_commands, session_commands, state
from fairlead.protocol.pi.command_examples import COMMAND_EXAMPLES, COMMAND_EXAMPLES_2025
from fairlead.protocol.pi.declarations import COMMANDS, FRAMES, GivenPhase, TreeNode
from fairlead.protocol.pi.frames import Frame, InnerEvent, Response
from fairlead.protocol.pi.host_requests import REPLIES
from fairlead.protocol.pi.line_examples import EXAMPLES_2025, LINE_EXAMPLES
from fairlead.protocol.pi.protocol_2025 import COMMANDS_2025, EVENTS_2025, Compaction, Error
from fairlead.protocol.schema.builder import Refinements, reference
from fairlead.protocol.schema.family import Lines
from fairlead.session.history.entries import Entry, Header, MessageEntry, OtherEntry
from fairlead.session.rules.rules import Rule
from fairlead.session.todos.todos import TodoPhase, TodoTask
from fairlead.wire.pi.profile import Profile

_ENTRY = get_args(Entry)

_REFINEMENTS: Refinements = {
    (state.RpcSessionState, "todo_phases"): list[TodoPhase],
    (omp_commands.SetTodos, "phases"): list[GivenPhase],
    (omp_commands.TodoPhases, "todo_phases"): list[TodoPhase],
    (omp_commands.SetEventFilter, "events"): list[str] | None,
    (session_commands.Entries, "entries"): [_ENTRY],
    (session_commands.Tree, "tree"): list[TreeNode],
    (TreeNode, "entry"): _ENTRY,
    (omp_commands.SubagentMessages, "entries"): [(Header, *_ENTRY)],
    (omp_commands.SubagentMessages, "messages"): list[Message],
    (MessageEntry, "message"): Message,
    (frames.EntryAppended, "entry"): _ENTRY,
    (frames.TtsrTriggered, "rules"): list[Rule],
    (frames.TodoReminder, "todos"): list[TodoTask],
    (frames.SubagentEventPayload, "event"): reference("Event"),
}

_UNIONS: dict[str, Any] = {
    "Message": Message,
    "UserBlock": UserBlock,
    "AssistantBlock": AssistantBlock,
    "AssistantMessageEvent": InnerEvent,
    "SessionEntry": Entry,
}


def lines(profile: Profile) -> Lines:
    """Return the lines of one dialect."""
    return msgspec.structs.replace(whole_family(), events=events(profile))


def lines_2025() -> Lines:
    """Return the lines of pi-2025."""
    return msgspec.structs.replace(
        whole_family(),
        commands=COMMANDS_2025,
        answers=(),
        events=[frame for frame in (*FRAMES, Compaction, Error) if _tag(frame) in EVENTS_2025],
        responses=False,
        command_examples=COMMAND_EXAMPLES_2025,
        line_examples=LINE_EXAMPLES | EXAMPLES_2025,
    )


def whole_family() -> Lines:
    """Return the lines of all dialects except pi-2025."""
    return Lines(
        commands=COMMANDS,
        answers=REPLIES,
        events=[frame for frame in FRAMES if frame is not Response],
        responses=True,
        refinements=_REFINEMENTS,
        unions=_UNIONS,
        open_ended=(OtherEntry,),
        command_examples=COMMAND_EXAMPLES,
        line_examples=LINE_EXAMPLES,
    )


def events(profile: Profile) -> list[type[Frame]]:
    """Return the frames that hosts of this dialect may get, except for responses."""
    unsent = {_tag(Response), *profile.hidden_events}
    if profile.ready == "none":
        unsent.add("ready")
    if not profile.prompt_results:
        unsent |= {"prompt_result", "session_settled"}
    compaction = "auto_compaction" if profile.sends_all_compactions else "compaction"
    unsent |= {f"{compaction}_start", f"{compaction}_end"}
    return [frame for frame in FRAMES if _tag(frame) not in unsent]


def _tag(frame: type[Frame]) -> str:
    return str(frame.__struct_config__.tag)
