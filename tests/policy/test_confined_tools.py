"""What a sandbox hides, and what the file tools of a confined agent do not write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.policy.protected_place import SECRET, Place

from fairlead.agent.tool_sets.opal import machine_tools
from fairlead.config.home import Home, PeerHome
from fairlead.errors import ToolError
from fairlead.policy.protected import Masks, Protected, key_files, read_only_in_sandbox
from fairlead.policy.sandbox import Bubblewrap, GuardedPlaces


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


def test_a_sandbox_looks_for_what_to_hide_when_it_is_entered_and_not_when_the_command_starts(tmp_path: Path) -> None:
    place, searches = Place(tmp_path), 0

    def masks() -> Masks:
        nonlocal searches
        searches += 1
        return Masks([], [])

    sandbox = Bubblewrap("/bin/true", place.cwd, scratch=lambda: tmp_path, masks=masks, places=GuardedPlaces())
    confined = sandbox.enter(place.cwd)
    assert searches == 1
    confined.wrap(["true"], 3, 4)
    confined.check("", ended=True)
    assert searches == 1


@pytest.mark.parametrize("kind", ["pipe", "endless", "null"])
def test_a_fake_git_entry_in_a_job_folder_neither_blocks_nor_fills_memory(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path)
    sandbox = Bubblewrap(
        "/bin/true",
        place.cwd,
        scratch=lambda: tmp_path,
        masks=lambda: Masks([], []),
        places=GuardedPlaces(read_only=[".git"], jobs=tmp_path),
    )
    mirror = tmp_path / "mirrors" / "one.git"
    link = place.cwd / ".git"
    link.write_text(f"gitdir: {mirror}/worktrees/job\n")
    mirror.mkdir(parents=True)
    assert str(mirror) in sandbox.wrap(["true"], place.cwd, 3)
    link.unlink()
    if kind == "pipe":
        os.mkfifo(link)
    elif kind == "null":
        link.write_bytes(b"gitdir: \0\n")
    else:
        with link.open("wb") as file:
            file.truncate(1 << 40)
    assert str(mirror) not in sandbox.wrap(["true"], place.cwd, 3)


def test_in_a_sandbox_the_peers_folder_of_a_project_is_not_written(tmp_path: Path) -> None:
    home = Home(tmp_path / "home" / ".omp" / "agent", peer=PeerHome(folder=".omp", layout="omp"))
    work = tmp_path / "work"
    work.mkdir()
    guard = Protected(key_files(home, {}), [], cwd=lambda: work, home=tmp_path, read_only=read_only_in_sandbox(home))
    guard.check_writing(work / "pi" / "x", None)
    for name in (".omp", ".fairlead", ".OMP", ".pi", "sub/.xcsh", "sub/deep/.Fairlead"):
        with pytest.raises(ToolError, match="takes effect outside"):
            guard.check_writing(work / name / "extensions" / "x.py", None)
    for name in ("auth.json", "trust.json", "models.yml", "agent.db"):
        with pytest.raises(ToolError, match="protected"):
            guard.check_writing(home.root / name, None)
