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


def test_who_scrolls_up_is_left_alone(tab: Browser, tmp_path: Path) -> None:
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
