"""`-p`: prompts in, the last answer out, and an exit code."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.cli.command import Command, Scripted, lines_of

from fairlead.cli.print_mode import CHAT_COMMANDS

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
FAILS = {"status": 400, "error": "the request is bad"}
ENDLESS = {"text": "word " * 60, "hangAfter": 1}


def said(body: Any) -> list[str]:
    """The texts of the user's messages in a request."""
    return ["".join(part.get("text", "") for part in m["content"]) for m in body["messages"] if m["role"] == "user"]


@pytest.mark.parametrize("flags", [["-p"], ["--print"], ["--mode", "text"], ["--mode=text"], []], ids=" ".join)
def test_the_answer_alone_is_printed(fairlead: Command, flags: list[str]) -> None:
    done = fairlead(*flags, "hi")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
    assert said(fairlead.asked) == ["hi"]


def test_piped_input_comes_before_the_prompt(fairlead: Command) -> None:
    done = fairlead("-p", "What is this?", input="a log\n")
    assert done.returncode == 0
    assert said(fairlead.asked) == ["a log\n\nWhat is this?"]


def test_piped_input_alone_is_a_prompt(fairlead: Command) -> None:
    assert fairlead("-p", input="Say hello.\n").stdout == "Hello!\n"
    assert said(fairlead.asked) == ["Say hello."]


def test_files_come_between_piped_input_and_the_prompt(fairlead: Command) -> None:
    file = fairlead.around.cwd / "notes.txt"
    file.write_text("first\nsecond")
    assert fairlead("-p", "Sum it up.", "@notes.txt", input="piped").returncode == 0
    assert said(fairlead.asked) == [f'piped\n\n<file name="{file}">\nfirst\nsecond\n</file>\n\nSum it up.']


def test_an_image_file_is_sent_as_an_image(fairlead: Command) -> None:
    (fairlead.around.cwd / "dot.dat").write_bytes(PNG)
    assert fairlead("-p", "@dot.dat", "What is this?").returncode == 0
    blocks = fairlead.asked["messages"][0]["content"]
    image = next(block for block in blocks if block["type"] == "image")
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert f'<file name="{fairlead.around.cwd / "dot.dat"}"></file>' in said(fairlead.asked)[0]


def test_an_image_for_a_model_that_reads_only_text_is_announced(fairlead: Command) -> None:
    (fairlead.around.cwd / "a.png").write_bytes(PNG)
    model = {"baseUrl": f"{fairlead.provider.url}/v1", "api": "openai-completions", "models": [{"id": "blind"}]}
    (fairlead.around.home / "models.json").write_text(json.dumps({"providers": {"blind": model}}))
    done = fairlead("-p", "What is this?", "@a.png", "--model", "blind/blind")
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    assert (
        done.stderr
        == "The image is not sent: blind reads only text, and gets a note instead. Choose a model that reads images.\n"
    )


def test_a_file_that_is_not_there_is_an_error_before_anything_is_asked(fairlead: Command) -> None:
    done = fairlead("-p", "@missing.txt", "hi")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Error: @missing.txt: No such file or directory\n")
    assert fairlead.provider.requests == []


def test_prompts_run_one_after_another_and_the_last_answer_counts(scripted: Scripted) -> None:
    fairlead = scripted({"text": "one"}, {"text": "two"})
    assert fairlead("-p", "the first", "the second").stdout == "two\n"
    assert said(fairlead.asked) == ["the first", "the second"]


def test_words_after_two_dashes_are_prompts(fairlead: Command) -> None:
    assert fairlead("-p", "--", "--model").returncode == 0
    assert said(fairlead.asked) == ["--model"]


def test_nothing_to_do_is_a_usage_error(fairlead: Command) -> None:
    done = fairlead("-p")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Give a prompt" in done.stderr


def test_a_failed_last_run_says_why_and_exits_1(scripted: Scripted) -> None:
    fairlead = scripted({"text": "fine"}, FAILS)
    done = fairlead("-p", "the first", "the second")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ") and "the request is bad" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_aborts_the_run_and_skips_the_prompts_that_are_left(scripted: Scripted, number: signal.Signals) -> None:
    fairlead = scripted(ENDLESS, {"text": "never"})
    with fairlead.start("--mode", "json", "--updates", "delta", "first", "second") as process:
        assert any("text_delta" in line for line in lines_of(process))
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (128 + number, "Error: Request was aborted\n")
    assert '"stopReason":"aborted"' in out and "agent_settled" in out
    assert len(fairlead.provider.requests) == 1


def test_without_a_model_the_error_says_what_to_do(fairlead: Command) -> None:
    done = fairlead("-p", "hi", "--isolated")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: No model can be used:") and "ANTHROPIC_API_KEY" in done.stderr


@pytest.mark.parametrize("flags", [["-p"], ["--mode", "json"], ["--mode", "rpc"]], ids=" ".join)
def test_an_unknown_model_is_one_line_on_stderr(fairlead: Command, flags: list[str]) -> None:
    words = [] if "rpc" in flags else ["hi"]
    done = fairlead(*flags, "--model", "no-such-model", *words)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ") and '"no-such-model"' in line


@pytest.mark.parametrize("flags", [["-p", "hi"], ["--mode", "json", "hi"], ["--help"], ["--list-models"]], ids=" ".join)
def test_a_closed_stdout_ends_it_without_an_error(fairlead: Command, flags: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with fairlead.start(*flags, stdout=writing) as process:
            _, err = process.communicate(timeout=30)
    finally:
        os.close(writing)
    assert (process.returncode, err) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("flags", [["-p"], ["--mode", "json"], ["-p", "--output-format", "json"]], ids=" ".join)
def test_an_output_that_cannot_be_written_is_an_error(fairlead: Command, flags: list[str]) -> None:
    with open("/dev/full", "w") as full, fairlead.start(*flags, "hi", stdout=full) as process:  # noqa: PTH123
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (1, "Error: Cannot write to standard output: No space left on device.\n")


def test_with_a_closed_stdout_no_model_is_called(fairlead: Command) -> None:
    redirected = subprocess.list2cmdline(map(str, fairlead.argv("-p", "hi")))
    done = fairlead(argv=["sh", "-c", f"{redirected} >&-"])
    assert done.returncode == 1
    assert "Standard output is closed" in done.stderr
    assert fairlead.provider.requests == []


def test_words_without_quotes_are_one_prompt(fairlead: Command) -> None:
    fairlead("-p", "say", "hello", "twice")
    assert said(fairlead.asked) == ["say hello twice"]


def test_prompts_with_spaces_stay_apart(fairlead: Command) -> None:
    fairlead("-p", "say hello", "again")
    assert said(fairlead.asked) == ["say hello", "again"]


@pytest.mark.parametrize("flags", [["--mode", "json"], ["--dialect", "pi", "-p"], ["-p", "--"]])
def test_programs_and_two_dashes_keep_words_apart(fairlead: Command, flags: list[str]) -> None:
    fairlead(*flags, "say", "hello")
    assert said(fairlead.asked) == ["say", "hello"]


@pytest.mark.parametrize(
    ("prompt", "advice"),
    [
        ("/hlep", "There is no command /hlep. Did you mean /help, a command of the chat?"),
        ("/model gpt", "/model is a command of the chat. Start `fairlead` and type it there."),
    ],
)
def test_a_command_of_the_chat_is_not_sent_to_the_model(fairlead: Command, prompt: str, advice: str) -> None:
    done = fairlead("-p", prompt)
    assert done.returncode == 2
    assert advice in done.stderr and 'fairlead -p " /..."' in done.stderr
    assert fairlead.provider.requests == []


@pytest.mark.parametrize("prompt", ["/usr/bin/env is missing", " /help", "/zzzz does what?"])
def test_other_texts_with_a_slash_are_prompts(fairlead: Command, prompt: str) -> None:
    assert fairlead("-p", prompt).returncode == 0
    assert len(fairlead.provider.requests) == 1


def test_the_commands_of_the_chat_are_known_to_print_mode() -> None:
    from fairlead.chat.chat_commands import _OTHER_NAMES, Commands  # pyright: ignore[reportPrivateUsage]

    own = Commands(cast("Any", SimpleNamespace(session=None)))._own  # pyright: ignore[reportPrivateUsage]
    assert set(CHAT_COMMANDS) == {f"/{name}" for name in (*own, *_OTHER_NAMES)}


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_closed_standard_streams_do_no_harm(fairlead: Command, closed: str) -> None:
    redirected = subprocess.list2cmdline(map(str, fairlead.argv("-p", "--theme", "x", "hi")))
    done = fairlead(argv=["sh", "-c", f"{redirected} {closed}"])
    assert done.returncode == 0
    assert done.stdout == "Hello!\n"
    assert len(fairlead.provider.requests) == 1


def test_answers_are_utf_8_whatever_the_locale(scripted: Scripted) -> None:
    done = scripted({"text": "naïve 中"})("-p", "hi", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout) == (0, "naïve 中\n")


def test_invalid_utf8_reaches_the_model_as_replacement_characters(fairlead: Command) -> None:
    done = fairlead("--mode", "json", b"caf\xe9", "--append-system-prompt", b"th\xe9")
    assert done.returncode == 0
    assert said(fairlead.asked) == ["caf\ufffd"]
    assert "th\ufffd" in str(fairlead.asked["system"])


def test_a_slash_command_is_expanded_also_behind_piped_input(fairlead: Command) -> None:
    prompts = fairlead.around.cwd / ".fairlead" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "sum.md").write_text("Sum up $1:")
    fairlead("-p", "/sum this")
    assert fairlead.asked["messages"][-1]["content"][-1]["text"] == "Sum up this:"
    fairlead("-p", input="/sum it")
    assert fairlead.asked["messages"][-1]["content"][-1]["text"] == "Sum up it:"
    fairlead("-p", "What is this?", input="/sum of all parts")
    assert fairlead.asked["messages"][-1]["content"][-1]["text"] == "/sum of all parts\n\nWhat is this?"
    fairlead("-p", "/sum that", input="some text")
    assert fairlead.asked["messages"][-1]["content"][-1]["text"] == "some text\n\nSum up that:"
    refused = fairlead("-p", "/skill:none")
    assert (refused.returncode, refused.stderr) == (1, "Error: There is no skill of the name 'none'. There are no skills here.\n")


@pytest.mark.parametrize("mode", [["-p"], ["--mode", "json"]], ids=" ".join)
def test_a_run_that_needs_more_turns_than_it_may_take_fails(scripted: Scripted, mode: list[str]) -> None:
    look = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo here"}}]}
    fairlead = scripted(look, look, {"text": "done"})
    done = fairlead(*mode, "--max-turns", "1", "go")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The run was stopped after 1 turn (maxTurns)")
    assert fairlead("-p", "--max-turns", "2", "go").returncode == 0


def test_a_run_that_costs_more_than_it_may_is_stopped(scripted: Scripted) -> None:
    look = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo here"}}], "usage": {"input": 100_000, "output": 10}}
    fairlead = scripted(look, look, {"text": "done"})
    done = fairlead("-p", "--max-cost", "$0.01", "go")
    assert done.returncode == 1 and len(fairlead.provider.requests) == 1
    assert re.match(r"Error: The run was stopped because it has cost \$0\.\d+, and max_cost is \$0\.01\. ", done.stderr)
    assert fairlead("-p", "--max-cost", "100", "go").stdout == "done\n"


@pytest.mark.parametrize("mode", ["text", "json"])
def test_input_without_end_is_refused_before_it_fills_the_memory(fairlead: Command, mode: str) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        command = fairlead.start("--mode", mode, "hi", stdin=zeros, stderr=subprocess.PIPE, preexec_fn=with_little_memory)
        out, error = command.communicate(timeout=30)
    assert (command.returncode, out) == (1, "")
    assert error == "Error: Standard input has more than 64 MiB, which no model can read. Give part of it.\n"


def test_a_file_without_end_is_refused(fairlead: Command) -> None:
    command = fairlead.start("-p", "@/dev/zero", "hi", stderr=subprocess.PIPE, preexec_fn=with_little_memory)
    out, error = command.communicate(timeout=30)
    assert (command.returncode, out) == (1, "")
    assert error == "Error: @/dev/zero: expected a file, found a device.\n"


def with_little_memory() -> None:
    """Lets the process have a gigabyte at most."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


def test_piped_input_that_is_not_text_is_still_sent(fairlead: Command) -> None:
    command: Any = fairlead.start("-p", "What?", stdin=subprocess.PIPE, encoding=None)  # bytes, not text
    out, _ = command.communicate(b"a\xff\xfeb", timeout=30)
    assert (command.returncode, out) == (0, b"Hello!\n")
    assert said(fairlead.asked) == ["a\ufffd\ufffdb\n\nWhat?"]
