"""A program that a project, or a command in it, puts on the PATH is not one that fairlead starts for itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attacks.traps import Trap
from tests.support.fleet import make_repository
from tests.support.stage import stage
from tests.support.tmux import chat_in_tmux

import fairlead
from fairlead.cli.subcommands import doctor
from fairlead.config.packages import parse_source
from fairlead.errors import ToolError, WorkspaceError
from fairlead.extend.node.program import launch, node_programs, npm_command, version_of
from fairlead.extend.package_manager import PackageFetcher
from fairlead.jobs import Job
from fairlead.jobs.workspaces import workspace_of
from fairlead.jobs.workspaces.git import call_git
from fairlead.models.config_value import command_output
from fairlead.tools.workspace import Workspace

PATHS = ["{project}/bin", "bin", "{project}/link", "{outside}/link"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / "bin").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/link").symlink_to(project / "bin")
    (project / "link").symlink_to("bin")
    monkeypatch.chdir(project)
    return project


def path_with(project: Path, path: str) -> str:
    return f"{path.format(project=project, outside=project.parent / 'outside')}:{os.environ['PATH']}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["bash", "rg", "bwrap", "git", "node"])
def test_tools_use_programs_from_outside(project: Path, name: str, path: str) -> None:
    trap = Trap(project / "bin", name)
    box = Workspace(project, {"PATH": path_with(project, path)}, lambda: project, lambda _: None)
    found = box.which(name)
    assert found is None or Path(found).resolve() != trap.path
    assert Path(box.find_shell()).resolve() != trap.path
    assert str(project) not in box.search_path() and "link" not in box.search_path()


@pytest.mark.parametrize("repository", [".git", "gitdir"])
def test_a_session_in_a_part_of_a_repository_uses_no_program_of_another_part(project: Path, repository: str) -> None:
    trap = Trap(project / "bin", "git")
    if repository == ".git":
        (project / ".git").mkdir()
    else:
        (project / ".git").write_text("gitdir: /elsewhere\n")
    part = project / "packages" / "one"
    part.mkdir(parents=True)
    box = Workspace(part, {"PATH": path_with(project, PATHS[0])}, lambda: part, lambda _: None)
    assert box.which("git") not in (None, str(trap.path)) and str(project) not in box.search_path()


def test_a_shell_that_settings_name_is_found_outside_and_one_with_a_path_is_used(project: Path) -> None:
    Trap(project / "bin", "mysh")
    box = Workspace(project, {"PATH": f"{project}/bin"}, lambda: project, lambda _: None, shell="mysh")
    with pytest.raises(ToolError, match="does not exist outside the working directory"):
        box.find_shell()
    box.shell = str(project / "bin/mysh")
    assert box.find_shell() == str(project / "bin/mysh")


@pytest.mark.parametrize("path", PATHS)
def test_node_and_npm_come_from_outside(project: Path, path: str) -> None:
    node, npm = Trap(project / "bin", "node"), Trap(project / "bin", "npm")
    env = {"PATH": path_with(project, path)}
    assert all(Path(each).resolve() != node.path for each in node_programs(env, [project]))
    assert Path(npm_command(env, [project])[0]).resolve() != npm.path


@pytest.mark.parametrize("path", PATHS)
def test_a_package_is_installed_with_git_and_npm_from_outside(project: Path, path: str) -> None:
    traps = [Trap(project / "bin", name) for name in ("git", "npm", "node", "ssh")]
    make_repository(project.parent / "package", {"package.json": '{"pi": {}, "name": "x"}', "skills/x/SKILL.md": "x"})
    PackageFetcher(project.parent / "base", {**os.environ, "PATH": path_with(project, path)}).fetch(
        parse_source(f"git:file://{project.parent}/package")
    )
    assert not any(trap.is_sprung for trap in traps)


def test_the_clone_of_a_package_that_a_project_has_is_not_asked_anything(project: Path) -> None:
    trap = Trap(project.parent / "trap")
    make_repository(project.parent / "package", {"skills/x/SKILL.md": "one"})
    source = parse_source(f"git:file://{project.parent}/package")
    fetcher = PackageFetcher(project / ".fairlead", os.environ)
    fetcher.fetch(source)
    folder = source.folder(project / ".fairlead")
    for name in ("core.fsmonitor", "core.sshCommand", "remote.origin.uploadpack", "filter.x.smudge", "core.hooksPath"):
        subprocess.run(["git", "-C", folder, "config", name, trap.path], check=True)
    (folder / ".gitattributes").write_text("* filter=x\n")
    fetcher.fetch(source)
    assert (folder / "skills/x/SKILL.md").read_text() == "one" and not trap.is_sprung
    assert str(trap.path) not in (folder / ".git/config").read_text()


@pytest.mark.parametrize("path", PATHS)
def test_doctor_asks_no_planted_program(project: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("PATH", path_with(project, path))
    traps = [Trap(project / "bin", name) for name in ("git", "rg", "node", "bwrap", "apt-get")]
    findings = list(doctor._programs())  # pyright: ignore[reportPrivateUsage]
    assert not any(trap.is_sprung for trap in traps) and not any(str(project) in finding.text for finding in findings)


@pytest.mark.parametrize("path", PATHS)
def test_doctor_runs_no_planted_program_in_a_sandbox(project: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    before = list(doctor._programs())  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setenv("PATH", path_with(project, path))
    (project / "bin/true").write_text("#!/bin/sh\nexit 1\n")
    (project / "bin/true").chmod(0o755)
    assert list(doctor._programs()) == before  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("path", PATHS)
def test_a_command_that_prints_a_key_is_found_outside_and_starts_elsewhere(project: Path, path: str) -> None:
    trap = Trap(project / "bin", "printf")
    words = "env printf '%s' \"$PWD\""
    assert command_output(words, "A key", {**os.environ, "PATH": path_with(project, path)}) != str(project)
    assert not trap.is_sprung


def manager_of_versions(project: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> tuple[Path, list[Trap]]:
    """Make a `node` as some managers of versions do: a script, which looks for its interpreter and for Node on the PATH."""
    traps = [Trap(project / "bin", name) for name in ("sh", "node", "dirname")]
    shims = project.parent / "shims"
    shims.mkdir()
    real = next(each for each in node_programs(os.environ, [project]) if os.access(each, os.X_OK))
    shim = shims / "node"
    shim.write_text(f'#!/usr/bin/env sh\ndirname "$0" >/dev/null\nexec {real} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{path_with(project, path)}")
    return shim, traps


@pytest.mark.parametrize("path", PATHS)
def test_a_node_that_is_a_script_runs_no_planted_program(project: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    shim, traps = manager_of_versions(project, monkeypatch, path)
    assert version_of(str(shim), [project]).startswith("v")
    assert any(finding.text.startswith(f"node: {shim} v") for finding in doctor._programs())  # pyright: ignore[reportPrivateUsage]
    started = launch(str(shim), project, dict(os.environ), None)
    started.inbox.close()
    started.outbox.close()
    started.process.wait()
    assert not any(trap.is_sprung for trap in traps)


def test_extensions_have_the_path_of_the_user(tmp_path: Path) -> None:
    tell = "pi.registerCommand(Buffer.from(`${process.env.PATH} ${process.env.FAIRLEAD_PATH}`).toString('hex'), { handler() {} })"
    files = {"main.mjs": f"export default (pi) => {tell};\n"}
    path = f"{tmp_path}/project/bin:{os.environ['PATH']}"
    with stage(tmp_path, "pi", flags=["-e", "main.mjs"], files=files, env={"PATH": path}) as host:
        names = [each["name"] for each in host.request("get_commands")["data"]["commands"]]
    assert f"{path} undefined".encode().hex() in names


@pytest.mark.system
def test_a_program_of_the_clipboard_finds_no_planted_program(tmp_path: Path) -> None:
    """wl-copy runs xdg-mime to find out what it copies."""
    trap, copied = Trap(tmp_path / "project/bin", "xdg-mime"), tmp_path / "copied"
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, code in {"wl-copy": f"xdg-mime query; cat > {copied}", "xdg-mime": "exit 0"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{code}\n")
        (programs / name).chmod(0o755)
    path = f"{trap.path.parent}:{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"
    with chat_in_tmux(tmp_path, [{"text": "An answer."}], env={"WAYLAND_DISPLAY": "w", "PATH": path}) as chat:
        chat.start()
        chat.send("hello")
        chat.wait_for("An answer.")
        chat.command("/copy")
        chat.wait_for("Copied the last answer")
    assert copied.read_text() == "An answer." and not trap.is_sprung


@pytest.mark.parametrize("path", PATHS)
async def test_a_worker_runs_no_program_from_where_it_was_started(
    project: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    traps = [Trap(project / "bin", name) for name in ("git", "podman", "docker")]
    monkeypatch.setenv("PATH", path_with(project, path))
    data = project.parent / "data"
    assert (await call_git("--version", data=data))[1].startswith(b"git version")
    monkeypatch.setenv("PATH", path.format(project=project, outside=project.parent / "outside"))
    elsewhere = Job(id="x", prompt="x", workdir=str(project.parent / "outside"), container="image")
    with pytest.raises(WorkspaceError, match="need podman or docker"):
        await workspace_of(elsewhere, data).prepare(None)
    assert not any(trap.is_sprung for trap in traps)


def test_modules_of_the_working_directory_are_not_imported_by_children(project: Path) -> None:
    for name in ("json", "msgspec", "asyncio", "pip", "socket"):
        (project / f"{name}.py").write_text(f"open({str(project / 'sprung')!r}, 'w')\n")
    sources = Path(fairlead.__file__).parent.rglob("*.py")
    lines = [line for path in sources for line in path.read_text().splitlines() if 'sys.executable, "' in line]
    started = [line for line in lines if "shlex.join" not in line]  # that one is for the user
    assert started and all('"-P"' in line or '"-I"' in line for line in started)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fairlead.models.local.llama_child"], input=b"{}\n", capture_output=True, check=False
    )
    assert done.returncode is not None and not (project / "sprung").exists()


def test_the_home_of_the_user_may_have_programs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As nvm does, which keeps node in `~/.nvm`. The sandbox does not start in the user's home."""
    monkeypatch.setenv("HOME", str(project))
    trap = Trap(project / "bin", "only-here")
    box = Workspace(project, {"PATH": f"{project}/bin"}, lambda: project, lambda _: None)
    assert box.which("only-here") == str(trap.path)
    box.cwd = project.parent / "outside"
    assert box.which("only-here") == str(trap.path)
