"""Files that the file tools leave alone, by whatever way one gets to them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fairlead.config.home import Home, PeerHome
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext
from fairlead.errors import ToolError
from fairlead.policy.protected import HardLinks, Masks, Protected, key_files, read_only_in_sandbox
from fairlead.policy.sandbox import Bubblewrap
from fairlead.tools import Workspace, builtin_tools
from fairlead.tools.search import grep
from fairlead.wire.opal.tools.machine import machine_tools

SECRET = "sk-this-is-secret"
REFUSED = "is a protected file"


class Place:
    """A home with keys in it, a working directory, and the tools in it."""

    def __init__(self, root: Path, *listed: str, confined: bool = False, path: str | None = None) -> None:
        self.home, self.cwd = root / "home", root / "work"
        self.auth = self.home / ".fairlead" / "auth.json"
        self.auth.parent.mkdir(parents=True)
        self.auth.write_text(SECRET)
        self.cwd.mkdir()
        env = {"PATH": path if path is not None else os.environ["PATH"], "HOME": str(self.home)}
        self.workspace = Workspace(self.cwd, env, log_dir=lambda: root, keep_log=lambda _: None)
        self.workspace.guard = Protected(
            key_files(Home.find(env), env),
            listed,
            cwd=lambda: self.cwd,
            home=self.home,
            read_only=read_only_in_sandbox(Home.find(env)) if confined else None,
        )

    def call(self, name: str, tools: dict[str, Tool] | None = None, **arguments: Any) -> str:
        """What a tool says, error or not."""

        async def run() -> str:
            tool = (tools or builtin_tools(self.workspace))[name]
            context = ToolContext("1", CancelToken(), lambda _: None)
            try:
                result = await tool.run(tool.checked(arguments), context)
            except ToolError as error:
                return str(error)
            return "".join(getattr(block, "text", "") for block in result.content)

        return asyncio.run(run())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def ways(place: Place) -> list[str]:
    """Paths that lead to the keys."""
    (place.cwd / "soft").symlink_to(place.auth)
    (place.cwd / "folder").symlink_to(place.auth.parent)
    (place.cwd / "again").symlink_to("soft")
    (place.cwd / "hard").hardlink_to(place.auth)
    return [
        str(place.auth),
        "~/.fairlead/auth.json",
        "@~/.fairlead/auth.json",
        f"file://{place.auth}",
        f"@{place.auth}",
        "../home/.fairlead/auth.json",
        "x/../../home/.fairlead/auth.json",
        f"//{place.auth}",
        f"{place.auth.parent}/./auth.json",
        f"/proc/self/root{place.auth}",
        f"/proc/{os.getpid()}/root{place.auth}",
        "soft",
        "again",
        "hard",
        "folder/auth.json",
    ]


def test_no_way_leads_to_reading_or_writing_the_keys(place: Place) -> None:
    for path in ways(place):
        assert REFUSED in place.call("read", path=path), path
        assert REFUSED in place.call("write", path=path, content="{}"), path
        assert REFUSED in place.call("edit", path=path, edits=[{"oldText": "sk", "newText": "no"}]), path
        said = place.call("grep", path=path, pattern="secret")
        assert REFUSED in said and SECRET not in said, path
        assert place.auth.read_text() == SECRET


def test_the_refusal_names_the_setting(place: Place) -> None:
    assert place.call("read", path="~/.fairlead/auth.json") == (
        f"{place.auth} is a protected file. Tools cannot read it. Continue without it. "
        f'(To allow it, the user can add "!{place.auth}" to protectedPaths in the settings.)'
    )


@pytest.mark.parametrize("engine", ["ripgrep", "ripgrep walks", "python"])
def test_searching_a_folder_passes_over_them(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    has_ripgrep = engine != "python"
    if engine == "ripgrep walks":
        monkeypatch.setattr(grep, "WALKED_FIRST", 0)
    if not has_ripgrep:  # neither on the path nor beside the interpreter
        (tmp_path / "python").symlink_to(sys.executable)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    place = Place(tmp_path, path=None if has_ripgrep else "/nowhere")
    ways(place)
    (place.home / "notes").write_text("not so secret")
    assert place.call("grep", path=str(place.home), pattern="secret") == "notes:1: not so secret"
    assert place.call("grep", path=str(place.home / ".fairlead"), pattern="secret") == "No matches found"
    assert place.call("grep", pattern="secret") == "No matches found"  # the hard link


def test_names_may_be_seen(place: Place) -> None:
    assert place.call("ls", path="~/.fairlead") == "auth.json"
    assert place.call("find", path="~", pattern="auth.json") == ".fairlead/auth.json"


@pytest.mark.parametrize(
    "name",
    [
        "~/.pi/agent/auth.json",
        "~/.pi/agent/trust.json",
        "~/.omp/agent/agent.db-wal",
        "~/.xcsh/agent/agent.db-wal",
        "~/.fairlead/trust.json",
        "~/other/agent/auth.json",
    ],
)
def test_keys_of_pi_and_what_is_trusted_are_protected_also_before_they_exist(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path)
    env = {"HOME": str(place.home), "PI_CODING_AGENT_DIR": "~/other/agent"}
    keys = key_files(Home.find(env), env)
    place.workspace.guard = Protected(keys, [], cwd=lambda: place.cwd, home=place.home)
    assert REFUSED in place.call("write", path=name, content="{}")
    assert not (place.home / name[2:]).exists() and not (place.home / name[2:]).parent.joinpath("x").exists()
    path = place.home / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SECRET)
    assert REFUSED in place.call("read", path=name)


def test_a_home_of_another_name_is_protected_and_the_usual_one_too(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "FAIRLEAD_HOME": str(tmp_path / "mine")}
    found = {str(path.relative_to(tmp_path)) for path in key_files(Home.find(env, isolated=True), env)}
    assert {"mine/auth.json", "mine/trust.json", ".fairlead/auth.json", ".pi/agent/auth.json"} <= found


def test_users_list_more_by_name_by_path_and_by_pattern(tmp_path: Path) -> None:
    place = Place(tmp_path, ".env", "secrets/", "~/.ssh/**", "*.pem", "plain/key")
    for name in ("a/.env", "secrets/in/deep", "x.pem", "plain/key", "fine"):
        path = place.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    (place.cwd / "hard").hardlink_to(place.cwd / "plain/key")
    (place.home / ".ssh").mkdir()
    (place.home / ".ssh" / "id").write_text(SECRET)
    for name in ("a/.env", "a/.ENV", "secrets/in/deep", "secrets/new", "x.pem", "plain/key", "hard", "~/.ssh/id"):
        assert REFUSED in place.call("write", path=name, content=""), name
    assert place.call("read", path="fine") == SECRET
    assert place.call("grep", pattern="secret") == f"fine:1: {SECRET}"


def test_a_sandbox_hides_the_folders_of_keys_and_what_the_list_stands_for(tmp_path: Path) -> None:
    place = Place(tmp_path, ".env", "~/.ssh/**", "conf/*.key", "missing/file")
    for name in ("a/.env", "conf/x.key", "conf/y.pub"):
        (place.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (place.cwd / name).write_text(SECRET)
    (place.cwd / "a" / "circle").symlink_to(place.cwd)
    (place.home / ".ssh").mkdir()
    assert isinstance(place.workspace.guard, Protected)
    masks = place.workspace.guard.masks()
    assert sorted(masks.folders) == [place.home / ".fairlead", place.home / ".ssh"]
    assert sorted(masks.files) == [place.cwd / "a/.env", place.cwd / "conf/x.key"]


def test_a_sandbox_shows_what_is_lifted_and_hides_what_is_beside_it(tmp_path: Path) -> None:
    place = Place(tmp_path, "!~/.fairlead/auth.json")
    trust = place.auth.with_name("trust.json")
    trust.write_text("{}")
    assert isinstance(place.workspace.guard, Protected)
    masks = place.workspace.guard.masks()
    assert (masks.folders, masks.files) == ([], [trust])


def test_protection_can_be_lifted(tmp_path: Path) -> None:
    place = Place(tmp_path, "!~/.fairlead/auth.json")
    assert place.call("read", path="~/.fairlead/auth.json") == SECRET
    assert REFUSED in place.call("write", path="~/.pi/agent/auth.json", content="")


def test_a_link_that_changes_all_the_time_never_leads_there(place: Place) -> None:
    """A race: the path is harmless when it is looked at, and leads to the keys when it is opened."""
    innocent = place.cwd / "innocent"
    innocent.write_text("fine")
    swapped = place.cwd / "swapped"
    swapped.symlink_to(innocent)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (place.auth, innocent):
                temporary = place.cwd / ".next"
                temporary.symlink_to(target)
                temporary.replace(swapped)

    racing = threading.Thread(target=swap)
    racing.start()
    try:
        for _ in range(150):
            assert SECRET not in place.call("read", path="swapped")
            place.call("write", path="swapped", content="fine")
    finally:
        over.set()
        racing.join()
    assert place.auth.read_text() == SECRET


def test_a_folder_that_changes_all_the_time_never_lets_a_write_out(tmp_path: Path) -> None:
    place = Place(tmp_path, confined=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = place.cwd / "inside"
    inside.mkdir()
    swapped = place.cwd / "swapped"
    swapped.symlink_to(inside)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (outside, inside):
                temporary = place.cwd / ".next"
                temporary.symlink_to(target)
                temporary.replace(swapped)

    racing = threading.Thread(target=swap)
    racing.start()
    try:
        for number in range(150):
            place.call("write", path=f"swapped/f{number}", content="x")
            place.call("write", path=f"swapped/d{number}/f", content="x")
    finally:
        over.set()
        racing.join()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "../out",
        "/etc/fairlead-test",
        "link/x",
        ".fairlead/settings.json",
        ".git/hooks/pre-commit",
        ".git/commondir",
        ".git/config.worktree",
        ".mcp.json",
    ],
)
def test_confined_tools_write_in_the_working_directory_and_not_what_takes_effect_outside(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path, confined=True)
    (place.cwd / "link").symlink_to(tmp_path)
    (place.cwd / ".git" / "hooks").mkdir(parents=True)
    before = {path.name for path in tmp_path.rglob("*")}
    assert "sandbox" in place.call("write", path=name, content="x")
    assert {path.name for path in tmp_path.rglob("*")} == before
    assert place.call("write", path="fine/x", content="x") == "Successfully wrote 1 bytes to fine/x"


def test_confined_tools_do_not_lead_git_to_another_repository(tmp_path: Path) -> None:
    place = Place(tmp_path, confined=True)
    assert "sandbox" in place.call("write", path=".git", content="gitdir: other")
    (place.cwd / ".git").write_text("gitdir: /repository/.git/worktrees/x")  # as in a worktree
    assert "sandbox" in place.call("edit", path=".git", edits=[{"oldText": "repository", "newText": "other"}])
    assert (place.cwd / ".git").read_text() == "gitdir: /repository/.git/worktrees/x"


@pytest.mark.parametrize("opal", [False, True], ids=["pi", "opal"])
@pytest.mark.parametrize(
    "names",
    [
        [".git/HEAD"],
        [".GIT/config"],
        ["sub/.git"],
        ["sub/.git/config"],
        ["deep/er/.Git/hooks/pre-commit"],
        ["refs/heads/main", "HEAD"],
        ["HEAD", "refs/heads/main"],
        ["HEAD", "sub/x", "commondir"],
        ["sub/refs/x", "sub/HEAD"],
        ["bare/config"],
        ["bare/hooks/post-update"],
    ],
)
def test_confined_tools_make_no_git_repository_and_change_none(tmp_path: Path, names: list[str], opal: bool) -> None:
    """The last of the files would be the one that makes git see a repository, or belongs to one."""
    place = Place(tmp_path, confined=True)
    (place.cwd / "bare" / "refs").mkdir(parents=True)
    (place.cwd / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    tools = {tool.name: tool for tool in machine_tools(place.workspace)} if opal else None
    said = [place.call("write_file" if opal else "write", tools, path=name, content="x") for name in names]
    assert "takes effect outside the sandbox" in said[-1]
    assert not [text for text in said[:-1] if "sandbox" in text]
    assert not (place.cwd / names[-1]).exists()


LISTED = ["~/.ssh", "~/keys/**", "secrets/*.key", ".env", "*.pem", "~/vault"]
PROTECTED = [
    "~/.ssh/id",
    "~/.ssh/deep/er/id",
    "~/keys/a/b",
    "secrets/x.key",
    "sub/.env",
    "x.pem",
    "certs/.env/inner",
    "~/vault/v",
]


def linked_place(root: Path, has_ripgrep: bool = True) -> Place:
    """Each protected file has another name in the working directory: link0, link1 ..."""
    place = Place(root, *LISTED, path=None if has_ripgrep else "/nowhere")
    (root / "elsewhere").mkdir()
    (place.home / "vault").symlink_to(root / "elsewhere")
    for number, name in enumerate(PROTECTED):
        path = place.home / name[2:] if name.startswith("~/") else place.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
        (place.cwd / f"link{number}").hardlink_to(path)
    return place


@pytest.mark.parametrize("walked_first", [grep.WALKED_FIRST, 0], ids=["", "ripgrep walks"])
@pytest.mark.parametrize("opal", [False, True], ids=["pi", "opal"])
def test_no_hard_link_leads_to_what_is_listed_by_folder_pattern_or_name(
    tmp_path: Path, opal: bool, walked_first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "WALKED_FIRST", walked_first)
    place = linked_place(tmp_path)
    tools = {tool.name: tool for tool in machine_tools(place.workspace)} if opal else None
    read, write = ("read_file", "write_file") if opal else ("read", "write")
    edit = {"start": "1:00", "new_string": "no"} if opal else {"edits": [{"oldText": "sk", "newText": "no"}]}
    for number, name in enumerate(PROTECTED):
        link = f"link{number}"
        assert REFUSED in place.call(read, tools, path=link), name
        assert REFUSED in place.call(write, tools, path=link, content=""), name
        assert REFUSED in place.call("edit_file" if opal else "edit", tools, path=link, **edit), name
        assert REFUSED in place.call("grep", tools, path=link, pattern="secret"), name
        assert (place.cwd / link).read_text() == SECRET
    assert "No matches found" in place.call("grep", tools, pattern="secret")


def test_searches_without_ripgrep_pass_over_hard_links_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    place = linked_place(tmp_path, has_ripgrep=False)
    (place.cwd / "fine").write_text("no secret")
    assert place.call("grep", pattern="secret") == "fine:1: no secret"


def test_a_listed_folder_that_is_a_link_is_protected_where_it_leads(tmp_path: Path) -> None:
    place = linked_place(tmp_path)
    for path in ("~/vault/v", str(tmp_path / "elsewhere" / "v")):
        assert REFUSED in place.call("read", path=path)
    assert REFUSED in place.call("write", path=str(tmp_path / "elsewhere" / "new"), content="")


def test_files_with_several_names_are_read_if_none_of_the_names_is_protected(tmp_path: Path) -> None:
    place = Place(tmp_path, *LISTED)
    for one, two in (("a", "sub/b"), ("sub/c", "~/cache/d")):
        path = place.cwd / one
        path.parent.mkdir(exist_ok=True)
        path.write_text("harmless")
        other = place.home / two[2:] if two.startswith("~/") else place.cwd / two
        other.parent.mkdir(exist_ok=True)
        other.hardlink_to(path)
        assert place.call("read", path=one) == "harmless"
        assert place.call("write", path=one, content="harmless").startswith("Successfully")


def test_a_file_whose_other_names_are_not_found_is_left_alone_only_if_names_are_listed(tmp_path: Path) -> None:
    (tmp_path / "unknown").mkdir()
    doubt = "has hard links that were not found"
    for name, listed, expected in (("names", ".env", doubt), ("folders", "~/.ssh", "text")):
        place = Place(tmp_path / name, listed)
        (place.cwd / "file").write_text("text")
        (tmp_path / "unknown" / name).hardlink_to(place.cwd / "file")
        assert expected in place.call("read", path="file")
    place = Place(tmp_path / "lifted", ".env", "!vendor")
    (place.cwd / "vendor").mkdir()
    (place.cwd / "vendor" / "file").write_text("text")
    (tmp_path / "unknown" / "lifted").hardlink_to(place.cwd / "vendor" / "file")
    assert place.call("read", path="vendor/file") == "text"


def test_a_link_that_is_made_after_a_search_is_seen(tmp_path: Path) -> None:
    place = Place(tmp_path, ".env")
    for name in ("a", "b"):
        (place.cwd / name).write_text(SECRET)
    (place.cwd / "c").hardlink_to(place.cwd / "a")
    assert place.call("read", path="c") == SECRET
    (place.cwd / "b").rename(place.cwd / ".env")
    (place.cwd / "d").hardlink_to(place.cwd / ".env")
    assert REFUSED in place.call("read", path="d")


def test_more_files_than_are_looked_at_means_doubt(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"f{number}").write_text("")
    (tmp_path / "link").hardlink_to(tmp_path / "f1")
    assert HardLinks([tmp_path], most=31).complete
    assert not HardLinks([tmp_path], most=30).complete


def test_a_sandbox_hides_the_other_names_of_protected_files(tmp_path: Path) -> None:
    place = linked_place(tmp_path)
    (place.cwd / "key").hardlink_to(place.auth)
    assert isinstance(place.workspace.guard, Protected)
    masks = place.workspace.guard.masks()
    assert {place.cwd / "key", *(place.cwd / f"link{number}" for number in range(len(PROTECTED)))} <= set(masks.files)


def test_calls_at_the_same_time_look_for_other_names_one_after_the_other(tmp_path: Path) -> None:
    place = Place(tmp_path, "secret.txt")
    (place.home / "secret.txt").write_text(SECRET)
    guard = place.workspace.guard
    assert guard is not None
    files = [place.cwd / f"file{number}" for number in range(4)]
    for file in files:
        file.write_text("text")
        (place.home / file.name).hardlink_to(file)
    problems: list[Exception] = []

    def check(file: Path) -> None:
        try:
            for _ in range(100):
                guard.check_reading(file, file.stat())
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=check, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_no_search_for_other_names_holds_up_the_event_loop(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.cwd / "file").write_text("needle")
    asked_in: list[threading.Thread] = []

    class Recording:
        def check_reading(self, path: Path, found: os.stat_result) -> None:
            asked_in.append(threading.current_thread())

        def check_writing(self, path: Path, found: os.stat_result | None) -> None:
            asked_in.append(threading.current_thread())

    place.workspace.guard = Recording()
    assert "needle" in place.call("grep", pattern="needle", path=".")
    assert "needle" in place.call("read", path="file")
    place.call("write", path="new/file", content="text")
    assert asked_in and threading.main_thread() not in asked_in


def test_a_sandbox_looks_for_what_to_hide_when_it_is_entered_and_not_when_the_command_starts(tmp_path: Path) -> None:
    place, searches = Place(tmp_path), 0

    def masks() -> Masks:
        nonlocal searches
        searches += 1
        return Masks([], [])

    sandbox = Bubblewrap("/bin/true", place.cwd, scratch=lambda: tmp_path, masks=masks, own=[], read_only=[])
    confined = sandbox.enter(place.cwd)
    assert searches == 1
    confined.wrapped(["true"], 3)
    confined.check("", ended=True)
    assert searches == 1


def test_in_a_sandbox_the_peers_folder_of_a_project_is_not_written(tmp_path: Path) -> None:
    home = Home(tmp_path / "home" / ".omp" / "agent", peer=PeerHome(folder=".omp", layout="omp"))
    work = tmp_path / "work"
    work.mkdir()
    guard = Protected(key_files(home, {}), [], cwd=lambda: work, home=tmp_path, read_only=read_only_in_sandbox(home))
    guard.check_writing(work / ".pi" / "x", None)
    for name in (".omp", ".fairlead", ".OMP"):
        with pytest.raises(ToolError, match="takes effect outside"):
            guard.check_writing(work / name / "extensions" / "x.py", None)
    for name in ("auth.json", "trust.json", "models.yml", "agent.db"):
        with pytest.raises(ToolError, match="protected"):
            guard.check_writing(home.root / name, None)
