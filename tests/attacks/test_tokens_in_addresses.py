"""Passwords and tokens in the addresses of repositories reach servers, and neither errors, lists nor files."""

from __future__ import annotations

import base64
import functools
import http.server
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, fleet_in, git, make_repository

from fairlead.config.packages import missing_text, parse_source
from fairlead.core.secrets import without_credentials
from fairlead.errors import ConfigError, JobError, WorkspaceError
from fairlead.extend.package_manager import PackageFetcher
from fairlead.jobs import Job, Jobs
from fairlead.jobs.task import check_root
from fairlead.jobs.workspaces.repository import RepositoryWorkspace
from fairlead.models.local.download import fetch
from fairlead.models.local.weights import RECOMMENDED
from fairlead.platform.programs import git_call

TOKEN = "ghp_0123456789abcdefghij"
USERS = [f"user:{TOKEN}", TOKEN, f"{TOKEN}:x-oauth-basic", f"oauth2:{TOKEN}", "u:pw", f"a%40b:{TOKEN}"]


class _Guarded(http.server.SimpleHTTPRequestHandler):
    """Serves files to those who give a user."""

    def do_GET(self) -> None:
        if "authorization" not in self.headers:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        seen.append(base64.b64decode(self.headers["authorization"].split()[1]).decode())
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


#: The users that the server has seen.
seen: list[str] = []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server of repositories on loopback, without its scheme."""
    repo = tmp_path / "made"
    make_repository(repo, {"skills/x/SKILL.md": "---\nname: x\ndescription: y\n---\nz\n"})
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "served/repo.git"))
    git(tmp_path / "served/repo.git", "update-server-info")
    seen.clear()
    handler = functools.partial(_Guarded, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}/repo.git"
        server.shutdown()
        thread.join()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with fleet_in(tmp_path) as fleet:
        yield fleet


def secret_of(user: str) -> str:
    return TOKEN if TOKEN in user else "pw"


def files_with(secret: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


@pytest.mark.parametrize("user", USERS)
async def test_a_job_reads_its_repository_with_the_token_and_keeps_it_nowhere(
    tmp_path: Path, server: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    workspace = RepositoryWorkspace(f"http://{user}@{server}", "main", "job", tmp_path / "data")
    cwd = (await workspace.prepare(None)).cwd
    assert (cwd / "skills").is_dir() and seen
    (cwd / "mine.txt").write_text("mine\n")
    with pytest.raises(WorkspaceError, match=f"git push failed for http://{server}: ") as refused:  # it serves files alone
        await workspace.snapshot(1)
    assert await workspace.patch() is not None
    remote = git(cwd, "config", "--get", "remote.origin.url")
    assert remote == f"http://{server}"
    texts = (str(refused.value), caplog.text, *map(str, (tmp_path / "data").rglob("*")))
    assert not any(f":{secret_of(user)}@" in text or f"/{secret_of(user)}@" in text or TOKEN in text for text in texts)
    assert secret_of(user) == "pw" or not files_with(TOKEN, tmp_path / "data")


@pytest.mark.parametrize("user", USERS)
async def test_a_job_whose_repository_cannot_be_read_names_it_without_the_token(tmp_path: Path, user: str) -> None:
    with pytest.raises(WorkspaceError) as raised:
        await RepositoryWorkspace(f"http://{user}@127.0.0.1:1/x.git", "main", "job", tmp_path / "data").prepare(None)
    assert "http://127.0.0.1:1/x.git" in str(raised.value) and f"{secret_of(user)}@" not in str(raised.value)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("query", ["access_token=", "ref=x&private_token=", "KEY="])
async def test_a_token_in_the_parameters_of_an_address_is_not_shown_either(tmp_path: Path, query: str) -> None:
    address = f"http://127.0.0.1:1/x.git?{query}{TOKEN}"
    with pytest.raises(WorkspaceError) as raised:
        await RepositoryWorkspace(address, "main", "job", tmp_path / "data").prepare(None)
    assert "http://127.0.0.1:1/x.git" in str(raised.value) and TOKEN not in str(raised.value)
    call = git_call("clone", without_credentials(address), env=os.environ, outside=[], address=address)
    assert TOKEN not in " ".join(call.command) and call.env["GIT_CONFIG_KEY_0"] == f"url.{address}.insteadOf"


async def test_jobs_show_no_token_in_errors_lists_and_results(fleet: Fleet) -> None:
    fleet.start_worker()
    job = Job(id="a", prompt="p", repo=f"http://user:{TOKEN}@127.0.0.1:1/x.git", commit="main")
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(job)
        (result,) = [each async for each in jobs.results(["a"], timeout=60)]
        events = [str(event) async for event in jobs.events("a")]
    assert "http://127.0.0.1:1/x.git cannot be cloned" in (result.error or "")
    texts = [str(result), *events, (fleet.root / "worker.log").read_text()]
    for words in (("list",), ("list", "--json"), ("export", str(fleet.root / "exported"))):
        done = fleet.run("jobs", *words)
        assert done.returncode == 0, done.stderr
        texts += [done.stdout, done.stderr]
    assert not any(TOKEN in text for text in texts) and not files_with(TOKEN, fleet.root / "exported")


@pytest.mark.parametrize("user", USERS)
def test_a_package_is_installed_with_the_token_and_its_clone_does_not_have_it(tmp_path: Path, server: str, user: str) -> None:
    source = parse_source(f"git:http://{user}@{server}")
    PackageFetcher(tmp_path / "base", os.environ).fetch(source)
    assert (source.folder(tmp_path / "base") / "skills/x/SKILL.md").is_file() and seen
    assert secret_of(user) == "pw" or not files_with(TOKEN, tmp_path / "base")


@pytest.mark.parametrize("form", ["git:https://{}@127.0.0.1:1/x/y", "https://{}@127.0.0.1:1/x/y.git@v1", "git:{}@127.0.0.1/x/y"])
@pytest.mark.parametrize("user", USERS)
def test_packages_show_no_token_in_errors_and_lists(tmp_path: Path, user: str, form: str) -> None:
    source = parse_source(form.format(user))
    assert source.kind == "git"
    texts = [source.shown, missing_text(source.text), source.identity, str(source.folder(tmp_path))]
    if "127.0.0.1:1" in form:
        with pytest.raises(ConfigError) as raised:
            PackageFetcher(tmp_path / "base", os.environ).fetch(source)
        texts.append(str(raised.value))
    assert not any(f"{secret_of(user)}@" in text or TOKEN in text for text in texts)


@pytest.mark.parametrize("user", USERS)
def test_the_arguments_of_git_have_no_token(user: str) -> None:
    address = f"https://{user}@host/x"
    call = git_call("fetch", without_credentials(address), env=os.environ, outside=[], address=address)
    assert not any(secret_of(user) + "@" in word or TOKEN in word for word in call.command)


def test_the_user_of_ssh_is_kept_and_its_password_is_not() -> None:
    assert (
        without_credentials(f"ssh://git:{TOKEN}@host/x ssh://git@host/y git@host:z")
        == "ssh://git@host/x ssh://git@host/y git@host:z"
    )
    assert parse_source("git:git@host:x/y").shown == "git:git@host:x/y"


async def test_a_mirror_of_an_earlier_version_loses_its_token(tmp_path: Path, server: str) -> None:
    address = f"http://user:{TOKEN}@{server}"
    await RepositoryWorkspace(address, "main", "one", tmp_path / "data").prepare(None)
    (mirror,) = (tmp_path / "data/mirrors").glob("*.git")
    git(mirror, "config", "remote.origin.url", address)
    await RepositoryWorkspace(address, "main", "two", tmp_path / "data").prepare(None)
    assert not files_with(TOKEN, tmp_path / "data")


async def test_a_submission_is_refused_without_the_token(fleet: Fleet) -> None:
    job = fleet.job("a", repo=f"https://user:{TOKEN}@host/x", commit="-x")
    async with Jobs(fleet.url) as jobs:
        with pytest.raises(Exception) as raised:  # whatever it is
            await jobs.submit(job)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("address", ["ftp://{}@h/x", "ext+https://{}@h/x", "file://{}@h/etc"])
def test_a_repository_that_a_server_refuses_is_named_without_the_token(tmp_path: Path, address: str) -> None:
    for user in USERS:
        with pytest.raises(JobError) as raised:
            check_root(Job(id="a", prompt="p", repo=address.format(user), commit="main", root=str(tmp_path)))
        assert TOKEN not in str(raised.value) and f"{secret_of(user)}@" not in str(raised.value)


@pytest.mark.parametrize("source", ["npm:git+https://{}@127.0.0.1:1/x", "npm:https://{}@127.0.0.1/x.tgz", "git:ftp://{}@h"])
def test_what_names_no_package_shows_no_token(fleet: Fleet, source: str) -> None:
    for user in USERS:
        assert f"{secret_of(user)}@" not in missing_text(source.format(user)) and TOKEN not in missing_text(source.format(user))
    text = source.format(f"user:{TOKEN}")
    for words in (("-e", text, "-p", "hi"), ("install", text), ("remove", text), ("update", text)):
        done = fleet.run(*words)
        assert done.returncode and TOKEN not in done.stdout + done.stderr, words


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("endpoint", ["http://{}@127.0.0.1:1", "ftp2://{}@127.0.0.1:1", "http://{}@[x"])
def test_a_mirror_of_weights_is_named_without_the_token(tmp_path: Path, user: str, endpoint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        fetch(RECOMMENDED, tmp_path, {"HF_ENDPOINT": endpoint.format(user)}, lambda have, size: None)
    assert f"{secret_of(user)}@" not in str(raised.value) and TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    ["u:{}@127.0.0.1:1/x", "u:{}@[x", "u:a/{}@127.0.0.1:1/x", "u:a?{}@h/x", "h/x?sslpassword={}&port=z", "u:pw@{}@127.0.0.1/x"],
)
def test_an_address_of_a_database_is_named_without_the_password(fleet: Fleet, address: str) -> None:
    pytest.importorskip("psycopg")
    done = fleet.run("jobs", "list", "--db", f"postgresql://{address.format(TOKEN)}")
    assert done.returncode and TOKEN not in done.stdout + done.stderr
