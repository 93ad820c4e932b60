"""Extensions that pass wrong values, or act where they may not: the error is reported, and everything else works."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import calling, extended, user_texts

from fairlead.core.messages import CustomMessage, ToolCall, Usage
from fairlead.core.model import ModelRequest, StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.errors import FairleadError, RunAborted
from fairlead.extend.extensions.values import model_stream
from fairlead.testing import SCRIPTED_MODEL, Turn

HEADER = "import asyncio\nfrom fairlead.extension import *\n"


@pytest.mark.parametrize(
    ("event", "result", "error"),
    [
        ("agent_before_settle", "Continue(5)", "at `$.messages`"),
        ("agent_before_settle", "Continue([Note(5, 6)])", "at `$.messages[0].custom_type`"),
        ("resources_discover", "Resources(5)", "skills: expected a list, not int."),
        ("resources_discover", "Resources([], ['a\\0b'])", "prompts: expected paths."),
    ],
)
async def test_handler_results_with_a_wrong_field_are_ignored(tmp_path: Path, event: str, result: str, error: str) -> None:
    source = f"{HEADER}def setup(fl):\n    fl.on({event!r}, lambda event: {result})\n"
    turns = [calling("bash", command="echo hi"), Turn(text="ok"), Turn(text="again")]
    async with extended(tmp_path, source, turns=turns) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        ((file, name, told), *_) = it.errors
        assert (file, name) == ("one.py", event) and error in told, told
        assert it.results == [("hi\n", False)]
        assert (await it.agent.ask("go on")).text == "again"


@pytest.mark.parametrize(
    ("event", "result", "error"),
    [
        ("input", "Transform(5)", "got `int` - at `$.text`"),
        ("input", "Transform('t', [1])", "at `$.images[0]`"),
        ("before_agent_start", "Open(5)", "at `$.messages`"),
        ("before_agent_start", "Open([Note('a', [1])])", "at `$.messages[0].content[0]`"),
        ("before_agent_start", "Open([Note('a', 'b', details=object())])", "object is unsupported"),
        ("before_agent_start", "Open((), 5)", "at `$.system_prompt`"),
        ("context", "Replace(5)", "messages: expected a list, not int."),
        ("context", "Replace([1])", "int is not a message for a model."),
        ("context_with_system", "Replace(None, 5)", "system_prompt: Expected `str | null`"),
    ],
)
async def test_nothing_is_sent_if_what_a_handler_makes_of_it_has_a_wrong_field(
    tmp_path: Path, event: str, result: str, error: str
) -> None:
    source = f"{HEADER}wrong = [{event!r}]\ndef setup(fl):\n    fl.on({event!r}, lambda event: {result} if wrong else None)\n"
    source += "    fl.register_command('mend', lambda text, ctx: wrong.clear())\n"
    async with extended(tmp_path, source) as it:
        with pytest.raises(FairleadError) as raised:
            await it.agent.ask("hi")
        assert error in str(raised.value) and it.model.requests == []
        ((file, name, told),) = it.errors
        assert (file, name) == ("one.py", event) and error in told, told
        await it.command("/mend")
        assert (await it.agent.ask("go on")).text == "ok"


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ("Amend([1])", "at `$.content[0]`"),
        ("Amend(details={'a': object()})", "object is unsupported"),
        ("Amend(is_error='no')", "at `$.is_error`"),
    ],
)
async def test_a_result_is_not_shown_if_what_replaces_it_has_a_wrong_field(tmp_path: Path, result: str, error: str) -> None:
    source = f"{HEADER}def setup(fl):\n    fl.on('tool_result', lambda event: {result})\n"
    async with extended(tmp_path, source, turns=[calling("bash", command="echo hi"), Turn(text="ok")]) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        ((text, is_error),) = it.results
        assert is_error and error in text and error in it.errors[0][2]


@pytest.mark.parametrize(("said", "error"), [("Trust('no')", "at `$.trusted`"), ("True", "not bool.")])
async def test_a_malformed_trust_decision_trusts_no_project(tmp_path: Path, said: str, error: str) -> None:
    theirs = tmp_path / "project" / ".fairlead" / "extensions" / "theirs.py"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("def setup(fl): pass\n")
    source = f"{HEADER}def setup(fl):\n    fl.on('project_trust', lambda event: {said})\n"
    async with extended(tmp_path, source) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        ((_, event, told),) = it.errors
        assert event == "project_trust" and error in told and it.agent.extensions.names() == ["one"]


async def test_a_call_about_which_a_handler_says_something_wrong_does_not_happen(tmp_path: Path) -> None:
    source = f"{HEADER}def setup(fl):\n    fl.on('tool_call', lambda event: Block(5))\n"
    async with extended(tmp_path, source, turns=[calling("bash", command="touch made"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        ((told, is_error),) = it.results
        assert is_error and "at `$.reason`" in told and not (tmp_path / "project" / "made").exists()


async def test_changes_to_an_event_are_invisible_to_other_handlers(tmp_path: Path) -> None:
    spoiling = """
def setup(fl):
    @fl.on("input")
    def spoil_input(event):
        event.text = 5
    @fl.on("context")
    def spoil_context(event):
        event.messages[0].content[0].text = "spoilt"
        event.messages.append(5)
    @fl.on("tool_result")
    def spoil_result(event):
        event.content.clear()
        event.arguments.clear()
"""
    looking = """
def setup(fl):
    fl.on("input", lambda event: fl.append_entry("input", event.text) and None)
    fl.on("context", lambda event: fl.append_entry("context", len(event.messages)) and None)
    fl.on("tool_result", lambda event: fl.append_entry("result", [len(event.content), *event.arguments]) and None)
"""
    async with extended(tmp_path, spoiling, looking, turns=[calling("bash", command="true"), Turn(text="ok")]) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        assert it.errors == []
        assert it.notes("input") == ["hi"] and it.notes("context") == [1, 3] and it.notes("result") == [[1, "command"]]
        assert [user_texts(request.messages)[0] for request in it.model.requests] == ["hi", "hi"]


@pytest.mark.parametrize(
    ("act", "error"),
    [
        ("fl.send_message(5, 'x')", "custom_type: Expected `str`"),
        ("fl.send_message('a', [1])", "content: Expected `object`"),
        ("fl.send_message('a', None, trigger_turn=True)", "content: Expected `str | array`"),
        ("fl.send_message('a', 'b', display='no')", "display: Expected `bool`"),
        ("fl.send_message('a', 'b', deliver='whenever')", "deliver: Invalid enum value"),
        ("fl.send_user_message(5)", "content: Expected `str`"),
        ("fl.send_user_message('x', [1])", "images: Expected `object`"),
        ("fl.append_entry(5)", "custom_type: Expected `str`"),
        ("fl.set_label(fl.append_entry('a'), 5)", "label: Expected `str | null`"),
        ("fl.register_command('x', lambda: None, object())", "description: "),
        ("fl.register_tool(name='t', description=5)(lambda: '')", "description: Expected `str | null`"),
        ("fl.register_tool(name='t', description='d', label=object())(lambda: '')", "label: Expected `str`"),
        ("fl.register_provider(5)", "name: Expected `str`"),
        ("fl.on('input', lambda event: None, timeout=float('nan'))", "timeout: expected a number of seconds above 0."),
        ("fl.events.on('x', 5)", "A handler must be a function, not int."),
        ("context.ui.notify(5)", "message: Expected `str`"),
        ("context.ui.notify('a', 'fatal')", "kind: Invalid enum value"),
        ("context.ui.set_widget('a', [1])", "lines: Expected `str`"),
        ("await context.ui.select('a', [1])", "options: Expected `str`"),
        ("await context.ui.confirm('a', 5)", "message: Expected `str`"),
        ("await context.ui.input('a', timeout='soon')", "timeout: Expected `float | null`"),
    ],
)
async def test_arguments_of_a_wrong_type_are_refused_at_the_call(tmp_path: Path, act: str, error: str) -> None:
    source = f"{HEADER}def setup(fl):\n    @fl.register_command('act')\n    async def act(arguments, context):\n        {act}\n"
    async with extended(tmp_path, source) as it:
        await it.command("/act")
        ((_, _, told),) = it.errors
        assert error in told, told
        assert (await it.agent.ask("hi")).text == "ok"
        assert user_texts(it.model.requests[-1].messages) == ["hi"]


async def test_lone_surrogates_of_an_extension_are_replaced(tmp_path: Path) -> None:
    act = "fl.send_message('a', '\\ud800', details={'x': '\\ud800'})"
    source = f"{HEADER}def setup(fl):\n    fl.register_command('act', lambda: {act})\n"
    async with extended(tmp_path, source) as it:
        await it.command("/act")
        assert (await it.agent.ask("hi")).text == "ok"
        (message, *_) = it.agent.session.messages
        assert isinstance(message, CustomMessage)
        assert (message.content, message.details) == ("\ufffd", {"x": "\ufffd"})


# Tools

ODD_TOOL = """
def setup(fl):
    @fl.register_tool
    {kind} odd() -> str:
        "Does something odd"
        {body}
"""


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return next(iter([]))", "StopIteration"),
        ("raise asyncio.CancelledError", "ancelled"),
        ("return object()", "object cannot be written as JSON"),
    ],
)
async def test_a_tool_with_an_invalid_result_fails_and_the_model_sees_it(
    tmp_path: Path, kind: str, body: str, error: str
) -> None:
    source = HEADER + ODD_TOOL.format(kind=kind, body=body)
    async with extended(tmp_path, source, turns=[calling("odd"), Turn(text="ok")]) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        ((told, is_error),) = it.results
        assert is_error and error in told, told


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return ToolResult([1])", "1"),
        ("return ToolResult('abc')", "abc"),
        ("return [TextContent(5)]", '{"type":"text","text":5}'),
    ],
)
async def test_a_result_with_blocks_of_other_types_reaches_the_model_as_text(
    tmp_path: Path, kind: str, body: str, text: str
) -> None:
    source = HEADER + ODD_TOOL.format(kind=kind, body=body)
    async with extended(tmp_path, source, turns=[calling("odd"), Turn(text="ok")]) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        assert it.results == [(text, False)]


async def test_on_a_thread_a_tool_can_show_and_abort_but_not_ask(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
import threading
texts, done = [], threading.Event()
def setup(fl):
    @fl.register_tool
    def threaded(context: ToolRunContext) -> str:
        "Works on a thread"
        fl.events.emit("heard", 1)
        context.ui.notify("shown")
        for ask in (context.ui.confirm("Sure?"), context.compact()):
            try:
                asyncio.run(ask)
            except RuntimeError as error:
                texts.append(str(error))
        context.cancel.on_fire(done.set)
        context.abort()
        done.wait(20)
        return " ".join(texts)
    fl.events.on("heard", lambda data: fl.append_entry("heard", data))
"""
    )
    async with extended(tmp_path, source, turns=[calling("threaded"), Turn(text="not asked")]) as it:
        with pytest.raises(RunAborted):
            await it.agent.ask("hi")
        ((told, is_error),) = it.results
        assert told.count("This can be done on the agent's thread only.") == 2 and not is_error
        assert it.notes("heard") == [1]


# Models


async def yields_none() -> AsyncIterator[Any]:
    yield "begun"
    yield None


async def is_cancelled() -> AsyncIterator[Any]:
    raise asyncio.CancelledError
    yield ""


async def calls_nonsense() -> AsyncIterator[Any]:
    yield ToolCall(5, 6, 7)  # pyright: ignore[reportArgumentType]


async def counts_nonsense() -> AsyncIterator[Any]:
    yield Usage("x")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (yields_none, "not NoneType."),
        (is_cancelled, "It was cancelled, but not by the agent."),
        (calls_nonsense, "ToolCall: Expected `str`"),
        (counts_nonsense, "Usage: Expected `int`"),
    ],
)
async def test_a_stream_that_yields_nonsense_is_an_answer_that_failed(
    answer: Callable[[], AsyncIterator[Any]], error: str
) -> None:
    stream = model_stream(lambda model, request, cancel: answer(), lambda step: step)(SCRIPTED_MODEL)
    request = ModelRequest(system_prompt="", messages=[], tools=[], thinking="off", session_id="s")
    *_, end = [event async for events in stream(request, CancelToken()) for event in events]
    assert isinstance(end, StreamEnd) and end.message.stop_reason == "error"
    assert error in (end.message.error_message or "")


# Messages


@pytest.mark.parametrize("trigger", [True, False])
async def test_a_message_sent_in_the_place_of_a_prompt_is_not_left_in_a_queue(tmp_path: Path, trigger: bool) -> None:
    source = f"""{HEADER}
def setup(fl):
    @fl.on("input")
    def instead(event):
        if event.text == "swap":
            fl.send_message("first", "one")
            fl.send_message("second", "two", trigger_turn={trigger})
            fl.send_message("third", "three", deliver="follow_up")
            return Handled()
"""
    async with extended(tmp_path, source) as it:
        await it.agent.ask("swap")
        await it.agent.idle()
        session = it.agent.session
        told = [message.content for message in session.messages if isinstance(message, CustomMessage)]
        assert told == ["one", "two", "three"] and len(session.queue) == 0
        assert len(it.model.requests) == (2 if trigger else 0)


# Reload


async def test_a_prompt_waits_for_a_reload_and_is_not_taken_for_something_else(tmp_path: Path) -> None:
    source = f"""{HEADER}
import builtins
async def setup(fl):
    if hasattr(builtins, "reload_may_go_on"):
        builtins.reload_began.set()
        await builtins.reload_may_go_on.wait()
    fl.register_command("hello", lambda: fl.append_entry("hello"))
"""
    async with extended(tmp_path, source) as it:
        await it.command("/hello")
        began, may_go_on = asyncio.Event(), asyncio.Event()
        builtins.__dict__.update(reload_began=began, reload_may_go_on=may_go_on)
        try:
            reload = asyncio.create_task(it.agent.reload_extensions())
            await began.wait()
            asked = asyncio.create_task(it.agent.ask("/hello"))
            await asyncio.sleep(0)
            may_go_on.set()
            assert await reload == ["one"] and (await asked).text == ""
        finally:
            del builtins.__dict__["reload_began"], builtins.__dict__["reload_may_go_on"]
        assert it.notes("hello") == [None, None] and it.model.requests == []


async def test_a_reloaded_extensions_old_instance_cannot_register(tmp_path: Path) -> None:
    source = f"""{HEADER}
import builtins
def setup(fl):
    fl.register_tool(name="mine", description="The present one")(lambda: "")
    if not hasattr(builtins, "first_fl"):
        builtins.first_fl = fl
    old = builtins.first_fl
    @fl.register_command("act")
    def act(arguments, context):
        for work in (
            lambda: old.register_tool(name="mine", description="The old one")(lambda: ""),
            lambda: old.unregister_tool("mine"),
            lambda: old.register_command("old", lambda: None),
            lambda: old.register_provider("old", {{"models": [{{"id": "m"}}]}}, stream=lambda *all: None),
            lambda: old.on("input", lambda event: None),
            lambda: old.events.on("x", lambda data: None),
            lambda: old.events.emit("x"),
        ):
            try:
                work()
            except RuntimeError as error:
                fl.append_entry("refused", str(error))
"""
    try:
        async with extended(tmp_path, source) as it:
            await it.command("/act")
            assert it.notes("refused") == []
            await it.agent.reload_extensions()
            await it.command("/act")
            refused = it.notes("refused")
            assert len(refused) == 7 and all("was reloaded" in text for text in refused)
            assert it.agent.session.tools["mine"].description == "The present one"
            assert [command.name for command in it.agent.session.additions.slash_commands()] == ["act"]
    finally:
        del builtins.__dict__["first_fl"]
