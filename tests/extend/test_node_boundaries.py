"""What extensions written for pi propose at the end of a turn and of a run."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import calling, notes, scripted, user_texts

from fairlead.core import events as e
from fairlead.core.messages import AssistantMessage, CustomMessage
from fairlead.testing import Turn


async def test_an_answer_is_hidden_and_the_model_asked_again(tmp_path: Path) -> None:
    body = """
  let replaced = false;
  pi.on("turn_end", (event) => {
    note([event.outcome, event.toolResults.length, event.toolResultEntryIds.length]);
    if (replaced || event.toolResults.length > 0) return;
    replaced = true;
    return { entries: [...event.entries, { type: "context_edit", targetId: event.messageEntryId, replacement: null }], continue: true };
  });
"""  # noqa: E501
    turns = [calling("bash", command="true"), Turn(text="wrong"), Turn(text="right")]
    async with scripted(tmp_path, body, turns=turns) as it:
        assert str(await it.agent.ask("hi")) == "right"
        assert it.errors == []
        said = [message.text() for message in it.model.requests[-1].messages if isinstance(message, AssistantMessage)]
        assert said == [""]
        appended = [event for event in it.told if isinstance(event, e.EntryAppended)]
        assert len(appended) == 1 and b"context_edit" in bytes(appended[0].entry)
    assert notes(tmp_path) == [["completed", 1, 1], ["completed", 0, 0], ["completed", 0, 0]]


async def test_a_prompt_is_edited_and_a_summary_replaces_what_came_before(tmp_path: Path) -> None:
    body = """
  pi.on("agent_before_settle", (event, ctx) => {
    const messages = ctx.sessionManager.getBranch().filter((entry: any) => entry.type === "message") as any[];
    if (messages.length === 2) {
      return { entries: [{ type: "context_edit", targetId: messages[0].id, replacement: { content: "edited" } }] };
    }
    return { entries: [{ type: "compaction", summary: "All was well.", firstKeptEntryId: messages[2].id }] };
  });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("one")
        assert user_texts(it.agent.session.messages) == ["edited"]
        await it.agent.ask("two")
        assert it.errors == []
        assert [message.role for message in it.agent.session.messages] == ["compactionSummary", "user", "assistant"]


async def test_later_handlers_see_and_replace_what_was_proposed(tmp_path: Path) -> None:
    body = """
  const hint = (content: string) => ({ type: "custom_message" as const, customType: "hint", content, display: false });
  pi.on("turn_end", (event) => (event.turnIndex === 0 ? { entries: [hint("one")], continue: true } : undefined));
  pi.on("turn_end", (event) => { throw new Error(`saw ${event.entries.length} ${event.continue}`); });
  pi.on("turn_end", (event) => {
    const { contextMessages, llmMessages, canContinue } = event.context;
    note([event.entries.length, event.continue, contextMessages.length, llmMessages.length, canContinue]);
    return { entries: [...event.entries, hint("two")], continue: false };
  });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        assert [problem for _, _, problem in it.errors] == ["saw 1 true"]
        custom = [message for message in it.agent.session.messages if isinstance(message, CustomMessage)]
        assert [message.content for message in custom] == ["one", "two"]
        assert len(it.model.requests) == 1
    assert notes(tmp_path) == [[1, True, 3, 3, True]]


async def test_a_proposal_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    body = """
  const mark = { type: "custom" as const, customType: "mark", data: 1 };
  let turn = 0;
  pi.on("turn_end", (event) => {
    turn++;
    if (turn === 1) return { entries: [mark, { type: "context_edit", targetId: "nothing", replacement: null }] };
    if (turn === 2) return { entries: [mark, { type: "strange" } as any] };
    return { entries: [mark], continue: true };
  });
"""
    async with scripted(tmp_path, body) as it:
        for _ in range(3):
            await it.agent.ask("hi")
        assert it.notes("mark") == [1] and len(it.model.requests) == 3
        assert it.errors == [
            ("<boundary>", "turn_end", "Invalid boundary entries: nothing is not an entry of this branch"),
            ("<boundary>", "turn_end", "Invalid boundary entries: there are no entries of the type strange"),
            ("<boundary>", "turn_end", "turn_end requested continuation without runnable model context"),
        ]


async def test_a_new_session_has_its_own_handlers(tmp_path: Path) -> None:
    body = 'pi.on("turn_end", (event) => ({ entries: [...event.entries, { type: "custom", customType: "mark", data: 1 }] }));'
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.agent.session.history.new(None)
        await it.agent.ask("hi")
        assert it.notes("mark") == [1]


async def test_the_context_of_a_boundary_has_what_was_proposed(tmp_path: Path) -> None:
    body = """
  pi.on("turn_end", (event) => ({ entries: [
    { type: "context_edit", targetId: event.messageEntryId, replacement: null },
    { type: "custom_message", customType: "hint", content: "hint", display: false },
    { type: "custom", customType: "mark", data: 1 },
  ] as any }));
  pi.on("turn_end", (event) => {
    const { contextEntries, contextMessages, llmMessages, canContinue } = event.context;
    note([contextMessages.map((message: any) => message.role), llmMessages.length, contextEntries.at(-1)!.sourceEntry.type, canContinue]);
    return { entries: [] };
  });
  pi.on("turn_end", (event) => note([event.context.contextMessages.map((message: any) => message.role), event.context.canContinue]));
"""  # noqa: E501
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        assert it.errors == [] and it.notes("mark") == []
        assert [message.role for message in it.agent.session.messages] == ["user", "assistant"]
    assert notes(tmp_path) == [[["user", "custom"], 2, "custom", True], [["user", "assistant"], False]]


async def test_the_end_of_a_run_comes_before_the_question_whether_it_settles(tmp_path: Path) -> None:
    body = """
  let asked = 0;
  pi.on("agent_end", () => note("end"));
  pi.on("agent_before_settle", (event) => {
    note("before settle");
    const content = "Once more.";
    const entries: any = [{ type: "custom_message", customType: "x", content, display: false }];
    return asked++ ? undefined : { entries, continue: true };
  });
  pi.on("agent_settled", () => note("settled"));
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("hi")
        await it.agent.idle()
        assert it.errors == [] and len(it.model.requests) == 2
        ends = [type(each).__name__ for each in it.told if isinstance(each, e.AgentStart | e.AgentEnd | e.EntryAppended)]
        assert ends == ["AgentStart", "AgentEnd", "EntryAppended", "AgentStart", "AgentEnd"]
    assert notes(tmp_path) == ["end", "before settle", "end", "before settle", "settled"]
