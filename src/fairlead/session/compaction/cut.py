"""Compaction: replacing the older part of a conversation by a summary.

`plan` decides what to summarise and what to keep; `compact` has a model write the summary. Neither changes the session: the
caller stores the result, so a compaction that fails loses nothing.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
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
from fairlead.core.runtime import CancelToken
from fairlead.errors import AlreadyCompacted, CompactionCancelled, NothingToCompact
from fairlead.session.compaction.summary import SummaryRetries, SummaryWriter, file_lists, join_summaries
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS, estimate, estimate_all, tokens_since, usable_reserve

#: The tools whose `path` argument is listed in summaries.
_READERS = frozenset({"read", "read_file"})
_MODIFIERS = frozenset({"write", "edit", "write_file", "edit_file"})

#: The longest `shortSummary`.
_SHORT_SUMMARY_CHARACTERS = 200


class Item(Struct, frozen=True):
    """An entry on the path from a session's root to its leaf.

    An entry that the model does not see has no message: a change of model, a label, a failed attempt that was repeated. A
    compaction has no message either, but the last three fields.
    """

    id: str
    message: Message | None = None
    kind: Literal["message", "compaction", "other"] = "message"
    summary: str = ""
    first_kept_id: str = ""
    details: FileLists = FileLists()


class Plan(Struct, frozen=True):
    """What a compaction will do. `to_summarise`, `turn_prefix` and the kept messages follow each other without a gap."""

    #: The id of the first entry that stays.
    first_kept_id: str
    to_summarise: list[Message]
    #: The beginning of a turn whose rest stays; empty unless the cut splits a turn.
    turn_prefix: list[Message]
    #: The summary of the last compaction, without its lists of files.
    previous_summary: str | None
    tokens_before: int
    #: An estimate of the messages that stay.
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

    The cut is at the first message from there on that separates no tool call from its result; if there is none, at the last
    such message before. If what stays exceeds `most` tokens because of one message, the cut is after that message, unless it is
    the last one. With `again`, messages that an earlier compaction kept may be cut even if none was added since.

    Raises AlreadyCompacted if no message was added since the last compaction, and NothingToCompact if all messages stay.
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
    cancel: CancelToken,
    instructions: str | None = None,
    reserve_tokens: int = DEFAULT_RESERVE_TOKENS,
    thinking: ThinkingLevel = "off",
    retries: SummaryRetries | None = None,
) -> CompactionResult:
    """Have `model` write the summary of a planned compaction.

    Args:
        plan: what to summarise. The history and the beginning of a split turn are summarised concurrently.
        cancel: stops the requests when it fires.
        instructions: what the user wants the summary to focus on.
        reserve_tokens: the part of the context window for the answer.
        retries: repeats requests that failed in a way that may pass; None: they are not repeated.

    Raises CompactionCancelled if `cancel` has fired, and ProviderError if the model fails or returns no text.
    """

    async def write(writer: SummaryWriter) -> str:
        async with asyncio.TaskGroup() as group:
            history = group.create_task(writer.history(plan.to_summarise, plan.previous_summary))
            turn_prefix = group.create_task(writer.turn_prefix(plan.turn_prefix))
        return join_summaries(history.result(), turn_prefix.result())

    reserve = usable_reserve(reserve_tokens, model.context_window)
    written, usage = await _write(write, SummaryWriter(model, stream, thinking, instructions, reserve, retries), cancel)
    text = written + file_lists(plan.read_files, plan.modified_files)
    return CompactionResult(
        summary=text,
        first_kept_entry_id=plan.first_kept_id,
        tokens_before=plan.tokens_before,
        details=FileLists(plan.read_files, plan.modified_files),
        estimated_tokens_after=plan.kept_tokens + estimate(CompactionSummaryMessage(text, 0, 0)),
        usage=usage,
        short_summary=_short_summary(text),
    )


class BranchSummary(Struct, frozen=True):
    """A summary of a branch that the conversation leaves."""

    text: str
    details: FileLists
    usage: Usage


async def summarise_branch(
    messages: Sequence[Message],
    model: Model,
    stream: ModelStream,
    *,
    cancel: CancelToken,
    instructions: str | None = None,
    replace_instructions: bool = False,
    reserve_tokens: int = DEFAULT_RESERVE_TOKENS,
    thinking: ThinkingLevel = "off",
    retries: SummaryRetries | None = None,
) -> BranchSummary:
    """Have `model` summarise the messages of a branch. Takes and raises the same as `compact`.

    With `replace_instructions`, the model gets no other instructions than those of the user.
    """

    def write(writer: SummaryWriter) -> Awaitable[str]:
        return writer.history(messages, None)

    reserve = usable_reserve(reserve_tokens, model.context_window)
    writer = SummaryWriter(model, stream, thinking, instructions, reserve, retries, replace_instructions=replace_instructions)
    text, usage = await _write(write, writer, cancel)
    files = _files(messages, FileLists())
    return BranchSummary(text + file_lists(files.read_files, files.modified_files), files, usage)


async def _write(
    write: Callable[[SummaryWriter], Awaitable[str]], writer: SummaryWriter, cancel: CancelToken
) -> tuple[str, Usage]:
    """Call `write` until `cancel` fires; return its result and the usage. Raises CompactionCancelled and ProviderError."""
    forget = cancel.on_fire(writer.stop)
    try:
        result = await write(writer)
    finally:
        forget()
    if cancel.fired:
        raise CompactionCancelled
    if writer.failure is not None:
        raise writer.failure
    return result, writer.usage


def _short_summary(summary: str) -> str:
    """Return the first line of text in a summary: with our headings, the goal."""
    lines = (line.strip(" -*#>\t") for line in summary.splitlines() if line.strip() and not line.startswith(("#", "<", "---")))
    return next((line[:_SHORT_SUMMARY_CHARACTERS] for line in lines if line), "")


# Where to cut


def _messages(items: Sequence[Item]) -> list[Message]:
    return [item.message for item in items if item.message is not None]


def _range_start(items: Sequence[Item], last_compaction: int | None) -> int:
    """Return the index of the first entry that the model still sees: the first one that the last compaction kept."""
    if last_compaction is None:
        return 0
    wanted = items[last_compaction].first_kept_id
    return next((i for i in range(last_compaction) if items[i].id == wanted), last_compaction + 1)


def _one(message: Message) -> int:
    return 1


def _cut(entries: Sequence[Item], size: Callable[[Message], int], keep: int, most: int | None = None) -> int:
    """Return the index of the first message that stays. Messages of about `keep` in total `size` stay, at most of `most`."""
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
    """Return the indices of the messages at which a cut keeps no tool result without its call."""
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
    """Return the index at which the turn that a cut splits begins; the cut itself if it splits none.

    The entries may begin within a turn that an earlier compaction has split. The rest of that turn counts as history.
    """
    for index in range(cut, -1, -1):
        message = entries[index].message
        if message is not None and not isinstance(message, AssistantMessage | ToolResultMessage):
            return index
    return cut


def _with_entries_before(entries: Sequence[Item], cut: int) -> int:
    """Return the cut moved before the entries without a message that precede it: a change of model belongs to what follows."""
    while cut > 0 and entries[cut - 1].message is None and entries[cut - 1].kind != "compaction":
        cut -= 1
    return cut


def _tokens_before(entries: Sequence[Item], previous: Item | None, kept: int) -> int:
    """Return the present size of the context. The first `kept` entries and their usage are older than the last compaction."""
    context = _messages(entries)
    first = 0
    if previous is not None:
        context.insert(0, CompactionSummaryMessage(previous.summary, 0, 0))
        first = 1 + len(_messages(entries[: max(kept, 0)]))
    known = tokens_since(context, first)
    return estimate_all(context) if known is None else known


# Which files


def _files(messages: Sequence[Message], before: FileLists) -> FileLists:
    """Return the files of `before` and of the successful calls in `messages`. A modified file is not listed as read."""
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
    """Return an earlier summary as the model wrote it. The lists are rebuilt each time; copies in the text would become stale."""
    details = compaction.details
    return compaction.summary.removesuffix(file_lists(details.read_files, details.modified_files))
