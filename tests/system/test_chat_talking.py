"""The chat: prompts, answers, and messages while the agent works. Real keys in a real terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tmux import chat_in_tmux

pytestmark = pytest.mark.system

HELD = {"text": "first part of the answer, second part of the answer", "holdAfter": 3}
DONE = {"text": "All done."}


def test_an_answer_streams_and_stays_in_the_scrollback(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(400))
    with chat_in_tmux(tmp_path, [{"text": f"# Title\n\nSome **bold** words.\n\n{words}\n\nThe end."}]) as chat:
        chat.start()
        chat.send("hello agent")
        chat.wait_for(lambda screen: "The end." in screen and "Esc stops" not in screen)
        everything = chat.screen(history=True)
        assert everything.count("hello agent") == 1 and everything.count("word399") == 1
        assert "bold" in everything and "**" not in everything
        assert chat.prompts() == ["hello agent"]


def test_while_it_works_enter_steers_and_alt_enter_queues(tmp_path: Path) -> None:
    look = {"text": "Looking.", "toolCalls": [{"name": "bash", "arguments": {"command": "sleep 1"}}]}
    with chat_in_tmux(tmp_path, [look, {"text": "Seen."}, DONE]) as chat:
        chat.start()
        chat.send("begin")
        chat.wait_for("Esc stops")
        chat.send("steer it")
        chat.wait_for("next: steer it")
        chat.type("then this")
        chat.press("M-Enter")
        chat.wait_for("later: then this")
        assert "2 queued" in chat.screen()
        chat.wait_for(lambda screen: "All done." in screen and "Esc stops" not in screen)
        assert "queued" not in chat.screen()
        assert [prompt for prompt in chat.prompts() if prompt] == ["begin", "steer it", "then this"]


def test_escape_stops_the_agent_and_gives_queued_messages_back(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [HELD, DONE]) as chat:
        chat.start()
        chat.send("begin")
        chat.wait_for("first part")
        chat.send("not sent yet")
        chat.wait_for("next: not sent yet")
        chat.press("Escape")
        screen = chat.wait_for(lambda screen: "> not sent yet" in screen and "Esc stops" not in screen)
        assert "queued" not in screen
        chat.press("Enter")
        chat.wait_for("All done.")
        assert chat.prompts()[-1] == "not sent yet"


def test_the_spinner_shows_how_long_it_takes(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "late", "firstDelayMs": 1500}]) as chat:
        chat.start()
        chat.send("hello")
        chat.wait_for("Working 1s")
        assert chat.title().startswith("* fairlead")
        chat.wait_for(lambda screen: "late" in screen and "Working" not in screen)
        assert chat.title() == "fairlead · project"


def test_ctrl_c_clears_and_twice_leaves(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("some words")
        chat.wait_for("> some words")
        chat.press("C-c")
        chat.wait_for(lambda screen: "some words" not in screen)
        chat.press("C-c")
        chat.wait_for("Ctrl+C again leaves")
        chat.press("C-c")
        assert chat.wait_for_end() == "0"


def test_ctrl_c_stops_the_agent_first(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [HELD]) as chat:
        chat.start()
        chat.send("begin")
        chat.wait_for("first part")
        chat.press("C-c")
        chat.wait_for(lambda screen: "Esc stops" not in screen)
        assert "code=" not in chat.screen()


def test_ctrl_d_leaves_only_an_empty_editor(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("ab")
        chat.wait_for("> ab")
        chat.press("Left", "C-d")
        chat.wait_for(lambda screen: "> a" in screen and "> ab" not in screen)
        chat.press("BSpace", "C-d")
        assert chat.wait_for_end() == "0"


def test_prompts_of_the_command_line_are_sent_in_turn(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "One."}, {"text": "Two."}]) as chat:
        chat.start("fix the bug", "and the other")
        chat.wait_for("Two.")
        assert chat.prompts() == ["fix the bug", "and the other"]


def test_the_latest_session_continues_with_its_messages(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "I know it."}, DONE]) as chat:
        chat.start("remember the number 42")
        chat.wait_for("I know it.")
        chat.leave()
        chat.start("--continue")
        chat.wait_for("I know it.")
        chat.send("what was it")
        chat.wait_for("All done.")
        assert len(chat.server.requests[-1].body["messages"]) == 3


def test_a_failed_model_call_says_why(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"status": 401, "error": "invalid x-api-key"}]) as chat:
        chat.start()
        chat.send("hello")
        chat.wait_for(lambda screen: "x-api-key" in screen and "Esc stops" not in screen)


def test_an_empty_answer_is_reported(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": ""}, DONE]) as chat:
        chat.start()
        chat.send("hello")
        chat.wait_for("▲ The model answered without any text.")
        chat.send("again")
        assert chat.wait_for("All done.").count("without any text") == 1


def test_without_a_model_the_chat_says_what_helps(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], key=False, env={"FAIRLEAD_LOCAL_SERVERS": ""}) as chat:
        chat.start()
        screen = chat.wait_for("No model can be used")
        assert "/login" in screen and "ANTHROPIC_API_KEY" in screen and "Ollama" in screen
        chat.send("hello")
        chat.wait_for("There is no model yet.")
        chat.command("/login anthropic")
        chat.wait_for("Key for anthropic")
        chat.press("Escape")
        chat.wait_for("> Ask for")
        chat.press("Up")
        chat.press("Up")
        chat.wait_for("> hello")


def test_an_image_that_is_named_goes_with_the_prompt(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        pixel = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000") + bytes(20)
        (chat.folder / "shot.png").write_bytes(pixel)
        (tmp_path / "other shot.png").write_bytes(pixel)
        chat.start()
        chat.paste(f"compare @shot.png and '{tmp_path}/other shot.png'")
        chat.wait_for("compare @shot.png")
        chat.press("Enter")
        chat.wait_for("All done.")
        content = chat.server.requests[0].body["messages"][-1]["content"]
        assert [block["type"] for block in content] == ["text", "image", "image"]


def test_a_shell_command_of_the_user_is_seen_by_the_model(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.send("!echo visible; sleep 0.5; echo end")
        chat.wait_for("$ echo visible")
        chat.wait_for(lambda screen: "end" in screen and "Esc stops" not in screen)
        chat.send("!!echo hidden")
        chat.wait_for(lambda screen: screen.count("hidden") >= 2 and "Esc stops" not in screen)
        chat.send("what did I run?")
        chat.wait_for("All done.")
        sent = str(chat.server.requests[0].body["messages"])
        assert "visible" in sent and "hidden" not in sent
        chat.send("!seq 100000")
        chat.wait_for("[This is the end of the output. Full output: /")


def test_escape_stops_a_shell_command_of_the_user(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.send("!echo begun; sleep 100")
        chat.wait_for(lambda screen: "\n  begun" in screen)
        chat.press("Escape")
        chat.wait_for(lambda screen: "Esc stops" not in screen)


def test_a_key_that_is_refused_is_named_once(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"status": 500, "error": "boom"}, {"status": 401, "error": "bad key"}]) as chat:
        chat.start()
        chat.send("hello")
        chat.wait_for("500 boom")
        screen = chat.wait_for("401 bad key")
        assert "The key for anthropic came from the environment variable ANTHROPIC_API_KEY" in screen
        assert "/login anthropic" in screen
        chat.wait_for(lambda screen: "Esc stops" not in screen)
        assert chat.screen().count("401 bad key") == 1


def test_the_chat_counts_down_to_the_next_attempt(tmp_path: Path) -> None:
    turn = {"status": 429, "error": "too many requests", "headers": {"retry-after": "3"}}
    with chat_in_tmux(tmp_path, [turn, DONE]) as chat:
        chat.start()
        chat.send("hello")
        for seconds in (3, 2, 1):
            chat.wait_for(f"Retry 1 of 3 in {seconds}s · Esc stops")
        chat.wait_for(lambda screen: "All done." in screen and "Esc stops" not in screen)


def test_an_error_as_long_as_a_page_is_folded(tmp_path: Path) -> None:
    page = " ".join(f"word{number}" for number in range(2000))
    with chat_in_tmux(tmp_path, [{"status": 500, "error": page}, DONE]) as chat:
        chat.start()
        chat.send("hello")
        screen = chat.wait_for("All done.")
        assert "> hello" in screen and "word0" in screen and " more lines" in screen and "Trying again" in screen


def test_escape_with_a_slash_right_behind_it_stops_the_agent_and_begins_a_command(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [HELD, DONE]) as chat:
        chat.start()
        chat.send("begin")
        chat.wait_for("first part")
        chat.press("M-/")
        chat.type("cost")
        chat.wait_for("> /cost")
        chat.wait_for("Interrupted")
        chat.press("Enter")
        chat.wait_for("in this session")
        assert len(chat.server.requests) == 1


def test_extensions_of_the_command_line_receive_session_start(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "Fine."}]) as chat:
        (tmp_path / "one.ts").write_text(
            "export default function (pi: any) {\n"
            '  pi.on("session_start", (event: any, ctx: any) => ctx.ui.notify("one has started"));\n}\n'
        )
        (tmp_path / "two.py").write_text(
            "def setup(fl):\n    fl.on('session_start', lambda event, context: context.ui.notify('two has started'))\n"
        )
        chat.start("-e", "../one.ts", "-e", "../two.py")
        chat.wait_for("one has started")
        chat.wait_for("two has started")
