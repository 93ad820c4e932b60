"""Programs of MCP servers that the user has configured, started in a project that would like to be run instead."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.traps import Trap
from tests.extend.mcp_scene import SUPPORT, Scene, calls, scene

from fairlead.testing import Turn

TURNS = [calls("mcp__one__echo", text="hello"), Turn(text="Done.")]
#: A program that notes where it was started, and is a server.
SERVER = """import os, runpy
with open({seen!r}, "w") as file:
    file.write(os.getcwd())
runpy.run_path({server!r}, run_name="__main__")
"""


def server_that_notes(seen: Path) -> str:
    return SERVER.format(seen=str(seen), server=str(SUPPORT / "mcp_server.py"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project that has what npm, node and Python look for in the directory that they start in."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    (project / "package.json").write_text("{}")
    traps = [Trap(project / "node_modules/.bin", name) for name in ("server", "node", "sh", "npx", "npm")]
    (project / ".npmrc").write_text(f"script-shell={traps[0].path}\nshell={traps[0].path}\n")
    for name in ("runpy", "json", "asyncio", "mcp", "server", "usercustomize", "sitecustomize"):
        (project / f"{name}.py").write_text(f"open({str(project / 'imported-sprung')!r}, 'a').write({name!r})\n")
    server = home / "node_modules/.bin/server"
    server.parent.mkdir(parents=True)
    server.write_text(f"#!{sys.executable}\n{server_that_notes(tmp_path / 'cwd')}\n")
    server.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    yield project
    assert list(project.rglob("*-sprung")) == []


def entry(**entry: Any) -> dict[str, Any]:
    return {"one": entry}


async def answered(scene: Scene) -> str:
    assert (await scene.agent.ask("Go")).text == "Done."
    return scene.texts()[0][0]


@pytest.mark.parametrize(
    "words", [("npx", "-y", "server"), ("npx", "--", "server"), ("npm", "exec", "--", "server"), ("npm", "x", "server")]
)
async def test_npx_looks_for_a_server_of_the_user_elsewhere_and_runs_it_here(
    tmp_path: Path, project: Path, words: tuple[str, ...]
) -> None:
    env = {"PATH": f"{project}/node_modules/.bin:node_modules/.bin:{os.environ['PATH']}", "NPM_CONFIG_SCRIPT_SHELL": "/nowhere"}
    async with scene(tmp_path, entry(command=words[0], args=words[1:], env=env), TURNS, cwd=project) as it:
        assert await answered(it) == "echo: hello"
    assert (tmp_path / "cwd").read_text() == str(project)


async def test_npx_named_by_path_looks_elsewhere_too(tmp_path: Path, project: Path) -> None:
    npx = shutil.which("npx", path=os.environ["PATH"])
    assert npx is not None
    env = {"PATH": f"{project}/node_modules/.bin:{os.environ['PATH']}"}
    async with scene(tmp_path, entry(command=npx, args=["-y", "server"], env=env), TURNS, cwd=project) as it:
        assert await answered(it) == "echo: hello"
    assert (tmp_path / "cwd").read_text() == str(project)


#: What runs the program that a project has, as these programs do: `uv run` has its environment from there, `deno` its tasks.
RUNS_WHAT_IS_HERE = (
    '#!/bin/sh\nPATH="$PWD/node_modules/.bin:$PATH"\ntest "$SEEN" || exec server\necho "$@" > "$SEEN"\nexec server\n'
)


@pytest.mark.parametrize(
    "words",
    [
        ("bunx", "server"),
        ("bun", "x", "server"),
        ("pnpm", "dlx", "server"),
        ("yarn", "dlx", "server"),
        ("uv", "run", "server"),
        ("uvx", "server"),
        ("deno", "run", "-A", "npm:server"),
        ("cargo", "run"),
        ("mise", "exec", "--", "server"),
        ("sh", "-c", "exec bunx server"),
        ("env", "A=b", "pnpm", "dlx", "server"),
        ("/bin/sh", "-c", "cd . && uv run server"),
    ],
)
async def test_programs_that_look_around_start_elsewhere(tmp_path: Path, project: Path, words: tuple[str, ...]) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bun", "bunx", "pnpm", "yarn", "uv", "uvx", "deno", "cargo", "mise"):
        (programs / name).write_text(RUNS_WHAT_IS_HERE)
        (programs / name).chmod(0o755)
    server = entry(command=words[0], args=words[1:], env={"PATH": f"{programs}:{os.environ['PATH']}"})
    async with scene(tmp_path, server, TURNS, cwd=project) as it:
        assert await answered(it) == "echo: hello"
    assert (tmp_path / "cwd").read_text() == str(tmp_path / "home")


async def test_a_path_that_begins_in_the_working_directory_keeps_its_meaning_elsewhere(tmp_path: Path, project: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "bunx").write_text(RUNS_WHAT_IS_HERE)
    (programs / "bunx").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "SEEN": str(tmp_path / "seen")}
    async with scene(tmp_path, entry(command="bunx", args=["server", ".", "./docs", "x"], env=env), TURNS, cwd=project) as it:
        assert await answered(it) == "echo: hello"
    assert (tmp_path / "seen").read_text().split() == ["server", str(project), str(project / "docs"), "x"]


async def test_a_folder_that_the_user_names_is_where_uv_starts(tmp_path: Path, project: Path) -> None:
    other = tmp_path / "home"
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uv").write_text(RUNS_WHAT_IS_HERE)
    (programs / "uv").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    async with scene(tmp_path, entry(command="uv", args=["run", "server"], cwd=str(other), env=env), TURNS, cwd=project) as it:
        assert await answered(it) == "echo: hello"
    assert (tmp_path / "cwd").read_text() == str(other)


async def test_a_folder_that_the_user_names_is_where_npx_looks(tmp_path: Path, project: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "home/node_modules", other / "node_modules")
    (tmp_path / "home/node_modules/.bin/server").unlink()
    async with scene(tmp_path, entry(command="npx", args=["server"], cwd=str(other)), TURNS, cwd=project) as it:
        assert await answered(it) == "echo: hello"
    assert (tmp_path / "cwd").read_text() == str(other)


@pytest.mark.parametrize(
    "options",
    [["-m", "my_server"], ["-B", "-u", "-m", "my_server"], ["-um", "my_server"], ["-W", "ignore", "-X", "utf8", "-mmy_server"]],
)
async def test_python_imports_no_module_of_the_project(tmp_path: Path, project: Path, options: list[str]) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "my_server.py").write_text(server_that_notes(tmp_path / "cwd"))
    Path(tmp_path / "bin").mkdir()
    Path(tmp_path / "bin/python3").symlink_to(sys.executable)
    env = {"PYTHONPATH": str(modules), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    server = entry(command="python3", args=options, env=env)
    async with scene(tmp_path, server, TURNS, cwd=project) as it:
        assert await answered(it) == "echo: hello"
    assert (tmp_path / "cwd").read_text() == str(project)
