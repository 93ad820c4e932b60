"""Compaction: the older part of a conversation is replaced by a summary of it.

`plan` decides what is summarised and what stays; `compact` has a model write the summary. Neither changes
anything: whoever calls them stores the result, so that a compaction that fails loses nothing.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from fairlead.core.events import CompactionResult, FileLists
from fairlead.core.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    Message,
    ToolResultMessage,
    Usage,
)
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.core.runtime import Cancel
from fairlead.errors import AlreadyCompacted, CompactionCancelled, NothingToCompact
from fairlead.session.compaction.summary import SummaryWriter, file_lists, joined
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS, estimate, estimate_all, tokens_since, usable_reserve

#: The tools whose `path` is remembered over compactions.
_READERS = frozenset({"read", "read_file"})
_MODIFIERS = frozenset({"write", "edit", "write_file", "edit_file"})

#: The longest `shortSummary`.
_BRIEF_CHARACTERS = 200


class Item(Struct, frozen=True):
    """An entry on the path from a session's root to its leaf.

    An entry that the model is not told of has no message: a change of model, a label, a failed attempt that was
    repeated. Nor has a compaction, which has the last three fields instead.
    """

    id: str
    message: Message | None = None
    kind: Literal["message", "compaction", "other"] = "message"
    summary: str = ""
    first_kept_id: str = ""
    details: FileLists = FileLists()


class Plan(Struct, frozen=True):
    """What a compaction will do. `to_summarise`, `turn_prefix` and what is kept follow each other without a gap."""

    #: The first entry that stays.
    first_kept_id: str
    to_summarise: list[Message]
    #: The beginning of a turn whose rest stays; empty unless the cut splits a turn.
    turn_prefix: list[Message]
    #: What the last compaction left, without its lists of files.
    previous_summary: str | None
    tokens_before: int
    #: An estimate for the messages that stay.
    kept_tokens: int
    read_files: list[str]
    modified_files: list[str]


def plan(
    items: Sequence[Item],
    keep_recent_tokens: int,
    *,
    keep_messages: int | None = None,
    most: int | None = None,
    again: bool = False,
) -> Plan:
    """Decide what to summarise so that about `keep_recent_tokens` of the newest messages stay, or at most `keep_messages`.

    Going back from the newest message until they add up to that much, the cut is at the next place that parts no
    tool call from its result. If all such places are older, it is at the last of them. If what stays is larger than `most`
    tokens, because one message is, the cut is after that message, unless it is the last one.
    With `again`, what an earlier compaction has kept may be cut even if nothing has happened since.
    Raises NothingToCompact and AlreadyCompacted.
    """
    last = next((i for i in range(len(items) - 1, -1, -1) if items[i].kind == "compaction"), None)
    if last is not None and not again and not _messages(items[last + 1 :]):
        raise AlreadyCompacted
    previous = None if last is None else items[last]
    start = _range_start(items, last)
    entries = items[start:]

    by_size = keep_messages is None
    cut = _cut(entries, estimate, keep_recent_tokens, most) if by_size else _cut(entries, _one, keep_messages)
    turn = _turn_start(entries, cut)
    to_summarise, turn_prefix = _messages(entries[:turn]), _messages(entries[turn:cut])
    removed = to_summarise + turn_prefix
    if not any(estimate(message) for message in removed):
        raise NothingToCompact
    files = _files(removed, FileLists() if previous is None else previous.details)
    return Plan(
        first_kept_id=entries[_with_entries_before(entries, cut)].id,
        to_summarise=to_summarise,
        turn_prefix=turn_prefix,
        previous_summary=None if previous is None else _without_file_lists(previous),
        tokens_before=_tokens_before(entries, previous, 0 if last is None else last - start),
        kept_tokens=estimate_all(_messages(entries[cut:])),
        read_files=files.read_files,
        modified_files=files.modified_files,
    )


async def compact(
    plan: Plan,
    model: Model,
    stream: ModelStream,
    *,
    cancel: Cancel,
    instructions: str | None = None,
    reserve_tokens: int = DEFAULT_RESERVE_TOKENS,
    thinking: ThinkingLevel = "off",
) -> CompactionResult:
    """Have `model` write the summary. The history and the beginning of a split turn are summarised at the same time.

    Raises CompactionCancelled once `cancel` has fired, and ProviderError if the model fails or has nothing to say.
    """
    stop = Cancel()
    forget = cancel.on_fire(stop.fire)
    reserve = usable_reserve(reserve_tokens, model.context_window)
    writer = SummaryWriter(model, stream, thinking, instructions, reserve, stop)
    try:
        async with asyncio.TaskGroup() as group:
            history = group.create_task(writer.history(plan.to_summarise, plan.previous_summary))
            turn_prefix = group.create_task(writer.turn_prefix(plan.turn_prefix))
    finally:
        forget()
    if cancel.fired:
        raise CompactionCancelled
    if writer.failure is not None:
        raise writer.failure
    text = joined(history.result(), turn_prefix.result()) + file_lists(plan.read_files, plan.modified_files)
    return CompactionResult(
        summary=text,
        first_kept_entry_id=plan.first_kept_id,
        tokens_before=plan.tokens_before,
        details=FileLists(plan.read_files, plan.modified_files),
        estimated_tokens_after=plan.kept_tokens + estimate(CompactionSummaryMessage(text, 0, 0)),
        usage=writer.usage,
        short_summary=_in_brief(text),
    )


class BranchSummary(Struct, frozen=True):
    """What happened on a branch that the conversation leaves."""

    text: str
    details: FileLists
    usage: Usage


async def summarise_branch(
    messages: Sequence[Message],
    model: Model,
    stream: ModelStream,
    *,
    cancel: Cancel,
    instructions: str | None = None,
    reserve_tokens: int = DEFAULT_RESERVE_TOKENS,
    thinking: ThinkingLevel = "off",
) -> BranchSummary:
    """Have `model` write down what happened on a branch. Raises as `compact` does."""
    stop = Cancel()
    forget = cancel.on_fire(stop.fire)
    writer = SummaryWriter(model, stream, thinking, instructions, usable_reserve(reserve_tokens, model.context_window), stop)
    try:
        text = await writer.history(messages, None)
    finally:
        forget()
    if cancel.fired:
        raise CompactionCancelled
    if writer.failure is not None:
        raise writer.failure
    files = _files(messages, FileLists())
    return BranchSummary(text + file_lists(files.read_files, files.modified_files), files, writer.usage)


def _in_brief(summary: str) -> str:
    """The first thing that a summary says, on one line: with our headings, the goal."""
    lines = (line.strip(" -*#>\t") for line in summary.splitlines() if line.strip() and not line.startswith(("#", "<", "---")))
    return next((line[:_BRIEF_CHARACTERS] for line in lines if line), "")


# Where to cut


def _messages(items: Sequence[Item]) -> list[Message]:
    return [item.message for item in items if item.message is not None]


def _range_start(items: Sequence[Item], last_compaction: int | None) -> int:
    """Where the messages begin that the model still sees: at what the last compaction kept."""
    if last_compaction is None:
        return 0
    wanted = items[last_compaction].first_kept_id
    return next((i for i in range(last_compaction) if items[i].id == wanted), last_compaction + 1)


def _one(message: Message) -> int:
    return 1


def _cut(entries: Sequence[Item], size: Callable[[Message], int], keep: int, most: int | None = None) -> int:
    """The index of the first message that stays, for messages of that size to stay which add up to `keep`, at most to `most`."""
    cuts = _cut_points(entries)
    recent = 0
    for index in range(len(entries) - 1, -1, -1):
        message = entries[index].message
        if message is None:
            continue
        recent += size(message)
        if recent >= keep and cuts:
            place = min(bisect_left(cuts, index), len(cuts) - 1)
            kept = sum(map(size, _messages(entries[cuts[place] :])))
            while most is not None and kept > most and place < len(cuts) - 1:
                kept -= sum(map(size, _messages(entries[cuts[place] : cuts[place + 1]])))
                place += 1
            return cuts[place]
    raise NothingToCompact


def _cut_points(entries: Sequence[Item]) -> list[int]:
    """The indices of the messages that may come first: no result then stays without the call it answers."""
    calls: dict[str, int] = {}
    last_result: dict[int, int] = {}
    for index, entry in enumerate(entries):
        match entry.message:
            case AssistantMessage() as answer:
                calls.update((call.id, index) for call in answer.tool_calls())
            case ToolResultMessage() as result if result.tool_call_id in calls:
                last_result[calls[result.tool_call_id]] = index
            case _:
                pass
    cuts: list[int] = []
    unanswered_until = -1
    for index, entry in enumerate(entries):
        if index > unanswered_until and entry.message is not None and not isinstance(entry.message, ToolResultMessage):
            cuts.append(index)
        unanswered_until = max(unanswered_until, last_result.get(index, -1))
    return cuts


def _turn_start(entries: Sequence[Item], cut: int) -> int:
    """Where the turn begins that a cut goes through; the cut itself if it goes through none.

    The range may begin within a turn that an earlier compaction has split. What is left of that is history.
    """
    for index in range(cut, -1, -1):
        message = entries[index].message
        if message is not None and not isinstance(message, AssistantMessage | ToolResultMessage):
            return index
    return cut


def _with_entries_before(entries: Sequence[Item], cut: int) -> int:
    """The cut, moved over the entries right before it that are no messages: a change of model belongs to what follows."""
    while cut > 0 and entries[cut - 1].message is None and entries[cut - 1].kind != "compaction":
        cut -= 1
    return cut


def _tokens_before(entries: Sequence[Item], previous: Item | None, kept: int) -> int:
    """The size of the context now. The first `kept` entries are older than the last compaction, and so is their usage."""
    context = _messages(entries)
    first = 0
    if previous is not None:
        context.insert(0, CompactionSummaryMessage(previous.summary, 0, 0))
        first = 1 + len(_messages(entries[: max(kept, 0)]))
    known = tokens_since(context, first)
    return estimate_all(context) if known is None else known


# Which files


def _files(messages: Sequence[Message], before: FileLists) -> FileLists:
    """The files of `before` and of the calls in `messages` that did not fail. A file that was changed is not listed as read."""
    failed = {message.tool_call_id for message in messages if isinstance(message, ToolResultMessage) and message.is_error}
    read, modified = set(before.read_files), set(before.modified_files)
    for message in messages:
        for call in message.tool_calls() if isinstance(message, AssistantMessage) else ():
            path = call.arguments.get("path")
            if call.id in failed or not isinstance(path, str) or not path:
                continue
            if call.name in _READERS:
                read.add(path)
            elif call.name in _MODIFIERS:
                modified.add(path)
    return FileLists(sorted(read - modified), sorted(modified))


def _without_file_lists(compaction: Item) -> str:
    """An earlier summary as the model wrote it. The lists are made anew each time; repeated in the text they would grow stale."""
    details = compaction.details
    return compaction.summary.removesuffix(file_lists(details.read_files, details.modified_files))
