"""Prompts of a host of the claude dialect: how they are answered, wait, join, and are interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import MODEL, claude, command, environment, prompt
from tests.support.stage import ENDLESS

from fairlead.testing import ProviderServer

FIRST, SECOND = "11111111-1111-4111-8111-000000000001", "11111111-1111-4111-8111-000000000002"


def test_a_prompt_gets_blocks_and_a_result(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "Hello there."}]) as host:
        assert host.control("initialize", hooks=None)["subtype"] == "success"
        result = host.ask("hi")
        assert host.leave() == 0
    (init,) = host.of("system", subtype="init")
    (answer,) = host.of("assistant")
    assert (init["model"], init["permissionMode"], init["cwd"]) == ("claude-sonnet-4-5", "default", str(tmp_path / "cwd"))
    assert answer["message"]["content"] == [{"type": "text", "text": "Hello there."}]
    assert answer["message"]["stop_reason"] is None
    assert (result["subtype"], result["result"], result["num_turns"]) == ("success", "Hello there.", 1)
    assert result["session_id"] == init["session_id"] == answer["session_id"]
    assert result["total_cost_usd"] == pytest.approx(result["modelUsage"]["claude-sonnet-4-5"]["costUSD"])


def test_closing_the_input_finishes_the_run(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "done", "firstDelayMs": 300}]) as host:
        host.say("go")
        assert host.leave() == 0
    assert host.of("result")[0]["result"] == "done"


def test_the_last_result_decides_the_exit_code(tmp_path: Path) -> None:
    turns = [{"status": 400, "error": "bad"}, {"text": "fine"}, {"status": 401, "error": "who?"}]
    with claude(tmp_path, turns) as host:
        assert host.ask("a")["is_error"]
        assert not host.ask("b")["is_error"]
        failed = host.ask("c")
        assert host.leave() == 1
    assert (failed["subtype"], failed["terminal_reason"], failed["api_error_status"]) == ("success", "api_error", 401)
    assert failed["result"].startswith("API Error: 401")
    assert [frame.get("error") for frame in host.of("assistant")] == ["invalid_request", None, "authentication_failed"]
    assert len(host.provider.requests) == 3  # neither is worth another attempt


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_process_that_is_told_to_end_gives_no_result(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "word " * 9, "holdAfter": 1}]) as host:
        host.say("go")
        host.until("system", subtype="init")
        host.signal(number)
        assert host.exit_code() == code
    assert not host.of("result") and not host.of("assistant")


def test_prompts_that_wait_start_one_turn_together(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "word " * 9, "holdAfter": 1}, {"text": "both"}]) as host:
        host.say("one", uuid=FIRST)
        host.until("system", subtype="init")
        host.say("two", uuid=SECOND)
        host.say("three")
        assert host.control("get_binary_version")["response"] == {"version": "2.1.326"}
        host.provider.release()
        result = host.until("result", nth=2)
        assert host.leave() == 0
    assert (result["result"], result["user_message_uuids"]) == ("both", [SECOND])
    asked = json.dumps(host.provider.requests[-1].body)
    assert "two" in asked and "three" in asked
    assert len(host.provider.requests) == 2


def test_a_prompt_that_waits_can_be_dropped(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "word " * 9, "holdAfter": 1}, {"text": "never"}]) as host:
        host.say("one")
        host.until("system", subtype="init")
        host.say("two", uuid=SECOND)
        assert host.control("cancel_async_message", message_uuid=SECOND)["response"] == {"cancelled": True}
        assert host.control("cancel_async_message", message_uuid=SECOND)["response"] == {"cancelled": False}
        host.provider.release()
        assert host.until("result")["queued_turn_count"] == 0
        assert host.leave() == 0
    assert len(host.provider.requests) == 1


def test_an_interrupt_is_an_error_result_and_the_process_lives_on(tmp_path: Path) -> None:
    with claude(tmp_path, [ENDLESS, {"text": "after"}], "--include-partial-messages") as host:
        host.say("go")
        host.wait_for(lambda f: f["type"] == "stream_event" and f["event"]["type"] == "content_block_delta", "a piece")
        assert host.control("interrupt")["response"] == {"still_queued": []}
        result = host.until("result")
        assert (result["subtype"], result["terminal_reason"]) == ("error_during_execution", "aborted_streaming")
        assert host.ask("again")["result"] == "after"
        assert host.leave() == 0
    texts = [frame["message"]["content"] for frame in host.of("user")]
    assert texts == [[{"type": "text", "text": "[Request interrupted by user]"}]]
    assert host.of("assistant", aborted=True)


def test_a_prompt_and_its_interrupt_in_one_write_end_as_interrupted(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "after"}]) as host:
        stop = {"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}}
        host.write(b"".join(json.dumps(line).encode() + b"\n" for line in (prompt("go"), stop)))
        assert host.until("result")["subtype"] == "error_during_execution"
        assert host.ask("again")["result"] == "after"
        assert host.leave() == 0


def test_a_uuid_that_comes_twice_gets_the_same_result_again(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "first"}, {"text": "second"}]) as host:
        first = host.ask("a", uuid=FIRST)
        again = host.ask("a", uuid=FIRST)
        assert host.leave() == 0
    assert (first["result"], again["result"]) == ("first", "first")
    assert first["uuid"] != again["uuid"]
    assert len(host.provider.requests) == 1


BAD_LINES: list[Any] = [
    "this is not json",
    "null",
    '{"type":"user"}',
    '{"type":"user","message":{"role":"assistant","content":"x"}}',
    '{"type":"control_request","request_id":"x"}',
    '{"type":"control_request","request":{}}',
    "[" * 100_000,
    '"\ud800"',
]


@pytest.mark.parametrize("line", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_bad_line_is_refused_and_the_next_one_served(line: str, tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "fine"}]) as host:
        host.write(line.encode("utf8", "surrogatepass") + b"\n\xff\xfe\n")
        host.say("hi")
        result = host.wait_for(lambda f: f["type"] == "result" and f["subtype"] == "success", "a result")
        assert result["result"] == "fine"
        assert host.leave() == 0


def test_lines_that_mean_nothing_are_ignored(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "fine"}]) as host:
        host.write(b'\r\n{"type":"keep_alive"}\r\n[]\n5\n{"a":1}\n{"type":"zzz"}\n')
        host.write(b'{"type":"control_response","response":{"subtype":"success","request_id":"never","response":{}}}\n')
        refused = host.control("zzz")
        assert (refused["subtype"], refused["error_code"]) == ("error", "unsupported_request")
        assert host.ask("hi")["result"] == "fine"
        assert host.leave() == 0
    assert len(host.frames) == 4


def test_the_mode_and_the_model_can_be_changed(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "one"}, {"text": "two"}]) as host:
        assert host.control("set_permission_mode", mode="acceptEdits")["response"] == {"mode": "acceptEdits"}
        assert host.until("system", subtype="status")["permissionMode"] == "acceptEdits"
        assert host.control("set_permission_mode", mode="bogus")["error_code"] == "invalid_mode"
        assert host.control("set_permission_mode", mode="bypassPermissions")["error_code"] == "bypass_not_launched"
        host.ask("a")
        assert host.control("set_model", model="claude-haiku-4-5")["response"] == {"model": "claude-haiku-4-5"}
        host.ask("b")
        assert host.leave() == 0
    assert [request.body["model"] for request in host.provider.requests] == ["claude-sonnet-4-5", "claude-haiku-4-5"]


def run(work: Path, provider: ProviderServer, *flags: str, stdin: str = "") -> tuple[int, str, str]:
    for folder in ("home", "cwd", "tmp"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command(*flags),
        cwd=work / "cwd",
        env=environment(work, provider),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_without_an_input_stream_the_outcome_is_printed(tmp_path: Path) -> None:
    model = ("--model", MODEL)
    with ProviderServer([{"text": "Ran it."}]) as provider:
        assert run(tmp_path, provider, *model, "-p", "go") == (0, "Ran it.\n", "")
        code, out, _ = run(tmp_path, provider, *model, "-p", "--output-format=json", stdin="go")
        assert (code, json.loads(out)["result"]) == (0, "Ran it.")
        code, out, _ = run(tmp_path, provider, *model, "-p", "go", "--output-format", "json", "--verbose", "")
        assert [frame["type"] for frame in json.loads(out)] == ["system", "assistant", "result"]
        code, out, _ = run(tmp_path, provider, *model, "--output-format", "stream-json", "--verbose", "-p", "a", stdin="b")
        assert [json.loads(line)["type"] for line in out.splitlines()] == ["system", "assistant", "result"]
    assert provider.requests[-1].body["messages"][-1]["content"][0]["text"] == "a\nb"


def test_a_failed_one_shot_run_exits_with_1(tmp_path: Path) -> None:
    with ProviderServer([{"status": 400, "error": "bad"}]) as provider:
        code, out, _ = run(tmp_path, provider, "--model", MODEL, "-p", "go")
    assert (code, out[:14]) == (1, "API Error: 400")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--no-such-flag"], "unknown option '--no-such-flag'"),
        (["--output-format", "xml"], "expected text, json, stream-json"),
        (["--permission-mode=bogus"], "expected default"),
        (["-p", "x", "--output-format", "stream-json"], "needs --verbose"),
        (["-p"], "there is no prompt"),
        (["-p", "x", "--max-turns", "many"], "expected a positive number"),
    ],
)
def test_a_wrong_command_line_is_one_line_on_stderr(flags: list[str], complaint: str, tmp_path: Path) -> None:
    with ProviderServer([{"text": "never"}]) as provider:
        code, out, err = run(tmp_path, provider, *flags)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert complaint in err


def test_version_and_auth_status(tmp_path: Path) -> None:
    with ProviderServer([{"text": "never"}]) as provider:
        assert run(tmp_path, provider, "--version")[:2] == (0, "2.1.326 (Claude Code)\n")
        launched = [sys.executable, "-m", "fairlead", "--as", "claude@2.1.326", "auth", "status", "--json"]
        env = environment(tmp_path, provider)
        done = subprocess.run(launched, env=env, capture_output=True, check=True)
    status = json.loads(done.stdout)
    assert (status["loggedIn"], status["authMethod"], status["apiKeySource"]) == (True, "api_key", "ANTHROPIC_API_KEY")
    assert status["projectsDirectory"] == str(tmp_path / "home/.claude/projects")
