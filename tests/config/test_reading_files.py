"""Reading files that strangers may have written: what is refused, and how long it may take."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fairlead.config.home import project_boundary
from fairlead.config.json_files import parse_object
from fairlead.config.project_files import Budget, list_folder, read_bytes
from fairlead.errors import ConfigError


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, a_socket, a_link_to_a_device])
def test_non_regular_files_are_refused_without_opening_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    make(Path("it"))
    with pytest.raises(ConfigError, match="expected a regular file"):
        read_bytes(Path("it"))


@pytest.mark.parametrize(
    "name", ["/proc/self/environ", "/proc/self/cmdline", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/kmsg"]
)
def test_files_that_the_kernel_makes_up_are_refused(tmp_path: Path, name: str) -> None:
    if not Path(name).exists():
        pytest.skip("not on this system")
    (tmp_path / "link").symlink_to(name)
    for path in (Path(name), tmp_path / "link"):
        with pytest.raises(ConfigError, match=r"not a file on a disk|cannot be read"):
            read_bytes(path)


def test_a_file_outside_is_refused_and_one_inside_is_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "in-side"
    inside.mkdir()
    outside.mkdir()
    (inside / "a").write_text("a")
    (outside / "b").write_text("b")
    (inside / "c").symlink_to("a")
    (inside / "d").symlink_to("../in-side/b")
    assert read_bytes(inside / "a", within=inside) == read_bytes(inside / "c", within=inside) == b"a"
    with pytest.raises(ConfigError, match="outside the project"):
        read_bytes(inside / "d", within=inside)
    problems: list[str] = []
    (inside / "folder").symlink_to(outside)
    assert list_folder(inside / "folder", problems, within=inside) == []
    assert len(problems) == 1 and "outside the project" in problems[0]


def test_a_directory_with_too_many_entries_is_listed_in_part(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.md").touch()
    problems: list[str] = []
    assert len(list_folder(tmp_path, problems, budget=Budget(entries=7))) == 7
    assert problems == [f"{tmp_path}: too many entries to look at all of them. Some are left out."]


def test_files_count_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 60)
    budget = Budget(files=3, size=100)
    assert budget.read(tmp_path / "a") == b"x" * 60
    with pytest.raises(ConfigError, match="too large together"):
        budget.read(tmp_path / "a")
    with pytest.raises(ConfigError, match="too large together"):
        budget.read(tmp_path / "a")
    with pytest.raises(ConfigError, match="too many files"):
        budget.read(tmp_path / "a")


def test_a_large_file_of_a_project_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (1 << 20))
    assert Budget().read(tmp_path / "a") == b"x" * (1 << 20)
    (tmp_path / "a").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="longer than 1 MiB"):
        Budget().read(tmp_path / "a")


# What belongs to a project


def test_a_project_is_its_repository_or_else_its_folder(tmp_path: Path) -> None:
    user = tmp_path / "user"
    home = user / ".fairlead"
    repo, module = user / "src" / "repo", user / "src" / "repo" / "module"
    (repo / ".git").mkdir(parents=True)
    (module / "deep").mkdir(parents=True)
    (user / "loose" / "deep").mkdir(parents=True)
    assert project_boundary(module / "deep", user, home) == repo
    (module / ".git").write_text("gitdir: ../.git/modules/module")  # a submodule, or a worktree
    assert project_boundary(module / "deep", user, home) == module
    assert project_boundary(user / "loose" / "deep", user, home) == user / "loose" / "deep"
    (user / ".git").mkdir()
    assert project_boundary(user / "loose" / "deep", user, home) == user / "loose" / "deep"
    assert project_boundary(user, user, home) is None
    (tmp_path / "link").symlink_to(repo)
    assert project_boundary(tmp_path / "link", user, home) == repo


# Comments in JSON


def lines_run(work: Callable[[], Any]) -> int:
    """How many lines of Python a piece of work runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    except ConfigError:
        pass
    finally:
        sys.settrace(None)
    return count


HOSTILE = ["/*a", "/*/", "//", "/ ", ", ", ",\n", '"', '"\\', '"\n', "[", "{", "*/", " ", ",]", "\\"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_work_of_parsing_grows_with_the_file(piece: str) -> None:
    def work(times: int) -> Callable[[], Any]:
        return lambda: parse_object(Path("x"), b"{ //\n" + piece.encode() * times)

    lines_run(work(10))
    assert lines_run(work(4000)) < 5 * lines_run(work(1000)) + 1000


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_made_to_take_long_is_parsed_or_refused(piece: str) -> None:
    """With a quadratic parser this takes half an hour; no bound on the time is needed to notice."""
    data = (piece * (1 << 20))[: 1 << 20].encode()
    try:
        parse_object(Path("x"), b"{ //\n" + data)
    except ConfigError as error:
        assert "JSON" in str(error) or "nested too deeply" in str(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // x\n "b": [1, 2, /* , */ ], }', {"a": 1, "b": [1, 2]}),
        ('{"a//b": "/* no */", "c": ",}",}', {"a//b": "/* no */", "c": ",}"}),
        ('{"a": "x\\"//,}" /*\n\n*/ ,\n}', {"a": 'x"//,}'}),
        ('/* a */ {"u": "http://x", /* ] */ "a": 1 /* } */ , /**/ } // end', {"u": "http://x", "a": 1}),
    ],
)
def test_comments_and_trailing_commas_are_left_out(text: str, value: Any) -> None:
    assert parse_object(Path("x"), text.encode()) == value


@pytest.mark.parametrize(("text", "line"), [('{\n"a": 1, /* no end', 2), ("{\n\n,,}", 3), ('{"a": 1 /* \n\n */ "b"}', 3)])
def test_a_mistake_is_named_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=f"x: line {line}, column "):
        parse_object(Path("x"), text.encode())
