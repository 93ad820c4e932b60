from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.config.home import Home, Scratch, project_folder


def test_the_home_is_where_the_variable_says(tmp_path: Path) -> None:
    home = Home.find({"FAIRLEAD_HOME": str(tmp_path / "own"), "PI_CODING_AGENT_DIR": str(tmp_path / "pi")})
    assert home.root == tmp_path / "own"
    assert home.models_files() == (tmp_path / "own" / "models.json",)
    assert home.auth_files() == (tmp_path / "own" / "auth.json",)


def test_without_the_variable_the_home_is_in_the_users_directory(tmp_path: Path) -> None:
    home = Home.find({"HOME": str(tmp_path), "FAIRLEAD_HOME": ""})
    assert home.root == tmp_path / ".fairlead"
    assert home.settings_path == tmp_path / ".fairlead" / "settings.json"
    assert home.models_files() == (home.models_path,)


def test_a_tilde_means_the_users_directory(tmp_path: Path) -> None:
    assert Home.find({"HOME": str(tmp_path), "FAIRLEAD_HOME": "~/agent"}).root == tmp_path / "agent"


def test_a_relative_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    home = Home.find({"FAIRLEAD_HOME": "here"})
    monkeypatch.chdir("/")
    assert home.root == tmp_path / "here"


def test_pis_models_and_keys_are_read_after_our_own(tmp_path: Path) -> None:
    home = Home.find({"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "pi")})
    assert home.models_files() == (tmp_path / ".fairlead" / "models.json", tmp_path / "pi" / "models.json")
    assert home.auth_files() == (tmp_path / ".fairlead" / "auth.json", tmp_path / "pi" / "auth.json")
    assert home.settings_files(tmp_path / "work") == (
        tmp_path / ".fairlead" / "settings.json",
        tmp_path / "work" / ".fairlead" / "settings.json",
    )


def test_an_isolated_home_names_no_file_to_read(tmp_path: Path) -> None:
    home = Home.find({"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "pi")}, isolated=True)
    assert home.models_files() == home.auth_files() == home.settings_files(tmp_path) == ()


def test_looking_creates_nothing(tmp_path: Path) -> None:
    home = Home.find({"HOME": str(tmp_path)})
    assert home.sessions_dir and home.settings_files(tmp_path) and project_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_scratch_folder_is_private_and_made_once() -> None:
    scratch = Scratch()
    folder = scratch.path()
    try:
        assert scratch.path() == folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        scratch.remove()
    assert not folder.exists()


def test_a_named_file_outlives_the_scratch_folder_and_the_others_do_not() -> None:
    scratch = Scratch()
    folder = scratch.path()
    kept, dropped, deeper = folder / "kept.log", folder / "dropped.log", folder / "more" / "x.log"
    deeper.parent.mkdir()
    for file in (kept, dropped, deeper):
        file.write_text("output")
    scratch.keep(kept)
    scratch.remove()
    assert [path.name for path in folder.iterdir()] == ["kept.log"]
    kept.unlink()
    folder.rmdir()


def test_removing_a_scratch_folder_that_was_never_used_does_nothing() -> None:
    Scratch().remove()


def test_the_scratch_folder_goes_when_the_process_ends(tmp_path: Path) -> None:
    script = "from fairlead.config.home import Scratch; s = Scratch(); (s.path() / 'log').write_text('x'); print(s.path())"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    folder = Path(result.stdout.strip())
    assert folder.parent == tmp_path
    assert not folder.exists()
