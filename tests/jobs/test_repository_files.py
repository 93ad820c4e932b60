"""What a job may do to its worktree without losing files, and which commit it starts from."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, git, lines_of, make_repository, wait_until

from fairlead.errors import WorkspaceError
from fairlead.jobs import Job, JobResult, Jobs
from fairlead.jobs.database import Database, DatabaseUrl
from fairlead.jobs.dbos_queue import Queues
from fairlead.jobs.recovery import Recovery
from fairlead.jobs.workspaces.repository import RepositoryWorkspace


async def begun(tmp_path: Path, repo: Path, commit: str = "main", name: str = "job") -> tuple[RepositoryWorkspace, Path]:
    workspace = RepositoryWorkspace(str(repo), commit, name, tmp_path / "data")
    return workspace, (await workspace.prepare(None)).cwd


async def ended(jobs: Jobs) -> JobResult:
    (result,) = [each async for each in jobs.results(["a"], timeout=60)]
    return result


async def patch_of(workspace: RepositoryWorkspace) -> str:
    await workspace.snapshot(1)
    patch = await workspace.patch()
    assert patch is not None
    return patch


async def test_a_submodule_that_the_job_does_not_touch_is_not_in_its_patch(tmp_path: Path) -> None:
    make_repository(tmp_path / "library")
    repo = tmp_path / "repo"
    make_repository(repo)
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "library")
    git(repo, "commit", "--quiet", "-m", "with a submodule")
    workspace, cwd = await begun(tmp_path, repo)
    (cwd / "new.txt").write_text("new\n")
    patch = await patch_of(workspace)
    assert "new.txt" in patch and "library" not in patch


@pytest.mark.parametrize("has_commits", [False, True])
async def test_files_of_a_repository_that_the_job_made_are_in_its_patch(tmp_path: Path, has_commits: bool) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    workspace, cwd = await begun(tmp_path, repo)
    (cwd / "mine.txt").write_text("mine\n")
    for folder, files in (("tool", ["main.py", "secret.env"]), ("tool/deep", ["deep.txt"]), ("empty", [])):
        (cwd / folder).mkdir()
        git(cwd / folder, "init", "--quiet")
        for name in files:
            (cwd / folder / name).write_text(f"{name}\n")
    (cwd / "tool/.gitignore").write_text("*.env\n")
    if has_commits:
        git(cwd / "tool", "add", "main.py")
        git(cwd / "tool", "commit", "--quiet", "-m", "first")
    patch = await patch_of(workspace)
    assert all(f"+{text}" in patch for text in ("mine", "main.py", "deep.txt"))
    assert "secret.env" not in patch and "Subproject" not in patch
    (cwd / "tool/main.py").unlink()
    (cwd / "tool/later.py").write_text("later\n")
    patch = await patch_of(workspace)
    assert "+later" in patch and "+main.py" not in patch
    git(repo, "apply", "--check", "-", input=patch)


@pytest.mark.parametrize("does_init", [False, True])
async def test_a_job_that_removes_its_git_file_loses_nothing(tmp_path: Path, does_init: bool) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    make_repository(tmp_path / "data" / "outer")  # git must not take this for the repository of the job
    shutil.move(tmp_path / "data/outer/.git", tmp_path / "data/.git")
    workspace, cwd = await begun(tmp_path, repo)
    (cwd / ".git").unlink()
    if does_init:
        git(cwd, "init", "--quiet")
    (cwd / "mine.txt").write_text("mine\n")
    (cwd / "readme.txt").unlink()
    patch = await patch_of(workspace)
    assert "+mine" in patch and "-one" in patch and "outer" not in patch
    git(repo, "apply", "--check", "-", input=patch)
    await workspace.release(has_ended=True)
    assert not cwd.exists()


async def test_a_change_in_the_second_of_the_checkout_is_in_the_snapshot(tmp_path: Path) -> None:
    """The index of snapshots begins as a copy. Git takes a file of the same size and second for unchanged, if it can."""
    repo = tmp_path / "repo"
    make_repository(repo)
    for number in range(5):
        workspace, cwd = await begun(tmp_path, repo, name=f"job-{number}")
        (cwd / "readme.txt").write_text("two\n")
        assert "+two" in await patch_of(workspace)


async def test_a_job_whose_files_cannot_be_saved_fails_and_keeps_them(fleet: Fleet) -> None:
    repo = fleet.root / "repo"
    commit = make_repository(repo)
    fleet.start_worker()
    command = f"echo good > good.txt; echo bad > git~1; pwd > {fleet.root}/place"
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", command, repo=str(repo), commit=commit))
        result = await ended(jobs)
        assert result.status == "failed" and result.answer == "done after 1 commands"
        assert result.error is not None and "There is no patch" in result.error and "git~1" in result.error
        place = Path((fleet.root / "place").read_text().strip())
        assert place.is_dir() and str(place) in result.error
        (place / "git~1").rename(place / "bad.txt")
        await jobs.retry("a")
        result = await ended(jobs)
        assert result.status == "done"
        patch = await jobs.patch("a")
        assert patch is not None and "+bad" in patch and "+good" in patch


async def test_a_file_that_git_does_not_take_keeps_no_other_from_the_snapshot(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    workspace, cwd = await begun(tmp_path, repo)
    (cwd / "good.txt").write_text("good\n")
    (cwd / "git~1").write_text("a name that means .git on Windows\n")
    snapshot = await workspace.snapshot(1)
    assert git(repo, "show", f"{snapshot}:good.txt") == "good"
    with pytest.raises(WorkspaceError, match=r"Not all files of .* can be saved: .*git~1"):
        await workspace.patch()
    (cwd / "git~1").unlink()
    patch = await workspace.patch()
    assert patch is not None and "+good" in patch


async def test_files_that_a_killed_worker_did_not_save_are_in_the_patch_if_no_turn_follows(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    _, cwd = await begun(tmp_path, repo)
    (cwd / "mine.txt").write_text("mine\n")  # its worker dies after the answer and before the snapshot
    workspace, again = await begun(tmp_path, repo)
    patch = await workspace.patch()
    assert again == cwd and patch is not None and "+mine" in patch


async def test_head_is_what_the_repository_has_checked_out_now(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    _, cwd = await begun(tmp_path, repo, "HEAD", "one")
    assert (cwd / "readme.txt").read_text() == "one\n"
    git(repo, "checkout", "--quiet", "-b", "other")
    for number, text in enumerate(("two", "three")):
        (repo / "readme.txt").write_text(f"{text}\n")
        git(repo, "commit", "--quiet", "--all", "-m", text)
        _, cwd = await begun(tmp_path, repo, "HEAD", f"on-branch-{number}")
        assert (cwd / "readme.txt").read_text() == f"{text}\n"
        git(repo, "checkout", "--quiet", "--detach")
    _, cwd = await begun(tmp_path, repo, "HEAD~1", "before")
    assert (cwd / "readme.txt").read_text() == "two\n"


async def test_a_branch_that_another_job_works_on_is_that_of_the_repository(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    _, first = await begun(tmp_path, repo, "main", "one")
    git(first, "checkout", "--quiet", "main")
    git(first, "commit", "--quiet", "--allow-empty", "-m", "by the first job")
    (repo / "readme.txt").write_text("two\n")
    git(repo, "commit", "--quiet", "--all", "-m", "second")
    _, second = await begun(tmp_path, repo, "main", "two")
    assert (second / "readme.txt").read_text() == "two\n"
    assert git(second, "rev-parse", "HEAD") == git(repo, "rev-parse", "main")


async def test_a_repository_that_has_disappeared_is_reported(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit = make_repository(repo)
    await begun(tmp_path, repo)
    shutil.move(repo, tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError, match=r"repo cannot be read: fatal: .*repo.* does not .* Check that it is there"):
        await begun(tmp_path, repo, "main", "a name may have moved")
    with pytest.raises(WorkspaceError, match="cannot be read"):
        await begun(tmp_path, repo, "f" * 40, "a hash that the mirror does not have")
    _, cwd = await begun(tmp_path, repo, commit, "known")
    assert (cwd / "readme.txt").read_text() == "one\n"


async def test_jobs_of_two_databases_with_one_id_and_repository_do_not_meet(fleet: Fleet) -> None:
    repo = fleet.root / "repo"
    commit = make_repository(repo)
    begun, go = fleet.root / "begun", fleet.root / "go"
    held = ("echo first > first.txt", f"touch {begun}; while [ ! -e {go} ]; do sleep 0.05; done; ls > {fleet.root}/seen")
    other = f"sqlite:///{fleet.root}/other.db"
    fleet.start_worker()
    fleet.start_worker("--db", other)
    async with Jobs(fleet.url) as jobs, Jobs(other) as others:
        await jobs.submit(fleet.job("a", *held, repo=str(repo), commit=commit))
        await asyncio.to_thread(wait_until, begun.exists)
        await others.submit(fleet.job("a", "echo second > second.txt", repo=str(repo), commit=commit))
        second = await ended(others)
        go.touch()
        first = await ended(jobs)
        patches = (await jobs.patch("a"), await others.patch("a"))
    assert lines_of(fleet.root / "seen") == ["first.txt", "readme.txt"]
    assert ["+first" in (patch or "") for patch in patches] == [True, False]
    assert ["+second" in (patch or "") for patch in patches] == [False, True]
    # Another machine finds the snapshots of both.
    refs = git(repo, "for-each-ref", "--format=%(objectname)", "refs/fairlead/jobs").split()
    assert sorted(refs) == sorted(each.snapshot or "" for each in (first, second))


async def test_a_directory_with_a_strange_name_does_not_keep_worktrees_from_being_removed(tmp_path: Path) -> None:
    url, data = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "data"
    repo = tmp_path / "repo"
    commit = make_repository(repo)
    database = Database(DatabaseUrl(url), patience=5)
    async with Jobs(url) as jobs:
        await jobs.submit(Job(id="a", prompt="p", repo=str(repo), commit=commit))
        left = (await RepositoryWorkspace(str(repo), commit, "a", data).prepare(None)).cwd
        for name in (b"\xff", b"a b"):
            (left.parent / os.fsdecode(name)).mkdir()
        await jobs.cancel("a")
        await Recovery(database, Queues(DatabaseUrl(url))).sweep_worktrees(data)
    await database.close()
    assert not left.exists() and len(list(left.parent.iterdir())) >= 2
