"""The page of `fairlead serve` in a real Chromium: its controls, dialogs and questions, by mouse and by keyboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from tests.export.browser import Browser
from tests.system.serve_page import ANSWERS, IDLE, SAID, TEXT, Page, axe, served

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

FOCUS = "document.activeElement.id || document.activeElement.className || document.activeElement.textContent"
CODES = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowDown": 40}

#: An extension with a command that asks one question of each kind.
QUIZ = """
def setup(fl):
    @fl.register_command("quiz", description="Ask everything")
    async def quiz(arguments, ctx):
        found = [
            await ctx.ui.select("Which colour?", ["red", "blue"]),
            await ctx.ui.input("Which name?", "a name"),
            await ctx.ui.confirm("Are you sure?", "It cannot be undone."),
            await ctx.ui.editor("Which text?", "some text"),
        ]
        ctx.ui.notify(" | ".join(map(str, found)))
"""


def key(tab: Browser, *names: str, modifiers: int = 0) -> None:
    """Press keys as a user does, so that the browser moves the focus."""
    for name in names:
        typed = {"text": "\r" if name == "Enter" else " "} if name in ("Enter", " ") else {}
        code = {"key": name, "code": "Space" if name == " " else name, "windowsVirtualKeyCode": CODES[name]}
        tab.send("Input.dispatchKeyEvent", type="keyDown", modifiers=modifiers, **code, **typed)
        tab.send("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers, **code)
    tab.settle()


def tab_to(page: Page, selector: str, *, back: bool = False) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(60):
        if page.tab.run(f"document.activeElement.matches({json.dumps(selector)})"):
            return
        key(page.tab, "Tab", modifiers=8 if back else 0)
    pytest.fail(f"Tab does not reach {selector}; the focus is on {page.tab.run(FOCUS)}")


def check(page: Page, picture: Path) -> None:
    """Take a picture, and fail if axe has a serious finding."""
    (script,) = peers.AXE.command()
    page.tab.screenshot(picture)
    found = axe(page.tab, script)
    assert found == [], found


def choose(page: Page, field: str, value: str) -> None:
    page.tab.run(
        f"(s => {{ s.value = {json.dumps(value)}; s.dispatchEvent(new Event('change')) }})(document.getElementById('{field}'))"
    )


def add_model(home: Path) -> None:
    """Let the user choose between two models."""
    path = home / "models.json"
    models = json.loads(path.read_text())
    listed = models["providers"]["test"]["models"]
    listed.append({**listed[0], "id": "other-model", "name": "Other model", "reasoning": False})
    path.write_text(json.dumps(models))


def test_the_model_the_level_and_the_approvals_are_switched(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "one"}, {"text": "two"}], prepare=add_model) as page:
        page.begin()
        page.until("document.querySelectorAll('#model option').length === 2")
        choose(page, "thinking", "low")
        choose(page, "approval", "deny")
        page.say("first")
        page.until(f"{TEXT}.includes('one') && {IDLE}")
        choose(page, "model", "test/other-model")
        page.until("document.getElementById('thinking').options.length === 1")
        page.say("second")
        page.until(f"{TEXT}.includes('two') && {IDLE}")
        assert [each.body["model"] for each in page.provider.requests] == ["test-model", "other-model"]
        assert "thinking" in page.provider.requests[0].body and "thinking" not in page.provider.requests[1].body
        page.reload()
        page.until("document.getElementById('model')?.value === 'test/other-model'")
        assert tab.run("document.getElementById('approval').value") == "deny"
        check(page, tmp_path / "settings.png")


def test_a_session_is_compacted(tab: Browser, tmp_path: Path) -> None:
    turns = [{"text": "long " * 30_000, "chunk": 4000}, {"text": "short answer"}, {"text": "## Goal\nA summary of it all"}]
    with served(tab, tmp_path, turns) as page:
        page.begin()
        page.click("#compact")
        page.until("!!document.querySelector('.notice.error')")
        page.click(".notice button")
        page.say("first")
        page.until(f"{TEXT}.includes('long') && {IDLE}")
        page.say("second")
        page.until(f"{TEXT}.includes('short answer') && {IDLE}")
        page.click("#compact")
        page.until("[...document.querySelectorAll('.note summary')].some(e => e.textContent.includes('summarised'))")
        page.until(f"{IDLE} && {TEXT}.includes('A summary of it all')")
        assert tab.run(SAID) == ["second"]
        assert tab.run("document.querySelectorAll('.notice').length") == 0
        check(page, tmp_path / "compacted.png")


def test_a_run_that_failed_is_resumed_by_keyboard(tab: Browser, tmp_path: Path) -> None:
    turns = [{"error": "out of order", "status": 400}, {"text": "word " * 50, "holdAfter": 5}]
    with served(tab, tmp_path, turns) as page:
        page.begin()
        page.say("go")
        page.until("document.getElementById('resume').checkVisibility()")
        assert (
            tab.run("document.querySelector('.problem p').textContent") == "The provider refused the request (400): out of order."
        )
        assert "api_error" in tab.run("document.querySelector('.problem details').textContent")
        page.until("document.getElementById('announcements').textContent.includes('Resume')")
        check(page, tmp_path / "interrupted.png")
        tab_to(page, "#resume", back=True)
        key(tab, "Enter")
        page.until(f"({ANSWERS}).length > 0 && !({IDLE})")
        assert not tab.run("document.getElementById('resume').checkVisibility()") and tab.run(FOCUS) == "message"
        assert tab.run(SAID) == ["go"]
        key(tab, "Escape")
        page.until(IDLE)
        page.reload()
        page.until("document.readyState === 'complete' && !!document.documentElement.dataset.ready")
        assert not tab.run("document.getElementById('resume').checkVisibility()")  # what a user stops has ended
        assert not page.complaints()


def test_the_page_does_not_wait_for_a_session_that_another_client_deleted(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "Hello."}]) as page:
        page.begin()
        page.say("hi")
        page.until(f"{IDLE} && document.querySelectorAll('#sessions a').length === 1")
        tab.run("fetch(`/v1/sessions/${location.hash.slice(1)}`, {method: 'DELETE'}).then(r => r.status)")
        page.until("document.getElementById('notices').textContent.includes('There is no session')")
        page.until("document.getElementById('connection').textContent.trim() === 'Not connected'")
        page.until("document.querySelectorAll('#sessions a').length === 0")


def test_a_session_is_deleted_after_a_question(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "gone soon"}]) as page:
        page.begin()
        page.say("hi")
        page.until(f"{TEXT}.includes('gone soon') && {IDLE}")
        page.until("document.querySelectorAll('#sessions a').length === 1")
        page.click("#danger summary")
        check(page, tmp_path / "danger.png")
        page.click("#delete")
        assert tab.run("document.getElementById('delete-title').textContent") == "hi"
        check(page, tmp_path / "delete.png")
        page.click("#delete-dialog button[value='']")
        assert len(list(tmp_path.rglob("*.jsonl"))) == 1
        page.click("#danger summary")
        page.click("#delete")
        page.click("#delete-dialog button[value=ok]")
        page.until("location.hash === '' && document.querySelectorAll('#sessions a').length === 0")
        assert tab.run("document.getElementById('welcome').checkVisibility()")
        assert list(tmp_path.rglob("*.jsonl")) == []
        check(page, tmp_path / "welcome.png")


def test_todos_and_sub_agents_are_shown_and_survive_a_reload(tab: Browser, tmp_path: Path) -> None:
    tasks = [{"content": "Build it", "status": "in_progress"}, {"content": "Test it"}]
    todo = {"ops": [{"op": "replace", "phases": [{"name": "Work", "tasks": tasks}]}]}
    task = {"agent": "task", "tasks": [{"description": f"look at part {n}", "assignment": "find it"} for n in (1, 2)]}
    turns = [
        {"toolCalls": [{"name": "todo_write", "arguments": todo}]},
        {"toolCalls": [{"name": "task", "arguments": task}]},
        {"text": "word " * 100, "holdAfter": 5},
        {"text": "word " * 100, "holdAfter": 5},
        {"text": "All done"},
    ]
    with served(tab, tmp_path, turns) as page:
        page.begin()
        page.say("go")
        for _ in range(2):
            page.until("document.querySelectorAll('#subagents li').length === 2")
            page.until("document.getElementById('subagents').innerText.includes('look at part 2')")
            page.until("document.getElementById('widgets').textContent.includes('▸ Build it')")
            check(page, tmp_path / "subagents.png")
            page.reload()
        page.until("document.querySelectorAll('#subagents li').length === 2")
        page.provider.release()
        page.until(f"{TEXT}.includes('All done') && {IDLE}")
        assert tab.run("document.getElementById('subagents').hidden") is True


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_dialogs_of_extensions_are_answered(tab: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    def install(home: Path) -> None:
        (home / "extensions").mkdir()
        (home / "extensions" / "quiz.py").write_text(QUIZ)

    tab.size(width, 844)
    tab.media(scheme=scheme)
    with served(tab, tmp_path, [{"text": "ok"}], prepare=install) as page:
        page.begin()
        page.say("/quiz")
        asked = "document.querySelector('#questions h2')?.textContent"
        page.until(f"{asked} === 'Which colour?'")
        check(page, tmp_path / "select.png")
        page.click("#questions .row button:nth-child(2)")
        page.until(f"{asked} === 'Which name?'")
        check(page, tmp_path / "input.png")
        tab.run("document.querySelector('#questions input').focus()")
        tab.type("Ada")
        tab.press("Enter")
        page.until(f"{asked} === 'Are you sure?'")
        check(page, tmp_path / "confirm.png")
        page.click("#questions .primary")
        page.until(f"{asked} === 'Which text?'")
        assert tab.run("document.querySelector('#questions textarea').value") == "some text"
        check(page, tmp_path / "editor.png")
        tab.run("document.querySelector('#questions textarea').value = 'other text'")
        page.click("#questions .primary")
        page.until("document.getElementById('notices').textContent.includes('blue | Ada | True | other text')")
        check(page, tmp_path / "notice.png")
        assert tab.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_session_moves_within_its_tree(tab: Browser, tmp_path: Path, width: int) -> None:
    turns: list[Any] = [{"text": "first answer"}, {"text": "second answer"}, {"text": "other answer"}, {"text": "last answer"}]
    tab.size(width, 844)
    with served(tab, tmp_path, turns) as page:
        page.begin()
        for said, answer in (("one", "first"), ("two", "second")):
            page.say(said)
            page.until(f"{TEXT}.includes('{answer} answer') && {IDLE}")
        session = tab.run("location.hash")
        if width < 800:
            page.click("#settings")
        page.click("#tree")
        page.click("#tree-list li:nth-child(3) .move")
        page.until("document.getElementById('message').value === 'two'")
        page.until(f"!{TEXT}.includes('second answer')")
        tab.run("document.getElementById('message').value = ''")
        page.say("two again")
        page.until(f"{TEXT}.includes('other answer') && {IDLE}")
        assert tab.run(SAID) == ["one", "two again"]
        page.click("#tree")
        page.until("document.querySelectorAll('#tree-list .branch').length === 2")
        check(page, tmp_path / "branches.png")
        page.click("#tree-list .branch:nth-of-type(3) li:nth-child(2) .move")
        page.until(f"{TEXT}.includes('second answer') && !{TEXT}.includes('other answer')")
        assert tab.run("location.hash") == session
        page.say("three")
        page.until(f"{TEXT}.includes('last answer') && {IDLE}")
        assert tab.run(ANSWERS) == ["first answer", "second answer", "last answer"]


def test_queued_messages_are_withdrawn(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "word " * 400, "holdAfter": 20}, {"text": "unused"}]) as page:
        page.begin()
        page.say("go")
        page.until(f"{TEXT}.includes('word word')")
        page.say("steer this " + "x" * 300)
        page.write("queue this")
        page.click("#queue")
        page.until("document.querySelectorAll('#waiting-list li').length === 2")
        check(page, tmp_path / "waiting.png")
        page.click("#take-back")
        page.until("document.getElementById('waiting').hidden")
        assert tab.run("document.getElementById('message').value").startswith("steer this")
        assert tab.run("document.getElementById('message').value").endswith("\n\nqueue this")
        page.provider.release()
        page.until(IDLE)
        assert len(page.provider.requests) == 1


def test_a_rule_that_an_answer_writes_can_be_edited_and_covers_later_calls(tab: Browser, tmp_path: Path) -> None:
    calls = [
        {"toolCalls": [{"name": "bash", "arguments": {"command": command}}]} for command in ("git status", "git diff --stat")
    ]
    turns = [calls[1], {"text": "One"}, calls[1], {"text": "Two"}, calls[0], {"text": "Three"}]
    with served(tab, tmp_path, turns, "--approval", "ask") as page:
        page.begin()
        page.say("look")
        page.click("#questions summary")
        assert tab.run("document.querySelector('#questions .rule').value") == "git diff --stat", "narrow at first"
        tab.run("document.querySelector('#questions .rule').value = 'git diff *'")
        tab.screenshot(tmp_path / "rule.png")
        page.click("#questions .allow-always")
        page.until(f"{TEXT}.includes('One') && {IDLE}")
        page.say("again")
        page.until(f"{TEXT}.includes('Two') && {IDLE}")
        page.say("and the status")
        page.until("!!document.querySelector('#questions .allow')")
    (settings,) = tmp_path.rglob("settings.json")
    (rule,) = json.loads(settings.read_text())["approvals"]["rules"]
    assert (rule["tool"], rule["pattern"], rule["action"]) == ("bash", "git diff *", "allow")


def test_everything_works_with_the_keyboard_alone(tab: Browser, tmp_path: Path) -> None:
    call = {"toolCalls": [{"name": "write", "arguments": {"path": "made.txt", "content": "x\n"}}]}
    with served(tab, tmp_path, [call, {"text": "Done"}, {"text": "word " * 400, "holdAfter": 5}], "--approval", "ask") as page:
        page.until("document.activeElement.id === 'message'")
        tab.run("document.activeElement.blur()")
        tab_to(page, "#skip")
        assert tab.run("document.activeElement.getBoundingClientRect().top") >= 0, "it is visible when it has the focus"
        key(tab, "Enter")
        assert tab.run(FOCUS) == "message"
        tab.type("write it")
        key(tab, "Enter")
        page.until("!!document.querySelector('#questions .allow')")
        tab_to(page, "#questions .allow")
        key(tab, "Enter")
        page.until(f"{TEXT}.includes('Done') && {IDLE}")
        assert (page.project / "made.txt").exists()
        assert tab.run(FOCUS) == "message", "the focus is not lost with the question"
        tab_to(page, "#tree", back=True)
        key(tab, "Enter")
        page.until("document.getElementById('tree-dialog').open")
        tab_to(page, ".fork")
        key(tab, "Escape")
        page.until("!document.getElementById('tree-dialog').open")
        assert tab.run(FOCUS) == "tree"
        tab_to(page, "#rename")
        key(tab, " ")
        page.until("document.activeElement.id === 'name'")
        check(page, tmp_path / "rename.png")
        tab.type("By keyboard")
        key(tab, "Enter")
        page.until("document.getElementById('title').textContent === 'By keyboard'")
        tab_to(page, "#message")
        tab.type("long one")
        key(tab, "Enter")
        page.until(f"{TEXT}.includes('word word')")
        key(tab, "Escape")
        page.until(f"{IDLE} && {TEXT}.includes('Stopped.')")
        tab_to(page, "summary", back=True)
        key(tab, "Enter")
        assert page.complaints() == []


def test_the_first_message_begins_a_session_where_and_how_the_user_chose(tab: Browser, tmp_path: Path) -> None:
    def fill_field(name: str, value: str) -> None:
        tab.run(f"document.getElementById('{name}').value = {json.dumps(value)}")

    with served(tab, tmp_path, [{"text": "Hello"}, {"text": "Again"}], prepare=add_model) as page:
        (page.project / "inner").mkdir()
        page.until("document.activeElement.id === 'message'")
        page.until("document.querySelectorAll('#start-model option').length === 3")
        check(page, tmp_path / "start.png")
        fill_field("folder", str(tmp_path / "missing"))
        page.write("first words")
        tab.press("Enter")
        page.until("document.getElementById('notices').textContent.includes('missing')")
        assert tab.run("document.getElementById('message').value") == "first words", "nothing is lost"
        page.reload()
        page.until("document.body.dataset.view === 'start' && document.querySelectorAll('#start-model option').length === 3")
        assert tab.run("document.getElementById('message').value") == "first words"
        fill_field("folder", str(page.project / "inner"))
        fill_field("start-model", "test/other-model")
        fill_field("start-approval", "deny")
        page.click("#send")
        page.until(f"({ANSWERS}).includes('Hello') && {IDLE}")
        assert tab.run(SAID) == ["first words"]
        assert tab.run("document.getElementById('where').textContent") == str(page.project / "inner")
        assert (
            tab.run("document.getElementById('model').value + document.getElementById('approval').value")
            == "test/other-modeldeny"
        )
        page.until("document.getElementById('title').textContent === 'first words'")
        page.click("#new")
        page.until("document.body.dataset.view === 'start' && document.activeElement.id === 'message'")
        assert tab.run("document.getElementById('message').value") == ""
        page.say("more words")
        page.until(f"({ANSWERS}).includes('Again') && {IDLE}")
        page.until("document.querySelectorAll('#sessions a').length === 2")
        assert [each.body["model"] for each in page.provider.requests] == ["other-model", "other-model"], "the choice stays"


SUGGESTED = "document.getElementById('suggestions').checkVisibility() && [...document.querySelectorAll('#suggestions .label')]"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_files_and_commands_are_completed(tab: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    def install(home: Path) -> None:
        (home / "prompts").mkdir()
        (home / "prompts" / "review.md").write_text("---\ndescription: Review the last commit\n---\nReview $1.\n")

    def suggested(*labels: str) -> None:
        page.until(f"({SUGGESTED}.map(e => e.textContent).join(' ')) === {json.dumps(' '.join(labels))}")

    value = "document.getElementById('message').value"
    closed = "document.getElementById('suggestions').hidden"
    tab.size(width, 844)
    tab.media(scheme=scheme)
    with served(tab, tmp_path, [{"text": "Hello"}, {"text": "Again"}], prepare=install) as page:
        (page.project / "src").mkdir()
        for name in ("src/main.py", "src/made.py", "my notes.md"):
            (page.project / name).write_text("x\n")
        page.until("document.activeElement.id === 'message'")
        page.write("/rev")
        suggested("/review")
        check(page, tmp_path / "command.png")
        key(tab, "Enter")
        assert tab.run(value) == "/review " and tab.run(closed)
        page.write("@sr")
        suggested("src/", "src/made.py", "src/main.py")
        assert tab.run("document.querySelectorAll('#sessions a').length") == 0, "only a message makes it a session of the list"
        active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent"
        assert tab.run(active) == "src/"
        key(tab, "ArrowDown")
        assert tab.run(active) == "src/made.py"
        check(page, tmp_path / "file.png")
        key(tab, "Escape")
        assert tab.run(closed) and tab.run(value) == "/review @sr"
        page.write("c/")
        suggested("src/", "src/made.py", "src/main.py")
        page.click("#suggestions li:nth-child(2)")
        assert tab.run(value) == "/review @src/made.py " and tab.run(FOCUS) == "message"
        key(tab, "Enter")
        page.until(f"({ANSWERS}).includes('Hello') && {IDLE}")
        assert len(list(tmp_path.rglob("*.jsonl"))) == 1
        page.until("document.querySelectorAll('#sessions a').length === 1")
        page.write("look at @not")
        suggested("my notes.md")
        key(tab, "Tab")
        assert tab.run(value) == 'look at @"my notes.md" ' and tab.run(FOCUS) == "message"
        page.write("and @nothing-like-it")
        page.until(closed)
        key(tab, "Enter")
        page.until(f"({ANSWERS}).includes('Again') && {IDLE}")
        assert page.complaints() == []


def test_a_first_message_survives_that_its_page_shows_something_else(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "First"}, {"text": "Second"}]) as page:
        page.begin()
        page.say("hi")
        page.until(f"({ANSWERS}).includes('First') && {IDLE}")
        other = tab.run("location.hash")
        page.click("#new")
        page.until("document.body.dataset.view === 'start'")
        tab.run(  # the message arrives, but its response is late
            "{ const plain = fetch, late = new Promise(done => (window.letGo = done)); window.fetch = (path, ...rest) =>"
            " plain(path, ...rest).then(each => (path.endsWith('/prompt') ? late : Promise.resolve()).then(() => each)) } 0"
        )
        page.write("hello @x")
        tab.press("Enter")
        page.until("document.getElementById('send').disabled")
        tab.run(f"location.hash = {json.dumps(other)}")
        page.until(f"document.documentElement.dataset.ready === {json.dumps(other[1:])}")
        tab.run("letGo()")
        page.until("!document.getElementById('send').disabled && document.querySelectorAll('#sessions a').length === 2")
        assert tab.run("location.hash") == other and tab.run(SAID) == ["hi"]
        page.click(f"#sessions a:not([href='{other}'])")
        page.until(f"({ANSWERS}).includes('Second') && {IDLE}")
        page.click("#new")
        page.until("document.body.dataset.view === 'start'")
        assert tab.run("document.getElementById('message').value") == ""


def test_one_key_answers_an_approval_but_not_while_the_user_types(tab: Browser, tmp_path: Path) -> None:
    def write(number: int) -> dict[str, Any]:
        return {"toolCalls": [{"name": "write", "arguments": {"path": f"{number}.txt", "content": f"text {number}\n"}}]}

    def asked(number: int) -> None:
        page.until(f"document.querySelector('#questions .diff-added')?.textContent.includes('text {number}')")

    armed = "document.getElementById('questions').dataset.armed === 'true'"
    with served(tab, tmp_path, [*map(write, range(4)), {"text": "All done"}], "--approval", "ask") as page:
        page.say("write files")
        asked(0)
        page.until(f"{armed} && document.activeElement.matches('#questions form')")
        tab.press("y")
        asked(1)
        page.until(armed)
        press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"
        tab.run(f"['x', 'y'].forEach(key => {press})")  # the second key follows the first at once
        assert tab.run("document.querySelector('#questions form').dataset.isAnswered") is None
        page.until(armed)
        tab.press("n")
        asked(2)
        page.click("#message")
        tab.type("a draft")
        page.until(armed)
        tab.press("y")
        assert tab.run("document.getElementById('message').value") == "a drafty"
        tab.run("document.querySelector('#questions form').focus()")
        page.until(armed)
        tab.press("Y")
        asked(3)
        assert tab.run("document.activeElement.id") == "message", "a draft keeps the focus"
        tab.run("document.querySelector('#questions form').focus()")
        page.until(armed)
        tab.press("a")
        page.until(f"{TEXT}.includes('All done') && {IDLE}")
        assert sorted(path.name for path in page.project.glob("*.txt")) == ["0.txt", "2.txt", "3.txt"]
        assert page.complaints() == []


def test_a_question_that_comes_before_the_message_field_is_empty_is_answered_with_one_key(tab: Browser, tmp_path: Path) -> None:
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo done > out"}}]}
    hold = "r => String(r.url).endsWith('/prompt') ? new Promise(done => window.release = () => done(r)) : r"
    with served(tab, tmp_path, [call, {"text": "All done"}], "--approval", "ask") as page:
        page.begin()
        tab.run(f"(real => window.fetch = (...all) => real(...all).then({hold}))(window.fetch); 0")
        page.write("go")
        key(tab, "Enter")
        page.until("window.release && document.querySelector('#questions form')")
        assert tab.run(FOCUS) == "message" and tab.run("getComputedStyle(document.querySelector('kbd')).opacity") != "1"
        tab.run("release()")
        armed = "document.getElementById('questions').dataset.armed === 'true'"
        page.until(f"{armed} && document.activeElement.matches('#questions form')")
        assert tab.run("getComputedStyle(document.querySelector('kbd')).opacity") == "1"
        tab.press("y")
        page.until(f"{TEXT}.includes('All done') && {IDLE}")
        assert (page.project / "out").exists()


def test_commands_of_the_page_are_suggested_and_run(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "Hello"}]) as page:
        page.begin()
        page.write("/")
        labels = f"({SUGGESTED}.map(e => e.textContent).join(' '))"
        page.until(f"{labels} === '/compact /new /rename /tree'")
        page.write("ren")
        page.until(f"{labels} === '/rename'")
        key(tab, "Enter", "Enter")
        page.until("document.getElementById('rename-dialog').open")
        key(tab, "Escape")
        assert tab.run("document.getElementById('message').value") == "" and page.provider.requests == []
        page.write("/new")
        key(tab, "Enter")
        page.until("document.body.dataset.view === 'start'")


def test_sessions_that_wait_have_a_badge_a_notice_and_a_notification(tab: Browser, tmp_path: Path) -> None:
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo one"}}]}
    with served(tab, tmp_path, [call, call, {"text": "Done"}, {"text": "Done"}], "--approval", "ask") as page:
        tab.send("Browser.grantPermissions", origin=page.url, permissions=["notifications"])
        tab.run(
            "{ const Real = Notification; window.seen = [];"
            "window.Notification = class extends Real { constructor(...all) { super(...all); seen.push(all); } };"
            "window.post = (path, body) => fetch(path, {method: 'POST', headers: {'content-type': 'application/json'},"
            " body: JSON.stringify(body)}).then(r => r.json()) } 0"
        )
        for number in (1, 2):
            if number == 2:
                page.click("#notify")
                page.until("document.getElementById('notify').getAttribute('aria-pressed') === 'true'")
                tab.run("document.hasFocus = () => false")
            prompt = f"post('/v1/sessions/' + s.id + '/prompt', {{text: 'session {number}'}})"
            tab.run(f"post('/v1/sessions', {{}}).then(s => {prompt})")
            page.until(f"document.title === '({number}) fairlead'")
            page.until(f"document.querySelectorAll('#sessions .waiting').length === {number}")
        assert tab.run("document.getElementById('menu').ariaLabel") == "Sessions, 2 waiting for you"
        assert "session 1 waits for your answer." in tab.run("document.getElementById('notices').textContent")
        assert [(title, options["body"]) for title, options in tab.run("seen")] == [("session 2", "It waits for your answer.")]
        check(page, tmp_path / "badges.png")
        tab.run("localStorage.removeItem('notify')")
        page.reload()
        page.until("document.title === '(2) fairlead'")
        assert tab.run("document.getElementById('notices').textContent") == "", "the list shows what waited before"
        page.click("#sessions li:last-child a")
        page.click("#questions .allow")
        page.until(f"{TEXT}.includes('Done') && {IDLE} && document.title.startsWith('(1) session 1')")
        tab.send("Browser.resetPermissions")


def test_a_session_that_was_begun_for_suggestions_is_not_left_behind(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "Hello"}]) as page:
        page.begin()
        page.say("hi")
        page.until(f"({ANSWERS}).includes('Hello') && {IDLE}")
        page.click("#new")
        page.until("document.body.dataset.view === 'start'")
        page.write("@x")
        begun = "fetch('/v1/sessions').then(r => r.json()).then(l => l.sessions.length === {})"
        page.until(begun.format(2))
        page.click("#sessions a")
        page.until("document.body.dataset.view === 'session'")
        page.until(begun.format(1))
