from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings, persist_setting
from fairlead.errors import ConfigError


def written(folder: Path, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    return tmp_path / "work"


def test_without_files_everything_has_its_default(home: Home, cwd: Path) -> None:
    settings, warnings = load_settings(home, cwd)
    assert warnings == []
    assert settings == Settings()
    assert (settings.steering_mode, settings.follow_up_mode) == ("one-at-a-time", "one-at-a-time")
    assert (settings.retry.max_retries, settings.retry.base_delay_ms) == (3, 2000)
    assert (settings.tools.timeout_seconds, settings.tools.concurrent) == (120, 8)
    assert settings.output.queue_bytes == 8 * 1024 * 1024
    assert settings.http_idle_timeout_ms == 300_000
    assert not home.root.exists()


def test_a_trusted_project_overrides_the_user_key_by_key(home: Home, cwd: Path) -> None:
    written(
        home.root, {"defaultModel": "a", "retry": {"maxRetries": 7, "baseDelayMs": 5}, "thinkingBudgets": {"low": 1, "high": 2}}
    )
    written(cwd / ".fairlead", {"defaultModel": "b", "retry": {"baseDelayMs": 9}, "thinkingBudgets": {"low": 3}})
    settings, warnings = load_settings(home, cwd, approve=True)
    assert warnings == []
    assert settings.default_model == "b"
    assert (settings.retry.max_retries, settings.retry.base_delay_ms, settings.retry.enabled) == (7, 9, True)
    assert settings.thinking_budgets == {"low": 3, "high": 2}


def test_a_bad_value_is_named_and_loses_nothing_else(home: Home, cwd: Path) -> None:
    path = written(
        home.root,
        {
            "steeringMode": "sometimes",
            "followUpMode": "all",
            "retry": {"maxRetries": "many", "baseDelayMs": 1},
            "compaction": 3,
            "enabledModels": "all of them",
            "tools": {"timeoutSeconds": 0, "concurrent": 2.5},
            "thinkingBudgets": {"huge": 1},
            "images": {"autoResize": "yes"},
            "task": {"agentModelOverrides": {"explore": 1}, "disabledAgents": ["explore"]},
        },
    )
    settings, warnings = load_settings(home, cwd)
    assert settings.task.disabled_agents == ["explore"]
    assert settings.follow_up_mode == "all"
    assert settings.retry.base_delay_ms == 1
    assert settings.steering_mode == "one-at-a-time"
    assert settings.retry.max_retries == 3
    assert warnings == [
        f'{path}: steeringMode: expected one of "all", "one-at-a-time", found "sometimes". The default is used.',
        f'{path}: retry.maxRetries: expected a whole number of at least 0, found "many". The default is used.',
        f"{path}: compaction: expected an object, found 3. The default is used.",
        f'{path}: enabledModels: expected a list of strings, found "all of them". The default is used.',
        f"{path}: tools.timeoutSeconds: expected a number above 0, found 0. The default is used.",
        f"{path}: tools.concurrent: expected a whole number of at least 1, found 2.5. The default is used.",
        f"{path}: thinkingBudgets: expected an object of thinking levels and numbers, found an object. The default is used.",
        f'{path}: images.autoResize: expected true or false, found "yes". The default is used.',
        f"{path}: task.agentModelOverrides: expected an object of strings, found an object. The default is used.",
    ]


def test_null_means_absent_and_unknown_keys_are_ignored(home: Home, cwd: Path) -> None:
    written(home.root, {"defaultModel": None, "theme": {"dark": 1}, "retry": {"provider": {"maxRetries": 0}, "enabled": None}})
    assert load_settings(home, cwd) == (Settings(), [])


def test_a_malformed_file_is_named_with_its_line_and_the_other_file_counts(home: Home, cwd: Path) -> None:
    path = written(home.root, '{\n  "defaultModel": "a",\n  "oops\n}')
    written(cwd / ".fairlead", {"defaultModel": "b"})
    settings, warnings = load_settings(home, cwd, approve=True)
    assert settings.default_model == "b"
    assert len(warnings) == 1
    assert warnings[0].startswith(f"{path}: line 3, column ")
    assert "not valid JSON" in warnings[0]


@pytest.mark.parametrize("content", ["[1]", '"text"', "null", "7"])
def test_a_settings_file_that_is_not_an_object_is_reported(home: Home, cwd: Path, content: str) -> None:
    path = written(home.root, content)
    settings, warnings = load_settings(home, cwd)
    assert settings == Settings()
    assert warnings[0].startswith(f"{path}: expected a JSON object, found ")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def make_link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (Path.mkdir, "a folder"),
        (os.mkfifo, "a named pipe"),
        (make_socket, "a socket"),
        (make_link_to_device, "a device"),
    ],
)
def test_settings_that_are_not_regular_files_are_named_and_not_opened(
    home: Home, cwd: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], found: str
) -> None:
    home.root.mkdir()
    monkeypatch.chdir(home.root)  # the paths of sockets must be short
    make(Path("settings.json"))
    _, (warning,) = load_settings(home, cwd)
    assert warning.startswith(f"{home.settings_path}: cannot be read: expected a regular file, found {found}. ")
    with pytest.raises(ConfigError, match=f"expected a regular file, found {found}"):
        persist_setting(home, "defaultModel", "b")


def test_an_unreadable_file_is_reported(home: Home, cwd: Path) -> None:
    home.root.mkdir()
    home.settings_path.symlink_to(home.settings_path)
    _, (warning,) = load_settings(home, cwd)
    assert warning.startswith(f"{home.settings_path}: cannot be read: Too many levels of symbolic links. ")


def test_a_file_of_16_mib_is_read_and_a_longer_one_is_reported(home: Home, cwd: Path) -> None:
    path = written(home.root, '{"defaultModel": "a"}'.ljust(16 << 20))
    assert load_settings(home, cwd)[0].default_model == "a"
    with path.open("a") as file:
        file.write(" ")
    _, (warning,) = load_settings(home, cwd)
    assert warning.startswith(f"{path}: cannot be read: it is longer than 16 MiB. ")


def test_an_empty_file_says_nothing(home: Home, cwd: Path) -> None:
    written(home.root, " \n")
    assert load_settings(home, cwd) == (Settings(), [])


def test_comments_trailing_commas_and_a_byte_order_mark_are_tolerated(home: Home, cwd: Path) -> None:
    written(home.root, '\ufeff{ // mine\n "shellPath": "/bin//sh", /* not, "this" */\n "enabledModels": ["a//b", "c,]",],\n}')
    settings, warnings = load_settings(home, cwd)
    assert warnings == []
    assert settings.shell_path == "/bin//sh"
    assert settings.enabled_models == ["a//b", "c,]"]


def test_deep_nesting_is_a_warning(home: Home, cwd: Path) -> None:
    written(home.root, "[" * 100_000)
    settings, warnings = load_settings(home, cwd)
    assert settings == Settings()
    assert len(warnings) == 1


def test_an_isolated_run_reads_no_settings(tmp_path: Path, cwd: Path) -> None:
    written(tmp_path / "home", {"defaultModel": "a"})
    written(cwd / ".fairlead", {"defaultModel": "b"})
    assert load_settings(Home(tmp_path / "home", isolated=True), cwd) == (Settings(), [])


def test_persisting_a_setting_keeps_the_rest_of_the_file(home: Home, cwd: Path) -> None:
    path = written(home.root, {"theme": "dark", "defaultModel": "a"})
    persist_setting(home, "defaultModel", "b")
    assert json.loads(path.read_text()) == {"theme": "dark", "defaultModel": "b"}
    persist_setting(home, "defaultModel", None)
    assert json.loads(path.read_text()) == {"theme": "dark"}


def test_persisting_makes_the_home(home: Home, cwd: Path) -> None:
    persist_setting(home, "followUpMode", "all")
    assert load_settings(home, cwd)[0].follow_up_mode == "all"
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700


def test_persisting_a_value_that_the_setting_cannot_have_is_refused(home: Home) -> None:
    with pytest.raises(ConfigError, match='followUpMode: expected one of "all", "one-at-a-time", found "never"'):
        persist_setting(home, "followUpMode", "never")
    assert not home.root.exists()


def test_a_file_with_comments_is_not_overwritten(home: Home) -> None:
    path = written(home.root, '{"a": 1} // precious')
    with pytest.raises(ConfigError, match="edit it by hand"):
        persist_setting(home, "defaultModel", "b")
    assert path.read_text() == '{"a": 1} // precious'


def test_nothing_is_persisted_by_an_isolated_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="isolated"):
        persist_setting(Home(tmp_path / "home", isolated=True), "defaultModel", "b")
    assert not (tmp_path / "home").exists()


def test_persisting_a_setting_of_a_group_keeps_the_rest_of_the_group(home: Home, cwd: Path) -> None:
    path = written(home.root, {"retry": {"maxRetries": 5, "provider": {"x": 1}}})
    persist_setting(home, "retry.enabled", False)
    assert json.loads(path.read_text()) == {"retry": {"maxRetries": 5, "provider": {"x": 1}, "enabled": False}}
    with pytest.raises(ConfigError, match=r"retry\.enabled: expected true or false"):
        persist_setting(home, "retry.enabled", "no")


def test_even_a_trusted_project_cannot_choose_the_programs_that_run(home: Home, cwd: Path) -> None:
    written(home.root, {"shellCommandPrefix": "mine"})
    written(cwd / ".fairlead", {"shellPath": "./evil", "shellCommandPrefix": "evil", "defaultModel": "a"})
    settings, warnings = load_settings(home, cwd, approve=True)
    assert (settings.shell_path, settings.shell_command_prefix, settings.default_model) == (None, "mine", "a")
    assert [key in warning for key, warning in zip(("shellPath", "shellCommandPrefix"), warnings, strict=True)] == [True, True]


def test_paths_begin_at_the_folder_of_their_file_and_a_project_adds_to_the_users(tmp_path: Path) -> None:
    home, cwd = Home(tmp_path / "home"), tmp_path / "project"
    (cwd / ".fairlead").mkdir(parents=True)
    home.root.mkdir()
    home.settings_path.write_text('{"skills": ["mine", "~/more", "/all"]}')
    (cwd / ".fairlead" / "settings.json").write_text('{"skills": ["../ours"], "prompts": ["p"]}')
    settings, warnings = load_settings(home, cwd, approve=True)
    assert settings.skills == [f"{home.root}/mine", "~/more", "/all", f"{cwd}/.fairlead/../ours"]
    assert (settings.prompts, warnings) == ([f"{cwd}/.fairlead/p"], [])


def test_a_package_in_the_directory_of_an_unknown_user_is_one_that_is_missing(home: Home, cwd: Path) -> None:
    written(home.root, {"packages": ["~nosuchuser/package"], "steeringMode": "all"})
    settings, warnings = load_settings(home, cwd)
    assert settings.steering_mode == "all"
    assert ["The package ~nosuchuser/package does not exist." in warning for warning in warnings] == [True]
