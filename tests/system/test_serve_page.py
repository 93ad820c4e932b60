"""The page of `fairlead serve` in a real Chromium: logging in, streaming, reconnecting, and who can use it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from tests.export.browser import Browser
from tests.system.serve_page import ANSWERS, IDLE, SAID, TEXT, Page, axe, markdown, served

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


def test_the_link_logs_in_and_leaves_no_secret_behind(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "Hello **you**"}]) as page:
        page.begin()
        page.say("hi")
        page.until(f"{TEXT}.includes('Hello you') && {IDLE}")
        assert page.tab.run("document.querySelector('#transcript strong').textContent") == "you"
        token = next(tmp_path.rglob("serve.token")).read_text().strip()
        kept = page.tab.run(
            "document.documentElement.outerHTML + location.href + document.cookie + JSON.stringify({...localStorage})"
            " + JSON.stringify({...sessionStorage})"
        )
        assert token not in kept and "login#" not in kept
        assert all(token not in url for url in page.tab.requests())
        assert page.tab.run("history.length") < 10
        assert page.complaints() == []


def test_without_a_login_there_is_only_the_login_page(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "Hello"}]) as page:
        page.begin()
        tab.run("document.getElementById('log-out').click()")
        page.until("location.pathname === '/login' && !!document.getElementById('code')")
        page.go("/")
        page.until("location.pathname === '/login' && document.readyState === 'complete'")
        tab.run("document.getElementById('code').focus()")
        tab.type("wrong")
        tab.press("Enter")
        page.until("document.getElementById('problem').textContent.includes('not valid')")
        (script,) = peers.AXE.command()
        assert axe(tab, script) == []
        tab.screenshot(tmp_path / "login.png")
        tab.run("document.getElementById('code').value = ''; document.getElementById('code').focus()")
        tab.type(next(tmp_path.rglob("serve.token")).read_text().strip())
        tab.run("document.querySelector('form').requestSubmit()")
        page.until("location.pathname === '/' && document.querySelectorAll('#sessions a').length === 1")


def log_in_with_the_token(page: Page, root: Path) -> None:
    page.until("location.pathname === '/login' && document.readyState === 'complete'")
    assert page.tab.run("document.getElementById('problem').textContent + location.hash") == ""
    page.tab.run("document.getElementById('code').focus()")
    page.tab.type(next(root.rglob("serve.token")).read_text().strip())
    page.tab.run("document.querySelector('form').requestSubmit()")


def test_a_login_returns_to_the_session_that_was_shown(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "Hello"}]) as page:
        page.begin()
        page.say("hi")
        page.until(f"{TEXT}.includes('Hello') && {IDLE}")
        session = tab.run("location.hash")
        for action in ("location.reload()", "location.hash = '#'; location.hash = was"):
            tab.send("Network.clearBrowserCookies")
            tab.run(f"const was = {json.dumps(session)}; {action}; 0")
            log_in_with_the_token(page, tmp_path)
            shown = f"location.pathname === '/' && document.readyState === 'complete' && location.hash === {json.dumps(session)}"
            page.until(f"{shown} && {TEXT}.includes('Hello')")


def test_80_kb_are_streamed_and_finished_blocks_are_rendered_once(tab: Browser, tmp_path: Path) -> None:
    text = markdown(80_000)
    with served(tab, tmp_path, [{"text": text, "chunk": 54}]) as page:
        page.begin()
        tab.run(
            "window.added = 0; window.longest = 0; let last = performance.now();"
            "new MutationObserver(all => all.forEach(one => added += one.addedNodes.length))"
            ".observe(document.getElementById('transcript'), {childList: true, subtree: true});"
            "const tick = now => { longest = Math.max(longest, now - last); last = now; requestAnimationFrame(tick) };"
            "requestAnimationFrame(tick); 0"
        )
        page.say("write a lot")
        page.until(f"{TEXT}.includes('The end.') && {IDLE}")
        parts = text.count("## Part")
        for selector, count in (("h3", parts), ("pre .hl-keyword", parts * 2), ("table", parts), ("ul ul li", parts)):
            assert tab.run(f"document.querySelectorAll('#transcript .markdown {selector}').length") == count, selector
        blocks = tab.run("document.querySelectorAll('#transcript .markdown > *').length")
        assert tab.run("added") < 8 * blocks, "blocks that are finished are not made again"
        assert tab.run("(s => s.scrollHeight - s.scrollTop - s.clientHeight < 5)(document.getElementById('scroller'))")
        assert page.complaints() == []


def test_markdown_of_a_hostile_model_is_only_text(tab: Browser, tmp_path: Path) -> None:
    text = (
        "<img src=x onerror=window.hacked=1> <script>window.hacked=1</script>\n\n[a](javascript:window.hacked=1) "
        "[b](data:text/html,x) <javascript:x> ![c](http://127.0.0.1:9/pixel.png)\n\n"
        "```html\n<script>window.hacked=1</script>\n```\n\n" + "*_**`[" * 2000
    )
    with served(tab, tmp_path, [{"text": text, "chunk": 500}]) as page:
        page.begin()
        page.say("attack")
        page.until(f"{TEXT}.includes('window.hacked') && {IDLE}")
        assert tab.run("window.hacked") is None
        assert tab.run("document.querySelectorAll('#transcript :is(img, script, iframe)').length") == 0
        links = tab.run("[...document.querySelectorAll('#transcript a')].map(a => [a.href, a.rel])")
        assert links == [["http://127.0.0.1:9/pixel.png", "noopener noreferrer"]]
        assert page.complaints() == []


def test_approvals_are_answered_with_buttons(tab: Browser, tmp_path: Path) -> None:
    def write(number: int) -> dict[str, Any]:
        return {"toolCalls": [{"name": "write", "arguments": {"path": f"{number}.txt", "content": f"text {number}\n"}}]}

    turns = [write(1), write(2), write(3), {"text": "All done"}]
    with served(tab, tmp_path, turns, "--approval", "ask") as page:
        page.begin()
        page.say("write files")
        page.until("document.querySelector('#questions .diff-added')?.textContent.includes('text 1')")
        assert "asks" in page.until("document.getElementById('alerts').textContent")
        page.click("#questions .allow")
        page.until("document.querySelector('#questions .diff-added')?.textContent.includes('text 2')")
        page.click("#questions summary")
        tab.run("document.querySelector('#questions .reason').focus()")
        tab.type("not this one")
        page.click("#questions .deny")
        page.until("document.querySelector('#questions .diff-added')?.textContent.includes('text 3')")
        page.click("#questions .allow-session")
        page.until(f"{TEXT}.includes('All done') && {IDLE}")
        assert sorted(path.name for path in page.project.glob("*.txt")) == ["1.txt", "3.txt"]
        assert "not this one" in json.dumps(page.provider.requests[2].body)
        assert tab.run("document.getElementById('questions').hidden") is True
        states = tab.run("[...document.querySelectorAll('.tool-state')].map(e => e.dataset.state)")
        assert states == ["done", "denied", "done"]


def test_a_command_hides_nothing_in_the_question_and_in_its_card(tab: Browser, tmp_path: Path) -> None:
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "rm a\u3164b\u00a0c\u200bd"}}]}
    with served(tab, tmp_path, [call, {"text": "All done"}], "--approval", "ask") as page:
        page.begin()
        page.say("go")
        page.until("document.querySelector('#questions .deny') !== null")
        shown = r"rm a\u{3164}b\u{a0}c\u{200b}d"
        assert tab.run("document.getElementById('questions').innerText").count(shown) == 1
        assert tab.run("document.querySelector('.tool-subject').textContent") == shown
        assert tab.run("document.querySelector('.tool-input').textContent") == shown
        page.click("#questions .deny")
        page.until(f"{TEXT}.includes('All done') && {IDLE}")


def test_a_phone_shows_the_whole_command_and_what_became_of_it(tab: Browser, tmp_path: Path) -> None:
    command = "echo " + " ".join(f"word-{number}" for number in range(30)) + " && rm -rf build"
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": command}}]}
    edit = {"toolCalls": [{"name": "write", "arguments": {"path": "long.txt", "content": "x" * 200 + "\n"}}]}
    shown = "[...document.querySelectorAll('{}')].every(e => e.scrollWidth <= e.clientWidth)"
    state = "document.querySelector('.tool-state').getBoundingClientRect().right < innerWidth"
    tab.size(390, 844)
    with served(tab, tmp_path, [call, edit, {"text": "All done"}], "--approval", "ask") as page:
        page.begin()
        page.say("go")
        page.until("document.querySelector('#questions .deny') !== null")
        assert tab.run(shown.format("#questions pre")), "the end of the command is out of sight"
        assert tab.run(state)
        page.click("#questions .deny")
        page.until("document.querySelector('#questions .diff-added') !== null")
        assert tab.run(shown.format("#questions pre"))
        page.click("#questions .deny")
        page.until(f"{TEXT}.includes('All done') && {IDLE}")
        assert tab.run(state) and tab.run(shown.format(".tool-input pre:not(.diff)"))
        assert tab.run("document.querySelector('.tool-name').scrollWidth <= document.querySelector('.tool-name').clientWidth")


def test_calls_of_a_run_that_was_cut_off_are_not_shown_as_waiting(tab: Browser, tmp_path: Path) -> None:
    calls = [{"name": "bash", "arguments": {"command": each}} for each in ("echo begun; sleep 600", "echo second")]
    with served(tab, tmp_path, [{"toolCalls": calls}, {"text": "unused"}]) as page:
        page.begin()
        page.say("go")
        page.until(f"{TEXT}.includes('begun')")
        (session,) = tmp_path.rglob("*.jsonl")
        saved = session.read_text()
        page.click("#stop")
        page.until(IDLE)
        killed, own = "01a00000-0000-7000-8000-000000000001", json.loads(saved.splitlines()[0])["id"]
        session.with_name(session.name.replace(own, killed)).write_text(saved.replace(own, killed))
        tab.run(f"location.hash = '{killed}'")
        page.until(f"document.documentElement.dataset.ready === '{killed}'")
        states = "[...document.querySelectorAll('.tool-state')].map(e => e.textContent)"
        assert tab.run(states) == ["not finished", "not finished"]


def test_a_run_is_steered_queued_and_stopped(tab: Browser, tmp_path: Path) -> None:
    turns = [{"text": "word " * 400, "holdAfter": 20}, {"text": "unused"}]
    with served(tab, tmp_path, turns) as page:
        page.begin()
        page.say("go")
        page.until(f"{TEXT}.includes('word word')")
        assert page.until("document.getElementById('send').innerText.trim() === 'Steer'")
        page.say("steer this")
        page.write("queue this")
        page.click("#queue")
        waiting = "document.getElementById('waiting').innerText"
        page.until(f"{waiting}.includes('Next turn: steer this') && {waiting}.includes('Queued: queue this')")
        page.click("#stop")
        page.until(f"{IDLE} && {TEXT}.includes('Stopped.')")
        assert tab.run("document.getElementById('send').innerText.trim()") == "Send"
        assert tab.run("document.getElementById('stop').hidden") is True


def test_a_reload_in_the_middle_of_a_run_loses_nothing_and_repeats_nothing(tab: Browser, tmp_path: Path) -> None:
    words = " ".join(f"w{number}." for number in range(300))
    with served(tab, tmp_path, [{"text": words, "holdAfter": 40}, {"text": "second"}]) as page:
        page.begin()
        page.say("count")
        page.until(f"{TEXT}.includes('w20.')")
        page.write("not sent yet")
        page.reload()
        page.until(f"{TEXT}.includes('w20.') && !{IDLE}")
        assert tab.run("document.getElementById('message').value") == "not sent yet"
        page.provider.release()
        page.until(f"{TEXT}.includes('w299.') && {IDLE}")
        assert tab.run(ANSWERS) == [words]


def test_the_page_continues_after_the_network_was_gone(tab: Browser, tmp_path: Path) -> None:
    words = " ".join(f"w{number}." for number in range(300))
    with served(tab, tmp_path, [{"text": words, "holdAfter": 40}, {"text": "second"}]) as page:
        page.begin()
        page.say("count")
        page.until(f"{TEXT}.includes('w20.')")
        network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        tab.send("Network.emulateNetworkConditions", offline=True, **network)
        page.until("document.getElementById('connection').dataset.state === 'lost'")
        page.provider.release()
        page.write("another message")
        tab.press("Enter")
        page.until("document.getElementById('notices').textContent.includes('cannot be reached')")
        tab.send("Network.emulateNetworkConditions", offline=False, **network)
        page.until(f"{TEXT}.includes('second') && {IDLE}")
        assert tab.run(SAID) == [
            "count",
            "another message",
        ]


def test_a_page_that_was_away_for_too_long_begins_from_a_snapshot(tab: Browser, tmp_path: Path) -> None:
    words = "\n\n".join(f"w{number} " + "x" * 1000 for number in range(3000))
    with served(tab, tmp_path, [{"text": words, "chunk": 4000, "holdAfter": 2}]) as page:
        page.begin()
        page.say("count")
        page.until(f"{TEXT}.includes('w2 ')")
        network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        tab.send("Network.emulateNetworkConditions", offline=True, **network)
        page.until("document.getElementById('connection').dataset.state === 'lost'")
        page.provider.release()
        time.sleep(3)
        tab.events.clear()
        tab.send("Network.emulateNetworkConditions", offline=False, **network)
        page.until(f"{TEXT}.includes('w2999 ') && {IDLE}")
        assert tab.run("document.querySelectorAll('article.assistant .markdown > p').length") == 3000
        assert any("messages=100" in url for url in tab.requests()), "a snapshot was fetched again"


def test_tools_show_live_output_and_the_tree_is_forked(tab: Browser, tmp_path: Path) -> None:
    command = "echo early; until [ -e go ]; do sleep 0.05; done; echo late"
    turns = [
        {"thinking": "Let me *see*.", "toolCalls": [{"name": "bash", "arguments": {"command": command}}]},
        {"toolCalls": [{"name": "edit", "arguments": {"path": "a.py", "edits": [{"oldText": "x = 1", "newText": "x = 2"}]}}]},
        {"text": "First answer"},
        {"text": "Other answer"},
    ]
    with served(tab, tmp_path, turns) as page:
        (page.project / "a.py").write_text("import os\nx = 1\n")
        page.begin()
        page.say("run it")
        page.until("document.querySelector('.tool-output')?.innerText.includes('early')")
        assert tab.run("document.querySelector('.thinking').open") is False
        (page.project / "go").touch()
        page.until(f"{TEXT}.includes('First answer') && {IDLE}")
        assert "late" in tab.run("document.querySelector('.tool-output').textContent")
        changed = "[...document.querySelectorAll('.tool .diff-removed, .tool .diff-added')].map(e => e.textContent.trim())"
        assert tab.run(changed) == ["-x = 1", "+x = 2"]
        first = tab.run("location.hash")
        page.click("#tree")
        page.click("#tree-list .fork")
        page.until(f"location.hash !== '{first}' && document.getElementById('message').value === 'run it'")
        page.until("document.getElementById('connection').dataset.state === 'live'")
        tab.press("Enter")
        page.until(f"{TEXT}.includes('Other answer') && {IDLE}")
        page.until("document.querySelectorAll('#sessions a').length === 2")
        assert not tab.run(f"{TEXT}.includes('First answer')")


def test_pickers_images_names_and_search(tab: Browser, tmp_path: Path) -> None:
    with served(tab, tmp_path, [{"text": "A small picture", "usage": {"input": 50_000, "output": 10}}]) as page:
        page.begin()
        tab.run("(s => { s.value = 'high'; s.dispatchEvent(new Event('change')) })(document.getElementById('thinking'))")
        page.until("document.getElementById('thinking').value === 'high'")
        tab.run(
            "(async () => { const c = new OffscreenCanvas(8, 8); c.getContext('2d').fillRect(0, 0, 8, 8);"
            " const all = new DataTransfer(); all.items.add(new File([await c.convertToBlob()], 'dot.png', {type: 'image/png'}));"
            " const field = document.getElementById('files'); field.files = all.files;"
            " field.dispatchEvent(new Event('change')) })()"
        )
        page.until("document.querySelector('#attachments img')?.alt === 'dot.png'")
        page.say("what is this?")
        page.until(f"{TEXT}.includes('A small picture') && {IDLE}")
        assert '"image/png"' in json.dumps(page.provider.requests[0].body)
        assert tab.run("document.querySelector('article.user img').naturalWidth") == 8
        page.until("document.getElementById('context-text').textContent === '25 % of 200k'")
        page.click("#rename")
        tab.type("A name for it")
        tab.press("Enter")
        page.until("document.getElementById('title').textContent === 'A name for it'")
        page.until("document.querySelector('#sessions a').textContent.includes('A name for it')")
        tab.run("document.getElementById('search').focus()")
        tab.type("nothing like it")
        page.until("!document.getElementById('no-sessions').hidden")


def test_a_search_finds_the_oldest_of_many_sessions(tab: Browser, tmp_path: Path) -> None:
    def save_sessions(home: Path) -> None:
        folder = home / "sessions" / "--tmp--"
        folder.mkdir(parents=True)
        for number in range(1_250):
            stamp, id = f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z", f"11111111-1111-4111-8111-{number:012}"
            header = {"type": "session", "version": 3, "id": id, "timestamp": stamp, "cwd": "/tmp"}
            message = {"role": "user", "content": f"question number {number}.", "timestamp": 1}
            entry = {"type": "message", "id": "a1", "parentId": None, "timestamp": stamp, "message": message}
            file = folder / f"{stamp.replace(':', '-').replace('.', '-')}_{id}.jsonl"
            file.write_text(f"{json.dumps(header)}\n{json.dumps(entry)}\n")
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    with served(tab, tmp_path, [], prepare=save_sessions) as page:
        page.until("document.querySelectorAll('#sessions a').length > 0")
        tab.run("document.getElementById('search').focus()")
        tab.type("number 0.")
        page.until("document.getElementById('sessions').textContent.includes('question number 0.')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_usable_by_all(tab: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    (script,) = peers.AXE.command()
    edit = {"path": "a.txt", "content": "one\ntwo\n"}
    turns = [
        {"thinking": "Hm.", "text": markdown(900), "toolCalls": [{"name": "bash", "arguments": {"command": "echo hello"}}]},
        {"toolCalls": [{"name": "write", "arguments": edit}]},
        {"text": "Done"},
    ]
    tab.size(width, 844)
    tab.media(scheme=scheme)
    with served(tab, tmp_path, turns, "--approval", "write") as page:
        page.begin()
        page.say("a message with a_very_long_word_" + "x" * 300)
        page.until("!!document.querySelector('#questions .allow')")
        found = axe(tab, script)
        tab.screenshot(tmp_path / "question.png")
        page.click("#questions .allow")
        page.until(f"{TEXT}.includes('Done') && {IDLE}")
        assert tab.run("document.documentElement.scrollWidth <= innerWidth")
        tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        found += axe(tab, script)
        tab.screenshot(tmp_path / "done.png")
        if width < 800:
            page.click("#settings")
            found += axe(tab, script)
            tab.screenshot(tmp_path / "settings.png")
            page.click("#menu")
            assert tab.run("document.activeElement.id") == "search"
            found += axe(tab, script)
            tab.screenshot(tmp_path / "menu.png")
            page.click("#close-menu")
        page.click("#tree")
        found += axe(tab, script)
        tab.screenshot(tmp_path / "tree.png")
        assert found == [], found
