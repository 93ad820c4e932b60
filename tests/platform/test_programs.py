"""Programs are found outside the working directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.platform.programs import find_program, search_path


def _program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_in_the_working_directory_does_not_count(tmp_path: Path) -> None:
    _program(tmp_path / "project/bin/git")
    real = _program(tmp_path / "usr/git")
    path = f"{tmp_path}/project/bin:{tmp_path}/usr"
    assert find_program("git", path, outside=[tmp_path / "project"]) == str(real)
    assert find_program("git", f"{tmp_path}/project/bin", outside=[tmp_path / "project"]) is None


@pytest.mark.parametrize("folder", ["", ".", "bin", "../project/bin"])
def test_folders_that_are_not_absolute_do_not_count(tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "project/bin/git")
    _program(tmp_path / "project/git")
    monkeypatch.chdir(tmp_path / "project")
    assert find_program("git", folder, outside=[]) is None


def test_links_that_lead_into_the_working_directory_do_not_count(tmp_path: Path) -> None:
    planted = _program(tmp_path / "project/git")
    folder = tmp_path / "usr"
    folder.mkdir()
    (folder / "git").symlink_to(planted)
    assert find_program("git", str(folder), outside=[tmp_path / "project"]) is None


def test_links_that_lead_through_the_working_directory_do_not_count(tmp_path: Path) -> None:
    real = _program(tmp_path / "lib/git")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/git").symlink_to(real)
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/git").symlink_to("../project/git")
    assert find_program("git", str(tmp_path / "usr"), outside=[tmp_path / "project"]) is None


def test_a_linked_folder_in_the_working_directory_does_not_count(tmp_path: Path) -> None:
    _program(tmp_path / "lib/git")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/bin").symlink_to(tmp_path / "lib")
    assert find_program("git", str(tmp_path / "project/bin"), outside=[tmp_path / "project"]) is None


def test_links_outside_are_followed_and_the_name_stays(tmp_path: Path) -> None:
    real = _program(tmp_path / "lib/git-2")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/git").symlink_to(real)
    assert find_program("git", str(tmp_path / "usr"), outside=[tmp_path / "project"]) == str(tmp_path / "usr/git")


def test_names_with_folders_and_endless_links_find_nothing(tmp_path: Path) -> None:
    (tmp_path / "git").symlink_to("git")
    _program(tmp_path / "bin/rg")
    assert find_program("git", str(tmp_path), outside=[]) is None
    assert find_program("bin/rg", str(tmp_path), outside=[]) is None
    assert find_program("", os.defpath, outside=[]) is None


def test_the_root_directory_does_not_restrict_the_search(tmp_path: Path) -> None:
    real = _program(tmp_path / "bin/git")
    assert find_program("git", str(tmp_path / "bin"), outside=[Path("/")]) == str(real)


def test_the_path_of_a_program_has_only_folders_outside(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "project/bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to("project/bin")
    path = f"{tmp_path}/project/bin:bin:.::{tmp_path}/link:{tmp_path}/usr"
    assert search_path(path, outside=[tmp_path / "project"]) == f"{tmp_path}/usr"
    assert search_path("bin", outside=[]) == os.defpath
