"""A client of a server with a root names places outside it, in every way that a job can."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fleet import MODEL, Fleet, git, make_repository, wait_until
from tests.support.front_end import FrontEnd

from fairlead.jobs import Jobs

pytest_plugins = ["tests.jobs.conftest"]

CANARY = "what is outside the root"


class Place:
    """A server whose root is the working directory of the fleet, with a directory and a repository beside it."""

    def __init__(self, fleet: Fleet, server: FrontEnd) -> None:
        self.fleet, self.server = fleet, server
        self.inside, self.outside = fleet.workdir, fleet.root / "outside"
        self.outside_repo = fleet.root / "outside-repo"

    def submit(self, **fields: Any) -> tuple[int, Any]:
        return self.server.call("POST", "/fleet/jobs", {"id": "a", "prompt": '["cat secret"]', "model": MODEL, **fields})

    def ended(self, id: str) -> Any:
        wait_until(lambda: self.server.call("GET", f"/fleet/jobs/{id}")[1]["status"] not in ("queued", "running"), every=0.1)
        return self.server.call("GET", f"/fleet/jobs/{id}")[1]


@pytest.fixture
def place(fleet: Fleet) -> Generator[Place]:
    (fleet.root / "outside").mkdir()
    (fleet.root / "outside" / "secret").write_text(CANARY)
    make_repository(fleet.root / "outside-repo", {"secret": CANARY})
    (fleet.workdir / "secret").write_text("what is inside")
    (fleet.workdir / "link").symlink_to(fleet.root / "outside")
    (fleet.workdir / "repo-link").symlink_to(fleet.root / "outside-repo")
    with FrontEnd(fleet, "--root", str(fleet.workdir)) as server:
        yield Place(fleet, server)


@pytest.mark.parametrize(
    "workdir",
    [
        "{out}",
        "{in}/../outside",
        "{in}/link",
        "{in}/link/../outside",
        "/",
        "~",
        "..",
        "link",
        "{in}/nowhere/../../outside",
        "/proc/self/cwd/..",
    ],
)
def test_a_directory_outside_the_root_is_refused(place: Place, workdir: str) -> None:
    named = workdir.replace("{out}", str(place.outside)).replace("{in}", str(place.inside))
    status, error = place.submit(workdir=named)
    assert status == 400 and "root" in error["error"]["message"]
    status, error = place.server.call("POST", "/fleet/sessions/s/prompts", {"prompt": "p", "workdir": named})
    assert status == 400 and "root" in error["error"]["message"]
    assert place.server.call("GET", "/fleet/jobs")[1] == []


@pytest.mark.parametrize(
    "repo",
    [
        "{out}",
        "{out}/.git",
        "file://{out}",
        "FILE://{out}",
        "file://{in}/../outside-repo",
        "file://{in}/%2e%2e/outside-repo",
        "file://localhost{out}",
        "{in}/repo-link",
        "file://{in}/repo-link",
        "../outside-repo",
        "ext::cat {out}/secret %S ://",
        "fd::3://",
        "{in}/gitfile",
        "{in}/alternates",
        "{in}/suffix",
        "{in}/objects",
    ],
)
def test_a_repository_outside_the_root_is_refused(place: Place, repo: str) -> None:
    inside, outside = place.inside, place.outside_repo
    (inside / "gitfile").mkdir()
    (inside / "gitfile" / ".git").write_text(f"gitdir: {outside}/.git\n")
    (inside / "suffix.git").symlink_to(outside / ".git")
    for name in ("alternates", "objects"):
        make_repository(inside / name)
    (inside / "alternates" / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (inside / "alternates" / ".git" / "objects" / "info" / "alternates").write_text(f"{outside}/.git/objects\n")
    (inside / "objects" / ".git" / "objects").rename(inside / "objects" / ".git" / "old")
    (inside / "objects" / ".git" / "objects").symlink_to(outside / ".git" / "objects")
    status, error = place.submit(repo=repo.replace("{out}", str(outside)).replace("{in}", str(inside)), commit="main")
    assert status == 400, error
    assert place.server.call("GET", "/fleet/jobs")[1] == []


@pytest.mark.parametrize("way", ["quoted", "escaped", "after comments", "of alternates", "a line in a name", "endless"])
def test_no_pointer_leads_git_out_of_the_root(place: Place, way: str) -> None:
    inside, outside = place.inside, place.outside_repo / ".git" / "objects"
    for name in ("repo", "second"):
        make_repository(inside / name)
        (inside / name / ".git" / "objects" / "info").mkdir(exist_ok=True)
    first, second = (inside / name / ".git" / "objects" / "info" / "alternates" for name in ("repo", "second"))
    match way:
        case "quoted":
            first.write_text(f'"{outside}"\n')
        case "escaped":
            first.write_text('"' + "".join(f"\\{byte:03o}" for byte in str(outside).encode()) + '"\n')
        case "after comments":
            first.write_text("# nothing\n" * 10_000 + f"{outside}\n")
        case "of alternates":
            first.write_text(f"{second.parents[1]}\n")
            second.write_text(f"{outside}\n")
        case "a line in a name":
            (inside / "repo" / ".git").rename(inside / "old")
            (inside / "repo" / "x\ny").symlink_to(place.outside_repo / ".git")
            (inside / "repo" / ".git").write_text("gitdir: x\ny\n")
        case _:
            first.write_text("".join(f"{inside}/{number}\n" for number in range(300)))
            for number in range(300):
                (inside / str(number)).mkdir()
    status, error = place.submit(repo=str(inside / "repo"), commit="main")
    assert status == 400 and "repo" in error["error"]["message"]


def test_repositories_that_share_objects_inside_the_root_run(place: Place) -> None:
    inside = place.inside
    for name in ("repo", "second"):
        make_repository(inside / name, {"secret": "what is inside"})
        (inside / name / ".git" / "objects" / "info").mkdir(exist_ok=True)
    first, second = (inside / name / ".git" / "objects" for name in ("repo", "second"))
    (first / "info" / "alternates").write_text(f"# both ways\n{second}\n")
    (second / "info" / "alternates").write_text(f"{first}\n")
    assert place.submit(repo=str(inside / "repo"), commit="main")[0] < 300
    git(inside / "repo", "bundle", "create", str(inside / "a.bundle"), "main")
    status, error = place.submit(id="b", repo=str(inside / "a.bundle"), commit="main")
    assert status < 300, error


@pytest.mark.parametrize("image", ["dir:/etc", "docker-archive:/tmp/x.tar", "oci:relative", "--privileged", "a b"])
def test_an_image_that_is_a_file_is_refused(place: Place, image: str) -> None:
    assert place.submit(workdir=str(place.inside), container=image)[0] == 400


def test_a_root_that_a_client_names_does_not_replace_that_of_the_server(place: Place) -> None:
    assert place.submit(workdir=str(place.outside), root="/")[0] == 400
    assert place.submit(workdir=str(place.inside), root="/")[0] == 200


def test_jobs_inside_the_root_run(place: Place) -> None:
    commit = make_repository(place.inside / "repo", {"secret": "of the repository"})
    (place.inside / "alias").symlink_to(place.inside)
    place.fleet.start_worker()
    for id, fields in {
        "a": {"workdir": str(place.inside)},
        "b": {"workdir": str(place.inside / "alias")},
        "c": {"repo": str(place.inside / "repo"), "commit": commit},
        "d": {"repo": f"file://{place.inside}/repo", "commit": commit},
    }.items():
        status, answer = place.submit(id=id, **fields)
        assert status == 200, answer
        assert place.ended(id)["status"] == "done"


def test_the_worker_refuses_a_link_that_was_swapped_after_the_job_was_queued(place: Place) -> None:
    (place.inside / "sub").mkdir()
    make_repository(place.inside / "repo")
    assert place.submit(id="a", workdir=str(place.inside / "sub"))[0] == 200
    assert place.submit(id="b", repo=str(place.inside / "repo"), commit="main")[0] == 200
    (place.inside / "sub").rmdir()
    (place.inside / "sub").symlink_to(place.outside)
    (place.inside / "repo").rename(place.inside / "old")
    (place.inside / "repo").symlink_to(place.outside_repo)
    place.fleet.start_worker()
    for id in ("a", "b"):
        job = place.ended(id)
        assert job["status"] == "failed" and "outside the root" in job["error"]
        assert CANARY not in str(place.server.call("GET", f"/fleet/sessions/{id}/transcript"))


def test_jobs_that_others_have_submitted_outside_the_root_are_not_there(place: Place) -> None:
    async def submit() -> None:
        async with Jobs(place.fleet.url) as jobs:
            await jobs.submit(place.fleet.job("other", "cat secret", workdir=str(place.outside), session="chat"))
            assert [result.status async for result in jobs.results(["other"], timeout=60)] == ["done"]

    place.fleet.start_worker()
    asyncio.run(submit())
    call = place.server.call
    assert call("GET", "/fleet/jobs")[1] == [] and call("GET", "/fleet/sessions/chat")[1] == []
    for method, path in (
        ("GET", "/fleet/jobs/other"),
        ("GET", "/fleet/jobs/other/events"),
        ("GET", "/fleet/jobs/other/patch"),
        ("POST", "/fleet/jobs/other/cancel"),
        ("POST", "/fleet/jobs/other/retry"),
        ("GET", "/fleet/sessions/chat/transcript"),
    ):
        assert call(method, path)[0] == 404
    for path, body in (
        ("/fleet/sessions/chat/prompts", {"prompt": "p"}),
        ("/fleet/sessions/chat/prompts", {"prompt": "p", "workdir": str(place.inside)}),
        ("/fleet/sessions/chat/prompts", {"prompt": "p", "workdir": str(place.inside), "id": "once"}),
        ("/fleet/jobs", {"id": "b", "prompt": "p", "workdir": str(place.inside), "session": "chat"}),
    ):
        status, error = call("POST", path, body)
        assert status == 400 and "root" in error["error"]["message"]


def test_a_host_of_acp_cannot_leave_the_root(place: Place) -> None:
    inside, outside, link = str(place.inside), str(place.outside), str(place.inside / "link")
    with place.server.socket("/acp") as host:
        host.call("initialize", protocolVersion=1, clientCapabilities={})
        for cwd, more in ((outside, []), (link, []), (f"{inside}/../outside", []), (inside, [outside]), (inside, [link])):
            assert "error" in host.call("session/new", cwd=cwd, mcpServers=[], additionalDirectories=more)
        listed = host.call("session/list", cwd=outside)
        assert "error" in listed or listed["result"]["sessions"] == []


@pytest.mark.parametrize("name", ["link", "../outside", "{out}", "~"])
def test_a_host_of_opal_cannot_leave_the_root(place: Place, name: str) -> None:
    with place.server.socket("/ws?dialect=opal") as host:
        assert "error" in host.call("session/start", working_dir=name.replace("{out}", str(place.outside)))


def test_a_host_of_pi_cannot_write_a_page_outside_the_root(place: Place) -> None:
    with place.server.socket("/ws?dialect=pi") as host:
        for path in ("link/page.html", "../outside/page.html", str(place.outside / "page.html")):
            assert not host.command("export_html", outputPath=path)["success"]
    assert not (place.outside / "page.html").exists()


def test_paths_are_absolute_in_the_rows_of_jobs(place: Place) -> None:
    assert place.submit(workdir=str(place.inside))[0] == 200

    async def root() -> str | None:
        async with Jobs(place.fleet.url) as jobs:
            return (await jobs.records())[0].job.root

    assert asyncio.run(root()) == str(Path(place.inside))
