"""What a repository, its address or the environment could make git do, when fairlead calls it for itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.attacks.traps import Trap, armed
from tests.support.fleet import git, make_repository

from fairlead.errors import ConfigError, WorkspaceError
from fairlead.jobs.workspaces.repository import RepositoryWorkspace
from fairlead.platform.programs import git_call

_HOOKS = (
    "pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-checkout"
    " post-index-change pre-push"
).split()


def workspace_for(tmp_path: Path, repo: str) -> RepositoryWorkspace:
    return RepositoryWorkspace(repo, "main", "job", tmp_path / "data")


@pytest.mark.parametrize("scheme", ["", "file://"])
async def test_a_repository_on_this_machine_runs_nothing_when_it_is_cloned_fetched_or_pushed_to(
    tmp_path: Path, scheme: str
) -> None:
    trap, repo = Trap(tmp_path / "trap"), tmp_path / "repo"
    make_repository(tmp_path / "other")
    make_repository(repo)
    armed(repo, trap)
    (repo / ".git/objects/info/alternates").write_text(f"{tmp_path}/other/.git/objects\n")
    git(repo, "config", "receive.procReceiveRefs", "refs/fairlead")
    git(repo, "config", "uploadpack.packObjectsHook", str(trap.path))
    for hook in _HOOKS:
        (repo / ".git/hooks" / hook).write_bytes(trap.path.read_bytes())
        (repo / ".git/hooks" / hook).chmod(0o755)
    trap.path.with_name("trap-sprung").unlink(missing_ok=True)
    workspace = workspace_for(tmp_path, f"{scheme}{repo}")
    cwd = (await workspace.prepare(None)).cwd
    (cwd / "mine.txt").write_text("mine\n")
    with pytest.raises(WorkspaceError, match="git push failed"):  # without the hook, git refuses such a ref
        await workspace.snapshot(1)
    git(repo, "config", "--unset", "receive.procReceiveRefs")
    trap.path.with_name("trap-sprung").unlink(missing_ok=True)
    await workspace.snapshot(2)
    assert "+mine" in (await workspace.patch() or "")
    await workspace_for(tmp_path, f"{scheme}{repo}").prepare(None)
    assert not trap.is_sprung


async def test_a_partial_clone_as_the_repository_of_a_job_fetches_nothing(tmp_path: Path) -> None:
    source, clone, trap = tmp_path / "source", tmp_path / "clone", Trap(tmp_path / "trap")
    make_repository(source)
    git(source, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-local", "--filter=blob:none", "--no-checkout", f"file://{source}", str(clone))
    git(clone, "config", "remote.origin.uploadpack", str(trap.path))
    with pytest.raises(WorkspaceError):
        await workspace_for(tmp_path, str(clone)).prepare(None)
    assert not trap.is_sprung


@pytest.mark.parametrize("address", ["ext::{trap} %S", "trap::x", "EXT::{trap}", "fd::17", "-u{trap}", "--upload-pack={trap}"])
async def test_an_address_that_is_a_command_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    trap, helper = Trap(tmp_path / "trap"), Trap(tmp_path / "trap", "git-remote-trap")
    monkeypatch.setenv("PATH", f"{tmp_path}/trap:{os.environ['PATH']}")
    with pytest.raises(WorkspaceError):
        await workspace_for(tmp_path, address.format(trap=trap.path)).prepare(None)
    assert not trap.is_sprung and not helper.is_sprung


async def test_variables_of_git_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap, repo = Trap(tmp_path / "trap"), tmp_path / "repo"
    make_repository(repo)
    names = "SSH SSH_COMMAND EXTERNAL_DIFF PAGER EDITOR SEQUENCE_EDITOR ASKPASS PROXY_COMMAND TEMPLATE_DIR TRACE2_EVENT".split()
    for name in names:
        monkeypatch.setenv(f"GIT_{name}", str(trap.path))
    for name in ("DIR", "WORK_TREE", "COMMON_DIR", "OBJECT_DIRECTORY", "INDEX_FILE", "EXEC_PATH", "CEILING_DIRECTORIES"):
        monkeypatch.setenv(f"GIT_{name}", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    for number, name in enumerate(("core.fsmonitor", "core.sshCommand")):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", name)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", str(trap.path))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor={trap.path}'")
    workspace = workspace_for(tmp_path, str(repo))
    ((await workspace.prepare(None)).cwd / "mine.txt").write_text("mine\n")
    await workspace.snapshot(1)
    assert "+mine" in (await workspace.patch() or "") and not trap.is_sprung and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("words", [("status",), ("add", "."), ("diff",), ("log", "-p"), ("commit", "-qm", "x"), ("gc", "-q")])
def test_a_call_in_a_repository_that_is_not_ours_runs_neither_monitors_nor_hooks(tmp_path: Path, words: tuple[str, ...]) -> None:
    trap = Trap(tmp_path / "trap")
    repo = armed(tmp_path / "repo", trap)
    (repo / ".gitattributes").unlink()  # filters need attributes, which a caller switches off for its own repositories
    trap.path.with_name("trap-sprung").unlink(missing_ok=True)
    call = git_call(*words, env=os.environ, outside=[repo], repository=repo / ".git")
    subprocess.run(call.command, cwd=repo, env=call.env | {"GIT_WORK_TREE": str(repo)}, capture_output=True, check=False)
    assert not trap.is_sprung


def test_a_call_that_reaches_no_server_reaches_none(tmp_path: Path) -> None:
    make_repository(tmp_path / "source")
    for address, code in ((None, 128), (str(tmp_path / "source"), 0)):
        words = ("clone", "-q", f"file://{tmp_path}/source", str(tmp_path / f"clone-{code}"))
        call = git_call(*words, env=os.environ, outside=[], address=address)
        assert subprocess.run(call.command, cwd=call.cwd, env=call.env, capture_output=True, check=False).returncode == code


@pytest.mark.parametrize("path", ["{planted}", ".", "", "bin"])
def test_only_a_git_from_outside_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    trap = Trap(tmp_path / "bin", "git")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="git is not installed"):
        git_call("version", env={"PATH": path.format(planted=trap.path.parent)}, outside=[tmp_path])
    call = git_call("version", env={"PATH": f"{path.format(planted=trap.path.parent)}:{os.environ['PATH']}"}, outside=[tmp_path])
    assert "bin" not in call.env["PATH"].split(":") and str(tmp_path) not in call.env["PATH"]
    assert subprocess.run(call.command, env=call.env, capture_output=True, check=True).stdout.startswith(b"git version")
