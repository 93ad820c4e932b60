"""Projects that were trusted and have other code by now: what a pull, a command or another program brought."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import extended
from tests.support.stage import stage
from tests.support.surroundings import FAIRLEAD, surroundings

from fairlead.config import project_code
from fairlead.config.home import Home, PeerHome
from fairlead.config.trust import TrustDecider, find_decision, find_saved_decision, save_decision, trust_question
from fairlead.errors import ConfigError

EXTENSION = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\ndef setup(fl): pass\n"


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def server(*command: str, **more: Any) -> str:
    return json.dumps({"mcpServers": {"s": {"command": command[0], "args": command[1:], **more}}})


def hooks(command: str, **more: Any) -> str:
    return json.dumps({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}, **more})


PROJECT = {
    ".fairlead/extensions/one.py": "1",
    ".fairlead/extensions/two/__init__.py": "2",
    ".fairlead/extensions/two/inner/helper.py": "2",
    ".fairlead/settings.json": '{"extensions": ["../tools/listed.py"], "packages": ["../package"]}',
    ".fairlead/mcp.json": server("node", "servers/main.js"),
    ".claude/settings.json": hooks("cd hooks && ./check.sh"),
    ".claude/settings.local.json": hooks('"$CLAUDE_PROJECT_DIR"/hooks/local.sh'),
    ".mcp.json": server("sh", "-c", "cd servers && ./run.sh", env={"PYTHONPATH": "lib"}),
    "tools/listed.py": "3",
    "package/package.json": '{"pi": {"extensions": ["*.ts"]}}',
    "package/a.ts": "4",
    "servers/main.js": "5",
    "servers/run.sh": "6",
    "lib/module.py": "7",
    "hooks/check.sh": "a",
    "hooks/local.sh": "b",
    "ordinary.py": "8",
    "AGENTS.md": "9",
    "data.db": "10",
}


@pytest.fixture
def trusted(tmp_path: Path) -> tuple[Home, Path]:
    project = tmp_path / "project"
    put(project, PROJECT)
    home = Home(tmp_path / "home")
    save_decision(home, project, True)
    assert find_saved_decision(home, project) is True
    return home, project


CODE = [
    name
    for name in PROJECT
    if name not in ("ordinary.py", "AGENTS.md", "data.db", ".fairlead/settings.json") and ".claude" not in name
]


@pytest.mark.parametrize("name", CODE)
def test_a_change_of_code_undoes_trust(trusted: tuple[Home, Path], name: str) -> None:
    home, project = trusted
    before = (project / name).read_text()
    (project / name).write_text(before + " ")
    assert find_saved_decision(home, project) is None
    found = find_decision(home, project)
    assert found is not None and any(name == each or name.startswith(f"{each}/") for each in found.changed)
    (project / name).write_text(before)
    assert find_saved_decision(home, project) is True
    (project / name).chmod(0o755)
    assert find_saved_decision(home, project) is None


CHANGES: dict[str, Callable[[Path], object]] = {
    "an extension more": lambda project: put(project, {".fairlead/extensions/new.py": ""}),
    "a hidden file beside a module": lambda project: put(project, {".fairlead/extensions/two/__pycache__/x.pyc": ""}),
    "a link to code": lambda project: (project / ".fairlead/extensions/link.py").symlink_to("../../ordinary.py"),
    "another listed extension": lambda project: put(project, {".fairlead/settings.json": '{"extensions": ["../ordinary.py"]}'}),
    "another package": lambda project: put(project, {".fairlead/settings.json": '{"packages": ["../servers"]}'}),
    "another hook": lambda project: put(project, {".claude/settings.json": hooks("./ordinary.py")}),
    "a variable for hooks": lambda project: put(
        project, {".claude/settings.local.json": hooks("hooks/local.sh", env={"BASH_ENV": "x"})}
    ),
    "a module of a server": lambda project: put(project, {"lib/new.py": ""}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_new_code_undoes_trust(trusted: tuple[Home, Path], change: str) -> None:
    home, project = trusted
    CHANGES[change](project)
    assert find_saved_decision(home, project) is None


def test_targets_of_links_in_an_extension_count_as_its_code(trusted: tuple[Home, Path]) -> None:
    home, project = trusted
    (project / ".fairlead/extensions/link.py").symlink_to("../../ordinary.py")
    save_decision(home, project, True)
    (project / "ordinary.py").write_text("evil")
    assert find_saved_decision(home, project) is None


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="the kernel shows no files here")
@pytest.mark.parametrize("target", ["/proc/self", "/proc/self/environ", "/proc", "/sys/kernel"])
def test_code_that_the_kernel_generates_is_not_read_and_not_trusted(trusted: tuple[Home, Path], target: str) -> None:
    home, project = trusted
    (project / ".fairlead" / "extensions" / "link").symlink_to(target)
    assert find_saved_decision(home, project) is None
    with pytest.raises(ConfigError, match="not on a disk"):
        save_decision(home, project, True)


def test_other_changes_leave_trust_as_it_is(trusted: tuple[Home, Path]) -> None:
    home, project = trusted
    put(project, {"ordinary.py": "x", "AGENTS.md": "x", "data.db": "x", "new/file.py": "x", ".fairlead/skills/s/SKILL.md": "x"})
    settings = json.loads(PROJECT[".fairlead/settings.json"])
    put(project, {".fairlead/settings.json": json.dumps({"defaultModel": "x", **settings})})
    (project / ".fairlead/extensions/one.py").unlink()  # the folder has changed, so this is asked about
    assert find_saved_decision(home, project) is None
    (project / ".fairlead/extensions/one.py").write_text("1")
    (project / ".mcp.json").unlink()  # what is gone does not run
    assert find_saved_decision(home, project) is True


def test_a_project_that_appears_in_a_trusted_folder_is_not_trusted(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    put(tmp_path / "work/old", {".mcp.json": "{}"})
    save_decision(home, tmp_path / "work", True)
    put(tmp_path / "work/new/deep", {".fairlead/extensions/x.py": ""})
    (tmp_path / "work/empty").mkdir()
    assert find_saved_decision(home, tmp_path / "work/old") is True
    assert find_saved_decision(home, tmp_path / "work/empty") is True
    assert find_saved_decision(home, tmp_path / "work/new/deep") is None


def test_a_yes_from_before_code_was_recorded_is_asked_for_again(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    put(tmp_path, {"home/trust.json": json.dumps({str(tmp_path.resolve()): True}), "code/.mcp.json": "{}", "plain/x": ""})
    assert find_saved_decision(home, tmp_path / "plain") is True
    assert find_saved_decision(home, tmp_path / "code") is None
    assert "before fairlead kept a record of its code: .mcp.json" in trust_question(home, tmp_path / "code")
    put(tmp_path, {"home/trust.json": json.dumps({str(tmp_path.resolve()): False})})
    assert find_saved_decision(home, tmp_path / "code") is False


def test_the_file_of_a_peer_keeps_its_form_and_its_meaning(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", peer=PeerHome(folder=".pi"))
    put(tmp_path, {"project/.pi/extensions/x.ts": "1"})
    save_decision(home, tmp_path / "project", True)
    assert json.loads((tmp_path / "home/trust.json").read_text()) == {str((tmp_path / "project").resolve()): True}
    put(tmp_path, {"project/.pi/extensions/x.ts": "2"})
    assert find_saved_decision(home, tmp_path / "project") is True


def test_code_without_end_is_not_trusted(trusted: tuple[Home, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    home, project = trusted
    (project / ".fairlead/extensions/again").symlink_to(".")
    save_decision(home, project, True)  # a circle has an end
    os.mkfifo(project / ".fairlead/extensions/pipe")
    save_decision(home, project, True)
    (project / ".fairlead/extensions/zero").symlink_to("/dev/zero")
    save_decision(home, project, True)
    for limit in ("_MOST_ENTRIES", "_MOST_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(project_code, limit, 3)
            assert find_saved_decision(home, project) is None
            with pytest.raises(ConfigError, match="cannot tell whether it has changed"):
                save_decision(home, project, True)
    deep = project / ".fairlead/extensions" / "/".join("d" * 1200)
    subprocess.run(["mkdir", "-p", deep], check=True)
    try:
        assert find_saved_decision(home, project) is None
    finally:
        subprocess.run(["rm", "-rf", project], check=True)


async def test_a_reload_does_not_run_changed_code(tmp_path: Path) -> None:
    put(tmp_path, {"project/.fairlead/extensions/theirs.py": "def setup(fl): pass\n"})
    async with extended(tmp_path, "def setup(fl): pass\n") as it:
        save_decision(it.agent.home, tmp_path / "project", True)
        await it.agent.ask("hi")
        assert it.agent.extensions.names() == ["one", "theirs"]
        assert await it.agent.reload_extensions() == ["one", "theirs"]
        put(tmp_path, {"project/.fairlead/extensions/theirs.py": EXTENSION})
        assert await it.agent.reload_extensions() == ["one"]
        assert not (tmp_path / "project/.fairlead/extensions/ran").exists()
        assert any("other code than when it was trusted" in text for text in it.agent.warnings)


async def test_trust_in_project_code_is_asked_again_after_every_change(tmp_path: Path) -> None:
    put(tmp_path, {"project/.mcp.json": "{}"})
    decider = TrustDecider(Home(tmp_path / "home"), default="always")
    assert await decider.decide(tmp_path / "project")
    asked: list[Path] = []

    async def ask(project: Path) -> bool:
        asked.append(project)
        return True

    decider.ask = ask
    decider = TrustDecider(Home(tmp_path / "home"))
    decider.ask = ask
    assert await decider.decide(tmp_path / "project") and await decider.decide(tmp_path / "project")
    decider.reconsider()
    assert await decider.decide(tmp_path / "project") and len(asked) == 1
    put(tmp_path, {"project/.mcp.json": '{"mcpServers": {}}'})
    decider.reconsider()
    assert await decider.decide(tmp_path / "project") and len(asked) == 2


def test_the_question_of_a_host_says_what_runs_and_what_a_yes_covers(tmp_path: Path) -> None:
    files = {
        ".fairlead/extensions/theirs.py": "def setup(fl): pass\n",
        ".mcp.json": server("./serve\x1b[2J.sh"),
        "serve\x1b[2J.sh": "",
    }
    with stage(tmp_path, "pi", files=files) as host:
        changed = "It has other code than when it was trusted: .fairlead/extensions. "
        for nth, (request, expected) in enumerate((("get_commands", ""), ("reload", changed)), 1):
            host.send({"id": request, "type": request})
            question = host.until("extension_ui_request", method="confirm", nth=nth)
            host.send({"type": "extension_ui_response", "id": question["id"], "confirmed": True})
            assert host.response(request)["success"]
            message = question["message"]
            assert ".fairlead/extensions (extensions), .mcp.json (MCP servers), serve\\x1b[2J.sh (code of MCP servers)" in message
            assert "covers this folder and all folders in it" in message and "asks again when" in message
            assert message.startswith(f"{expected}{host.around.cwd}") and "\x1b" not in message
            (host.around.cwd / ".fairlead/extensions/theirs.py").write_text(EXTENSION)


async def test_a_door_that_cannot_ask_says_what_changed(tmp_path: Path) -> None:
    around = surroundings(tmp_path, "http://127.0.0.1:9")
    put(around.cwd, {".fairlead/extensions/theirs.py": "def setup(fl): pass\n"})

    async def run(*words: str) -> tuple[str, str]:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(FAIRLEAD, *words, cwd=around.cwd, env=around.env, stdout=pipe, stderr=pipe)
        out, err = await child.communicate()
        return out.decode(), err.decode()

    out, _ = await run("trust")
    assert "Trust covers this folder and all folders in it" in out and "  .fairlead/extensions" in out
    put(around.cwd, {".fairlead/extensions/theirs.py": EXTENSION})
    out, _ = await run("trust", "show")
    assert "not trusted any more" in out and "  .fairlead/extensions  (changed)" in out and "fairlead trust" in out
    _, err = await run("-p", "--model", "fake/fake-1", "hi")
    assert (
        "It has other code than when it was trusted: .fairlead/extensions." in err and "To trust it, run `fairlead trust" in err
    )
    assert not (around.cwd / ".fairlead/extensions/ran").exists()
    out, _ = await run("doctor", "--offline")
    assert "other code than when it was trusted" in out
    await run("-p", "--approve", "--model", "fake/fake-1", "hi")
    assert (around.cwd / ".fairlead/extensions/ran").exists()
    out, _ = await run("trust", "show")
    assert "not trusted any more" in out  # --approve is for one run
