"""The page of `fairlead serve` in a real Chromium: what its reader sees of long, wide and foreign text, and of other clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.export.browser import Browser
from tests.system.serve_page import IDLE, TEXT, served

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

AT_END = "(s => s.scrollHeight - s.scrollTop - s.clientHeight < 5)(document.getElementById('scroller'))"
LISTED = "(document.querySelector('#sessions .working')?.textContent ?? '')"
ASKS = "!!document.querySelector('#questions button.allow')"


def writes(number: int) -> Any:
    content = "one more line\n" * 30
    return {"toolCalls": [{"name": "write", "arguments": {"path": f"file-{number}.txt", "content": content}}]}


def test_the_page_follows_the_end_when_something_tall_arrives(tab: Browser, tmp_path: Path) -> None:
    turns = [{"text": "a paragraph\n\n" * 60}, *(writes(number) for number in range(4)), {"text": "The end."}]
    with served(tab, tmp_path, turns, "--approval", "ask") as page:
        page.begin()
        page.say("write a lot")
        page.until(f"{IDLE} && {AT_END}")
        page.say("write files")
        for number in range(4):
            page.until(f"document.getElementById('questions').textContent.includes('file-{number}.txt')")
            page.until(AT_END)
            page.click("#questions button.allow")
        page.until(f"{TEXT}.includes('The end.') && {IDLE} && {AT_END}")
        tab.run("document.getElementById('scroller').scrollTop = 0")
        tab.settle()
        page.say("once more")
        page.until(f"{IDLE} && {AT_END}")


@pytest.mark.parametrize("clipboard", ["undefined", "{writeText: () => Promise.reject(new Error('denied'))}"])
def test_code_is_copied_where_the_browser_has_no_clipboard_for_the_page(tab: Browser, tmp_path: Path, clipboard: str) -> None:
    # Over http it exists on loopback only.
    with served(tab, tmp_path, [{"text": "Look:\n\n```python\nprint(1)\n```\n"}]) as page:
        page.begin()
        page.say("code")
        page.until(f"{IDLE} && !!document.querySelector('article.assistant button.copy')")
        tab.run(f"Object.defineProperty(navigator, 'clipboard', {{value: {clipboard}}}), 0")
        tab.run("document.addEventListener('copy', () => (window.copied = String(getSelection()))), 0")
        page.click("article.assistant button.copy")
        page.until("document.querySelector('article.assistant button.copy').textContent === 'Copied'")
        assert tab.run("window.copied") == "print(1)"
        assert tab.run("String(getSelection())") == ""
        tab.run("document.execCommand = () => false, 0")
        page.until("document.querySelector('article.assistant button.copy').textContent === 'Copy'")
        page.click("article.assistant button.copy")
        page.until("document.querySelector('article.assistant button.copy').textContent === 'Not copied'")


def test_scrolling_up_stops_auto_scroll(tab: Browser, tmp_path: Path) -> None:
    turns = [{"text": "a paragraph\n\n" * 60}, {"text": "more\n\n" * 60, "chunk": 20, "delayMs": 20}]
    with served(tab, tmp_path, turns) as page:
        page.begin()
        page.say("write a lot")
        page.until(f"{IDLE} && {AT_END}")
        page.say("more")
        page.until(f"{TEXT}.includes('more')")
        tab.run("document.getElementById('scroller').scrollBy(0, -400)")
        tab.settle()
        place = tab.run("document.getElementById('scroller').scrollTop")
        page.until(IDLE)
        assert tab.run("document.getElementById('scroller').scrollTop") == place


def test_paragraphs_run_in_the_direction_of_their_script_and_words_in_tables_stay_whole(tab: Browser, tmp_path: Path) -> None:
    cell = "a long text in a cell " * 20
    text = f"Left to right.\n\nשלום עולם (RTL).\n\n| Name | Value | About |\n|---|---|---|\n| one | 1 | {cell} |\n\nThe end."  # noqa: RUF001
    with served(tab, tmp_path, [{"text": text}]) as page:
        page.begin()
        page.say("שלום")
        page.until(f"{TEXT}.includes('The end.') && {IDLE}")
        gap = (
            "(e => { const r = document.createRange(); r.selectNodeContents(e); const b = r.getBoundingClientRect(),"
            " o = e.getBoundingClientRect(); return b.left - o.left > o.right - b.right ? 'right' : 'left'; })"
        )
        sides = tab.run(f"[...document.querySelectorAll('#transcript .markdown > p, #transcript .text')].map({gap})")
        assert sides == ["right", "left", "right", "left"]
        for width in (1280, 390):
            tab.size(width, 900)
            tab.settle()
            lines = "[...document.querySelectorAll('#transcript th')].map(e => { const r = document.createRange();"
            lines += "r.selectNodeContents(e); return r.getClientRects().length; })"
            assert tab.run(lines) == [1, 1, 1], width
            assert tab.run("document.documentElement.scrollWidth <= innerWidth"), "the table scrolls, not the page"


def test_edits_and_writes_are_diffs_and_every_call_has_a_title(tab: Browser, tmp_path: Path) -> None:
    def call(name: str, **arguments: Any) -> Any:
        return {"toolCalls": [{"name": name, "arguments": arguments}]}

    turns = [
        call("edit", path="a.py", edits=[{"oldText": "x = 1", "newText": "x = 2"}]),
        call("edit", path="a.py", edits=[{"oldText": "y\n-- 1", "newText": "y\n-- 2"}]),
        call("write", path="b.txt", content="one\ntwo\n"),
        call("read", path="a.py", offset=1, limit=2),
        call("unknown", path="a.py", deep=1),
        call("ask", questions=[{"id": "sure", "question": "Are you sure?", "options": [{"label": "Yes"}]}]),
        {"text": "The end"},
    ]
    with served(tab, tmp_path, turns) as page:
        (page.project / "a.py").write_text("import os\nx = 1\ny\n-- 1\n")
        page.begin()
        page.say("go")
        page.click("#questions button")
        for _ in range(2):
            page.until(f"{TEXT}.includes('The end') && {IDLE}")
            parts = ["name", "subject", "count [aria-hidden]"]
            texts = f"{json.dumps(parts)}.map(part => card.querySelector('.tool-' + part)?.textContent).join(' ').trim()"
            assert tab.run(f"[...document.querySelectorAll('.tool')].map(card => {texts})") == [
                "Edit a.py +1 -1",
                "Edit a.py +1 -1",
                "Write b.txt +2",
                "Read a.py (1-2)",
                "unknown a.py",
                "Question Are you sure?",
            ]
            changed = "[...document.querySelectorAll('.tool :is(.diff-added, .diff-removed)')]"
            assert tab.run(f"{changed}.map(e => [e.textContent, e.dataset.number])") == [
                *(["-x = 1\n", "2"], ["+x = 2\n", "2"]),
                *(["--- 1\n", "4"], ["+-- 2\n", "4"]),
                *(["+one\n", "1"], ["+two\n", "2"]),
            ]
            assert '"edits"' not in tab.run(TEXT)
            page.reload()


def test_calls_of_a_hostile_model_are_shown_whatever_their_arguments_are(tab: Browser, tmp_path: Path) -> None:
    odd: list[Any] = [
        None,
        3,
        "x",
        [],
        {"edits": 1},
        {"edits": [None, 1, {"oldText": 1}]},
        {"command": {}},
        {"path": ["a"], "content": 1},
    ]
    more: list[Any] = [
        {"tasks": [None, {"description": 1}]},
        {"content": "a\u202eb", "path": "x"},
        {"a": "<img src=x onerror=alert(1)>"},
    ]
    with served(tab, tmp_path, []) as page:
        page.until("document.body.dataset.view === 'start'")
        names = ["constructor", "__proto__", "edit", "task", "read", "ls", "mcp__a__b"]
        shown = tab.run(
            "import('/page/tools.mjs').then(({ToolCard}) => "
            f"{json.dumps(names)}.flatMap(name => {json.dumps([*odd, *more])}.map(args => {{"
            " const card = new ToolCard('1', name); card.describe(name, args); card.end({content: []}, false);"
            " return card.element.textContent + card.element.querySelectorAll('img').length })))"
        )
        assert len(shown) == 77 and not any("\u202e" in each for each in shown) and all(each.endswith("0") for each in shown)


@pytest.mark.parametrize(
    ("error", "sentence", "has_details"),
    [
        ('400 {"error": {"message": "out of order"}}', "The provider refused the request (400): out of order.", True),
        ('401 {"error": {"message": "bad key"}}', "The provider refused the API key (401): bad key.", True),
        ('529 {"type": "error", "error": "overloaded!"}', "The provider failed (529): overloaded!", True),
        ("503 Service Unavailable", "The provider failed (503): Service Unavailable.", False),
        ("The connection was lost.", "The connection was lost.", False),
        ('500 {"error": {"mess', 'The provider failed (500): {"error": {"mess.', False),
        ('{"error": null}', "The model failed.", True),
        ("", "The model failed.", False),
        ("Wait [soon].", "Wait [soon].", False),
        (
            '400 [{"error": {"message": "API key not valid."}}]',
            "The provider refused the request (400): API key not valid.",
            True,
        ),
        ('422 {"detail": [{"msg": "field required"}]}', "The provider refused the request (422): field required.", True),
        ('503 {"error": {"message": "Provider error", "metadata": {"raw": "Gone"}}}', "The provider failed (503): Gone.", True),
        ("502 <html><head><title>502 Bad Gateway</title></head></html>", "The provider failed (502): Bad Gateway.", True),
    ],
)
def test_an_error_of_a_provider_is_one_sentence(
    tab: Browser, tmp_path: Path, error: str, sentence: str, has_details: bool
) -> None:
    with served(tab, tmp_path, []) as page:
        page.until("document.body.dataset.view === 'start'")
        found = tab.run(f"import('/page/dom.mjs').then(m => m.sentenceOf({json.dumps(error)}))")
        assert found == {"sentence": sentence, "details": error if has_details else ""}


def test_numbers_are_right_aligned_and_code_has_a_fixed_width(tab: Browser, tmp_path: Path) -> None:
    rows = "| a | $1.50 | 2 | 3 | x |\n| b | 1,000 % | 2 | 3 | |"
    text = f"| Case | Cost | Mid | Left | 1st |\n|---|---|:-:|:--|--:|\n{rows}\n\n`iiiiii` `MMMMMM`"
    with served(tab, tmp_path, [{"text": text}]) as page:
        page.begin()
        page.say("a table")
        page.until(f"{TEXT}.includes('MMMMMM') && {IDLE}")
        sides = tab.run("[...document.querySelectorAll('tbody tr:first-child td')].map(e => getComputedStyle(e).textAlign)")
        assert sides == ["start", "end", "center", "start", "end"]
        narrow, wide = tab.run("[...document.querySelectorAll('.markdown p code')].map(e => e.getBoundingClientRect().width)")
        assert narrow == wide


def test_a_question_that_another_client_answers_is_closed_with_a_note(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [writes(1), writes(2), {"text": "The end."}], "--approval", "ask") as page:
        page.begin()
        page.say("write files")
        page.until(ASKS)
        path = f"/v1/sessions/{tab.run('location.hash.slice(1)')}"
        [question] = tab.run(f"fetch({json.dumps(path)}).then(r => r.json())")["questions"]
        answer = {"method": "POST", "headers": {"content-type": "application/json"}, "body": '{"decision": "allow"}'}
        tab.run(f"fetch({json.dumps(path + '/questions/' + question['id'])}, {json.dumps(answer)}).then(r => r.status)")
        page.until("document.getElementById('notices').textContent.includes('Another client has answered.')")
        page.until("document.getElementById('questions').textContent.includes('file-2.txt')")
        page.click("#questions button.allow")
        page.until(f"{TEXT}.includes('The end.') && {IDLE}")
        assert tab.run("document.querySelectorAll('#notices .notice').length") == 1, "there is no note about the own answer"


def test_an_address_that_is_malformed_names_a_session_that_is_missing(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, []) as page:
        tab.run("location.hash = '#%zz'")
        page.until("document.getElementById('notices').textContent.includes('There is no session')")
        tab.run("location.hash = ''")
        page.begin()


def test_a_long_session_is_laid_out_once_and_not_for_each_message(tab: Browser, tmp_path: Path) -> None:
    def write_session(home: Path) -> None:
        project = tmp_path / "project"
        folder = home / "sessions" / f"--{str(project).strip('/').replace('/', '-')}--"
        folder.mkdir(parents=True)
        common = {"timestamp": "2026-01-01T00:00:00.000Z"}
        lines: list[Any] = [{"type": "session", "version": 3, "id": "long-session", "cwd": str(project), **common}]
        for number in range(150):
            message = {"role": "user", "content": [{"type": "text", "text": f"Message {number}."}], "timestamp": 1}
            parent = None if not number else f"{number - 1:08x}"
            lines.append({"type": "message", "id": f"{number:08x}", "parentId": parent, "message": message, **common})
        file = folder / "2026-01-01T00-00-00-000Z_long-session.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    with served(tab, tmp_path, [], prepare=write_session) as page:
        page.click("#sessions a")
        page.until("document.querySelectorAll('#transcript article').length === 100")
        tab.run(
            "window.moves = 0; (s => { const d = Object.getOwnPropertyDescriptor(Element.prototype, 'scrollTop');"
            "Object.defineProperty(s, 'scrollTop', {get() { return d.get.call(s); },"
            "set(value) { moves++; d.set.call(s, value); }}); })(document.getElementById('scroller')); 0"
        )
        tab.run("document.querySelector('.older').click()")
        page.until("document.querySelectorAll('#transcript article').length === 150")
        assert tab.run("moves") < 10
        assert tab.run(AT_END)


@pytest.mark.parametrize(
    ("line", "end"),
    [("value = 1  # a line of code\n", "```\n"), ("| some words | `x` |\n", "\n"), ("- an item with **words**\n", "\n")],
    ids=["code", "table", "list"],
)
def test_a_long_block_shows_each_piece_that_arrives_and_what_follows_it(
    tab: Browser, tmp_path: Path, line: str, end: str
) -> None:
    begin = {"v": "```python\n", "|": "| a | b |\n|---|---|\n", "-": ""}[line[0]]
    with served(tab, tmp_path, []) as page:
        tab.run(
            "import('/page/markdown.mjs').then(({MarkdownStream}) => {"
            "window.shown = document.body.appendChild(document.createElement('div'));"
            "window.stream = new MarkdownStream(shown); })"
        )
        last = line.replace("value", "last_{0}").replace("some", "last_{0}").replace("an item", "last_{0}")
        pieces = [begin + line * 2000, *(last.format(number) for number in range(3)), f"{end}\nlast_3 words."]
        for number, piece in enumerate(pieces):
            tab.run(f"stream.append({json.dumps(piece)})")
            if number:
                page.until(f"shown.textContent.includes('last_{number - 1}')")
        tab.run("stream.finish()")
        assert tab.run("shown.lastChild.tagName + shown.lastChild.textContent") == "Plast_3 words."


def test_the_page_says_that_a_message_is_sent_and_that_the_session_works_without_any_event(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "first"}, {"text": "some words", "chunk": 2, "holdAfter": 2}]) as page:
        page.until("document.body.dataset.view === 'start'")
        tab.run(
            "{ const plain = fetch, load = new Promise(done => (window.letGo = done));"
            "const reader = ReadableStreamDefaultReader.prototype, read = reader.read;"
            "reader.read = function () { return read.call(this).then(each => window.isCut ? new Promise(() => {}) : each) };"
            "window.fetch = (path, ...rest) => (window.isCut ? load : Promise.resolve()).then(() => plain(path, ...rest)) } 0"
        )
        page.begin()
        page.say("hi")
        page.until(f"{TEXT}.includes('first') && {IDLE}")
        tab.run("window.isCut = true")  # no event comes any more, and requests wait
        page.write("run it")
        tab.press("Enter")
        doing = "document.getElementById('working').checkVisibility() && document.getElementById('working-text').textContent"
        page.until(f"{doing} === 'Sending…'")
        tab.run("letGo()")
        page.until(f"{doing} === 'Working…'")


def test_the_list_says_at_once_that_a_session_works_waits_and_rests(tab: Browser, tmp_path: Path) -> None:
    call = {"name": "bash", "arguments": {"command": "echo one"}}
    ran = [{"text": "some words", "toolCalls": [call], "chunk": 2, "holdAfter": 2}, {"text": "ended"}]
    with served(tab, tmp_path, [{"text": "first"}, *ran], "--approval", "ask") as page:
        page.begin()
        page.say("hi")
        page.until(f"{TEXT}.includes('first') && {IDLE}")
        # From here on, only the events of the session say what it does.
        never = "path === '/v1/sessions' ? new Promise(() => {}) : plain(path, ...rest)"
        tab.run(f"const plain = fetch; fetch = (path, ...rest) => {never}; 0")
        page.say("run it")
        page.until(f"{LISTED} === 'Working: '")
        assert tab.run("document.getElementById('working-text').textContent") == "Working…"
        page.provider.release()
        page.until(f"{LISTED} === 'Waiting for you: '")
        assert tab.run("document.getElementById('working-text').textContent") == "Waiting for your answer"
        assert tab.run("document.getElementById('working').checkVisibility()")
        assert tab.run("document.querySelector('.tool-state').textContent") == "waiting for your answer"
        page.click("#questions button.deny")
        page.until(f"{TEXT}.includes('ended') && {IDLE} && {LISTED} === ''")
        assert tab.run("document.querySelector('.tool-state').textContent") == "denied"
        page.reload()
        page.until("document.querySelector('.tool-state')?.textContent === 'denied'")
