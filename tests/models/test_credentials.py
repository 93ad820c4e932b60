from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fairlead.config.home import Home
from fairlead.errors import ConfigError, NoCredentials
from fairlead.models import config_value
from fairlead.models.credentials import CredentialStore, store_key

PATH = {"PATH": os.environ["PATH"]}


def auth(folder: Path, content: dict[str, Any], mode: int = 0o600) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "auth.json"
    path.write_text(json.dumps(content))
    path.chmod(mode)
    return path


def keys(home: Home, env: dict[str, str] | None = None, **options: Any) -> CredentialStore:
    return CredentialStore(home, env or {}, warnings=options.pop("warnings", []), **options)


def test_a_key_comes_from_the_flag_then_auth_json_then_the_environment_then_models_json(home: Home) -> None:
    env = {"ANTHROPIC_API_KEY": "from-env"}
    assert keys(home).key("anthropic", None) is None
    assert keys(home).key("anthropic", "from-models") == "from-models"
    assert keys(home, env).key("anthropic", "from-models") == "from-env"
    auth(home.root, {"anthropic": {"type": "api_key", "key": "from-auth"}})
    assert keys(home, env).key("anthropic", "from-models") == "from-auth"
    flagged = keys(home, env, api_key="from-flag", api_key_provider="anthropic")
    assert flagged.key("anthropic", "from-models") == "from-flag"
    assert flagged.key("openai", None) is None


def test_a_flag_without_a_provider_is_the_key_of_the_first_provider_chosen(home: Home) -> None:
    chosen = keys(home, api_key="secret")
    assert not chosen.has_key("openai", None)
    chosen.choose("openai")
    chosen.choose("groq")
    assert chosen.key("openai", None) == "secret"
    assert chosen.key("groq", None) is None


def test_the_first_variable_that_is_set_counts(home: Home) -> None:
    assert keys(home, {"GOOGLE_API_KEY": "second"}).key("google", None) == "second"
    assert keys(home, {"GEMINI_API_KEY": "first", "GOOGLE_API_KEY": "second"}).key("google", None) == "first"
    assert keys(home, {"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "second"}).key("google", None) == "second"


def test_pis_auth_json_is_asked_for_what_ours_lacks(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", pi_folder=tmp_path / "pi")
    auth(home.root, {"anthropic": {"type": "api_key", "key": "ours"}})
    auth(tmp_path / "pi", {"anthropic": {"type": "api_key", "key": "pis"}, "groq": {"type": "api_key", "key": "pis-groq"}})
    both = keys(home)
    assert both.key("anthropic", None) == "ours"
    assert both.key("groq", None) == "pis-groq"


def test_an_isolated_run_takes_keys_from_the_environment_and_the_flag_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", isolated=True)
    auth(home.root, {"anthropic": {"type": "api_key", "key": "from-auth"}})
    assert keys(home).key("anthropic", None) is None
    assert keys(home, {"ANTHROPIC_API_KEY": "from-env"}).key("anthropic", None) == "from-env"


def test_a_login_is_not_an_api_key(home: Home) -> None:
    auth(home.root, {"anthropic": {"type": "oauth", "access": "a", "refresh": "b", "expires": 1}, "x": 3})
    stored = keys(home)
    assert stored.key("anthropic", None) is None
    assert stored.has_login("anthropic")
    assert not stored.has_login("openai")


def test_a_value_may_name_a_variable_or_be_the_value_itself(home: Home) -> None:
    warnings: list[str] = []
    mine = keys(home, {"MY_KEY": "secret"}, warnings=warnings)
    assert mine.resolve("MY_KEY", "The key of mine") == "secret"
    assert mine.resolve("sk-literal", "The key of mine") == "sk-literal"
    assert warnings == []


def test_the_name_of_a_variable_that_is_not_set_is_sent_with_a_warning(home: Home) -> None:
    warnings: list[str] = []
    mine = keys(home, warnings=warnings)
    assert mine.resolve("MY_KEY", "The key of mine") == "MY_KEY"
    assert mine.resolve("MY_KEY", "The key of mine") == "MY_KEY"
    assert warnings == ["The key of mine is given as MY_KEY, but no such environment variable is set: MY_KEY itself is sent."]


def test_a_command_runs_once_when_its_output_is_needed(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "log"
    mine = keys(home, {**PATH, "LOG": str(log)})
    command = '!echo run >> "$LOG"; echo "  secret  "'
    assert mine.has_key("mine", command)
    assert not log.exists()
    assert mine.key("mine", command) == "secret"
    assert mine.key("mine", command) == "secret"
    assert log.read_text() == "run\n"


def test_threads_that_need_the_same_command_wait_for_one_run(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "log"
    mine = keys(home, {**PATH, "LOG": str(log)})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(mine.key, ["mine"] * 4, ['!echo run >> "$LOG"; sleep 0.2; echo secret'] * 4))
    assert found == ["secret"] * 4
    assert log.read_text() == "run\n"


def test_a_failing_command_is_tried_again(home: Home, tmp_path: Path) -> None:
    flag = tmp_path / "unlocked"
    mine = keys(home, {**PATH, "FLAG": str(flag)})
    command = '!test -e "$FLAG" && echo secret || { echo "vault is locked" >&2; exit 3; }'
    with pytest.raises(NoCredentials, match=r"exit code 3: .*\(vault is locked\)"):
        mine.key("mine", command)
    flag.touch()
    assert mine.key("mine", command) == "secret"


def test_a_command_that_prints_nothing_is_an_error(home: Home) -> None:
    with pytest.raises(NoCredentials, match="The key of mine comes from a command that printed nothing: true"):
        keys(home, PATH).key("mine", "!true")


def test_a_command_that_begins_like_an_option_is_still_a_command(home: Home) -> None:
    with pytest.raises(NoCredentials, match="exit code 127"):  # with `-s`, a shell would read commands from its input
        keys(home, PATH).key("mine", "!-s")


@pytest.mark.parametrize("command", ["echo \0", f"echo {'x' * 300_000}"], ids=["NUL", "too long"])
def test_a_command_that_cannot_be_started_is_reported(home: Home, command: str) -> None:
    with pytest.raises(NoCredentials, match="The key of mine comes from a command that could not be started: "):
        keys(home, PATH).key("mine", f"!{command}")


def test_a_command_does_not_read_what_the_host_sends(home: Home) -> None:
    script = (
        "import os, sys; from pathlib import Path; from fairlead.config.home import Home\n"
        "from fairlead.models.credentials import CredentialStore\n"
        "print(CredentialStore(Home(Path(sys.argv[1])), os.environ, warnings=[]).key('mine', '!cat; echo end'))\n"
        "print(sys.stdin.read())"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(home.root)], input="from the host", capture_output=True, text=True, timeout=30
    )
    assert result.stdout == "end\nfrom the host\n"


def test_a_command_that_hangs_is_ended_with_all_it_started(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_value, "COMMAND_SECONDS", 0.3)
    pid_file = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(NoCredentials, match=r"longer than 0\.3 seconds"):
        keys(home, {**PATH, "PID": str(pid_file)}).key("mine", '!sleep 60 & echo $! > "$PID"; wait')
    assert time.monotonic() - started < 20
    assert _has_ended(int(pid_file.read_text()))


@pytest.mark.parametrize("redirected", ["", ">/dev/null", "2>/dev/null"])
def test_a_command_that_leaves_something_in_the_background_is_not_waited_for(
    home: Home, monkeypatch: pytest.MonkeyPatch, redirected: str
) -> None:
    # The sleeper holds the pipes beyond the limit, past which there is no key.
    monkeypatch.setattr(config_value, "COMMAND_SECONDS", 5)
    pid = keys(home, PATH).key("mine", f"!sleep 600 {redirected} & echo $!")
    assert pid is not None
    os.kill(int(pid), signal.SIGKILL)


def test_a_long_output_is_whole_though_something_holds_the_pipe(home: Home) -> None:
    words = keys(home, PATH).key("mine", "!sleep 600 & echo $!; head -c 300000 /dev/zero | tr '\\0' x")
    assert words is not None
    pid, _, output = words.partition("\n")
    os.kill(int(pid), signal.SIGKILL)
    assert output == "x" * 300_000


def _has_ended(pid: int) -> bool:
    """Whether a killed process is gone, or only waits for whoever adopted it to notice."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return True
    return False


def test_an_auth_json_that_others_may_read_is_warned_of_once(home: Home) -> None:
    warnings: list[str] = []
    path = auth(home.root, {"anthropic": {"type": "api_key", "key": "k"}}, mode=0o644)
    mine = keys(home, warnings=warnings)
    assert mine.key("anthropic", None) == mine.key("anthropic", None) == "k"
    assert warnings == [f"{path}: other users may read your keys. Run: chmod 600 {path}"]


def test_a_malformed_auth_json_is_a_warning(home: Home) -> None:
    warnings: list[str] = []
    path = auth(home.root, {})
    path.write_text("{")
    assert keys(home, {"ANTHROPIC_API_KEY": "k"}, warnings=warnings).key("anthropic", None) == "k"
    assert len(warnings) == 1 and warnings[0].startswith(f"{path}: line 1")


def test_an_auth_json_that_is_not_a_regular_file_is_a_warning(home: Home) -> None:
    warnings: list[str] = []
    home.root.mkdir()
    os.mkfifo(home.auth_path)
    assert keys(home, {"ANTHROPIC_API_KEY": "k"}, warnings=warnings).key("anthropic", None) == "k"
    assert warnings == [f"{home.auth_path}: cannot be read: expected a regular file, found a named pipe."]


def test_a_stored_key_is_private_and_keeps_the_other_entries(home: Home) -> None:
    store_key(home, "openai", " one ")
    auth_before = json.loads(home.auth_path.read_text())
    store_key(home, "groq", "two")
    assert auth_before == {"openai": {"type": "api_key", "key": "one"}}
    assert json.loads(home.auth_path.read_text()) == {**auth_before, "groq": {"type": "api_key", "key": "two"}}
    assert stat.S_IMODE(home.auth_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert keys(home).key("groq", None) == "two"


def test_keys_stored_at_the_same_time_are_all_there(home: Home) -> None:
    script = (
        "import sys; from pathlib import Path; from fairlead.config.home import Home\n"
        "from fairlead.models.credentials import store_key\n"
        "for n in range(20): store_key(Home(Path(sys.argv[1])), f'{sys.argv[2]}{n}', 'k')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(home.root), name]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(json.loads(home.auth_path.read_text())) == 60


def test_a_key_that_cannot_be_stored_says_why(home: Home, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must not be empty"):
        store_key(home, "openai", " ")
    with pytest.raises(ConfigError, match="isolated"):
        store_key(Home(tmp_path / "sealed", isolated=True), "openai", "k")
    path = auth(home.root, {})
    path.write_text("{ broken")
    with pytest.raises(ConfigError, match="not changed"):
        store_key(home, "openai", "k")
    assert path.read_text() == "{ broken"
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        store_key(Home(tmp_path / "file" / "home"), "openai", "k")
