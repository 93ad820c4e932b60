"""Where extensions are found, which of them are loaded, and when those of a project may run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import extended

from fairlead import Agent, Discovery
from fairlead.config.home import Home
from fairlead.config.trust import TrustDecider, all_decisions, find_saved_decision, save_decision
from fairlead.errors import ConfigError

MARK = "def setup(fl):\n    fl.on('session_start', lambda event: fl.append_entry('here', fl.name))\n"


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def loaded(root: Path, *sources: str, settings: str | None = None, **options: Any) -> tuple[list[str], list[str]]:
    """The names of the extensions that ran, and the warnings."""
    async with extended(root, *sources, settings=settings, **options) as it:
        await it.agent.ask("hi")
        assert it.errors == []
        return it.notes("here"), it.agent.warnings


async def test_files_and_packages_are_found_in_the_home_in_settings_and_where_they_are_named(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "home/extensions/single.py": MARK,
            "home/extensions/pack/__init__.py": "from .inner import setup\n",
            "home/extensions/pack/inner.py": MARK,
            "home/extensions/_private.py": "raise RuntimeError",
            "home/extensions/notes.txt": "not Python",
            "home/more/listed.py": MARK,
            "folder/first.py": MARK,
            "folder/second.py": MARK,
        },
    )
    settings = json.dumps({"extensions": ["more/listed.py", str(tmp_path / "folder")]})
    names, warnings = await loaded(tmp_path, MARK, settings=settings)
    assert names == ["one", "listed", "first", "second", "pack", "single"] and warnings == []
    assert not list(tmp_path.glob("**/__pycache__"))
    assert (await loaded(tmp_path, MARK, discovery=Discovery(find_extensions=False)))[0] == ["one"]
    assert (await loaded(tmp_path, MARK, isolated=True))[0] == ["one"]


async def test_of_two_with_one_name_the_first_counts(tmp_path: Path) -> None:
    put(tmp_path, {"home/extensions/one.py": "raise RuntimeError"})
    names, warnings = await loaded(tmp_path, MARK)
    assert names == ["one"] and "is an extension with the same name" in warnings[0]


async def test_missing_named_extensions_are_reported(tmp_path: Path) -> None:
    async with Agent(
        extensions=[tmp_path / "ext.py"], cwd=tmp_path, isolated=True, discovery=Discovery(extension_errors="continue")
    ) as agent:
        await agent.session.extensions.ready()
        assert any("There is no extension at" in warning and "ext.py" in warning for warning in agent.warnings)


def test_an_installed_package_announces_its_extension(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "site/thing/__init__.py": "",
            "site/thing/agent.py": MARK.replace("setup", "begin"),
            "site/thing-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1\n",
            "site/thing-1.dist-info/entry_points.txt": "[fairlead.extensions]\nthing = thing.agent:begin\n",
        },
    )
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path / "site")!r})
sys.path.insert(0, {str(Path.cwd())!r})
import asyncio
from pathlib import Path
from tests.extend.test_extension_places import loaded
found = asyncio.run(loaded(Path({str(tmp_path)!r})))
assert found == (["thing"], []), found
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# Trust


@pytest.mark.parametrize("kind", ["folder", "settings"])
async def test_a_project_runs_no_code_unless_it_is_trusted(tmp_path: Path, kind: str) -> None:
    source = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n{MARK}"
    if kind == "folder":
        put(tmp_path, {"project/.fairlead/extensions/theirs.py": source})
    else:
        put(
            tmp_path,
            {"project/tool/theirs.py": source, "project/.fairlead/settings.json": '{"extensions": ["../tool/theirs.py"]}'},
        )
    names, warnings = await loaded(tmp_path)
    assert names == [] and not (tmp_path / "ran").exists()
    assert "is not trusted" in warnings[0] and "fairlead trust" in warnings[0]
    assert await loaded(tmp_path, trust=False) == ([], [])
    assert await loaded(tmp_path, trust=True) == (["theirs"], [])
    assert await loaded(tmp_path, settings='{"defaultProjectTrust": "never"}') == ([], [])
    assert await loaded(tmp_path, settings='{"defaultProjectTrust": "always"}') == (["theirs"], [])


async def test_a_project_cannot_keep_an_extension_of_the_users_from_being_loaded(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "home/extensions/mine.py": f"import time\ntime.sleep(0.1)\n{MARK}",
            "project/.fairlead/settings.json": '{"extensionTimeoutSeconds": 0.01}',
        },
    )
    names, warnings = await loaded(tmp_path)
    assert names == ["mine"] and any("extensionTimeoutSeconds is ignored in a project" in warning for warning in warnings)


async def test_a_project_cannot_say_that_it_is_trusted(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "project/.fairlead/extensions/theirs.py": "raise RuntimeError",
            "project/.fairlead/settings.json": '{"defaultProjectTrust": "always"}',
        },
    )
    names, warnings = await loaded(tmp_path)
    assert names == [] and any("defaultProjectTrust is ignored in a project" in warning for warning in warnings)


async def test_a_decision_holds_for_the_folders_below_and_the_nearest_counts(tmp_path: Path) -> None:
    put(tmp_path, {"home/x": "", "project/.fairlead/extensions/theirs.py": MARK})
    home = Home(tmp_path / "home")
    save_decision(home, tmp_path, True)
    assert await loaded(tmp_path) == (["theirs"], [])
    save_decision(home, tmp_path / "project", False)
    assert (await loaded(tmp_path))[0] == []
    save_decision(home, tmp_path / "project", None)
    assert all_decisions(home) == {str(tmp_path.resolve()): True}


def test_a_decision_is_about_the_real_folder(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    (tmp_path / "real" / "app").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_decision(home, tmp_path / "link" / "app", True)
    assert find_saved_decision(home, tmp_path / "real" / "app") is True
    assert find_saved_decision(home, tmp_path / "real") is None
    # A link from a trusted folder to another one does not make that trusted.
    (tmp_path / "other").mkdir()
    (tmp_path / "real" / "app" / "in").symlink_to(tmp_path / "other")
    assert find_saved_decision(home, tmp_path / "real" / "app" / "in") is None
    assert oct((tmp_path / "home" / "trust.json").stat().st_mode & 0o777) == "0o600"


async def test_an_unreadable_trust_file_trusts_no_project(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "trust.json").write_text('{"/": "yes"}')
    with pytest.raises(ConfigError, match="expected true or false"):
        find_saved_decision(home, tmp_path)
    warnings: list[str] = []
    assert await TrustDecider(home, warn=warnings.extend).decide(tmp_path) is False
    assert "No project is trusted by it." in warnings[0]


async def test_an_extension_of_the_user_decides_about_a_project(tmp_path: Path) -> None:
    put(tmp_path, {"project/.fairlead/extensions/theirs.py": MARK})
    source = f"""
from fairlead.extension import *
def setup(fl):
    fl.on("project_trust", lambda event: Trust(event.cwd.name == "project", remember=True))
{MARK.replace("def setup(fl):", "").rstrip()}
"""
    assert await loaded(tmp_path, source) == (["one", "theirs"], [])
    assert all_decisions(Home(tmp_path / "home")) == {str((tmp_path / "project").resolve()): True}


async def test_a_decision_of_an_extension_that_cannot_be_written_down_holds_for_this_run(tmp_path: Path) -> None:
    put(tmp_path, {"project/.fairlead/extensions/theirs.py": MARK, "home/trust.json": "[]"})
    source = f"""
from fairlead.extension import *
def setup(fl):
    fl.on("project_trust", lambda event: Trust(True, remember=True))
{MARK.replace("def setup(fl):", "").rstrip()}
"""
    names, warnings = await loaded(tmp_path, source)
    assert names == ["one", "theirs"]
    assert len(warnings) == 1 and "trust.json" in warnings[0] and warnings[0].endswith("valid for this run only.")


async def test_the_folder_of_the_user_is_not_a_project(tmp_path: Path) -> None:
    put(tmp_path, {"project/.fairlead/extensions/mine.py": MARK})
    from fairlead import Agent
    from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

    env = {**os.environ, "FAIRLEAD_HOME": str(tmp_path / "project" / ".fairlead")}
    model = Scripted([Turn(text="ok")])
    async with Agent(model=SCRIPTED_MODEL, stream=model, cwd=tmp_path / "project", env=env) as agent:
        await agent.ask("hi")
        assert agent.extensions.names() == ["mine"] and agent.warnings == []


async def test_a_reload_finds_a_project_that_was_trusted_meanwhile(tmp_path: Path) -> None:
    put(tmp_path, {"project/.fairlead/extensions/theirs.py": MARK})
    async with extended(tmp_path, MARK) as it:
        await it.agent.ask("hi")
        assert it.agent.extensions.names() == ["one"]
        save_decision(it.agent.home, tmp_path / "project", True)
        assert await it.agent.reload_extensions() == ["one", "theirs"]
