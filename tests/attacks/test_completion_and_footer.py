"""What a chat shows of a folder before anyone trusts it: the files after `@`, and the branch. Neither starts a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attacks.traps import Trap, armed
from tests.support.fleet import git, make_repository

from fairlead.chat.status import git_branch
from fairlead.sessions.completion import FileIndex
from fairlead.tools.workspace import Workspace


def completed(folder: Path, typed: str = "") -> list[str]:
    return FileIndex(Workspace(folder, os.environ, lambda: folder, lambda _: None)).search(typed)


def test_a_partial_clone_fetches_nothing(tmp_path: Path) -> None:
    source, clone = tmp_path / "source", tmp_path / "clone"
    make_repository(source, {".gitignore": "x\n", "a.txt": "one\n"})
    git(source, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-local", "--filter=blob:none", "--no-checkout", f"file://{source}", str(clone))
    git(clone, "read-tree", "HEAD")
    git(clone, "update-index", "--skip-worktree", ".gitignore")
    trap = Trap(tmp_path / "trap")
    git(clone, "config", "remote.origin.uploadpack", str(trap.path))
    (clone / "a.txt").write_text("here\n")
    assert completed(clone) == ["a.txt"] and not trap.is_sprung


def test_a_repository_with_programs_in_its_configuration_runs_none(tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    repository = armed(tmp_path / "repo", trap)
    armed(repository / "nested", trap)
    trap.path.with_name("trap-sprung").unlink(missing_ok=True)  # git ran it while the repository was made
    assert "nested/" in completed(repository) and git_branch(repository) == "main" and not trap.is_sprung


@pytest.mark.parametrize("name", ["git", "rg"])
@pytest.mark.parametrize("path", ["{cwd}/bin", "bin", ".", ""])
def test_a_planted_program_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str) -> None:
    project = tmp_path / "project"
    make_repository(project)
    trap = Trap(project / ("bin" if path.endswith("bin") else ""), name)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f"{path.format(cwd=project)}:{os.environ['PATH']}")
    assert "readme.txt" in completed(project) and not trap.is_sprung


def test_pipes_devices_and_links_are_neither_opened_nor_followed(tmp_path: Path) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    make_repository(outside, {"secret.txt": "x", "rules": "*.py\n"})
    project.mkdir()
    os.mkfifo(project / ".gitignore")
    os.mkfifo(project / "pipe.py")
    (project / "sub").mkdir()
    (project / "sub/.gitignore").symlink_to(outside / "rules")
    (project / "sub/a.py").write_text("")
    (project / "link").symlink_to(outside)
    (project / "loop").symlink_to(".")
    assert completed(project, "py") == ["pipe.py", "sub/a.py"]
    assert completed(project, "secret") == []


def test_links_to_themselves_hide_no_other_name(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).symlink_to(name)
        (tmp_path / f"{name}.txt").write_text("")
    assert completed(tmp_path, "./") == ["./a", "./a.txt", "./b", "./b.txt", "./c", "./c.txt"]


@pytest.mark.parametrize("rule", ["*a" * 100 + "b", "**/" * 60 + "b", "a*" * 120 + "[", "?" * 200 + "*" * 200 + "x", "[a-" * 300])
def test_rules_that_are_made_to_take_long_do_not(tmp_path: Path, rule: str) -> None:
    (tmp_path / ".gitignore").write_text(f"{rule}\n" * 50)
    deep = tmp_path.joinpath(*["a" * 60] * 20)
    deep.mkdir(parents=True)
    (deep / ("a" * 200)).write_text("")
    assert completed(tmp_path, "a" * 200)


def test_huge_rules_and_folders_are_cut_off(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"?x*y\n" * 3_000_000)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.gitignore").write_bytes(b"[ab]*c?\n" * 1_000_000)
    (tmp_path / "a/kept.txt").write_text("")
    workspace = Workspace(tmp_path, {}, lambda: tmp_path, lambda _: None)
    assert "a/kept.txt" in workspace.list_files(100, 60)
    assert len(workspace.list_files(1, 60)) == 1 and workspace.list_files(100, -1) == []


@pytest.mark.parametrize("name", [".git/HEAD", ".git", ".git/info/exclude"])
def test_a_pipe_in_place_of_a_file_of_git_does_not_block(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    if name == ".git/info/exclude":
        (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    os.mkfifo(tmp_path / name)
    (tmp_path / "a.txt").write_text("")
    assert completed(tmp_path) == ["a.txt"]
    assert git_branch(tmp_path) == ("main" if name == ".git/info/exclude" else None)


@pytest.mark.parametrize("head", [b"ref: refs/heads/a\0b\n", b"\0", b"", b"ref: refs/heads/\x1b]0;x\x07\n", b"\xff\xfe", b"a\nb"])
def test_a_damaged_git_head_shows_no_harmful_branch(tmp_path: Path, head: bytes) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_bytes(head)
    branch = git_branch(tmp_path)
    assert branch is None or branch.isprintable()


@pytest.mark.parametrize("target", ["a\0b", "x" * 5000, "/dev/zero", "/proc/self", "", "."])
def test_a_git_file_may_name_anything(tmp_path: Path, target: str) -> None:
    (tmp_path / ".git").write_text(f"gitdir: {target}\n")
    assert git_branch(tmp_path) is None


@pytest.mark.parametrize("name", [".git/HEAD", ".git"])
def test_a_huge_file_is_not_read_whole(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    with (tmp_path / name).open("wb") as file:
        file.write(b"ref: refs/heads/big\n" if name == ".git/HEAD" else b"gitdir: x")
        file.truncate(1 << 40)  # a file with a hole
    # A limit of memory that reading the file would exceed.
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31)); from pathlib import Path; \
from fairlead.chat.status import git_branch; print(git_branch(Path({str(tmp_path)!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty", "/dev/full"])
def test_a_head_that_leads_to_a_device_is_not_opened(tmp_path: Path, device: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").symlink_to(device)
    assert git_branch(tmp_path) is None
