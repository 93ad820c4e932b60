"""What a job puts into its worktree starts no program of the worker, which takes snapshots of it outside the container."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.attacks.traps import Trap, armed
from tests.support.fleet import git, make_repository

from fairlead.errors import WorkspaceError
from fairlead.jobs import Job
from fairlead.jobs.workspaces import workspace_of
from fairlead.jobs.workspaces.repository import RepositoryWorkspace


async def begun(tmp_path: Path, repo: Path, name: str = "job") -> tuple[RepositoryWorkspace, Path]:
    workspace = RepositoryWorkspace(str(repo), "main", name, tmp_path / "data")
    return workspace, (await workspace.prepare(None)).cwd


async def patch_of(workspace: RepositoryWorkspace) -> str:
    await workspace.snapshot(1)
    patch = await workspace.patch()
    assert patch is not None
    return patch


def with_submodule(tmp_path: Path) -> Path:
    make_repository(tmp_path / "library")
    repo = tmp_path / "repo"
    make_repository(repo)
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "library")
    git(repo, "commit", "--quiet", "-m", "with a submodule")
    return repo


@pytest.mark.parametrize("form", ["folder", "file", "link", "commondir"])
async def test_a_repository_in_place_of_a_submodule_runs_nothing_and_its_files_are_saved(tmp_path: Path, form: str) -> None:
    workspace, cwd = await begun(tmp_path, with_submodule(tmp_path))
    trap = Trap(tmp_path / "trap")
    armed(cwd / "library", trap)
    inside = cwd / "library/.git"
    if form == "file":
        shutil.move(inside, cwd / "elsewhere")
        inside.write_text(f"gitdir: {cwd}/elsewhere\n")
    elif form == "link":
        shutil.move(inside, cwd / "elsewhere")
        inside.symlink_to("../elsewhere")
    elif form == "commondir":
        shutil.move(inside, cwd / "elsewhere")
        inside.mkdir()
        (inside / "HEAD").write_text("ref: refs/heads/main\n")
        (inside / "commondir").write_text(f"{cwd}/elsewhere\n")
    (cwd / "library/mine.txt").write_text("mine\n")
    patch = await patch_of(workspace)
    assert "+mine" in patch and "b/library/mine.txt" in patch
    (cwd / "library/mine.txt").write_text("mine again\n")
    assert "+mine again" in await patch_of(workspace)
    await workspace.release(has_ended=True)
    assert not trap.is_sprung


async def test_the_files_of_a_submodule_move_to_another_worker(tmp_path: Path) -> None:
    repo = with_submodule(tmp_path)
    workspace, cwd = await begun(tmp_path, repo)
    (cwd / "library/new.txt").write_text("new\n")
    snapshot = await workspace.snapshot(1)
    other = RepositoryWorkspace(str(repo), "main", "job", tmp_path / "other")
    there = (await other.prepare(snapshot)).cwd
    assert (there / "library/new.txt").read_text() == "new\n"


@pytest.mark.parametrize("place", [".", "sub", "sub/deep"])
async def test_a_repository_that_a_job_made_runs_nothing(tmp_path: Path, place: str) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    workspace, cwd = await begun(tmp_path, repo)
    trap = Trap(tmp_path / "trap")
    if place == ".":
        (cwd / ".git").unlink()
    armed(cwd / place, trap)
    (cwd / place / "mine.txt").write_text("mine\n")
    assert "+mine" in await patch_of(workspace)
    again, _ = await begun(tmp_path, repo)
    assert "+mine" in await patch_of(again)
    await again.release(has_ended=True)
    assert not trap.is_sprung


async def test_filters_that_the_repository_names_run_neither_at_the_checkout_nor_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = Trap(tmp_path / "trap")
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[filter "x"]\n\tclean = {trap.path}\n\tsmudge = {trap.path}\n\trequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(settings.read_text())
    repo = tmp_path / "repo"
    make_repository(repo, {".gitattributes": "*.txt filter=x\n*.bat eol=crlf\n", "a.txt": "one\n", "a.bat": "x\n"})
    trap.path.with_name("trap-sprung").unlink(missing_ok=True)
    workspace, cwd = await begun(tmp_path, repo)
    assert (cwd / "a.txt").read_text() == "one\n" and (cwd / "a.bat").read_bytes() == b"x\n"
    (cwd / "a.txt").write_text("two\n")
    patch = await patch_of(workspace)
    assert "+two" in patch and "a.bat" not in patch and not trap.is_sprung


async def test_pipes_and_links_in_a_worktree_neither_block_nor_lead_out(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo, {"folder/kept.txt": "one\n", "readme.txt": "one\n"})
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/kept.txt").write_text("secret of the worker\n")
    workspace, cwd = await begun(tmp_path, repo)
    for name in (".gitignore", "pipe", "sub/.gitignore", "sub/.git"):
        (cwd / name).parent.mkdir(exist_ok=True)
        os.mkfifo(cwd / name)
    shutil.rmtree(cwd / "folder")
    (cwd / "folder").symlink_to(tmp_path / "secrets")
    (cwd / "file").symlink_to(tmp_path / "secrets/kept.txt")
    (cwd / "mine.txt").write_text("mine\n")
    patch = await patch_of(workspace)
    assert "+mine" in patch and "secret of the worker" not in patch
    assert f"+{tmp_path}/secrets" in patch  # as the target of a link


async def test_a_moved_folder_behind_a_link_is_saved_once(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo, {"folder/kept.txt": "one\n"})
    workspace, cwd = await begun(tmp_path, repo)
    await workspace.snapshot(1)
    (cwd / "folder").rename(cwd / "moved")
    (cwd / "folder").symlink_to("moved")
    patch = await patch_of(workspace)
    assert "moved/kept.txt" in patch and "120000" in patch
    git(repo, "apply", "--check", "-", input=patch)


async def test_files_that_are_ignored_but_part_of_the_repository_are_saved(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo, {"out/kept.txt": "one\n"})
    (repo / ".gitignore").write_text("out/\n")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "ignored")
    workspace, cwd = await begun(tmp_path, repo)
    (cwd / "out/kept.txt").write_text("two\n")
    (cwd / "out/new.txt").write_text("new\n")
    patch = await patch_of(workspace)
    assert "+two" in patch and "new.txt" not in patch
    shutil.rmtree(cwd / "out")
    assert "deleted file" in await patch_of(workspace)


@pytest.mark.parametrize("name", [".GIT", "git~1", ".git ", ".git::$INDEX_ALLOCATION", "a\\.git", ".g\u200cit"])
async def test_a_name_that_means_git_elsewhere_is_not_saved_and_keeps_nothing_else_from_it(tmp_path: Path, name: str) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    workspace, cwd = await begun(tmp_path, repo)
    (cwd / "good.txt").write_text("good\n")
    (cwd / name).write_text("bad\n")
    snapshot = await workspace.snapshot(1)
    assert git(repo, "show", f"{snapshot}:good.txt") == "good"
    with pytest.raises(WorkspaceError, match="Not all files"):
        await workspace.patch()


@pytest.mark.parametrize("where", ["the worktree", "the directory of the worker"])
async def test_a_git_that_a_job_put_on_the_path_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    workspace, cwd = await begun(tmp_path, repo)
    trap = Trap((cwd if where == "the worktree" else tmp_path / "data") / "bin", "git")
    monkeypatch.setenv("PATH", f"{trap.path.parent}:.:{os.environ['PATH']}")
    await workspace.snapshot(1)
    assert not trap.is_sprung


async def test_a_podman_in_the_directory_of_a_job_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = Trap(tmp_path / "work/bin", "podman")
    monkeypatch.setenv("PATH", str(trap.path.parent))
    job = Job(id="a", prompt="p", workdir=str(tmp_path / "work"), container="image:1")
    with pytest.raises(WorkspaceError, match="need podman or docker"):
        await workspace_of(job, tmp_path / "data").prepare(None)
    assert not trap.is_sprung


async def test_a_container_that_could_change_the_programs_of_its_worker_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Trap(tmp_path / "bin", "podman")
    monkeypatch.setenv("PATH", f"{runtime.path.parent}:{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    job = Job(id="a", prompt="p", workdir=str(tmp_path / "work"), container="image:1")
    with pytest.raises(WorkspaceError, match="which commands in the container could change"):
        await workspace_of(job, tmp_path / "work/data").prepare(None)
    assert not runtime.is_sprung
