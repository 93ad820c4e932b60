"""What a conversation came to."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.session.scene import WithSummaries, a_kept_session, a_tool, entry_of, file_of, talk

from fairlead.config.settings import CompactionSettings
from fairlead.core.messages import BashExecutionMessage, Message, ToolCall, Usage, UserMessage
from fairlead.session.context.budget import RunningTotals, TokenTotals, Totals, totals
from fairlead.session.history.entries import Entry, decode_line
from fairlead.session.history.log import Log
from fairlead.session.history.reading import read_session
from fairlead.stores.headers import new_header
from fairlead.testing import Turn

SPENT = Usage(input=1000, output=100, cache_read=10, cache_write=1)
#: What that costs at the scripted model's prices: 3, 15, 0.3 and 3.75 dollars for a million tokens.
PRICE = 0.003 + 0.0015 + 0.000003 + 0.00000375


def test_an_empty_conversation_came_to_nothing() -> None:
    assert totals(Log(new_header("id", "/work", 0))) == Totals()


async def test_everything_that_was_paid_for_counts_on_every_branch(tmp_path: Path) -> None:
    calls = [ToolCall("c1", "one", {}), ToolCall("c2", "one", {})]
    answers = [Turn(tool_calls=calls, usage=SPENT), Turn(text="a", usage=SPENT), Turn(error="failed", usage=SPENT)]
    model = WithSummaries([*answers, Turn(text="b", usage=SPENT)], [Turn(text="In short.", usage=SPENT)])
    settings = CompactionSettings(keep_recent_tokens=1)
    session = a_kept_session(model, tmp_path, tools=[a_tool("one")], compaction=settings)
    log = session.history.log
    await talk(session, "one")
    assert totals(log) == session.usage.totals == counted(user=1, assistant=2, calls=2, results=2, spent=2)
    await talk(session, "two")
    assert totals(log) == counted(user=2, assistant=3, calls=2, results=2, spent=3), "a failure was paid for"
    await session.host.bash("true")
    await session.navigate(entry_of(log, "a"), summarise=True)
    assert totals(log) == counted(user=2, assistant=3, calls=2, results=2, others=1, spent=4), "so was the summary"
    await talk(session, "three")
    await session.compact()
    # The history, and the beginning of the turn that the cut goes through.
    whole = counted(user=3, assistant=4, calls=2, results=2, others=1, spent=7)
    assert totals(log) == session.usage.totals == whole
    await session.close()
    assert totals(read_session(file_of(session))[0]) == whole, "and in the file it is the same"


def test_totals_count_each_entry_once_and_keep_no_messages() -> None:
    log = Log(new_header("id", "/work", 0))
    sums = RunningTotals(log)
    said = [UserMessage(f"message {number}", number) for number in range(3)]
    assert len([log.message(message) for message in said]) == 3
    assert sums.up_to_now() == Totals(user_messages=3, total_messages=3)
    kept = [weakref.ref(message) for message in said]
    del said
    log.move(None)
    log.message(UserMessage("another branch", 9))
    assert totals(log) == Totals(user_messages=4, total_messages=4)
    assert [each() for each in kept] == [None] * 3
    read: list[Entry] = []

    class Watched(Log):
        def read(self, entry: Entry, *arguments: Any, **more: Any) -> list[Message]:
            read.append(entry)
            return super().read(entry, *arguments, **more)

    log.__class__ = Watched
    assert sums.up_to_now() == sums.up_to_now() == Totals(user_messages=4, total_messages=4)
    assert [each.id for each in read] == [log.leaf], "only the one that is new"


def counted(*, user: int, assistant: int, calls: int, results: int, spent: int, others: int = 0) -> Totals:
    """Totals with `spent` times the usage of one answer."""
    tokens = TokenTotals(1000 * spent, 100 * spent, 10 * spent, spent, 1111 * spent)
    return Totals(user, assistant, calls, results, user + assistant + results + others, tokens, pytest.approx(PRICE * spent))  # pyright: ignore[reportArgumentType]


def test_messages_of_unknown_roles_count_as_messages_only() -> None:
    log = from_lines(
        {"type": "message", "id": "1", "parentId": None, "message": {"role": "system", "content": ""}},
        {"type": "custom_message", "id": "2", "parentId": "1", "customType": "x", "content": "y", "display": True},
        {"type": "custom", "id": "3", "parentId": "2", "customType": "x"},
        {"type": "later", "id": "4", "parentId": "3"},
    )
    log.message(BashExecutionMessage("ls", "", False, False, 1))
    assert totals(log) == Totals(total_messages=2)


@pytest.mark.parametrize("usage", [None, 5, {"input": "many"}, {"cost": []}], ids=repr)
def test_a_usage_that_cannot_be_read_is_left_out(usage: Any) -> None:
    summary = {"type": "compaction", "id": "1", "parentId": None, "summary": "x", "firstKeptEntryId": "1", "tokensBefore": 1}
    good = msgspec.to_builtins(Usage(input=7, output=1))
    branch = {"type": "branch_summary", "id": "2", "parentId": "1", "fromId": "1", "summary": "x", "usage": good}
    assert totals(from_lines({**summary, "usage": usage}, branch)).tokens == TokenTotals(input=7, output=1, total=8)


def from_lines(*entries: dict[str, Any]) -> Log:
    lines = [decode_line(msgspec.json.encode({"timestamp": "2026-01-01T00:00:00.000Z", **entry})) for entry in entries]
    return Log(new_header("id", "/work", 0), lines)
