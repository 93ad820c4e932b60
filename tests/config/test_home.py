from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.config.home import Home


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
        ("user", tmp_path / ".fairlead" / "settings.json"),
        ("project", tmp_path / "work" / ".fairlead" / "settings.json"),
    )


def test_an_isolated_home_names_no_file_to_read(tmp_path: Path) -> None:
    home = Home.find({"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "pi")}, isolated=True)
    assert home.models_files() == home.auth_files() == home.settings_files(tmp_path) == ()


def test_looking_creates_nothing(tmp_path: Path) -> None:
    home = Home.find({"HOME": str(tmp_path)})
    assert home.sessions_dir and home.settings_files(tmp_path) and home.project_folders(tmp_path / "work")
    assert list(tmp_path.iterdir()) == []
