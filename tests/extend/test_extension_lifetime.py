"""What lasts of an extension: the state it keeps, and what a reload takes back or finds anew."""

from __future__ import annotations

import builtins
from pathlib import Path
from textwrap import dedent

import pytest
from tests.extend.extended import extended

from fairlead import Storage
from fairlead.errors import ExtensionNotLoaded

HEADER = "import asyncio\nfrom fairlead.extension import *\n"


# State, bus, programs


async def test_state_is_kept_restored_and_follows_the_branch(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.register_command("add")
    def add(word):
        fl.state.setdefault("words", []).append(word)
    @fl.register_command("tell")
    def tell():
        fl.append_entry("told", dict(fl.state))
"""
    )
    sessions = tmp_path / "sessions"
    async with extended(tmp_path, source, store=Storage(sessions)) as it:
        await it.agent.ask("hi")
        before = it.agent.session.history.log.leaf
        await it.command("/add a")
        await it.command("/add b")
        assert [entry["words"] for entry in it.notes("fairlead.state.one")] == [["a"], ["a", "b"]]
        file = it.agent.session.history.path
        await it.agent.session.navigate(before, summarise=False)
        await it.command("/tell")
        assert it.notes("told") == [{}]
        await it.command("/add c")
    async with extended(tmp_path, source, store=Storage(sessions), session=file) as it:
        await it.command("/tell")
        assert it.notes("told")[-1] == {"words": ["c"]}
        await it.agent.session.history.new()
        await it.command("/tell")
        assert it.notes("told") == [{}]


async def test_a_state_holds_what_json_can_hold(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.register_command("bad")
    def bad():
        fl.state["x"] = object()
    @fl.register_command("worse")
    def worse():
        fl.state["x"] = []
        fl.state["x"].append(object())
"""
    )
    async with extended(tmp_path, source) as it:
        await it.command("/bad")
        await it.command("/worse")
        assert "'x' cannot be saved in a state" in it.errors[0][2] and len(it.errors) == 2


async def test_a_state_is_written_before_the_code_that_changed_it_waits_or_leaves_the_conversation(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.register_command("wait")
    async def wait(arguments, context):
        fl.state["step"] = "waiting"
        await asyncio.sleep(0)
        fl.append_entry("seen", [entry["data"] for entry in context.session.entries() if "state" in entry.get("customType", "")])
    @fl.register_command("leave")
    async def leave(arguments, context):
        fl.state["step"] = "leaving"
        await context.new_session()
        fl.append_entry("there", dict(fl.state))
"""
    )
    async with extended(tmp_path, source, store=Storage(tmp_path / "sessions")) as it:
        await it.agent.ask("hi")
        await it.command("/wait")
        assert it.notes("seen") == [[{"step": "waiting"}]]
        left = it.agent.session.history.path
        await it.command("/leave")
        assert it.notes("there") == [{}]
        assert left is not None and '"data":{"step":"leaving"}' in left.read_text()


# Reload and what is left behind


async def test_reload_takes_everything_back_and_loads_what_is_there_now(tmp_path: Path) -> None:
    source = """
        def setup(fl):
            fl.register_command("old", lambda: kept.append(fl))
            fl.register_command("stale", lambda: kept[0].append_entry("x"))
            fl.on("turn_start", lambda event: fl.append_entry("old"))
            @fl.register_tool
            def old_tool():
                "Old."
        kept = []
    """
    new = """
        def setup(fl):
            fl.register_command("new", lambda: None)
            fl.on("session_start", lambda event: fl.append_entry("start", event.reason))
    """
    async with extended(tmp_path, source) as it:
        await it.command("/old")
        (tmp_path / "one.py").write_text(dedent(new))
        assert await it.agent.reload_extensions() == ["one"]
        assert [command.name for command in it.agent.session.additions.slash_commands()] == ["new"]
        assert "old_tool" not in it.agent.session.tools
        await it.agent.ask("hi")
        assert it.notes("old") == [] and it.notes("start") == ["reload"]
        (tmp_path / "one.py").write_text("def setup(fl):\n    raise RuntimeError('broken')\n")
        with pytest.raises(ExtensionNotLoaded, match=r"one\.py\": broken"):
            await it.agent.reload_extensions()
        with pytest.raises(ExtensionNotLoaded, match="broken"):
            await it.agent.ask("still here?")
        (tmp_path / "one.py").write_text(dedent(new))
        assert await it.agent.reload_extensions() == ["one"]
        assert (await it.agent.ask("here again")).text == "ok"


async def test_a_reloaded_extensions_old_instance_cannot_act(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
import builtins
def setup(fl):
    if not hasattr(builtins, "kept_fl"):
        builtins.kept_fl = fl
    fl.register_command("act", lambda: builtins.kept_fl.append_entry("x"))
"""
    )
    try:
        async with extended(tmp_path, source) as it:
            await it.command("/act")
            await it.agent.reload_extensions()
            await it.command("/act")
            assert it.notes("x") == [None]
            assert it.errors[0][2] == "The extension one was reloaded. Its old code can no longer act on the agent."
    finally:
        builtins.__dict__.pop("kept_fl", None)


async def test_the_first_extension_is_found_by_a_reload(tmp_path: Path) -> None:
    async with extended(tmp_path) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        assert await it.agent.reload_extensions() == []
        folder = tmp_path / "home" / "extensions"
        folder.mkdir()
        (folder / "late.py").write_text("def setup(fl):\n    fl.on('turn_start', lambda event: fl.append_entry('here'))\n")
        assert await it.agent.reload_extensions() == ["late"]
        await it.agent.ask("again")
        assert it.notes("here") == [None]


async def test_an_extension_found_by_a_reload_gets_one_start_and_all_later_events(
    tmp_path: Path,
) -> None:
    async with extended(tmp_path) as it:
        assert await it.agent.reload_extensions() == []
        folder = tmp_path / "home" / "extensions"
        folder.mkdir()
        (folder / "late.py").write_text(
            "def setup(fl):\n"
            "    fl.on('session_start', lambda event: fl.append_entry('heard', event.reason))\n"
            "    fl.on('session_info_changed', lambda event: fl.append_entry('heard', event.name))\n"
        )
        await it.agent.reload_extensions()
        it.agent.session.history.set_name("later")
        await it.agent.ask("hi")
        assert it.notes("heard") == ["reload", "later"]


async def test_a_reload_before_anything_else_comes_after_the_start(tmp_path: Path) -> None:
    source = """
    def setup(fl):
        for name in ("session_start", "session_shutdown"):
            fl.on(name, lambda event, *, name=name: fl.append_entry("heard", [name, event.reason]))
    """
    async with extended(tmp_path, source) as it:
        await it.agent.reload_extensions()
        await it.agent.ask("hi")
        told = [("session_start", "startup"), ("session_shutdown", "reload"), ("session_start", "reload")]
        assert [tuple(each) for each in it.notes("heard")] == told
