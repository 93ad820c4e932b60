"""Where jobs work: worktrees, snapshots that move, and containers."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.support.fleet import MODEL, Fleet, git, is_running, lines_of, make_repository, wait_until

from fairlead.errors import WorkspaceError
from fairlead.jobs import Job, JobLimits, JobResult, Jobs
from fairlead.jobs.job_sessions import RESTORED
from fairlead.jobs.workspaces import workspace_of
from fairlead.jobs.workspaces.repository import RepositoryWorkspace


async def ended(jobs: Jobs, *ids: str) -> dict[str, JobResult]:
    return {result.id: result async for result in jobs.results(ids, timeout=60)}


async def test_a_job_gets_a_worktree_at_its_commit(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    first = make_repository(repo)
    (repo / "readme.txt").write_text("two\n")
    git(repo, "commit", "-qam", "second")
    for name, commit, text in (("a", first, "one\n"), ("b", "main", "two\n"), ("c", first[:10], "one\n")):
        workspace = RepositoryWorkspace(str(repo), commit, name, tmp_path / "data")
        placement = await workspace.prepare(None)
        assert (placement.cwd / "readme.txt").read_text() == text
        assert git(placement.cwd, "status", "--porcelain") == ""
        await workspace.release(has_ended=True)
        assert not placement.cwd.exists()


async def test_a_snapshot_moves_the_files_to_another_worker(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit = make_repository(repo, {"readme.txt": "one\n", "gone.txt": "x\n", ".gitignore": "*.log\n"})
    (repo / "readme.txt").write_text("the user's own change\n")
    git(repo, "add", "readme.txt")
    before = (git(repo, "status", "--porcelain"), git(repo, "branch", "--all"), (repo / ".git/index").read_bytes())

    here = RepositoryWorkspace(str(repo), commit, "job-1", tmp_path / "one")
    cwd = (await here.prepare(None)).cwd
    assert await here.snapshot(1) == commit  # nothing has changed
    (cwd / "readme.txt").write_text("changed\n")
    (cwd / "gone.txt").unlink()
    (cwd / "new").mkdir()
    (cwd / "new/file.txt").write_text("new\n")
    (cwd / "ignored.log").write_text("log\n")
    first = await here.snapshot(2)
    (cwd / "new/file.txt").write_text("newer\n")
    second = await here.snapshot(3)
    assert first != second and second is not None

    there = RepositoryWorkspace(str(repo), commit, "job-1", tmp_path / "two")
    moved = (await there.prepare(second)).cwd
    assert moved != cwd and (moved / "readme.txt").read_text() == "changed\n"
    assert (moved / "new/file.txt").read_text() == "newer\n"
    assert not (moved / "gone.txt").exists() and not (moved / "ignored.log").exists()
    assert git(moved, "rev-parse", "HEAD") == commit
    patch = await there.patch()
    assert patch is not None and "+newer" in patch and "deleted file" in patch
    git(repo, "stash", "--quiet")
    git(repo, "apply", "--check", "-", input=patch)
    git(repo, "stash", "pop", "--quiet", "--index")

    after = (git(repo, "status", "--porcelain"), git(repo, "branch", "--all"))
    assert after == before[:2]
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/fairlead") == "refs/fairlead/jobs/job-1"


async def test_a_job_that_moves_to_another_machine_tells_its_model_that_changes_may_be_missing(fleet: Fleet) -> None:
    repo = fleet.root / "repo"
    commit = make_repository(repo)
    first = fleet.start_worker("--data", str(fleet.root / "one"))
    async with Jobs(fleet.url) as jobs:
        begun = fleet.root / "begun"
        await jobs.submit(fleet.job("a", "echo two > two.txt", f"touch {begun}; sleep 600", repo=str(repo), commit=commit))
        await asyncio.to_thread(wait_until, begun.exists)
        first.kill()
        fleet.start_worker("--data", str(fleet.root / "two"))
        async for result in jobs.results(["a"], timeout=60):
            assert result.answer == "done after 2 commands"
        assert "two.txt" in (await jobs.patch("a") or "")
    texts = [json.dumps(request.body["messages"]) for request in fleet.provider.requests]
    assert RESTORED in texts[-1] and RESTORED not in texts[-2]


async def test_the_index_and_the_branches_of_the_user_are_not_touched(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit = make_repository(repo)
    index, head = (repo / ".git/index").read_bytes(), (repo / ".git/HEAD").read_bytes()
    workspace = RepositoryWorkspace(str(repo), commit, "job-1", tmp_path / "data")
    cwd = (await workspace.prepare(None)).cwd
    (cwd / "readme.txt").write_text("changed\n")
    git(cwd, "add", ".")
    staged = git(cwd, "diff", "--cached", "--name-only")
    (cwd / "other.txt").write_text("other\n")
    await workspace.snapshot(1)
    assert git(cwd, "diff", "--cached", "--name-only") == staged == "readme.txt"
    assert ((repo / ".git/index").read_bytes(), (repo / ".git/HEAD").read_bytes()) == (index, head)
    assert git(repo, "branch", "--format=%(refname:short)") == "main"


async def test_a_worktree_on_the_same_machine_keeps_what_was_not_in_a_snapshot(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit = make_repository(repo)
    first = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "data")
    cwd = (await first.prepare(None)).cwd
    (cwd / "late.txt").write_text("after the last snapshot\n")
    await first.release(has_ended=False)
    again = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "data")
    assert ((await again.prepare(None)).cwd / "late.txt").exists()
    # But not if another worker has continued the job since.
    other = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "other")
    ((await other.prepare(None)).cwd / "x.txt").write_text("x")
    snapshot = await other.snapshot(1)
    back = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "data")
    placement = await back.prepare(snapshot)
    assert not (placement.cwd / "late.txt").exists() and (placement.cwd / "x.txt").exists()


async def test_a_commit_or_repository_that_is_missing_is_reported(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    with pytest.raises(WorkspaceError, match=r"has no commit deadbeef. Push it there, or name another one"):
        await RepositoryWorkspace(str(repo), "deadbeef", "a", tmp_path / "data").prepare(None)
    with pytest.raises(WorkspaceError, match=r"none cannot be cloned: .* Check its address"):
        await RepositoryWorkspace(str(tmp_path / "none"), "main", "a", tmp_path / "data").prepare(None)


async def test_a_commit_that_came_after_the_mirror_is_fetched(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    await RepositoryWorkspace(str(repo), "main", "a", tmp_path / "data").prepare(None)
    (repo / "new.txt").write_text("new\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "second")
    placement = await RepositoryWorkspace(str(repo), git(repo, "rev-parse", "HEAD"), "b", tmp_path / "data").prepare(None)
    assert (placement.cwd / "new.txt").exists()


async def test_a_name_means_the_commit_of_today_and_a_job_keeps_the_one_it_started_from(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    first = make_repository(repo)
    old = RepositoryWorkspace(str(repo), "main", "a", tmp_path / "data")
    ((await old.prepare(None)).cwd / "x.txt").write_text("x\n")
    snapshot = await old.snapshot(1)
    (repo / "new.txt").write_text("new\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "second")
    placement = await RepositoryWorkspace(str(repo), "main", "b", tmp_path / "data").prepare(None)
    assert (placement.cwd / "new.txt").exists()
    for folder in ("data", "other"):
        moved = RepositoryWorkspace(str(repo), "main", "a", tmp_path / folder)
        placement = await moved.prepare(snapshot)
        assert git(placement.cwd, "rev-parse", "HEAD") == first and not (placement.cwd / "new.txt").exists()
        assert "new.txt" not in (await moved.patch() or "")


async def test_a_repository_that_takes_no_snapshots_costs_no_work(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit = make_repository(repo)
    git(repo, "config", "receive.hideRefs", "refs/fairlead")
    workspace = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "data")
    ((await workspace.prepare(None)).cwd / "x.txt").write_text("x\n")
    for turn in (1, 2):
        with pytest.raises(WorkspaceError, match="git push failed"):
            await workspace.snapshot(turn)
    assert "+x" in (await workspace.patch() or "")
    # The same machine continues with it.
    again = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "data")
    assert ((await again.prepare(None)).cwd / "x.txt").exists() and "+x" in (await again.patch() or "")
    git(repo, "config", "--unset", "receive.hideRefs")
    pushed = await again.snapshot(3)
    assert pushed == git(repo, "rev-parse", "refs/fairlead/jobs/a")


async def test_a_snapshot_that_was_not_recorded_before_the_worker_died_is_used(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    commit = make_repository(repo)
    workspace = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "data")
    cwd = (await workspace.prepare(None)).cwd
    (cwd / "x.txt").write_text("x\n")
    recorded = await workspace.snapshot(1)
    (cwd / "y.txt").write_text("y\n")
    await workspace.snapshot(2)
    workspace._index.with_name("a.index.lock").touch()  # pyright: ignore[reportPrivateUsage]
    again = RepositoryWorkspace(str(repo), commit, "a", tmp_path / "data")
    cwd = (await again.prepare(recorded)).cwd
    assert (cwd / "y.txt").exists()
    (cwd / "z.txt").write_text("z\n")
    await again.snapshot(3)
    assert "+z" in (await again.patch() or "")


async def test_a_patch_has_files_that_are_not_utf_8(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    (repo / "latin.txt").write_bytes(b"caf\xe9\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "second")
    workspace = RepositoryWorkspace(str(repo), "main", "a", tmp_path / "data")
    cwd = (await workspace.prepare(None)).cwd
    (cwd / "latin.txt").write_bytes(b"th\xe9\n")
    (cwd / "readme.txt").write_text("two\n")
    await workspace.snapshot(1)
    patch = await workspace.patch()
    assert patch is not None and "+two" in patch
    git(repo, "apply", "-", input=patch)
    assert (repo / "latin.txt").read_bytes() == b"th\xe9\n" and (repo / "readme.txt").read_text() == "two\n"


async def test_files_that_a_job_of_another_database_left_are_not_used(fleet: Fleet) -> None:
    repo = fleet.root / "repo"
    make_repository(repo)
    for name in ("first", "second"):
        url = f"sqlite:///{fleet.root}/{name}.db"
        listed, hold = fleet.workdir / name, fleet.workdir / f"{name}-held"
        worker = fleet.start_worker("--db", url)
        async with Jobs(url) as jobs:
            commands = (f"ls > {listed}; touch left.txt", f"touch {hold}; sleep 60")
            await jobs.submit(fleet.job("a", *commands, repo=str(repo), commit="main"))
            await asyncio.to_thread(wait_until, hold.exists)
        worker.kill()
    assert lines_of(fleet.workdir / "second") == ["readme.txt"]


async def test_a_job_in_a_repository_is_exported_with_its_patch_and_transcript(fleet: Fleet) -> None:
    repo = fleet.root / "repo"
    commit = make_repository(repo)
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(
            fleet.job("fix", "echo two >> readme.txt", repo=str(repo), commit=commit, labels={"a": "b"}),
            fleet.job("missing", repo=str(repo), commit="deadbeef"),
            fleet.job("plain", "true"),
        )
        results = await ended(jobs, "fix", "missing", "plain")
    assert "has no commit deadbeef" in (results["missing"].error or "") and results["fix"].status == "done"
    done = fleet.run("jobs", "export", "out")
    out = fleet.root / "out"
    assert done.stdout == f"Wrote 3 results, 2 transcripts and 1 patch to {out}.\n", done.stderr
    assert "+two" in (out / "patches/fix.patch").read_text()
    transcript = [json.loads(line) for line in lines_of(out / "transcripts/fix.jsonl")]
    assert transcript[0]["type"] == "session" and "done after 1 commands" in json.dumps(transcript[-1])
    rows = [json.loads(line) for line in lines_of(out / "results.jsonl")]
    assert [(row["id"], row["status"]) for row in rows] == [("fix", "done"), ("missing", "failed"), ("plain", "done")]
    assert rows[0]["labels"] == {"a": "b"} and "+two" in rows[0]["patch"]
    table = (out / "results.csv").read_text()
    assert table.startswith("id,status,attempts,cost,session,") and "fix,done,1," in table
    assert (repo / "readme.txt").read_text() == "one\n"


async def test_a_cancelled_job_leaves_a_patch_and_no_worktree(fleet: Fleet) -> None:
    commit = make_repository(fleet.root / "repo")
    worker = fleet.start_worker("--data", str(fleet.root / "data"))
    async with Jobs(fleet.url) as jobs:
        held = "[ -e held ] || { touch held; sleep 600; }"
        await jobs.submit(
            fleet.job("a", "echo one > one", f"echo two > two; {held}; ls > seen", repo=str(fleet.root / "repo"), commit=commit)
        )
        await asyncio.to_thread(wait_until, lambda: [*(fleet.root / "data").glob("worktrees/*/a/held")])
        await jobs.cancel("a")
        await asyncio.to_thread(wait_until, lambda: not [*(fleet.root / "data").glob("worktrees/*/a")])
        patch = await jobs.patch("a") or ""
        assert "b/one" in patch and "b/two" in patch
        # A retry gets the files back.
        await jobs.retry("a")
        assert (await ended(jobs, "a"))["a"].status == "done"
        assert "b/seen" in (await jobs.patch("a") or "")
    assert worker.stop() == 0


async def test_the_worktree_of_a_parked_job_is_removed_and_made_again_for_a_retry(tmp_path: Path) -> None:
    from fairlead.jobs.database import Database, DatabaseUrl
    from fairlead.jobs.dbos_queue import Queues
    from fairlead.jobs.job_writer import JobWriter
    from fairlead.jobs.records import Records
    from fairlead.jobs.recovery import Recovery

    repo, data, url = tmp_path / "repo", tmp_path / "data", f"sqlite:///{tmp_path / 'jobs.db'}"
    commit = make_repository(repo)
    database = Database(DatabaseUrl(url), patience=5)
    recovery = Recovery(database, Queues(DatabaseUrl(url)))
    async with Jobs(url) as jobs:
        await jobs.submit(Job(id="a", prompt="x", repo=str(repo), commit=commit))
        left = RepositoryWorkspace(str(repo), commit, "a", data)
        cwd = (await left.prepare(None)).cwd
        (cwd / "late.txt").write_text("after the last snapshot\n")
        await recovery.sweep_worktrees(data)
        assert cwd.exists()  # the job has not ended
        for _ in range(3):
            assert await JobWriter(database, "dead").start("a", 1) is not None
            await Records(database).take_from("dead", died=True)
        assert (await jobs.get("a")).status == "parked"
        await recovery.sweep_worktrees(data)
        assert not cwd.exists() and "b/late.txt" in (await jobs.patch("a") or "")
        again = RepositoryWorkspace(str(repo), commit, "a", data)
        assert ((await again.prepare(None)).cwd / "late.txt").exists()
        # An earlier attempt must not remove what a later one uses.
        await left.release(has_ended=True)
        assert cwd.exists()
        await again.release(has_ended=True)
        assert not cwd.exists()
    await database.close()


async def test_a_session_keeps_its_files_from_prompt_to_prompt(fleet: Fleet) -> None:
    commit = make_repository(fleet.root / "repo")
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        place = {"repo": str(fleet.root / "repo"), "commit": commit, "model": MODEL}
        await jobs.prompt("chat", '["echo first > file"]', **place)
        await jobs.prompt("chat", '["cat file > copy; cat copy"]')
        await ended(jobs, "chat.1", "chat.2")
        patch = await jobs.patch("chat.2")
    assert patch is not None and "b/copy" in patch


FAKE_PODMAN = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/log"
case "$1" in
  exec) shift; shift; cd "$2"; shift; shift; shift; PATH=/usr/bin:/bin IN_CONTAINER=yes exec "$@" ;;
esac
"""


async def test_the_commands_of_a_job_with_an_image_run_in_a_container(fleet: Fleet) -> None:
    tools = fleet.root / "tools"
    tools.mkdir()
    (tools / "podman").write_text(FAKE_PODMAN)
    (tools / "podman").chmod(0o755)
    fleet.extra_env["PATH"] = f"{tools}:{fleet.env['PATH']}"
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "echo in=$IN_CONTAINER > where; pwd >> where", container="image:1"))
        assert (await ended(jobs, "a"))["a"].status == "done"
    assert lines_of(fleet.workdir / "where") == ["in=yes", str(fleet.workdir)]
    wait_until(lambda: re.fullmatch(r"rm --force fairlead-[0-9a-f]{12}-a", lines_of(tools / "log")[-1]))
    log = lines_of(tools / "log")
    assert log[1].startswith("run --detach") and "image:1" in log[1]


async def test_the_container_of_a_job_that_killed_its_workers_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fairlead.jobs.database import Database, DatabaseUrl
    from fairlead.jobs.dbos_queue import Queues
    from fairlead.jobs.recovery import Recovery

    tools, workdir = tmp_path / "tools", tmp_path / "work"
    tools.mkdir()
    workdir.mkdir()
    (tools / "podman").write_text(FAKE_PODMAN)
    (tools / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    data, url = tmp_path / "data", f"sqlite:///{tmp_path / 'jobs.db'}"
    database = Database(DatabaseUrl(url), patience=5)
    recovery = Recovery(database, Queues(DatabaseUrl(url)))
    async with Jobs(url) as jobs:
        job = Job(id="a", prompt="x", workdir=str(workdir), container="image:1")
        await jobs.submit(job)
        await workspace_of(job, data).prepare(None)
        await recovery.sweep_containers(data)
        assert len(lines_of(tools / "log")) == 2  # the job has not ended
        await database.run("UPDATE fairlead_jobs SET status = 'parked' WHERE id = ?", ("a",))
        await recovery.sweep_containers(data)
    assert lines_of(tools / "log")[2:] == ["rm --force fairlead-a"] and not (data / "containers/a").exists()
    await database.close()


async def test_a_setting_that_would_bypass_the_container_fails_the_job(fleet: Fleet) -> None:
    tools = fleet.root / "tools"
    tools.mkdir()
    (tools / "podman").write_text(FAKE_PODMAN)
    (tools / "podman").chmod(0o755)
    (fleet.home / "settings.json").write_text('{"shellPath": "/bin/sh"}')
    fleet.extra_env["PATH"] = f"{tools}:{fleet.env['PATH']}"
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", "touch ran", container="image:1"))
        result = (await ended(jobs, "a"))["a"]
    assert result.status == "failed" and "shellPath" in (result.error or "") and not (fleet.workdir / "ran").exists()


async def test_a_container_needs_podman_or_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    job = Job(id="a", prompt="p", workdir=str(tmp_path), container="image:1")
    with pytest.raises(WorkspaceError, match="need podman or docker"):
        await workspace_of(job, tmp_path / "data").prepare(None)


@pytest.mark.parametrize("how", ["cancel", "limit"])
async def test_a_clone_that_hangs_ends_with_its_job(fleet: Fleet, how: str) -> None:
    ssh = fleet.root / "bin" / "ssh"  # git starts it for such an address
    ssh.parent.mkdir()
    ssh.write_text(f"#!/bin/sh\necho $$ >> {fleet.root}/pids\nexec sleep 600\n")
    ssh.chmod(0o755)
    fleet.extra_env["PATH"] = f"{ssh.parent}:{os.environ['PATH']}"
    place = {"repo": "git@host:some/repo.git", "commit": "main"}
    fleet.start_worker()
    limits = JobLimits(seconds=0.5) if how == "limit" else None
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("a", limits=limits, **place), fleet.job("b", limits=limits, **place))
        wait_until(lambda: lines_of(fleet.root / "pids"))
        if how == "cancel":
            await jobs.cancel("a", "b")
        for pid in lines_of(fleet.root / "pids"):
            assert wait_until(lambda pid=int(pid): not is_running(pid)) < 2.0
        results = await ended(jobs, "a", "b")
        assert {result.status for result in results.values()} == {"cancelled" if how == "cancel" else "failed"}
        if how == "limit":
            assert all("seconds, and its limit is 0.5" in (result.error or "") for result in results.values())
        await jobs.submit(fleet.job("c", "echo c > c"))
        assert (await ended(jobs, "c"))["c"].status == "done"
    assert "Traceback" not in (fleet.root / "worker.log").read_text()


async def test_more_jobs_of_a_repository_than_threads_prepare_at_once(tmp_path: Path) -> None:
    make_repository(tmp_path / "repo")
    count = (os.cpu_count() or 1) + 8
    places = [RepositoryWorkspace(str(tmp_path / "repo"), "main", f"job-{number}", tmp_path / "data") for number in range(count)]
    async with asyncio.timeout(60):
        placed = await asyncio.gather(*(place.prepare(None) for place in places))
        assert all((placement.cwd / "readme.txt").exists() for placement in placed)
        await asyncio.gather(*(place.release(has_ended=True) for place in places))
