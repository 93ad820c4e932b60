"""Which events extensions get, and what their results change."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.extend.extended import calling, extended, user_texts

from fairlead import Discovery
from fairlead.errors import CompactionCancelled, MoveCancelled
from fairlead.testing import Turn

HEADER = "from fairlead.extension import *\n"


async def test_run_events_are_delivered_in_order(tmp_path: Path) -> None:
    source = """
        NAMES = '''session_start input before_agent_start agent_start turn_start message_start message_end tool_execution_start
            tool_call tool_result tool_execution_end turn_end agent_end agent_before_settle agent_settled
            session_shutdown'''.split()
        from pathlib import Path
        def note(name):
            with Path(__file__).with_suffix(".log").open("a") as file:
                file.write(name + " ")
        def setup(fl):
            for name in NAMES:
                fl.on(name, lambda event, context, name=name: note(name))
    """
    async with extended(tmp_path, source, turns=[calling("bash", command="true"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
    message = ["message_start", "message_end"]
    assert (tmp_path / "one.log").read_text().split() == [
        *("session_start", "input", "before_agent_start", "agent_start", "turn_start", *message, *message),
        *("tool_execution_start", "tool_call", "tool_result", "tool_execution_end", *message, "turn_end"),
        *("turn_start", *message, "turn_end", "agent_end", "agent_before_settle", "agent_settled", "session_shutdown"),
    ]
    assert it.errors == []


async def test_blocked_changed_and_failed_calls_reach_the_model(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.on("tool_call")
    def look(event):
        command = event.arguments["command"]
        if "rm" in command:
            return Block("Not that.")
        if "boom" in command:
            raise RuntimeError("exploded")
        if "nonsense" in command:
            return {"block": True}
        event.arguments["command"] = command.replace("one", "two")
"""
    )
    turns = [calling("bash", command=text) for text in ("rm x", "echo boom", "echo nonsense", "echo one")]
    async with extended(tmp_path, source, turns=[*turns, Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [
            ("Not that.", True),
            ("exploded", True),
            ("A handler of tool_call must return Block or None, not dict.", True),
            ("two\n", False),
        ]
        assert it.errors == []


async def test_changed_arguments_are_checked_again(tmp_path: Path) -> None:
    source = """
        def setup(fl):
            @fl.on("tool_call")
            def look(event):
                event.arguments["command"] = ["a", "b"]
    """
    async with extended(tmp_path, source, turns=[calling("bash", command="true"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results[0][1] and it.results[0][0].startswith('Validation failed for tool "bash"')


async def test_a_result_is_amended_by_one_extension_after_the_other(tmp_path: Path) -> None:
    one = (
        HEADER
        + """
def setup(fl):
    fl.on("tool_result", lambda event: Amend(content=event.content[0].text.upper(), details={"by": "one"}))
"""
    )
    two = (
        HEADER
        + """
def setup(fl):
    fl.on("tool_result", lambda event: Amend(content=event.content[0].text + event.details["by"], is_error=True))
"""
    )
    async with extended(tmp_path, one, two, turns=[calling("bash", command="echo hello"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("HELLO\none", True)]


async def test_input_is_transformed_or_handled(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.on("input")
    async def hear(event, context):
        if event.text == "mine":
            fl.append_entry("seen", [event.source, event.behavior])
            return Handled()
        return Transform(event.text + "!")
"""
    )
    async with extended(tmp_path, source) as it:
        assert (await it.agent.ask("mine")).text == ""
        assert it.notes("seen") == [["interactive", None]] and not it.model.requests
        await it.agent.ask("hello")
        assert user_texts(it.model.requests[-1].messages) == ["hello!"]


async def test_a_run_begins_with_messages_and_a_system_prompt_of_an_extension(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.on("before_agent_start")
    def begin(event):
        if event.prompt == "first":
            return Open([Note("hint", "Mind the gap.")], system_prompt=event.system_prompt + " And rhyme.")
"""
    )
    async with extended(tmp_path, source) as it:
        await it.agent.ask("first")
        await it.agent.ask("second")
        first, second = it.model.requests
        assert user_texts(first.messages) == ["first", "Mind the gap."]
        assert first.system_prompt.endswith(" And rhyme.") and not second.system_prompt.endswith(" And rhyme.")


async def test_context_hooks_replace_messages_without_changing_the_session(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.on("context")
    def look(event):
        event.messages[0].content.clear()
        return Replace(event.messages[1:])
    @fl.on("context_with_system")
    def whole(event):
        return Replace(system_prompt="Be brief.")
"""
    )
    async with extended(tmp_path, source) as it:
        await it.agent.ask("one")
        await it.agent.ask("two")
        last = it.model.requests[-1]
        assert user_texts(last.messages) == ["two"] and last.system_prompt == "Be brief."
        kept = it.agent.session.messages
        assert user_texts(list(kept)) == ["one", "two"]
        # What was not touched is the very object: encodings of it that were kept are of use.
        assert last.messages[0] in it.agent.session.history.conversation.for_model()
        assert any(last.messages[-1] is message for message in it.agent.session.history.conversation.for_model())


async def test_an_event_that_is_changed_changes_nothing_else(tmp_path: Path) -> None:
    source = """
        def setup(fl):
            fl.on("message_end", lambda event: event.message.content.clear())
            fl.on("agent_end", lambda event: event.messages.clear())
            fl.on("turn_end", lambda event: event.message.content.clear())
            fl.on("tool_result", lambda event: (event.content.clear(), event.arguments.clear(), None)[-1])
    """
    async with extended(tmp_path, source, turns=[calling("bash", command="echo hi"), Turn(text="ok")]) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        assert len(it.agent.session.messages) == 4 and it.results == [("hi\n", False)] and it.errors == []


async def test_an_extension_can_continue_a_run(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    passes = []
    @fl.on("agent_before_settle")
    def more(event):
        passes.append(event)
        return Continue([Note("more", "Go on.")]) if len(passes) == 1 else None
"""
    )
    async with extended(tmp_path, source) as it:
        await it.agent.ask("hi")
        assert user_texts(it.model.requests[-1].messages)[-1] == "Go on." and len(it.model.requests) == 2


async def test_leaving_a_conversation_and_compacting_it_can_be_forbidden(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    for name in ("session_before_switch", "session_before_fork", "session_before_compact", "session_before_tree"):
        fl.on(name, lambda event: Cancel("Stay."))
"""
    )
    async with extended(tmp_path, source, settings='{"compaction": {"keepRecentTokens": 1}}') as it:
        await it.agent.ask("hi")
        await it.agent.ask("again")
        session = it.agent.session
        entry = session.history.log.user_messages()[0][0]
        before = session.history.id, session.history.log.leaf
        for move in (session.history.new(), session.fork(entry), session.navigate(entry, summarise=False)):
            with pytest.raises(MoveCancelled, match=r"Stay\."):
                await move
        with pytest.raises(CompactionCancelled, match=r"^Compaction cancelled: Stay\.$"):
            await session.compact()
        assert (session.history.id, session.history.log.leaf) == before


async def test_tree_hooks_receive_moves_and_may_write_the_summary(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    fl.on("session_before_tree", lambda event: Summary("We did things.", {"by": fl.name}))
    @fl.on("session_tree")
    def moved(event):
        fl.append_entry("moved", [event.summary_entry_id is not None, event.from_extension])
"""
    )
    async with extended(tmp_path, source) as it:
        await it.agent.ask("hi")
        session = it.agent.session
        arrival = await session.navigate(None, summarise=True)
        assert arrival.summary is not None and it.notes("moved") == [[True, True]]
        assert len(it.model.requests) == 1
        entry = session.history.log.plain([session.history.log.get(arrival.summary)])[0]
        assert entry["summary"] == "We did things." and entry["fromHook"] is True


async def test_sessions_begin_and_end_with_their_reasons(tmp_path: Path) -> None:
    source = """
        from pathlib import Path
        def setup(fl):
            log = Path(__file__).with_suffix(".log")
            def note(text):
                with log.open("a") as file:
                    print(text, file=file)
            fl.on("session_start", lambda event: note(f"start {event.reason}"))
            fl.on("session_shutdown", lambda event: note(f"end {event.reason}"))
    """
    async with extended(tmp_path, source) as it:
        await it.agent.ask("hi")
        await it.agent.session.history.new()
        await it.agent.reload_extensions()
    lines = (tmp_path / "one.log").read_text().split("\n")[:-1]
    assert lines == ["start startup", "end new", "start new", "end reload", "start reload", "end quit"]


async def test_model_and_level_changes_are_announced(tmp_path: Path) -> None:
    source = """
        def setup(fl):
            fl.on("thinking_level_select", lambda event: fl.append_entry("level", [event.previous, event.level]))
            fl.on("session_info_changed", lambda event: fl.append_entry("name", event.name))
            @fl.register_command("go")
            async def go(arguments, context):
                fl.set_thinking_level("high")
                fl.set_session_name("Mine")
    """
    async with extended(tmp_path, source) as it:
        await it.agent.ask("hi")
        await it.command("/go")
        await it.agent.ask("again")
        assert it.notes("level") == [["medium", "high"]] and it.notes("name") == ["Mine"]


async def test_an_unknown_event_is_refused_with_those_that_are_near(tmp_path: Path) -> None:
    async with extended(
        tmp_path, "def setup(fl):\n    fl.on('tool_calls', print)\n", discovery=Discovery(extension_errors="continue")
    ) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        ((file, event, error),) = it.errors
        assert (file, event) == ("one.py", "load")
        assert error.startswith("There is no event 'tool_calls'. Did you mean tool_call or ")
