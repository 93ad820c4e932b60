"""What the flags change: the model, its key, its prompt, its tools, and what is read from the home."""

from __future__ import annotations

import json

import pytest
from tests.cli.command import Command
from tests.support.host import Host
from tests.support.json_values import is_array

KEY = "sk-the-key-that-nobody-may-see"
POISON = "sk-poison"


def tools(command: Command) -> list[str]:
    """The names of the tools in the model's last request."""
    return [tool["name"] for tool in command.asked.get("tools", [])]


def system(command: Command) -> str:
    asked = command.asked["system"]
    return asked if isinstance(asked, str) else "".join(block["text"] for block in asked)


@pytest.mark.parametrize(
    ("flags", "model"),
    [
        (["--model", "fake/fake-2"], "fake-2"),
        (["--model=fake-small"], "fake-small"),
        (["--provider", "fake", "--model", "fake-2"], "fake-2"),
        (["--provider", "fake", "--model", "fake/fake-2"], "fake-2"),
        (["--provider", "fakeoai"], "fake-oai"),
        (["--models", "fake-small,fake-2"], "fake-small"),
        ([], "fake-1"),
    ],
    ids=lambda value: " ".join(value) if is_array(value) else "",
)
def test_the_model_that_is_asked(fairlead: Command, flags: list[str], model: str) -> None:
    assert fairlead("-p", *flags, "hi").returncode == 0
    assert fairlead.asked["model"] == model


def test_an_unknown_provider_is_reported(fairlead: Command) -> None:
    done = fairlead("-p", "--provider", "nobody", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert '"nobody"' in done.stderr


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (["-p", "--provider", "antropic", "hi"], "Did you mean anthropic?"),
        (["-p", "--provider", "antropic", "--model", "opus", "hi"], "Did you mean anthropic/"),
        (["-p", "--model", "opnai/nothing-like-it", "hi"], "Did you mean the provider openai?"),
        (["-p", "--model", "opsu", "hi"], "Did you mean anthropic/claude-opus-"),
        (["login", "antropic"], "Did you mean anthropic?"),
    ],
    ids=lambda value: " ".join(value) if is_array(value) else "",
)
def test_a_mistyped_provider_or_model_gets_a_suggestion(fairlead: Command, words: list[str], suggested: str) -> None:
    done = fairlead(*words)
    assert (done.returncode, done.stdout) == (1, "") and suggested in done.stderr
    assert fairlead.provider.requests == []


@pytest.mark.parametrize(
    "words", [["-p", "--provider", "nothere", "hi"], ["-p", "--model", "nothere", "hi"], ["login", "nothere"]], ids=" ".join
)
def test_a_name_that_is_near_to_none_gets_no_suggestion(fairlead: Command, words: list[str]) -> None:
    done = fairlead(*words)
    assert (done.returncode, done.stdout) == (1, "") and "nothere" in done.stderr
    assert "Did you mean" not in done.stderr


def test_levels_of_thinking_reach_the_provider(fairlead: Command) -> None:
    def budget(*flags: str) -> int | None:
        assert fairlead("-p", *flags, "hi").returncode == 0
        return fairlead.asked.get("thinking", {}).get("budget_tokens")

    low, high = budget("--model", "fake-1:low"), budget("--model", "fake-1:low", "--thinking", "high")
    assert low and high and low < high
    assert budget("--thinking", "off") is None
    assert budget("--model", "fake-2:high") is None, "fake-2 does not think"


def test_a_system_prompt_takes_the_place_of_ours_and_others_follow(fairlead: Command) -> None:
    (fairlead.around.cwd / "more.md").write_text("from a file")
    fairlead(
        "-p", "--system-prompt", "Be a pirate.", "--append-system-prompt", "Be brief.", "--append-system-prompt", "more.md", "x"
    )
    text = system(fairlead)
    assert text.startswith("Be a pirate.\n\nBe brief.\n\nfrom a file\n\n")
    assert f"Current working directory: {fairlead.around.cwd}" in text


def test_a_system_prompt_may_be_a_file_and_ours_stays_without_one(fairlead: Command) -> None:
    (fairlead.around.cwd / "prompt.md").write_text("from the file")
    fairlead("-p", "--system-prompt", "prompt.md", "hi")
    assert system(fairlead).startswith("from the file\n\n")
    fairlead("-p", "--append-system-prompt", "Be brief.", "hi")
    assert system(fairlead).startswith("You are a coding agent.")
    assert "\n\nBe brief.\n\n" in system(fairlead)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--dialect", "pi"], ["read", "bash", "edit", "write"]),
        (["--dialect", "omp"], ["read", "bash", "edit", "write", "grep", "find", "ls", "task", "todo_write"]),
        (["-t", "read, ls"], ["read", "ls"]),
        (["--tools", "grep", "-nt"], ["grep"]),
        (["-nt"], []),
        (["-nbt"], []),
        (["--dialect", "pi", "-xt", "bash,write"], ["read", "edit"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_the_tools_that_the_model_is_offered(fairlead: Command, flags: list[str], names: list[str]) -> None:
    assert fairlead("-p", *flags, "hi").returncode == 0
    assert tools(fairlead) == names


def test_an_unknown_tool_is_left_out_with_a_line_on_stderr(fairlead: Command) -> None:
    done = fairlead("-p", "-t", "read,telepathy", "hi")
    assert (done.returncode, tools(fairlead)) == (0, ["read"])
    assert done.stderr.startswith("fairlead: Unknown tools, left out: telepathy. The tools are: read, bash")


def test_a_key_from_the_command_line_reaches_the_provider(fairlead: Command) -> None:
    assert fairlead("-p", "--api-key", KEY, "hi").returncode == 0
    assert fairlead.provider.requests[-1].headers["x-api-key"] == KEY


def test_keys_are_in_no_frame(fairlead: Command) -> None:
    argv = [str(word) for word in fairlead.argv("--mode", "rpc", "--api-key", KEY, "--verbose")]
    with Host(argv, fairlead.around.cwd, fairlead.env()) as host:
        host.prompt("hi")
        for name in ("get_state", "get_messages", "get_available_models", "get_tools", "cycle_model"):
            assert host.request(name)["success"]
        assert host.request("get_state", verbose=True)["success"]
        assert host.leave() == 0
        said = json.dumps(host.frames) + host.stderr()
    assert KEY not in said and "sk-fake" not in said
    assert fairlead.provider.requests[-1].headers["x-api-key"] == KEY


def test_an_isolated_run_reads_nothing_of_the_home_or_the_project(fairlead: Command) -> None:
    poison = {"providers": {"anthropic": {"baseUrl": "http://127.0.0.1:9/poison", "apiKey": POISON}}}
    (fairlead.around.home / "models.json").write_text(json.dumps(poison))
    (fairlead.around.home / "auth.json").write_text(json.dumps({"anthropic": {"type": "api_key", "key": POISON}}))
    (fairlead.around.home / "settings.json").write_text('{"defaultModel": "poison", "shellPath": 7}')
    (fairlead.around.cwd / ".fairlead").mkdir()
    (fairlead.around.cwd / ".fairlead" / "settings.json").write_text("not JSON")
    env = {"ANTHROPIC_API_KEY": "from the environment", "ANTHROPIC_BASE_URL": fairlead.provider.url}

    done = fairlead("-p", "--isolated", "hi", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
    assert fairlead.provider.requests[-1].headers["x-api-key"] == "from the environment"

    read = fairlead("-p", "hi", env=env)
    assert read.returncode == 1
    assert "shellPath" in read.stderr and "not valid JSON" in read.stderr


def test_models_are_listed_all_or_by_words(fairlead: Command) -> None:
    listed = fairlead("--list-models")
    head, *rows = [line.split() for line in listed.stdout.splitlines()]
    assert head[:6] == ["provider", "model", "context", "max-out", "thinking", "images"]
    assert [row[:2] for row in rows[:4]] == [
        ["fake", "fake-1"],
        ["fake", "fake-2"],
        ["fake", "fake-small"],
        ["fakeoai", "fake-oai"],
    ]
    assert rows[0][2:] == ["200K", "16.4K", "yes", "yes", "3", "15"]
    some = fairlead("--list-models", "FAKE/ small")
    assert [line.split()[1] for line in some.stdout.splitlines()[1:]] == ["fake-small"]


def test_a_list_without_models_says_why(fairlead: Command) -> None:
    done = fairlead("--list-models", "nothing-like-it")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "No model matches 'nothing-like-it'.\n")
    done = fairlead("--list-models", "--isolated")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("No provider has a key. Set one, such as ANTHROPIC_API_KEY;")


def test_verbose_says_what_the_run_is_made_of(fairlead: Command) -> None:
    done = fairlead("-p", "--verbose", "--dialect", "pi", "--model", "fake-1:low", "hi")
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    version, model, tools, home, run = done.stderr.splitlines()
    assert version.endswith(", dialect pi")
    assert model == f"fairlead: model fake/fake-1 at {fairlead.provider.url}, thinking low"
    assert tools == "fairlead: tools read, bash, edit, write"
    assert home == f"fairlead: home {fairlead.around.home}"
    assert run == "fairlead: run ended: fake/fake-1, stop reason stop"
    assert "sk-fake" not in done.stderr


def test_prices_reach_the_host_as_the_user_wrote_them(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "--dialect", "pi", "--model", "fake/fake-1", input='{"type":"get_state"}\n')
    assert '"cost":{"input":3,"output":15,"cacheRead":0.3,"cacheWrite":3.75}' in done.stdout
