"""The commands of the chat. Real keys in a real terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.support.tmux import ChatInTmux, chat_in_tmux

pytestmark = pytest.mark.system

DONE = {"text": "All done."}


def talk(chat: ChatInTmux, text: str) -> None:
    """Send a prompt and wait for the end of the answer."""
    count = len(chat.server.requests)
    chat.send(text)
    chat.wait_until(lambda: len(chat.server.requests), lambda now: now > count, "a request")
    chat.wait_for(lambda screen: "Esc stops" not in screen)


def test_models_and_thinking_levels_are_picked(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.command("/model")
        chat.wait_for("Enter pick")
        chat.type("haiku-4-5")
        chat.wait_for("▸ anthropic/claude-haiku-4-5")
        chat.press("Enter")
        chat.wait_for("anthropic/claude-haiku-4-5 answers from now on.")
        chat.command("/model sonnet-4-5")
        chat.wait_for("anthropic/claude-sonnet-4-5 answers from now on.")
        chat.command("/thinking")
        chat.wait_for("Thinking level")
        chat.press("1")
        chat.wait_for("The thinking level is off.")
        chat.press("BTab")
        chat.wait_for("The thinking level is minimal.")
        assert "claude-sonnet-4-5" in chat.screen().splitlines()[-1]
        talk(chat, "hello")
        assert chat.server.requests[0].body["model"].startswith("claude-sonnet-4-5")


def test_enter_takes_an_argument_that_is_typed_in_full_and_not_a_longer_one(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("/thinking high")
        chat.wait_for("▸ high")
        chat.press("Enter")
        chat.wait_for("The thinking level is high.")
        chat.type("/thinking high")
        chat.wait_for("▸ high")
        chat.press("Down")
        chat.wait_for("▸ xhigh")
        chat.press("Enter")
        chat.wait_for("The thinking level is xhigh.")


def test_sessions_are_named_left_and_resumed(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "The first answer."}, {"text": "The second answer."}, DONE]) as chat:
        chat.start()
        talk(chat, "the first question")
        chat.command("/name my errand")
        chat.wait_for("This session is called my errand.")
        assert chat.title() == "fairlead · my errand"
        chat.command("/new")
        chat.wait_for("A new session.")
        talk(chat, "the second question")
        chat.command("/resume")
        chat.wait_for("▸ my errand")
        chat.press("Tab")
        chat.wait_for("Sessions of all folders")
        chat.wait_for("~/project")
        chat.type("errand")
        chat.press("Enter")
        chat.wait_for("Resumed: my errand")
        talk(chat, "and now?")
        sent = json.dumps(chat.server.requests[-1].body["messages"])
        assert "the first question" in sent and "the second question" not in sent


def test_the_flag_resume_asks_which_session(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start("an old question")
        chat.wait_for("All done.")
        chat.leave()
        named = re.search(r"fairlead --resume (\w+)", chat.screen())
        assert named is not None
        chat.start("--resume")
        chat.wait_for("▸ an old question")
        chat.press("Enter")
        chat.wait_for(f"Resumed: session {named[1]}")
        chat.wait_for("All done.")


def test_the_tree_and_forks(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "Blue."}, {"text": "Red."}, DONE]) as chat:
        chat.start()
        talk(chat, "first colour")
        talk(chat, "second colour")
        chat.command("/tree")
        screen = chat.wait_for("Continue where?")
        assert re.search("agent: Red. +you are here", screen) and "on this branch" not in screen
        chat.type("second")
        chat.press("Enter")
        chat.wait_for("Summarise the branch")
        chat.press("1")
        chat.wait_for("> second colour")
        chat.press("C-c")
        talk(chat, "another colour")
        sent = json.dumps(chat.server.requests[-1].body["messages"])
        assert "Blue." in sent and "second colour" not in sent
        chat.command("/tree")
        screen = chat.wait_for("you are here")
        assert re.search("agent: Blue. +on this branch", screen) and re.search("agent: Red.$", screen, re.MULTILINE)
        chat.press("Escape")
        chat.wait_for("> Ask for")
        chat.command("/fork")
        chat.wait_for("Fork before which message?")
        chat.type("first")
        chat.press("Enter")
        chat.wait_for("> first colour")
        assert len(list((chat.home / "sessions").rglob("*.jsonl"))) >= 1


def test_a_chat_that_ends_says_how_to_continue_it(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "Blue."}]) as chat:
        chat.start()
        talk(chat, "first colour")
        chat.press("C-d")
        chat.wait_for_end()
        found = re.search(r"Continue this session with: (fairlead --resume (\w+))", chat.screen())
        assert found is not None
        chat.type("clear; fairlead sessions")
        chat.press("Enter")
        chat.wait_for(f"{found[2]} ")
        chat.type(f"clear; {found[1]}")
        chat.press("Enter")
        chat.wait_for(lambda screen: "Blue." in screen and "> Ask for" in screen)


def test_compaction_cost_and_export(tmp_path: Path) -> None:
    usage = {"input": 1000, "output": 200}
    turns = [{"text": "A long story. " * 50, "usage": usage}, {"text": "More. " * 50, "usage": usage}, {"text": "Summary."}]
    with chat_in_tmux(tmp_path, turns, rows=40) as chat:
        (chat.home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 20}}))
        chat.start()
        talk(chat, "tell me a story")
        chat.command("/cost")
        chat.wait_for("1 prompt, 1 answer, 0 tool calls.")
        talk(chat, "go on")
        chat.command("/cost")
        screen = chat.wait_for("2 prompts, 2 answers, 0 tool calls.")
        assert "2,000 tokens in, 400 out" in screen
        chat.command("/compact the plot")
        chat.wait_until(lambda: len(chat.server.requests), lambda count: count >= 3, "a request for a summary")
        chat.wait_for(lambda screen: "Esc stops" not in screen)
        assert "the plot" in json.dumps([request.body for request in chat.server.requests[2:]])
        chat.command("/export story.html")
        chat.wait_for("Written to")
        assert "tell me a story" in (chat.folder / "story.html").read_text()
        chat.command('/export "my story.html"')
        chat.wait_for(lambda screen: screen.count("Written to") == 2)
        assert (chat.folder / "my story.html").exists()


def test_the_argument_of_a_command_may_be_on_the_next_line(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("/name")
        chat.press("C-j")
        chat.type("my errand")
        chat.wait_for("  my errand")
        chat.press("Enter")
        chat.wait_for("This session is called my errand.")
        assert not chat.server.requests


def test_a_key_is_typed_without_being_shown_and_a_model_answers_then(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], key=False) as chat:
        chat.start()
        chat.command("/login anthropic")
        chat.wait_for("Key for anthropic")
        chat.type("sk-secret-key")
        screen = chat.wait_for("•••")
        assert "sk-secret" not in screen
        chat.press("Enter")
        chat.wait_for("anthropic can be used now.")
        chat.wait_for("claude")
        assert "sk-secret-key" in (chat.home / "auth.json").read_text()
        assert "sk-secret" not in chat.screen(history=True)


def test_help_and_quit(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], columns=100, rows=50) as chat:
        chat.start()
        chat.command("/help")
        screen = chat.wait_for("Alt+Enter")
        for name in (
            "model",
            "thinking",
            "resume",
            "tree",
            "fork",
            "new",
            "compact",
            "name",
            "cost",
            "export",
            "login",
            "approval",
        ):
            assert f"/{name} " in screen
        chat.command("/quit")
        assert chat.wait_for_end() == "0"


def test_a_command_that_does_not_exist_is_not_sent_to_the_model(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE, DONE, DONE], rows=40) as chat:
        chat.start()
        chat.type("/hlep")
        chat.wait_for("> /hlep")
        chat.press("Escape")
        chat.press("Enter")
        chat.wait_for("There is no command /hlep. Did you mean /help?")
        chat.wait_for("> /hlep")
        chat.press("C-u")
        chat.send("/other words")
        chat.wait_for("There is no command /other. /help lists the commands.")
        chat.wait_for("> /other words")
        assert chat.prompts() == []
        chat.press("C-u")
        for number, prompt in enumerate((" /other words", "/usr/bin is a folder", "/usr is a folder"), 1):
            chat.send(prompt)
            chat.wait_for(lambda screen, number=number: screen.count("All done.") == number)
            assert chat.prompts()[-1] == prompt
        chat.command("/exit")
        assert chat.wait_for_end() == "0"


def test_an_image_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.send("what is in @missing.png there")
        chat.wait_for("There is no image missing.png")
        chat.wait_for("All done.")
        (chat.folder / "fake.png").write_text("not an image")
        chat.send("and in @fake.png there")
        chat.wait_for(lambda screen: "is not a PNG, JPEG, GIF or WebP image." in " ".join(screen.split()))


def test_a_key_after_login_is_neither_kept_nor_shown_again(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], key=False) as chat:
        chat.start()
        chat.type("/login anthropic sk-secret")
        chat.wait_for("> /login anthropic sk-secret")
        chat.press("Enter")
        screen = chat.wait_for("Key for anthropic")
        assert "/login takes a provider only" in screen and "sk-secret" not in screen
        history = chat.home / "chat-history.jsonl"
        assert not history.exists() or "sk-secret" not in history.read_text()


def test_failures_are_shown_once_with_advice_for_the_chat(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "One."}, {"text": "Two."}, {"text": ""}], columns=200) as chat:
        (chat.home / "extensions").mkdir()
        (chat.home / "extensions/bad.py").write_text("raise ValueError('quite broken')\n")
        (chat.home / "settings.json").write_text('{"compaction": {"keepRecentTokens": 1}}')
        chat.start()
        screen = chat.wait_for("bad.py was not loaded: quite broken")
        assert screen.count("quite broken") == 1
        assert "(load)" not in screen and "Traceback" not in screen
        chat.command("/compact")
        chat.wait_for("Nothing to compact")
        for prompt, answer in (("first", "One."), ("second", "Two.")):
            chat.send(prompt)
            chat.wait_for(answer)
        chat.command("/compact now")
        chat.wait_for("without any text")
        chat.command("/model foo")
        screen = chat.wait_for('Model "foo" not found. /model lists those that can be used.')
        assert screen.count("answered without any text") == screen.count("Nothing to compact") == 1
        chat.command("/export")
        chat.wait_for("Written to ")
        (page,) = (tmp_path / "project").glob("*.html")
        assert page.name.startswith("fairlead-session-")


def test_enter_does_not_choose_a_model_that_only_has_the_typed_letters_somewhere(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.command("/model nope")
        chat.wait_for('Model "nope" not found. /model lists')
        chat.command("/model opus-4-8")
        chat.wait_for("anthropic/claude-opus-4-8 answers from now on.")
        chat.type("/model nope")
        chat.wait_for("Claude Opus 5")
        chat.press("Tab")
        chat.wait_for("> /model anthropic/")


def test_an_extension_that_cannot_be_loaded_is_reported_once(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (chat.folder / "bad.py").write_text("def setup(fl):\n    raise ValueError('quite broken')\n")
        chat.start("-e", "bad.py")
        chat.wait_for("quite broken")
        chat.wait_until_steady()
        assert chat.screen().count("quite broken") == 1


def test_a_name_with_a_line_break_and_control_characters_is_one_row_of_the_list(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "Hello."}]) as chat:
        chat.start()
        chat.send("hi")
        chat.wait_for("Hello.")
        chat.leave()
        (path,) = (chat.home / "sessions").rglob("*.jsonl")
        name = {"type": "session_info", "id": "ffffffff", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z"}
        with path.open("a") as file:
            file.write(json.dumps({**name, "name": "first\nsecond\x1b[2J\x1b]0;stolen\x07 third"}) + "\n")
        chat.start()
        before = chat.screen().partition("\n> ")[0].rstrip()
        chat.command("/resume")
        screen = chat.wait_for(r"▸ first second\x1b[2J\x1b]0;stolen\x07 third")
        assert screen.startswith(f"{before}\n\nSessions of this folder\n/\n▸ first second\\x1b[2J\\x1b]0;stolen\\x07 third  ")
        chat.press("Escape")
        screen = chat.wait_for("> Ask for")
        assert screen.startswith(f"{before}\n\n> Ask for") and "stolen" not in chat.title()
