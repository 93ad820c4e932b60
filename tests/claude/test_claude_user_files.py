"""The files of users of Claude Code: instructions, settings, commands, skills and kinds of sub-agents."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import MODEL, ClaudeHost, another, claude, command, environment
from tests.support.stage import Turn, calls, says

from fairlead.testing import ProviderServer


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def trust(work: Path) -> None:
    (work / "home/.fairlead").mkdir(parents=True, exist_ok=True)
    (work / "home/.fairlead/settings.json").write_text(json.dumps({"defaultProjectTrust": "always"}))


def find_request(host: ClaudeHost, at: int = -1) -> str:
    """What the model was told."""
    return json.dumps(host.provider.requests[at].body)


def remarks(host: ClaudeHost) -> str:
    return "\n".join(frame["content"] for frame in host.of("system", subtype="informational"))


INSTRUCTIONS = {
    "home/.claude/CLAUDE.md": "User says: @more.md and `@hidden.md`",
    "home/.claude/more.md": "Imported by the user.",
    "home/.claude/hidden.md": "In code.",
    "CLAUDE.md": "Above the project.",
    "cwd/CLAUDE.md": "Of the project. See @docs/style.md, write to @someone.",
    "cwd/docs/style.md": "Style of the project. @../CLAUDE.md",
    "cwd/.claude/CLAUDE.md": "In the folder.",
    "cwd/CLAUDE.local.md": "Only mine.",
}


@pytest.mark.parametrize(
    ("flags", "expected", "missing"),
    [
        (
            (),
            ["User says", "Imported by the user", "Above", "Of the project", "Style", "In the folder", "Only mine"],
            ["In code"],
        ),
        (("--setting-sources", "project"), ["Above", "Of the project", "Style", "In the folder"], ["User says", "Only mine"]),
        (("--setting-sources", "user,local"), ["User says", "Only mine"], ["Of the project", "In the folder"]),
        (("--setting-sources=",), [], ["User says", "Above", "Of the project", "In the folder", "Only mine"]),
    ],
)
def test_instructions_belong_to_their_source(
    flags: Sequence[str], expected: Sequence[str], missing: Sequence[str], tmp_path: Path
) -> None:
    put(tmp_path, INSTRUCTIONS)
    with claude(tmp_path, [says("ok")], *flags) as host:
        host.ask("go")
    text = find_request(host)
    assert [each for each in expected if text.count(each) != 1] == []
    assert [each for each in missing if each in text] == []


def test_a_project_imports_nothing_from_outside_unless_it_is_trusted(tmp_path: Path) -> None:
    put(tmp_path, {"home/secret.txt": "the secret", "cwd/CLAUDE.md": "Read @~/secret.txt now."})
    with claude(tmp_path, [says("ok")], loop=True) as host:
        host.ask("go")
        assert "the secret" not in find_request(host)
        trust(tmp_path)
        with another(host) as trusted:
            trusted.ask("go")
            assert "the secret" in find_request(trusted)


def test_imports_end_after_five_and_do_not_go_round(tmp_path: Path) -> None:
    put(tmp_path / "cwd", {f"{n}.md": f"level {n} @{n + 1}.md @CLAUDE.md" for n in range(9)} | {"CLAUDE.md": "start @0.md"})
    with claude(tmp_path, [says("ok")]) as host:
        host.ask("go")
    assert [n for n in range(9) if f"level {n}" in find_request(host)] == [0, 1, 2, 3, 4]


COMMANDS = {
    "cwd/.claude/commands/greet.md": "---\ndescription: Greets\nargument-hint: <who>\n---\nSay hello to $1, all: $ARGUMENTS",
    "cwd/.claude/commands/front/comp.md": "Make a component.",
    "home/.claude/commands/mine.md": "Mine: $ARGUMENTS",
    "cwd/.claude/skills/demo/SKILL.md": "---\nname: demo\ndescription: A demo\n---\n\n# Demo\nDo it: $ARGUMENTS",
    "cwd/.claude/skills/quiet/SKILL.md": "---\ndescription: Quiet\ndisable-model-invocation: true\n---\nSilent work",
}


def test_commands_and_skills_are_listed_and_stand_for_their_text(tmp_path: Path) -> None:
    put(tmp_path, COMMANDS)
    with claude(tmp_path, [says("ok")], loop=True) as host:
        answer = host.control("initialize", hooks=None)["response"]
        prompts = ["/greet Bob Eve", "/front:comp", "/mine a b", "/demo it", "/nosuch thing"]
        for prompt in prompts:
            assert host.ask(prompt)["result"] == "ok"
    commands = {each["name"]: each for each in answer["commands"]}
    assert commands["greet"] == {"name": "greet", "description": "Greets (project)", "argumentHint": "<who>"}
    assert commands["mine"]["description"] == "Mine: $ARGUMENTS (user)"
    assert {"front:comp", "demo", "quiet", "compact", "clear", "context", "cost", "model"} <= set(commands)
    init = host.of("system", subtype="init")[0]
    assert set(init["slash_commands"]) == set(commands) and init["skills"] == ["demo"]
    asked = [request.body["messages"][-1] for request in host.provider.requests]
    expected = ["Say hello to Bob, all: Bob Eve", "Make a component.", "Mine: a b", "Do it: it", "/nosuch thing"]
    assert [text for text, message in zip(expected, asked, strict=True) if text not in json.dumps(message)] == []


def test_a_composed_prompt_ignores_commands(tmp_path: Path) -> None:
    put(tmp_path, COMMANDS)
    with claude(tmp_path, [says("ok")]) as host:
        host.ask("/greet Bob", client_composed=True)
    assert "/greet Bob" in find_request(host) and "Say hello" not in find_request(host)


def test_the_model_loads_a_skill_with_its_arguments(tmp_path: Path) -> None:
    put(tmp_path, COMMANDS)
    turns = [calls(("Skill", {"skill": "demo", "args": "hello"})), calls(("Skill", {"skill": "quiet"})), says("used")]
    with claude(tmp_path, turns) as host:
        result = host.ask("go")
    assert "demo" in json.dumps(host.provider.requests[0].body["system"])
    done, synthetic, refused = host.of("user")
    assert done["tool_use_result"] == {"success": True, "commandName": "demo"}
    assert synthetic["isSynthetic"] and "Do it: hello" in json.dumps(synthetic)
    assert refused["message"]["content"][0]["is_error"] and "quiet" in refused["tool_use_result"]
    assert "Do it: hello" in find_request(host) and result["num_turns"] == 4


def test_a_rule_can_deny_a_skill(tmp_path: Path) -> None:
    put(tmp_path, COMMANDS)
    turns = [calls(("Skill", {"skill": "demo"})), says("done")]
    with claude(tmp_path, turns, "--disallowedTools", "Skill(demo)") as host:
        host.ask("go")
    assert host.of("user")[0]["message"]["content"][0]["is_error"]


SETTINGS = {"permissions": {"allow": ["Bash(touch *)"], "additionalDirectories": ["../more"]}, "env": {"SEEN": "yes"}}
TOUCH: list[Turn] = [calls(("Bash", {"command": "touch made"})), says("done")]


def test_settings_of_the_user_allow_and_choose(tmp_path: Path) -> None:
    put(tmp_path, {"home/.claude/settings.json": json.dumps({**SETTINGS, "model": "claude-haiku-4-5"})})
    (tmp_path / "more").mkdir()
    with claude(tmp_path, TOUCH, model=None) as host:
        host.ask("go")
        settings = host.control("get_settings")["response"]
    assert (tmp_path / "cwd/made").exists()
    assert host.provider.requests[0].body["model"] == "claude-haiku-4-5"
    assert settings["effective"]["env"] == {"SEEN": "yes"} and [each["source"] for each in settings["sources"]] == ["user"]


def test_settings_of_a_project_allow_only_if_it_is_trusted(tmp_path: Path) -> None:
    put(tmp_path, {"cwd/.claude/settings.json": json.dumps({**SETTINGS, "model": "claude-haiku-4-5"})})
    with claude(tmp_path, TOUCH, model=None) as host:
        host.ask("go")
    assert not list((tmp_path / "cwd").glob("made*"))
    assert host.provider.requests[0].body["model"] != "claude-haiku-4-5"
    text = remarks(host)
    for name in ("permissions.allow", "permissions.additionalDirectories", "env", "model", "fairlead trust"):
        assert name in text
    trust(tmp_path)
    with claude(tmp_path, TOUCH, model=None) as host:
        host.ask("go")
    assert (tmp_path / "cwd/made").exists() and not remarks(host)


def test_stronger_settings_replace_weaker_ones_and_rules_add_up(tmp_path: Path) -> None:
    trust(tmp_path)
    layers = {
        "home/.claude/settings.json": {"env": {"A": "user", "B": "user", "C": "user", "D": "user"}},
        "cwd/.claude/settings.json": {"env": {"B": "project", "C": "project", "D": "project"}},
        "cwd/.claude/settings.local.json": {"env": {"C": "local", "D": "local"}, "permissions": {"deny": ["Bash(rm *)"]}},
    }
    put(tmp_path, {name: json.dumps(value) for name, value in layers.items()})
    flag = {"env": {"D": "flag"}, "permissions": {"allow": ["Bash"]}}
    turns = [calls(("Bash", {"command": "echo $A $B $C $D"})), calls(("Bash", {"command": "rm x"})), says("done")]
    with claude(tmp_path, turns, "--settings", json.dumps(flag)) as host:
        host.ask("go")
    first, second = host.of("user")
    assert first["tool_use_result"]["stdout"] == "user project local flag"
    assert second["message"]["content"][0]["is_error"]


@pytest.mark.parametrize(
    ("place", "mode", "expected"),
    [
        ("home/.claude/settings.json", "acceptEdits", "acceptEdits"),
        ("cwd/.claude/settings.json", "acceptEdits", "default"),
        ("cwd/.claude/settings.json", "plan", "plan"),
        ("cwd/.claude/settings.json", "bypassPermissions", "default"),
    ],
)
def test_a_project_may_choose_only_a_stricter_mode(place: str, mode: str, expected: str, tmp_path: Path) -> None:
    put(tmp_path, {place: json.dumps({"permissions": {"defaultMode": mode}})})
    with claude(tmp_path) as host:
        assert host.control("initialize")["response"]["current_permission_mode"] == expected


def test_settings_can_forbid_to_skip_consent(tmp_path: Path) -> None:
    put(tmp_path, {"home/.claude/settings.json": json.dumps({"permissions": {"disableBypassPermissionsMode": "disable"}})})
    (tmp_path / "cwd").mkdir()
    with ProviderServer([]) as provider:
        argv = command("-p", "hi", "--permission-mode", "bypassPermissions")
        env = environment(tmp_path, provider, {"IS_SANDBOX": "1"})
        done = subprocess.run(argv, cwd=tmp_path / "cwd", env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "forbid" in done.stderr


AGENT = "---\nname: reviewer\ndescription: Reviews\ntools: Read, Grep\nmodel: claude-haiku-4-5\n---\nYou review changes."


def test_sub_agents_of_files_run_with_their_tools_and_their_model(tmp_path: Path) -> None:
    put(tmp_path, {"home/.claude/agents/reviewer.md": AGENT})
    turns: list[Any] = [
        calls(("Agent", {"description": "d", "prompt": "p", "subagent_type": "reviewer"})),
        says("fine"),
        says("end"),
    ]
    with claude(tmp_path, turns) as host:
        listed = [each["name"] for each in host.control("initialize")["response"]["agents"]]
        host.ask("go")
    assert "reviewer" in listed and "reviewer" in host.of("system", subtype="init")[0]["agents"]
    work = next(request.body for request in host.provider.requests if "You review changes." in json.dumps(request.body["system"]))
    assert work["model"] == "claude-haiku-4-5" and {tool["name"] for tool in work["tools"]} == {"Read", "Grep"}


def test_sub_agents_of_a_project_that_is_not_trusted_choose_no_model_and_replace_none(tmp_path: Path) -> None:
    other = AGENT.replace("reviewer", "Explore")
    put(tmp_path, {"cwd/.claude/agents/reviewer.md": AGENT, "cwd/.claude/agents/explore.md": other})
    turns: list[Any] = [
        *[calls(("Agent", {"description": "d", "prompt": "p", "subagent_type": name})) for name in ("reviewer",)],
        says("fine"),
        says("end"),
    ]
    with claude(tmp_path, turns) as host:
        host.ask("go")
    work = next(request.body for request in host.provider.requests if "You review changes." in json.dumps(request.body["system"]))
    assert work["model"] == "claude-sonnet-4-5"
    text = remarks(host)
    assert "model of the agent reviewer" in text and "the agent Explore" in text


def test_commands_tell_of_the_session_and_choose_a_model(tmp_path: Path) -> None:
    with claude(tmp_path, [says("ok")], loop=True) as host:
        host.ask("go")
        cost = host.ask("/cost")
        assert cost["result"].startswith("Total cost: $0.") and "claude-sonnet-4-5" in cost["result"]
        assert (cost["num_turns"], cost["local_command"]) == (0, True)
        assert "of the context window" in host.ask("/context")["result"]
        assert "claude-sonnet-4-5" in host.ask("/model")["result"]
        assert "claude-haiku-4-5" in host.ask("/model claude-haiku-4-5")["result"]
        assert host.ask("/model nosuch/thing")["is_error"]
        host.ask("again")
        assert host.leave() == 0
    assert [request.body["model"] for request in host.provider.requests] == ["claude-sonnet-4-5", "claude-haiku-4-5"]
    texts = [
        frame["message"]["content"][0]["text"] for frame in host.of("assistant") if frame["message"]["model"] == "<synthetic>"
    ]
    assert len(texts) == 4


def test_tasks_last_over_a_resumed_session(tmp_path: Path) -> None:
    turns = [
        calls(("TaskCreate", {"subject": "One", "description": "Do one"})),
        calls(("TaskCreate", {"subject": "Two", "description": "Do two", "activeForm": "Doing two"})),
        calls(("TaskUpdate", {"taskId": "2", "status": "in_progress", "addBlockedBy": ["1"]})),
        calls(("TaskUpdate", {"taskId": "9", "status": "completed"})),
        says("planned"),
        calls(("TaskGet", {"taskId": "2"}), ("TaskList", {})),
        calls(("TaskUpdate", {"taskId": "1", "status": "deleted"})),
        calls(("TaskList", {})),
        says("done"),
    ]
    with claude(tmp_path, turns) as host:
        session = host.ask("plan")["session_id"]
        assert host.leave() == 0
        created, _, updated, missing = [frame["tool_use_result"] for frame in host.of("user")]
        with another(host, "--resume", session) as later:
            later.ask("go on")
            shown, listed, _, rest = [frame["tool_use_result"] for frame in later.of("user")]
    assert created == {"task": {"id": "1", "subject": "One", "description": "Do one"}}
    change = {"from": "pending", "to": "in_progress"}
    assert updated == {"success": True, "taskId": "2", "statusChange": change, "updatedFields": ["status", "blockedBy"]}
    assert missing.startswith("Error: There is no task 9")
    two = {"id": "2", "subject": "Two", "description": "Do two", "status": "in_progress", "blocks": [], "blockedBy": ["1"]}
    assert shown == {"task": two}
    assert [(each["id"], each["status"], each["blockedBy"]) for each in listed["tasks"]] == [
        ("1", "pending", []),
        ("2", "in_progress", ["1"]),
    ]
    assert [each["id"] for each in rest["tasks"]] == ["2"]


def test_one_variable_brings_back_the_older_list(tmp_path: Path) -> None:
    with claude(tmp_path, [says("ok")], env={"CLAUDE_CODE_ENABLE_TASKS": "0"}) as host:
        host.ask("go")
    tools = host.of("system", subtype="init")[0]["tools"]
    assert "TodoWrite" in tools and "TaskCreate" not in tools


@pytest.mark.parametrize("place", ["/dev/zero", "/proc/self/environ", "pipe"])
@pytest.mark.parametrize("flag", ["--mcp-config", "--settings", "--system-prompt-file", "--append-system-prompt-file"])
def test_flags_read_files_on_a_disk_alone(tmp_path: Path, flag: str, place: str) -> None:
    (tmp_path / "home").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with ProviderServer([]) as provider:
        env = environment(tmp_path, provider)
        argv = command("-p", "hi", "--model", MODEL, flag, place)
        ended = subprocess.run(argv, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert not provider.requests
    assert ended.returncode == 1 and place in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize("target", ["/dev/zero", "/proc/self/environ", None])
def test_servers_of_the_user_are_read_from_a_file_on_a_disk(tmp_path: Path, target: str | None) -> None:
    (tmp_path / "home").mkdir()
    path = tmp_path / "home/.claude.json"
    os.mkfifo(path) if target is None else path.symlink_to(target)
    with claude(tmp_path) as host:
        assert host.ask("go")["result"] == "ok"
        assert host.leave() == 0
