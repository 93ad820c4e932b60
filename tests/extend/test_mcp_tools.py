"""The tools, resources and prompts of real MCP servers, made with the server side of the `mcp` package."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.extend.mcp_scene import PATIENCE, SUPPORT, Scene, calls, images_of, raw_server, real_server, scene, text_of
from tests.support.gates import Gate

from fairlead.core import events as e
from fairlead.core.messages import UserMessage, user_text
from fairlead.errors import ConfigError
from fairlead.session.behaviour import Behaviour
from fairlead.testing import Turn

Told = dict[str, e.ToolEnd]

WORK = [
    calls("mcp__real__echo", text="hi"),
    calls("mcp__real__count", to=3),
    calls("mcp__real__everything"),
    calls("mcp__real__fail"),
    calls("mcp__real__echo", text=[7]),
    calls("mcp__real__big", lines=5_000),
    calls("mcp__real__surroundings"),
    calls("mcp__real__speak"),
    calls("mcp_resources"),
    calls("read", path="mcp://real/note://one", offset=2),
    calls("read", path="mcp://real/note://picture"),
    calls("read", path="mcp://real/note://by-name/Ada"),
    calls("write", path="mcp://real/note://one", content="x"),
    calls("mcp__real__grow"),
    calls("mcp__real__grown"),
    Turn(text="done"),
]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The results of one run that uses everything, because starting a server takes most of a second."""
    folder = tmp_path_factory.mktemp("mcp")

    async def main() -> Scene:
        env = {**os.environ, "INHERITED": "yes"}
        async with scene(folder, {"real": real_server(env={"GIVEN": "also"})}, WORK, env=env) as told:
            assert (await told.agent.ask("go")).text == "done"
            return told

    return asyncio.run(main())


def result(worked: Scene, turn: int) -> e.ToolEnd:
    return worked.ends()[turn]


def test_tools_have_the_name_of_their_server_and_its_schema(worked: Scene) -> None:
    assert {"mcp__real__echo", "mcp__real__count", "mcp_resources"} <= set(worked.offered(0))
    echo = next(tool for tool in worked.model.requests[0].tools if tool.name == "mcp__real__echo")
    assert echo.description == "Say it again."
    assert echo.parameters["properties"]["text"]["type"] == "string" and echo.parameters["required"] == ["text"]


def test_a_tool_gives_its_text_to_the_model_and_its_structure_to_the_host(worked: Scene) -> None:
    echo = result(worked, 0)
    assert (text_of(echo), echo.is_error) == ("echo: hi", False)
    assert echo.result.details == {"server": "real", "tool": "echo", "structuredContent": {"result": "echo: hi"}}
    assert echo.structured is not None and echo.structured()["structuredContent"] == {"result": "echo: hi"}


def test_progress_becomes_updates_of_the_call(worked: Scene) -> None:
    updates = [event for event in worked.events if isinstance(event, e.ToolUpdate)]
    assert [event.partial.details for event in updates] == [{"progress": step, "total": 3} for step in (1, 2, 3)]
    assert "step 2" in str(updates[1].partial.content)


def test_every_kind_of_content_reaches_the_model_or_is_reported(worked: Scene) -> None:
    everything = result(worked, 2)
    assert [image.mime_type for image in images_of(everything)] == ["image/png"]
    text = text_of(everything)
    for part in ("a text", "audio/wav", "mcp://real/note://one", "embedded", "Another.", "mcp://real/note://two"):
        assert part in text
    assert everything.result.details == {"server": "real", "tool": "everything", "structuredContent": {"kinds": 5}}


def test_a_failure_of_a_tool_is_an_error_with_its_words(worked: Scene) -> None:
    assert (text_of(result(worked, 3)), result(worked, 3).is_error) == ("it went wrong", True)


def test_arguments_are_checked_before_the_server_is_asked(worked: Scene) -> None:
    assert result(worked, 4).is_error
    assert 'Validation failed for tool "mcp__real__echo"' in text_of(result(worked, 4))


def test_a_long_result_is_cut_and_kept_in_a_file(worked: Scene) -> None:
    text = text_of(result(worked, 5))
    assert text.startswith("line 0\nline 1\n") and len(text) < 51 * 1024
    kept = Path(text.rpartition("Full output: ")[2].rstrip("]"))
    assert kept.read_text().splitlines() == [f"line {number}" for number in range(5_000)]


def test_a_server_has_the_environment_of_the_agent_and_its_own(worked: Scene) -> None:
    around = json.loads(text_of(result(worked, 6)))
    assert (around["INHERITED"], around["GIVEN"]) == ("yes", "also")
    assert Path(around["cwd"]) == worked.agent.session.host.workspace.cwd


def test_resources_are_listed_under_the_paths_that_read_takes(worked: Scene) -> None:
    lines = text_of(result(worked, 8)).splitlines()
    assert "mcp://real/note://one  note (text/plain): The first note." in lines
    assert any(line.startswith("mcp://real/note://by-name/{name}") for line in lines)


def test_resources_are_read_in_windows_as_images_and_from_templates(worked: Scene) -> None:
    assert text_of(result(worked, 9)) == "second line"
    assert [image.mime_type for image in images_of(result(worked, 10))] == ["image/png"]
    assert text_of(result(worked, 11)) == "the note of Ada"


def test_resources_cannot_be_written(worked: Scene) -> None:
    assert result(worked, 12).is_error and "reading only" in text_of(result(worked, 12))


def test_a_tool_that_is_added_can_be_used_in_the_next_turn(worked: Scene) -> None:
    assert "mcp__real__grown" not in worked.offered(13)
    assert "mcp__real__grown" in worked.offered(14)
    assert text_of(result(worked, 14)) == "grown"


def test_nothing_is_reported_of_servers_that_work_and_are_closed(worked: Scene) -> None:
    assert worked.errors() == [] and worked.agent.warnings == []


async def test_prompts_are_slash_commands(tmp_path: Path) -> None:
    async with scene(tmp_path, {"real": real_server()}) as told:
        session = told.agent.session
        await told.agent.ask('/mcp:real:review "my file.py" focus=names')
        await told.agent.ask("/mcp:real:dialogue")
        first, second = [user_text(each) for each in session.messages if isinstance(each, UserMessage)]
        assert first == "Review my file.py and look at names."
        assert second == "User: Who are you?\n\nAssistant: A server."
        listed = {command.name: command for command in session.additions.slash_commands()}
        assert listed["mcp:real:review"].description == "Review a file. <file> [focus]"
        assert listed["mcp:real:review"].source == "prompt"
        for text, problem in (
            ("/mcp:real:review", "needs file: /mcp:real:review <file> [focus]"),
            ("/mcp:real:other", "There is no prompt /mcp:real:other"),
            ("/mcp:real:dialogue too much", "takes no further argument"),
        ):
            with pytest.raises(ConfigError, match=re.escape(problem)):
                await session.prompt(text)
        assert len(told.model.requests) == 2, "nothing of this reached the model"


async def test_an_abort_cancels_the_call_and_the_server_keeps_working(tmp_path: Path) -> None:
    with Gate(tmp_path / "began") as began, Gate(tmp_path / "cancelled") as cancelled:
        hangs = calls("mcp__real__hang", began=str(tmp_path / "began"), cancelled=str(tmp_path / "cancelled"))
        turns = [hangs, calls("mcp__real__echo", text="still here"), Turn(text="ok")]
        async with scene(tmp_path, {"real": real_server()}, turns) as told:
            await told.agent.session.prompt("go")
            await asyncio.to_thread(began.wait)
            await told.agent.session.abort()
            await asyncio.to_thread(cancelled.wait)
            assert told.texts() == [('The call of "hang" was aborted.', True)]
            await told.agent.ask("and now?")
            assert told.texts()[1:] == [("echo: still here", False)]
            assert told.errors() == []


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(tmp_path: Path) -> None:
    with Gate(tmp_path / "cancelled") as cancelled:
        hangs = calls("mcp__real__hang", began=os.devnull, cancelled=str(tmp_path / "cancelled"))
        async with scene(tmp_path, {"real": real_server(timeout=100)}, [hangs, Turn(text="ok")]) as told:
            await told.agent.ask("go")
            assert told.texts() == [("mcp__real__hang did not finish within 0.1 seconds and was stopped.", True)]
            await asyncio.to_thread(cancelled.wait)


async def test_a_crashed_server_is_reported_and_restarted_for_the_next_call(tmp_path: Path) -> None:
    turns = [calls("mcp__real__crash", code=3), calls("mcp__real__echo", text="again"), Turn(text="ok")]
    async with scene(tmp_path, {"real": real_server()}, turns) as told:
        await told.agent.ask("go")
        assert told.texts() == [
            ('The call of "crash" failed: the MCP server "real" has ended: it exited with code 3.', True),
            ("echo: again", False),
        ]
        [(path, event, error)] = told.errors()
        assert (path, event) == ("mcp:real", "crash") and "exited with code 3" in error and "reconnected" in error


async def test_streamable_http_works_like_a_child_process(tmp_path: Path) -> None:
    turns = [
        calls("mcp__web__count", to=2),
        calls("read", path="mcp://web/note://one"),
        calls("mcp__web__grow"),
        Turn(text="ok"),
        calls("mcp__web__grown"),
        Turn(text="ok"),
    ]
    with http_server() as (url, _):
        async with scene(tmp_path, {"web": {"type": "http", "url": url}}, turns) as told:
            await told.agent.ask("go")
            await told.until_there_is("mcp__web__grown")  # which is told beside the answers, and may come after them
            await told.agent.ask("go on")
            assert told.texts() == [
                ("counted", False),
                ("first line\nsecond line", False),
                ("there is more", False),
                ("grown", False),
            ]
            assert sum(isinstance(event, e.ToolUpdate) for event in told.events) == 2
            assert told.errors() == []


async def test_a_lost_http_server_is_reported(tmp_path: Path) -> None:
    turns = [calls("mcp__web__echo", text="one"), Turn(text="ok"), calls("mcp__web__echo", text="two"), Turn(text="ok")]
    with http_server() as (url, stop):
        async with scene(tmp_path, {"web": {"url": url}}, turns) as told:
            await told.agent.ask("go")
            stop()
            await told.agent.ask("again")
            assert [is_error for _, is_error in told.texts()] == [False, True]
            assert 'the MCP server "web" can no longer be reached: ' in told.texts()[1][0]
            assert [(path, event) for path, event, _ in told.errors()] == [("mcp:web", "crash")]


async def test_sub_agents_have_the_tools_of_servers(tmp_path: Path) -> None:
    turns = [
        calls("task", agent="task", tasks=[{"id": "one", "description": "ask", "assignment": "Ask the server."}]),
        calls("mcp__raw__ok"),
        Turn(text="It was asked."),
        Turn(text="done"),
    ]
    async with scene(
        tmp_path, {"raw": raw_server("plain")}, turns, tools=None, behaviour=Behaviour(default_tools=["read", "task"])
    ) as told:
        await told.agent.ask("go")
        assert told.offered(1) == ["mcp__raw__ok", "mcp__raw__die"], "the sub-agent's"
        results = [str(message) for message in told.model.requests[2].messages]
        assert "ok was called" in results[-1]


@contextmanager
def http_server() -> Generator[tuple[str, Callable[[], None]]]:
    """The address of a server, and a way to end it."""
    argv = [sys.executable, "-W", "ignore", str(SUPPORT / "mcp_server.py"), "http"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None

        def stop() -> None:
            process.kill()
            process.wait(PATIENCE)

        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", stop
        finally:
            stop()


async def test_reading_of_an_unknown_server_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path, {"raw": raw_server("plain")}, [calls("read", path="mcp://none/x"), Turn(text="ok")]) as told:
        await told.agent.ask("go")
        [(text, is_error)] = told.texts()
        assert is_error and 'There is no MCP server "none"' in text and "raw" in text
        uris = told.agent.session.host.workspace.uris
        assert uris is not None and uris.has("MCP://raw/x") and not uris.has("mcp.txt")
