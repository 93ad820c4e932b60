"""Control requests of a host about the session: settings, thinking, usage, titles, rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import MODEL, ClaudeHost, claude
from tests.claude.test_claude_tools import bash
from tests.support.stage import says


def thinking(host: ClaudeHost) -> Any:
    return host.provider.requests[-1].body.get("thinking")


@pytest.mark.parametrize(
    ("flags", "effort"),
    [
        (("--effort", "low"), "low"),
        (("--thinking", "disabled", "--effort", "high"), None),
        (("--max-thinking-tokens", "20000"), "high"),
        (("--max-thinking-tokens", "0"), None),
        (("--thinking", "adaptive", "--effort", "high"), "high"),
        (("--settings", '{"effortLevel": "low"}'), "low"),
    ],
)
def test_flags_say_how_much_the_model_thinks(flags: tuple[str, ...], effort: str | None, tmp_path: Path) -> None:
    with claude(tmp_path, [says("ok")], *flags) as host:
        assert host.control("get_settings")["response"]["applied"] == {"model": MODEL, "effort": effort}
        host.ask("go")
        assert bool(thinking(host) and thinking(host)["type"] == "enabled") is (effort is not None)


def test_thinking_changes_while_the_process_runs(tmp_path: Path) -> None:
    def effort(host: ClaudeHost) -> Any:
        return host.control("get_settings")["response"]["applied"]["effort"]

    with claude(tmp_path, [], "--effort", "low") as host:
        host.control("set_max_thinking_tokens", max_thinking_tokens=0)
        assert effort(host) is None
        host.control("set_max_thinking_tokens", max_thinking_tokens=None)
        assert effort(host) == "low"


@pytest.mark.parametrize("flags", [("--max-thinking-tokens", "many"), ("--thinking", "hard"), ("--effort", "most")])
def test_bad_flags_about_thinking_end_the_start(flags: tuple[str, ...], tmp_path: Path) -> None:
    with claude(tmp_path, [], *flags) as host:
        assert host.leave() == 1


def test_settings_take_effect_while_the_process_runs(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("echo $GREETING"), bash("touch x"), says("ok")]) as host:
        settings = {
            "model": "claude-haiku-4-5",
            "effortLevel": "high",
            "env": {"GREETING": "hello"},
            "permissions": {"allow": ["Bash"], "deny": ["Bash(touch *)"]},
        }
        assert host.control("apply_flag_settings", settings=settings)["subtype"] == "success"
        rules = host.control("list_permission_rules")["response"]["state"]["rules"]
        assert [(each["behavior"], each["rule"]) for each in rules] == [("allow", "Bash"), ("deny", "Bash(touch *)")]
        host.ask("go")
        texts = [frame["message"]["content"][0]["content"] for frame in host.of("user")]
        assert texts[0] == "hello" and "touch" in texts[1]
        assert host.provider.requests[0].body["model"] == "claude-haiku-4-5"
        read = host.control("get_settings")["response"]
        assert read["applied"] == {"model": "claude-haiku-4-5", "effort": "high"} and read["effective"]["env"] == settings["env"]
        host.control("apply_flag_settings", settings={"permissions": {}})
        assert host.control("list_permission_rules")["response"]["state"]["rules"] == []


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "nowhere/none", "env": {"A": "b"}},
        {"permissions": {"defaultMode": "bypassPermissions"}, "effortLevel": "high"},
        {"permissions": {"allow": "Bash"}},
        {"effortLevel": "most"},
        {"model": 5},
    ],
)
def test_settings_that_cannot_be_used_change_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    with claude(tmp_path, []) as host:
        before = host.control("get_settings")["response"]
        assert host.control("apply_flag_settings", settings=settings)["subtype"] == "error"
        assert host.control("get_settings")["response"] == before


def test_hosts_learn_what_the_session_has_used(tmp_path: Path) -> None:
    with claude(tmp_path, [says("ok")], "--allowedTools", "Bash(git *)") as host:
        assert host.control("get_usage")["response"]["session"]["total_cost_usd"] == 0
        empty = host.control("get_context_usage")["response"]
        assert empty["totalTokens"] > 0, "the prompt and the tools are estimated"
        cost = host.ask("go")["total_cost_usd"]
        used = host.control("get_usage")["response"]["session"]
        assert used["total_cost_usd"] == cost > 0 and used["total_api_duration_ms"] >= 0
        assert used["model_usage"][MODEL]["outputTokens"] > 0
        assert f"{cost:.4f}" in host.control("get_session_cost")["response"]["text"]
        parts = {each["id"]: each["tokens"] for each in host.control("get_context_usage")["response"]["categories"]}
        assert {"system_prompt", "system_tools", "free_space"} <= set(parts)
        [rule] = host.control("list_permission_rules")["response"]["state"]["rules"]
        assert rule == {"behavior": "allow", "source": "cliArg", "rule": "Bash(git *)", "editability": "session"}


def test_titles_are_made_of_descriptions(tmp_path: Path) -> None:
    with claude(tmp_path, [says("ok")]) as host:
        host.ask("go")
        made = host.control("generate_session_title", description="Fix  the tests\nthat fail " + "long " * 30, persist=True)
        title = made["response"]["title"]
        assert title.startswith("Fix the tests that fail") and len(title) <= 60
        assert host.until("system", subtype="session_title_changed")["title"] == title
        assert host.control("generate_session_title", description=" ")["response"] == {"title": None}
        host.leave()
    [file] = (tmp_path / "home/.claude/projects").glob("*/*.jsonl")
    assert title in [json.loads(line).get("customTitle") for line in file.read_text().splitlines()]


def test_unknown_requests_get_an_error_with_a_code(tmp_path: Path) -> None:
    with claude(tmp_path, []) as host:
        for name in ("get_plan", "remote_control", "nothing"):
            assert host.control(name)["error_code"] == "unsupported_request"


def test_files_are_read_inside_the_folder_only(tmp_path: Path) -> None:
    with claude(tmp_path, []) as host:
        cwd = tmp_path / "cwd"
        (tmp_path / "secret").write_text("secret")
        (cwd / "a.txt").write_bytes(b"alpha \xff")
        (cwd / "link").symlink_to(tmp_path / "secret")
        read = host.control("read_file", path="a.txt")["response"]
        assert read == {"contents": "alpha \ufffd", "absPath": str(cwd / "a.txt"), "lossy": True, "requested_path": "a.txt"}
        short = host.control("read_file", path=str(cwd / "a.txt"), max_bytes=3)["response"]
        assert (short["contents"], short["lossy"]) == ("alp", True)
        for path in ("none.txt", "../secret", "link", ".", "/dev/zero"):
            assert "read denied" in host.control("read_file", path=path)["error"]


OVERLOADED = {"status": 529, "error": "busy"}
OTHER = "claude-haiku-4-5"


def models(host: ClaudeHost) -> list[str]:
    return [request.body["model"] for request in host.provider.requests]


def test_another_model_answers_while_the_first_one_is_overloaded(tmp_path: Path) -> None:
    turns = [OVERLOADED, OVERLOADED, OVERLOADED, says("one"), says("two")]
    flags = ("--fallback-model", f"nowhere/none,{OTHER}")
    with claude(tmp_path, turns, *flags) as host:
        assert host.ask("go")["result"] == "one"
        assert models(host) == [MODEL, MODEL, MODEL, OTHER]
        frame = host.until("system", subtype="model_fallback")
        assert (frame["trigger"], frame["original_model"], frame["fallback_model"]) == ("overloaded", MODEL, OTHER)
        assert "nowhere/none" in host.until("system", subtype="informational")["content"]
        assert host.ask("more")["result"] == "two"
        assert models(host)[-1] == MODEL


def test_without_overloads_the_model_stays(tmp_path: Path) -> None:
    turns = [{"status": 500, "error": "oops"}, OVERLOADED, OVERLOADED, says("one")]
    with claude(tmp_path, turns, "--fallback-model", OTHER) as host:
        assert host.ask("go")["result"] == "one"
        assert set(models(host)) == {MODEL}


@pytest.mark.parametrize(
    "schema", ['{"type": "objct"}', '{"type": "array"}', '{"$ref": "http://example.invalid/schema"}', "[]", "{"]
)
def test_schemas_that_no_output_can_fit_are_refused_at_once(schema: str, tmp_path: Path) -> None:
    with claude(tmp_path, [], "--json-schema", schema) as host:
        assert host.leave() == 1
    assert host.frames == []
    if schema.endswith("}"):
        with claude(tmp_path, []) as host:
            assert host.control("initialize", jsonSchema=json.loads(schema))["subtype"] == "error"


def test_the_same_call_may_be_made_again_and_again(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("echo waiting")], "--allowedTools", "Bash", "--max-turns", "8", loop=True) as host:
        assert host.ask("go")["subtype"] == "error_max_turns"
        assert len(host.provider.requests) == 8
