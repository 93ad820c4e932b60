"""`-p` for people: answers that stream, progress on stderr, and failures that an exit code tells."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from typing import Any

import pytest
from tests.cli.command import Command, Scripted
from tests.cli.terminal import Terminal
from tests.support.stage import bash, calls, says

FAILS = {"status": 400, "error": "the request is bad"}
CUT = {"text": "half an ans", "stopReason": "max_tokens"}
RAISES = """
def setup(fl):
    @fl.register_command("oops")
    async def oops(arguments, context):
        raise ValueError("it broke")
"""

needs_terminal = pytest.mark.skipif(not hasattr(os, "openpty"), reason="takes a terminal")


def plain(shown: str) -> list[str]:
    """The lines that stay on a terminal: without those that are overwritten."""
    kept = re.sub(r"\r[^\r\n]*\x1b\[K", "", shown)
    return [line for line in kept.replace("\r\n", "\n").split("\n") if line]


# Streaming


@needs_terminal
def test_on_a_terminal_the_answer_streams(scripted: Scripted) -> None:
    fairlead = scripted({"text": "one two three four", "chunk": 4, "holdAfter": 2})
    terminal = Terminal(fairlead, "-p", "hi")
    assert "one two " in terminal.read_until(lambda shown: "two" in shown)
    assert "three" not in terminal.shown
    fairlead.provider.release()
    code, shown = terminal.finish()
    assert (code, plain(shown)) == (0, ["one two three four"])


@needs_terminal
def test_a_terminal_without_unicode_gets_plain_signs(scripted: Scripted) -> None:
    fairlead = scripted(calls(bash("until [ -e go ]; do sleep 0.05; done # größer")), says("done"))
    terminal = Terminal(fairlead, "-p", "go", env={"PYTHONIOENCODING": "ascii"})
    terminal.read_until(lambda shown: re.search(r"\r[|/\\-] bash: until .* gr\?\?er", shown) is not None)
    (fairlead.around.cwd / "go").write_text("")
    code, shown = terminal.finish()
    assert code == 0 and plain(shown)[0].startswith("* bash: until")


@needs_terminal
def test_tools_and_waiting_are_shown_on_a_terminal(scripted: Scripted) -> None:
    command = "until [ -e go ]; do sleep 0.05; done; false"
    fairlead = scripted(calls(bash(command)), says("done"))
    terminal = Terminal(fairlead, "-p", "go")
    terminal.read_until(lambda shown: re.search(r"\r\S bash: until", shown) is not None)  # the status line
    (fairlead.around.cwd / "go").write_text("")
    code, shown = terminal.finish()
    assert code == 0
    first, second, last = plain(shown)
    assert (first, last) == (f"• bash: {command}", "done")
    assert second.startswith(f"• bash: {command} failed: ")


@needs_terminal
def test_the_answer_cannot_control_the_terminal(scripted: Scripted) -> None:
    code, shown = Terminal(scripted({"text": "a\x1b[2Jb"}), "-p", "hi").finish()
    assert (code, plain(shown)) == (0, ["a\\x1b[2Jb"])


@needs_terminal
def test_a_piped_answer_comes_in_one_piece_with_progress_on_the_terminal(scripted: Scripted) -> None:
    fairlead = scripted(calls(bash("true")), says("done"))
    terminal = Terminal(fairlead, "-p", "go", stdout=subprocess.PIPE)
    code, shown = terminal.finish()
    assert terminal.process.stdout is not None
    with terminal.process.stdout as out:
        assert (code, out.read()) == (0, b"done\n")
    assert plain(shown) == ["• bash: true"]


def test_without_a_terminal_verbose_prints_lines(scripted: Scripted) -> None:
    fairlead = scripted({"status": 500, "error": "down"}, calls(bash("true")), says("done"))
    (fairlead.around.home / "settings.json").write_text('{"retry": {"baseDelayMs": 1}}')
    done = fairlead("-p", "--verbose", "go")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert (
        "fairlead: bash: true\n" in done.stderr
        and "The model failed: 500 down (retry 1 of 3)\n" in done.stderr
        and "\x1b" not in done.stderr
    )


def test_without_a_terminal_no_tool_progress_is_printed(scripted: Scripted) -> None:
    done = scripted(calls(bash("true")), says("done"))("-p", "go")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# Failures


@pytest.mark.parametrize("last", [says("fine"), FAILS], ids=["then an answer", "then another failure"])
def test_a_failed_earlier_prompt_is_reported(scripted: Scripted, last: dict[str, Any]) -> None:
    done = scripted(FAILS, last)("-p", "the first", "the second")
    assert (done.returncode, done.stdout) == (1, "fine\n" if last is not FAILS else "")
    assert done.stderr.startswith("Error: Prompt 1 of 2 failed: ") and "the request is bad" in done.stderr


def test_a_cut_answer_is_reported(scripted: Scripted) -> None:
    done = scripted(CUT)("-p", "hi")
    assert (done.returncode, done.stdout) == (1, "half an ans\n")
    assert done.stderr.startswith("Error: The answer is cut off")


def test_an_extension_that_cannot_be_loaded_is_reported(fairlead: Command) -> None:
    folder = fairlead.around.home / "extensions"
    folder.mkdir()
    (folder / "broken.py").write_text("def setup(fl):\n    raise ValueError('it broke')\n")
    done = fairlead("-p", "hi")
    assert (done.returncode, done.stdout) == (1, "Hello!\n")
    assert done.stderr.count("broken.py was not loaded: ") == 1


def test_a_template_that_cannot_be_loaded_is_reported(fairlead: Command) -> None:
    folder = fairlead.around.home / "prompts"
    folder.mkdir()
    (folder / "two words.md").write_text("text")
    done = fairlead("-p", "hi")
    assert (done.returncode, done.stdout) == (1, "Hello!\n")
    assert done.stderr.count("This prompt template is left out.") == 1


def test_a_slash_command_that_raises_is_reported(fairlead: Command) -> None:
    (fairlead.around.cwd / "ext.py").write_text(RAISES)
    done = fairlead("-p", "-e", "ext.py", "/oops")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: command:oops: " in done.stderr and "it broke" in done.stderr


def test_under_the_name_of_a_peer_the_exit_code_depends_on_the_last_run_alone(scripted: Scripted) -> None:
    done = scripted(FAILS, CUT)("--as", "pi", "-p", "the first", "the second")
    assert (done.returncode, done.stdout, done.stderr) == (0, "half an ans\n", "")


@pytest.mark.parametrize("words", [["-p", ""], ["-p", "  "], ["-p", "hi", ""], ["--mode", "json", ""]], ids=repr)
def test_an_empty_prompt_is_an_error(fairlead: Command, words: list[str]) -> None:
    done = fairlead(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: The prompt is empty. Give a text, or pipe one in.\n"


@needs_terminal
def test_ctrl_c_ends_with_130_and_a_clean_line(scripted: Scripted) -> None:
    terminal = Terminal(scripted({"text": "word " * 60, "hangAfter": 1}), "-p", "hi")
    terminal.read_until(lambda shown: "word" in shown)
    terminal.process.send_signal(signal.SIGINT)
    code, shown = terminal.finish()
    assert code == 130 and plain(shown)[-1] == "Error: Request was aborted"


# Output formats


def test_json_is_one_object_with_the_answer_and_what_it_cost(scripted: Scripted) -> None:
    fairlead = scripted(calls(bash("true")), {"text": "done", "usage": {"input": 1000, "output": 10}})
    done = fairlead("-p", "--output-format", "json", "go")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (result["type"], result["text"], result["stopReason"], result["isError"]) == ("result", "done", "stop", False)
    assert (result["turns"], result["model"], result["errors"]) == (2, "fake/fake-1", [])
    assert result["usage"]["output"] >= 10 and result["cost"] == result["usage"]["cost"]["total"] > 0
    assert result["sessionId"] in result["sessionFile"] and result["durationMs"] >= 0


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_a_failure_is_in_the_result(scripted: Scripted, form: str) -> None:
    done = scripted(FAILS)("-p", "--output-format", form, "hi")
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["isError"], result["stopReason"]) == (1, True, "error")
    assert "the request is bad" in result["errors"][0] and "the request is bad" in done.stderr


@pytest.mark.parametrize("form", ["json", "stream-json"])
@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--model", "nope/x"], 'Model "nope/x" not found'),
        (["--provider", "antropic"], "Did you mean anthropic?"),
        (["--extension", "nofile.py"], "There is no extension at"),
        (["--resume", "nobody"], 'No session has the id or the name "nobody"'),
        (["@nofile"], "@nofile: No such file"),
    ],
)
def test_a_failure_before_the_first_prompt_is_a_result_too(fairlead: Command, form: str, flags: list[str], problem: str) -> None:
    done = fairlead("-p", "--output-format", form, "hi", *flags)
    result = json.loads(done.stdout)
    assert (done.returncode, result["type"], result["isError"], result["stopReason"]) == (1, "result", True, None)
    assert problem in result["errors"][0] and done.stderr.count(problem) == 1
    assert (result["sessionId"], result["sessionFile"], result["turns"]) == (None, None, 0)


def test_stream_json_is_the_events_and_then_the_result(fairlead: Command) -> None:
    done = fairlead("-p", "--output-format", "stream-json", "--dialect", "pi", "hi")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "session" and kinds[1] == "agent_start" and kinds[-2:] == ["agent_settled", "result"]
    assert lines[-1]["text"] == "Hello!" and lines[-1]["sessionId"] == lines[0]["id"]
    update = next(line for line in lines if line["type"] == "message_update")
    assert "partial" not in update["assistantMessageEvent"]


def test_a_format_that_does_not_fit_is_a_usage_error(fairlead: Command) -> None:
    assert fairlead("--mode", "json", "--output-format", "json", "hi").returncode == 2
    assert fairlead("--mode", "rpc", "--output-format", "json").returncode == 2
    done = fairlead("-p", "--output-format", "yaml", "hi")
    assert done.returncode == 2 and "expected text or json or stream-json" in done.stderr
    assert fairlead.provider.requests == []


# Keys


def test_a_refused_key_is_named_with_its_source(scripted: Scripted) -> None:
    fairlead = scripted({"status": 401, "error": "invalid x-api-key"})
    models = fairlead.around.home / "models.json"
    done = fairlead("-p", "hi")
    assert done.returncode == 1 and f"The key for fake came from {models}. Check it" in done.stderr
    done = fairlead("-p", "--api-key", "sk-secret", "hi")
    assert "The key for fake came from --api-key." in done.stderr and "sk-secret" not in done.stderr
    env = {"ANTHROPIC_API_KEY": "sk-other", "ANTHROPIC_BASE_URL": fairlead.provider.url}
    done = fairlead("-p", "--provider", "anthropic", "hi", env=env)
    assert "The key for anthropic came from the environment variable ANTHROPIC_API_KEY." in done.stderr
    (fairlead.around.home / "auth.json").write_text('{"fake": {"type": "api_key", "key": "sk-stored"}}')
    (fairlead.around.home / "auth.json").chmod(0o600)
    done = fairlead("-p", "hi")
    assert f"The key for fake came from {fairlead.around.home / 'auth.json'}." in done.stderr
    assert "fairlead login fake" in done.stderr and "sk-stored" not in done.stderr
