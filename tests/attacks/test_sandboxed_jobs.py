"""Jobs whose commands run in the sandbox, in worktrees that a worker keeps inside fairlead's home, which is hidden otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.fleet import Fleet, fleet_in, git, lines_of, make_repository
from tests.support.stage import stage
from tests.system.test_sandbox_escapes import SECRET, bubblewrap, folder, start

from fairlead.jobs import Jobs

__all__ = ["bubblewrap"]
pytestmark = pytest.mark.system


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with folder() as root, fleet_in(root) as made:
        (made.home / "auth.json").write_text(SECRET)
        yield made


@pytest.mark.parametrize("where", ["the home", "--data", "a home elsewhere"])
async def test_a_worker_runs_jobs_of_repositories_in_the_sandbox(fleet: Fleet, where: str) -> None:
    repo = fleet.root / "repo"
    commit = make_repository(repo, {"readme.txt": "one\n", ".env": SECRET})
    (fleet.home / "settings.json").write_text('{"protectedPaths": [".env"]}')
    said = fleet.root / "said"
    words = ["--data", str(fleet.root / "data")] if where == "--data" else []
    if where == "a home elsewhere":
        elsewhere = fleet.root / "x" / "y"
        elsewhere.parent.mkdir()
        fleet.home.rename(elsewhere)
        fleet.extra_env = {"FAIRLEAD_HOME": str(elsewhere), "HOME": str(fleet.root)}
        fleet.home = elsewhere
    home = fleet.home
    fleet.start_worker("--sandbox", "workspace", *words)
    show = (
        f"git log --oneline | wc -l; git status --porcelain; echo more >> readme.txt; git diff --stat readme.txt | tail -1;"
        f" cat {home}/auth.json {home}/models.json .env; ls {home}; echo x > {home}/x; echo x > {home}/jobs/x;"
        f" echo x >> {home}/jobs/mirrors/*.git/config; echo x > .git; echo x > {said}; git -C {home}/jobs/mirrors/*.git log -1"
    )
    job = fleet.job("one", f"({show}) > out.txt 2>&1; true", repo=str(repo), commit=commit)
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(job)
        (result,) = [each async for each in jobs.results(["one"], timeout=60)]
        assert (result.status, result.error) == ("done", None)
        patch = await jobs.patch("one")
    assert patch is not None and "+more" in patch
    out = "\n".join(line[1:] for line in patch.splitlines() if line.startswith("+"))
    assert SECRET not in out and "apiKey" not in out
    assert "1 file changed" in out
    assert not said.exists() and not (home / "x").exists() and not (home / "jobs" / "x").exists()
    assert "x" not in [line for config in fleet.root.rglob("mirrors/*.git/config") for line in lines_of(config)]
    assert git(repo, "status", "--porcelain") == ""


def test_a_working_directory_in_the_hidden_home_is_refused_with_the_reason() -> None:
    with folder() as root:
        place = root / "home" / "notes"
        place.mkdir(parents=True)
        done = start(root, folder="home/notes")
        assert done.returncode == 1
        assert f"it is in {root / 'home'}, which commands cannot see because it holds keys" in done.stderr


def test_files_that_job_mirrors_link_to_stay_readable_in_other_sessions() -> None:
    # A clone on the same disk has hard links to the objects of the repository.
    with folder() as root, stage(root, "pi", flags=["--sandbox", "workspace"], files={"a": "text"}) as host:
        mirror = host.around.home / "jobs" / "mirrors" / "m.git"
        mirror.mkdir(parents=True)
        (mirror / "object").hardlink_to(host.around.cwd / "a")
        done = host.request("bash", command=f"cat a; ls {host.around.home}/jobs")["data"]
        assert done["output"].startswith("text") and "mirrors" not in done["output"]
