"""Components of extensions in the chat: pi's own examples, and hostile ones, with real keys in a real terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.peers import PI_PACKAGES
from tests.support.tmux import chat_in_tmux
from tests.system.pi_examples import example_file

pytestmark = pytest.mark.system

HELLO = {"text": "Hello there."}
EMPTY = "Ask for a change"


def test_a_game_is_drawn_and_gets_keys_and_a_resize(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, []) as chat:
        chat.start("-e", str(example_file("snake")))
        chat.command("/snake")
        before = chat.wait_for("WASD to move")
        assert "│SNAKE │ Score: 0" in before and EMPTY not in before
        chat.press("Up")
        chat.wait_for(lambda screen: screen.count("██") == 1 and screen.count("▓▓") == 2)
        chat.resize(60, 24)
        chat.wait_for(lambda screen: f" ├{'─' * 54}┤" in screen and "Score" in screen)
        chat.press("Escape")
        chat.wait_for(EMPTY)
        chat.command("/snake")
        chat.wait_for("PAUSED")
        chat.press("q")
        chat.wait_for(EMPTY)
        chat.leave()


def test_a_questionnaire_is_answered_with_choices_and_words(tmp_path: Path) -> None:
    options = [{"value": "s", "label": "SQLite"}, {"value": "p", "label": "Postgres"}]
    questions = [
        {"id": "a", "prompt": "Which database?", "options": options},
        {"id": "b", "prompt": "And why?", "options": options[:1]},
    ]
    call = {"toolCalls": [{"name": "questionnaire", "arguments": {"questions": questions}}]}
    with chat_in_tmux(tmp_path, [call, HELLO], rows=30) as chat:
        chat.start("-e", str(example_file("questionnaire")))
        chat.send("ask me")
        chat.wait_for("> 1. SQLite")
        chat.press("Down")
        chat.wait_for("> 2. Postgres")
        chat.press("Enter")
        chat.wait_for("And why?")
        chat.press("Down")
        chat.wait_for("> 2. Type something")
        chat.press("Enter")
        chat.wait_for("Your answer:")
        chat.type("öäü 漢字")
        chat.wait_for("öäü 漢字")
        chat.press("Enter")
        chat.wait_for("Ready to submit")
        chat.press("Enter")
        chat.wait_for("Hello there.")
        told = json.dumps(chat.server.requests[1].body["messages"][-1], ensure_ascii=False)
        assert "user selected: 2. Postgres" in told and "user wrote: öäü 漢字" in told


def test_an_overlay_takes_words_and_answers(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [], rows=30) as chat:
        chat.start("-e", str(example_file("overlay-test")))
        chat.command("/overlay-test")
        chat.wait_for("Edge Cases")
        chat.type("abc")
        chat.wait_for("Search: abc")
        chat.press("Enter")
        chat.wait_for(lambda screen: 'Search: "abc"' in screen and EMPTY in screen)


def test_overlays_beside_the_one_with_the_keys_are_drawn(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [], rows=30) as chat:
        chat.start("-e", str(example_file("overlay-qa-tests")))
        chat.command("/overlay-passive")
        chat.wait_for(lambda screen: "nonCapturing: true" in screen and "Non-Capturing Demo" in screen)
        chat.type("xyz")
        chat.wait_for(lambda screen: "inputs=3" in screen and "> xyz" in screen and "00:01" in screen)
        chat.press("Escape")
        chat.wait_for(lambda screen: EMPTY in screen and "Timer" not in screen)


def test_footers_headers_and_widgets_are_in_their_places(tmp_path: Path) -> None:
    names = ("custom-footer", "custom-header", "widget-placement")
    with chat_in_tmux(tmp_path, [], rows=30) as chat:
        chat.start(*(word for name in names for word in ("-e", str(example_file(name)))))
        lines = chat.wait_for(lambda screen: "█▌  █▌" in screen and "Below editor widget" in screen).splitlines()
        above, editor, below = (next(at for at, line in enumerate(lines) if text in line) for text in ("Above", EMPTY, "Below"))
        assert above < editor < below
        chat.command("/footer")
        chat.wait_for(lambda screen: "↑0 ↓0 $0.000" in screen and "0% of" not in screen)
        chat.command("/footer")
        chat.wait_for("0% of")


def test_an_editor_of_an_extension_edits_completes_sends_and_clears(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [HELLO]) as chat:
        chat.start("-e", str(example_file("modal-editor")))
        chat.wait_for("INSERT")
        chat.type("hello")
        chat.wait_for("hello")
        chat.press("Escape")
        chat.wait_for("NORMAL")
        chat.type("hhx")
        chat.wait_for("helo")
        chat.type("iZ")
        chat.wait_for("helZo")
        chat.press("Enter")
        chat.wait_for("Hello there.")
        assert chat.prompts() == ["helZo"]
        chat.type("/he")
        chat.wait_for("/help  show commands and keys")
        chat.press("C-c")
        chat.wait_for(lambda screen: "/help  show" not in screen and "/he\n" not in screen)
        chat.press("C-c")
        chat.wait_for("Ctrl+C again leaves")
        chat.press("C-c")
        assert chat.wait_for_end() == "0"


def test_a_package_answers_beside_the_conversation(tmp_path: Path) -> None:
    [folder] = next(package for package in PI_PACKAGES if package.package == "pi-btw").command()
    with chat_in_tmux(tmp_path, [HELLO, {"text": "An answer beside."}, {"text": "Another one."}], rows=30) as chat:
        chat.start("-e", folder)
        chat.send("hi")
        chat.wait_for("Hello there.")
        chat.command("/btw what is this?")
        chat.wait_for(lambda screen: "You  what is this?" in screen and "An answer beside." in screen and "1 exchange" in screen)
        chat.type("and more?")
        chat.wait_for("> and more?")
        chat.press("Enter")
        chat.wait_for(lambda screen: "Another one." in screen and "2 exchanges" in screen)
        chat.press("Escape")
        screen = chat.wait_for(EMPTY)
        assert "BTW" not in screen and " at " not in chat.screen(history=True)


HOSTILE = """
export default function (pi: any) {
  const component = { render: () => ["I stay."], invalidate() {} };
  pi.registerCommand("stays", { handler: (_args: any, ctx: any) => ctx.ui.custom(() => component) });
  pi.registerCommand("hangs", { handler: (_args: any, ctx: any) => ctx.ui.custom(() => ({
    ...component, handleInput: () => { for (;;); },
  })) });
  pi.registerCommand("throws", { handler: (_args: any, ctx: any) => ctx.ui.custom(() => ({
    invalidate() {}, render() { throw new Error("no lines today"); },
  })) });
  pi.registerCommand("floods", { handler: (_args: any, ctx: any) => ctx.ui.custom((tui: any) => {
    let count = 0;
    setInterval(() => { for (let at = 0; at < 1000; at++) tui.requestRender(); }, 1);
    return { ...component, render: () => Array(100_000).fill("\\x1b[2J\\x1b]0;evil\\x07flood ").map((line) => line + count++) };
  }) });
}
"""


def test_a_question_comes_before_a_component_that_is_open(tmp_path: Path) -> None:
    (tmp_path / "plays.ts").write_text("""
export default function (pi: any) {
  const game = (tui: any, theme: any, keys: any, done: any) => ({
    render: () => ["A game."], invalidate() {}, handleInput: (data: string) => data === "g" ? pi.sendUserMessage("go") : done(),
  });
  pi.registerCommand("plays", { handler: (_args: any, ctx: any) => ctx.ui.custom(game) });
}
""")
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "touch made"}}]}
    with chat_in_tmux(tmp_path, [call, HELLO]) as chat:
        chat.start("--approval", "ask", "-e", str(tmp_path / "plays.ts"))
        chat.command("/plays")
        chat.wait_for("A game.")
        chat.type("g")
        assert "A game." not in chat.wait_for("Allow bash?")
        chat.press("y")
        chat.wait_for(lambda screen: "A game." in screen and "Hello there." in screen)
        assert (chat.folder / "made").exists()
        chat.press("q")
        chat.wait_for(EMPTY)


def test_the_user_gets_rid_of_every_component(tmp_path: Path) -> None:
    (tmp_path / "hostile.ts").write_text(HOSTILE)
    with chat_in_tmux(tmp_path, [HELLO]) as chat:
        chat.start("-e", str(tmp_path / "hostile.ts"), "--log-file", str(tmp_path / "log"))
        chat.command("/throws")
        assert "hostile.ts:" not in chat.wait_for("/throws failed: no lines today")
        assert "hostile.ts:" in (tmp_path / "log").read_text()
        chat.command("/stays")
        chat.wait_for("I stay.")
        chat.press("C-c")
        chat.wait_for("Ctrl+C again closes this")
        chat.press("C-c")
        chat.wait_for(EMPTY)
        chat.command("/stays")
        chat.wait_for("I stay.")
        chat.press("Escape", "Escape", "Escape")
        chat.wait_for(EMPTY)
        chat.command("/floods")
        screen = chat.wait_for("flood ")
        assert len(screen.splitlines()) <= 24 and "evil" not in chat.title()
        chat.press("C-c", "C-c")
        chat.wait_for(EMPTY)
        chat.send("hi")
        chat.wait_for("Hello there.")
        chat.command("/hangs")
        chat.wait_for("I stay.")
        chat.press("x")
        chat.wait_for("/hangs failed: The Node process that runs extensions has ended")
        chat.wait_for(EMPTY)
        chat.leave()
