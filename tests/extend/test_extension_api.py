"""What extensions can register and do: tools, commands, messages, programs, a bus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import Extended, calling, extended

from fairlead import Discovery
from fairlead.core import events as e
from fairlead.core.messages import CustomMessage, ToolCall, UserMessage, user_text
from fairlead.core.model import ModelRequest
from fairlead.testing import Turn

HEADER = "import asyncio, sys\nfrom typing import Annotated, Literal\nfrom fairlead.extension import *\n"


def spec(request: ModelRequest, name: str) -> dict[str, Any]:
    (found,) = [tool for tool in request.tools if tool.name == name]
    return {"description": found.description, **found.parameters}


def said(it: Extended) -> list[str]:
    return [user_text(each) for each in it.agent.session.messages if isinstance(each, UserMessage)]


# Tools


async def test_a_tool_is_made_from_a_plain_function(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
from msgspec import Struct
Times = Annotated[int, Meta(description="How often", ge=1)]
class Point(Struct):
    x: int
    y: int = 0

def setup(fl):
    @fl.register_tool
    async def move(to: Point, how: Literal["fast", "slow"] = "slow", times: Times = 1) -> dict:
        '''Move something.'''
        return {"at": [to.x, to.y], "how": how, "times": times}
"""
    )
    turns = [calling("move", to={"x": 3}), calling("move", to={"x": "a"}), calling("move", to={"x": 1}, times=0), Turn(text="ok")]
    async with extended(tmp_path, source, turns=turns) as it:
        await it.agent.ask("hi")
        told = spec(it.model.requests[0], "move")
        assert told["description"] == "Move something." and told["required"] == ["to"]
        assert told["properties"]["how"] == {"enum": ["fast", "slow"], "default": "slow"}
        assert told["properties"]["times"] == {"type": "integer", "minimum": 1, "description": "How often", "default": 1}
        good, bad, less = it.results
        assert (json.loads(good[0]), good[1]) == ({"at": [3, 0], "how": "slow", "times": 1}, False)
        assert bad[1] and bad[0].startswith('Validation failed for tool "move"')
        assert less[1]


async def test_a_tool_with_a_schema_of_its_own_shows_progress_and_fails_as_it_likes(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
def setup(fl):
    @fl.register_tool(name="look-up", description="Looks.", label="Look", parameters=SCHEMA, snippet="look things up")
    async def look(arguments, context: ToolRunContext):
        context.update("half of " + context.call_id)
        if arguments["q"] == "bad":
            raise ToolError("no such thing", {"code": 7})
        if arguments["q"] == "worse":
            sys.exit(2)
        return ToolResult([TextContent("found")], {"n": 1})
"""
    )
    turns = [*(calling("look-up", q=q) for q in ("good", "bad", "worse")), Turn(text="ok")]
    async with extended(tmp_path, source, turns=turns) as it:
        await it.agent.ask("hi")
        assert it.results == [
            ("found", False),
            ("no such thing", True),
            ("SystemExit was raised, which does not end the agent.", True),
        ]
        updates = [each.partial.content[0] for each in it.told if isinstance(each, e.ToolUpdate)]
        assert getattr(updates[0], "text", "") == "half of c1"
        assert "look things up" in it.model.requests[0].system_prompt


async def test_a_blocking_function_does_not_block_other_handlers(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
import threading
gate = threading.Event()
def setup(fl):
    @fl.register_tool
    def wait() -> str:
        "Waits for the other."
        return "waited" if gate.wait(20) else "in vain"
    @fl.register_tool
    async def open() -> str:
        "Lets the other go on."
        gate.set()
        return "opened"
"""
    )
    turns = [Turn(tool_calls=[ToolCall("c1", "wait", {}), ToolCall("c2", "open", {})]), Turn(text="ok")]
    async with extended(tmp_path, source, turns=turns) as it:
        await it.agent.ask("hi")
        assert sorted(it.results) == [("opened", False), ("waited", False)]


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("def t(a): 'A tool.'", "The parameter a of the tool t needs a type hint"),
        ("def t(*a: int): 'A tool.'", "arguments are passed by name"),
        ("def t(a: int): pass", "needs a description"),
        ("def t(a: 'Nowhere'): 'A tool.'", "The type hints of the tool t cannot be read"),
        ("def t(a: type): 'A tool.'", "have no JSON Schema"),
        ("def bash(a: int): 'A tool.'", "A tool named bash already exists."),
    ],
)
async def test_registering_an_invalid_tool_is_refused(tmp_path: Path, tool: str, error: str) -> None:
    source = f"def setup(fl):\n    @fl.register_tool\n    {tool}\n"
    async with extended(tmp_path, source, discovery=Discovery(extension_errors="continue")) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        assert error in it.errors[0][2]


async def test_only_the_tools_that_were_asked_for_are_active(tmp_path: Path) -> None:
    source = "def setup(fl):\n    @fl.register_tool\n    def one(): 'One.'\n    @fl.register_tool\n    def two(): 'Two.'\n"
    async with extended(tmp_path, source, tools=["read", "two", "three"]) as it:
        await it.agent.ask("hi")
        assert [tool.name for tool in it.model.requests[0].tools] == ["read", "two"]
        assert [warning for warning in it.agent.warnings if "Unknown tools, left out: three." in warning]


# Commands and messages


async def test_a_command_runs_instead_of_the_model_and_may_speak_to_it(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.register_command("say", description="Say something")
    async def say(arguments, context):
        fl.send_user_message("/say " + arguments)
        await context.wait_for_idle()
        fl.append_entry("done", [context.is_idle, len(context.session.messages()), context.mode])
"""
    )
    async with extended(tmp_path, source) as it:
        await it.command("/say  two words ")
        assert said(it) == ["/say two words"] and it.notes("done") == [[True, 2, "library"]]


async def test_messages_are_added_queued_kept_for_the_next_prompt_or_start_a_run(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.register_command("note")
    async def note(arguments, context):
        fl.send_message("note", "quiet", display=False, details={"a": 1})
        fl.send_message("note", "with the next", deliver="next_turn")
    @fl.register_command("go")
    async def go(arguments, context):
        fl.send_message("note", "go on", trigger_turn=True)
"""
    )
    async with extended(tmp_path, source) as it:
        await it.command("/note")
        (quiet,) = it.agent.session.messages
        assert isinstance(quiet, CustomMessage) and (quiet.content, quiet.display, quiet.details) == (
            "quiet",
            False,
            {"a": 1},
        )
        assert not it.model.requests
        await it.agent.ask("hi")
        assert said(it) == ["hi"]
        assert [user_text(each) for each in it.model.requests[0].messages if isinstance(each, UserMessage)] == [
            "quiet",
            "hi",
            "with the next",
        ]
        await it.command("/go")
        assert len(it.model.requests) == 2


async def test_messages_sent_while_the_agent_runs_are_queued(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    sent = []
    @fl.on("tool_execution_end")
    def talk(event, context):
        if not sent:
            sent.append(1)
            fl.send_user_message("later", deliver="follow_up")
            fl.send_user_message("now")
            fl.send_message("note", "and this")
"""
    )
    turns = [calling("bash", command="true"), Turn(text="one"), Turn(text="two"), Turn(text="three"), Turn(text="four")]
    async with extended(tmp_path, source, turns=turns) as it:
        await it.agent.ask("hi")
        await it.agent.idle()
        assert said(it) == ["hi", "now", "later"]
        assert any(isinstance(each, CustomMessage) for each in it.agent.session.messages)


async def test_two_commands_with_one_name_are_distinguished(tmp_path: Path) -> None:
    source = "def setup(fl):\n    fl.register_command('go', lambda arguments: fl.append_entry('went', fl.name), 'Go')\n"
    async with extended(tmp_path, source, source) as it:
        await it.command("/go")
        await it.command("/go:2")
        assert it.notes("went") == ["one", "two"]
        assert [command.name for command in it.agent.session.additions.slash_commands()] == ["go", "go:2"]


async def test_a_command_goes_to_other_conversations(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.register_command("new")
    async def new(arguments, context):
        assert await context.new_session()
        fl.append_entry("id", context.session.id)
    @fl.register_command("back")
    async def back(arguments, context):
        assert await context.navigate(None)
        fl.append_entry("stands", [context.session.leaf, len(context.session.entries()) > 2])
"""
    )
    async with extended(tmp_path, source) as it:
        await it.agent.ask("hi")
        first = it.agent.session.history.id
        await it.command("/back")
        assert it.notes("stands") == [[None, True]]
        await it.command("/new")
        assert it.notes("id") == [it.agent.session.history.id] and it.agent.session.history.id != first
        assert it.errors == []


# State, bus, programs


async def test_a_handler_gets_what_it_has_parameters_without_defaults_for(tmp_path: Path) -> None:
    source = """
    def setup(fl):
        for name in ("a", "b"):
            fl.on("agent_start", lambda event, name=name: fl.append_entry("heard", name))
        fl.on("agent_start", lambda: fl.append_entry("heard", "nothing"))
        fl.on("agent_start", lambda event, context: fl.append_entry("heard", type(context).__name__))
    """
    async with extended(tmp_path, source, turns=[Turn(text="ok")]) as told:
        await told.agent.ask("go")
        assert told.notes("heard") == ["a", "b", "nothing", "Context"]


async def test_extensions_talk_over_the_bus(tmp_path: Path) -> None:
    listener = (
        HEADER
        + """
def setup(fl):
    async def hear(data):
        await asyncio.sleep(0)
        fl.append_entry("heard", data)
        heard.set()
    global heard
    heard = asyncio.Event()
    fl.events.on("topic", hear)
    fl.events.on("topic", lambda data: 1 / 0)
    @fl.register_command("wait")
    async def wait():
        await heard.wait()
"""
    )
    speaker = "def setup(fl):\n    fl.register_command('speak', lambda: fl.events.emit('topic', {'n': 1}))\n"
    async with extended(tmp_path, listener, speaker) as it:
        await it.command("/speak")
        await it.command("/wait")
        assert it.notes("heard") == [{"n": 1}]
        assert it.errors == [("one.py", "bus:topic", "division by zero")]


async def test_programs_run_to_their_end_or_are_killed_with_their_children(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.register_command("run")
    async def go(arguments, context):
        done = await fl.exec("sh", ["-c", "echo out; echo err >&2; sleep 60 & exit 3"])
        fl.append_entry("done", [done.stdout, done.stderr, done.code, done.killed])
        slow = await fl.exec("sh", ["-c", "trap '' TERM; echo begun; sleep 60"], timeout=0.2)
        fl.append_entry("slow", [slow.stdout, slow.code, slow.killed])
        here = await fl.exec("pwd", cwd="sub")
        fl.append_entry("here", here.stdout.strip().rpartition("/")[2])
        try:
            await fl.exec("no-such-program")
        except OSError:
            fl.append_entry("none")
"""
    )
    async with extended(tmp_path, source) as it:
        (tmp_path / "project" / "sub").mkdir()
        await it.command("/run")
        assert it.notes("done") == [["out\n", "err\n", 3, False]]
        assert it.notes("slow") == [["begun\n", 137, True]]
        assert it.notes("here") == ["sub"] and it.notes("none") == [None] and it.errors == []
