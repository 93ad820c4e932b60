"""Protected files that have other names: no hard link leads to them, in the tools and in the sandbox."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.policy.protected_place import REFUSED, SECRET, Place

from fairlead.agent.tool_sets.opal import machine_tools
from fairlead.policy.hard_links import HardLinks
from fairlead.policy.protected import Protected
from fairlead.tools.search import contents

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


@pytest.mark.parametrize("walked_first", [contents.WALKED_FIRST, 0], ids=["", "ripgrep walks"])
@pytest.mark.parametrize("opal", [False, True], ids=["pi", "opal"])
def test_no_hard_link_leads_to_what_is_listed_by_folder_pattern_or_name(
    tmp_path: Path, opal: bool, walked_first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "WALKED_FIRST", walked_first)
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

        def readable(self, files: Sequence[tuple[str, os.stat_result]]) -> list[bool]:
            asked_in.append(threading.current_thread())
            return [True for _ in files]

        def check_writing(self, path: Path, found: os.stat_result | None) -> None:
            asked_in.append(threading.current_thread())

    place.workspace.guard = Recording()
    assert "needle" in place.call("grep", pattern="needle", path=".")
    assert "needle" in place.call("read", path="file")
    place.call("write", path="new/file", content="text")
    assert asked_in and threading.main_thread() not in asked_in
