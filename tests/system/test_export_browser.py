"""The exported page in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.export.browser import Browser, browser
from tests.export.sessions import HEADER, Script, hostile, hostile_header, long, pleasant, text, thinking

from fairlead.export import render
from fairlead.export.usage_page import render_usage, usage_report

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SHOWN = "[...document.querySelectorAll('article:not([hidden])')].map(a => a.id.slice(6))"
FOCUSED = "document.activeElement.id"
TOP = "document.activeElement.getBoundingClientRect().top"


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def tab(chromium: Browser) -> Browser:
    chromium.size(1280, 900)
    chromium.media()
    return chromium


def page(folder: Path, script: Script, header: dict[str, Any] = HEADER) -> Path:
    path = folder / "page.html"
    path.write_bytes(render(header, script.entries, None))
    return path


def path_to(script: Script, leaf: str | None) -> list[str]:
    parents = {entry["id"]: entry["parentId"] for entry in script.entries}
    path: list[str] = []
    while leaf:
        path.insert(0, leaf)
        leaf = parents[leaf]
    return path


def branchy() -> tuple[Script, str, str]:
    """Two branches of some length, and an entry within the one that is not shown first."""
    script = Script()
    root = script.user("Where to?")
    script.assistant(text("North."))
    inner = script.user("A needle in the north.")
    for number in range(40):
        script.user(f"North {number}")
    north = script.leaf
    script.at(root).assistant(thinking("The folded needle."), text("South."))
    for number in range(40):
        script.user(f"South {number}")
    assert north
    return script, inner, north


def test_a_session_is_drawn_without_requests_or_complaints(tab: Browser, tmp_path: Path) -> None:
    script = pleasant()
    tab.open(page(tmp_path, script))
    assert tab.run(SHOWN) == path_to(script, script.leaf)
    assert tab.run("[...document.images].every(image => image.complete && image.naturalWidth === 320)")
    assert tab.run("document.querySelector('.thinking').open") is False
    assert tab.requests() == [] and tab.complaints() == []


def test_a_deep_link_selects_its_branch_and_scrolls_there(tab: Browser, tmp_path: Path) -> None:
    script, inner, north = branchy()
    tab.open(page(tmp_path, script), f"entry-{inner}")
    assert tab.run(SHOWN) == path_to(script, north)
    assert tab.run(FOCUSED) == f"entry-{inner}"
    middle = path_to(script, script.leaf)[30]
    tab.run(f"location.hash = '#entry-{middle}'")
    tab.settle()
    assert tab.run(SHOWN) == path_to(script, script.leaf)
    assert tab.run(FOCUSED) == f"entry-{middle}" and 40 < tab.run(TOP) < 120


def test_branches_are_switched_from_the_outline_and_where_they_begin(tab: Browser, tmp_path: Path) -> None:
    script, _, north = branchy()
    tab.open(page(tmp_path, script))
    tab.click("article:not([hidden]) .branches a.prev")
    assert tab.run(SHOWN) == path_to(script, north)
    tab.run("document.querySelector('#outline li.k-user:not(.on) a').click()")
    tab.settle()
    assert tab.run(SHOWN) == path_to(script, script.leaf)


def test_totals_follow_the_branch(tab: Browser, tmp_path: Path) -> None:
    script, inner, _ = branchy()
    script.assistant(text("More."))
    tab.open(page(tmp_path, script))
    assert tab.run("document.getElementById('branch-total').textContent") == "2.4k in · 600 out · 800 cached · $0.0164"
    tab.run(f"location.hash = '#entry-{inner}'")
    tab.settle()
    assert tab.run("document.getElementById('branch-total').textContent") == "1.2k in · 300 out · 400 cached · $0.0082"


def test_search_counts_highlights_unfolds_and_crosses_branches(tab: Browser, tmp_path: Path) -> None:
    script, inner, _ = branchy()
    tab.open(page(tmp_path, script))
    tab.press("/")
    assert tab.run(FOCUSED) == "query"
    tab.type("NEEDLE")
    assert tab.run("document.getElementById('count').textContent") == "2 found"
    tab.press("Enter")
    assert tab.run("document.getElementById('count').textContent") == "2 of 2"
    assert tab.run("document.querySelector('article:not([hidden]) .thinking').open") is True
    assert tab.run("[...CSS.highlights.get('found-now')].map(String).join()") == "needle"
    assert tab.run("CSS.highlights.get('found').size") == 1
    tab.press("Escape", "n")
    assert tab.run("document.getElementById('count').textContent") == "1 of 2"
    assert inner in tab.run(SHOWN)
    tab.press("N")
    assert tab.run("document.getElementById('count').textContent") == "2 of 2"
    tab.press("/")
    tab.type("nothing like it")
    assert tab.run("document.getElementById('count').textContent") == "No matches"
    assert tab.run("document.getElementById('next').disabled") is True


def test_the_keyboard_walks_folds_and_helps(tab: Browser, tmp_path: Path) -> None:
    script = pleasant()
    tab.open(page(tmp_path, script))
    shown = path_to(script, script.leaf)
    tab.press("j", "j", "j")
    start = tab.run(FOCUSED)
    tab.press("j")
    assert shown.index(tab.run(FOCUSED)[6:]) == shown.index(start[6:]) + 1
    tab.press("k")
    assert tab.run(FOCUSED) == start
    thinker = "document.querySelector('.thinking').closest('article')"
    tab.run(f"{thinker}.focus()")
    tab.press("Enter")
    assert tab.run("document.querySelector('.thinking').open") is True
    tab.press("Enter")
    assert tab.run("document.querySelector('.thinking').open") is False
    tab.press("?")
    assert tab.run("document.getElementById('help').open") is True
    tab.press("j")
    assert tab.run("document.getElementById('help').open") is True
    tab.click("#close-help")
    assert tab.run("document.getElementById('help').open") is False


def test_the_focus_is_visible(tab: Browser, tmp_path: Path) -> None:
    tab.open(page(tmp_path, pleasant()))
    tab.press("j")
    assert tab.run("getComputedStyle(document.activeElement, '::before').width") == "3px"
    tab.run("document.getElementById('query').focus()")
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_theme_follows_the_system_until_it_is_chosen(tab: Browser, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.open(page(tmp_path, pleasant()))
    light = tab.run(ground)
    tab.media(scheme="dark")
    dark = tab.run(ground)
    assert light != dark
    tab.press("t")
    assert tab.run(ground) == light
    tab.click("#theme")
    assert tab.run(ground) == dark
    tab.run("localStorage.clear()")


def test_a_narrow_page_hides_the_outline_behind_a_button_and_never_scrolls_sideways(tab: Browser, tmp_path: Path) -> None:
    tab.size(390, 844)
    tab.open(page(tmp_path, pleasant()))
    visible = "getComputedStyle(document.getElementById('outline')).display"
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.run(visible) == "none"
    tab.click("#toggle-outline")
    assert tab.run(visible) == "block"
    tab.click("#outline .on.k-user a")
    assert tab.run(visible) == "none"


def test_a_screen_reader_finds_landmarks_and_names(tab: Browser, tmp_path: Path) -> None:
    tab.open(page(tmp_path, pleasant()))
    tab.send("Accessibility.enable")
    nodes = tab.send("Accessibility.getFullAXTree")["nodes"]
    tab.send("Accessibility.disable")
    roles = {node["role"]["value"] for node in nodes if "role" in node}
    assert {"banner", "main", "navigation", "search", "article", "heading"} <= roles
    unnamed = [
        node
        for node in nodes
        if node.get("role", {}).get("value") in ("button", "link", "searchbox", "image") and not node.get("name", {}).get("value")
    ]
    assert unnamed == []


def test_paper_gets_the_whole_branch_unfolded_and_no_navigation(tab: Browser, tmp_path: Path) -> None:
    tab.open(page(tmp_path, pleasant()))
    tab.run(
        "addEventListener('beforeprint', () => { window.folds = document.querySelectorAll("
        "'article:not([hidden]) details:not([open])').length })"
    )
    tab.send("Page.printToPDF", printBackground=True)
    assert tab.run("window.folds") == 0
    tab.settle()
    assert tab.run("document.querySelector('.thinking').open") is False
    tab.media(kind="print")
    for selector in (".toolbar", "#outline", ".branches"):
        assert tab.run(f"getComputedStyle(document.querySelector('{selector}')).display") == "none"
    assert tab.run("getComputedStyle(document.querySelector('.group')).contentVisibility") == "visible"
    assert tab.run("document.querySelector('.thinking p').getBoundingClientRect().height > 0")


def test_hostile_content_runs_nothing_and_asks_for_nothing(tab: Browser, tmp_path: Path) -> None:
    script = hostile()
    tab.open(page(tmp_path, script, hostile_header()))
    tab.run("document.querySelectorAll('article').forEach(a => a.hidden = false)")
    tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    tab.run(
        "document.querySelectorAll('main *').forEach(e => { for (const kind of ['mouseover', 'focus', 'error', 'load'])"
        " e.dispatchEvent(new Event(kind, {bubbles: true})) })"
    )
    tab.press("/")
    tab.type("<script>")
    tab.press("Enter")
    tab.settle()
    assert tab.run("window.hacked") is None
    assert tab.requests() == [] and tab.complaints() == []
    assert tab.run("document.querySelectorAll('article').length") == len(script.entries)
    assert tab.run("[...document.querySelectorAll('main *')].every(e => e.namespaceURI === 'http://www.w3.org/1999/xhtml')")


def test_the_policy_stops_what_escaping_would_have_missed(tab: Browser, tmp_path: Path) -> None:
    path = page(tmp_path, pleasant())
    attack = b"<script>window.hacked=1</script><img src=x onerror=window.hacked=1><img src=http://127.0.0.1:9/a.png></main>"
    path.write_bytes(path.read_bytes().replace(b"</main>", attack))
    tab.open(path)
    assert tab.run("window.hacked") is None
    assert tab.complaints() != []


def test_of_ten_thousand_entries_only_those_in_view_are_drawn_and_any_is_found(tab: Browser, tmp_path: Path) -> None:
    script = long()
    tab.open(page(tmp_path, script))
    assert tab.run("'ready' in document.documentElement.dataset")
    in_view = "article.checkVisibility({contentVisibilityAuto: true})"
    drawn = f"[...document.querySelectorAll('article')].filter(article => {in_view}).length"
    tab.run(
        "new Promise(done => { let n = 60; const step = () => { scrollBy(0, 700); --n ? requestAnimationFrame(step) : done() };"
        " step() })"
    )
    tab.settle()
    assert tab.run(drawn) < 200
    tab.press("/")
    tab.type("station number 900 ")
    tab.run(
        "new Promise(done => { const look = () => document.getElementById('count').textContent ? done() : setTimeout(look, 20);"
        " look() })"
    )
    tab.press("Enter")
    assert tab.run("document.getElementById('count').textContent") == "1 of 1"
    assert tab.run("(r => r.top > 0 && r.bottom < innerHeight)([...CSS.highlights.get('found-now')][0].getBoundingClientRect())")


def test_thinking_and_tools_are_hidden_and_shown_again_when_they_are_looked_for(tab: Browser, tmp_path: Path) -> None:
    script = pleasant()
    tab.open(page(tmp_path, script))
    seen = "[...document.querySelectorAll('{}')].filter(e => e.checkVisibility()).length"
    for key, box, selector in (("i", "show-thinking", ".thinking"), ("o", "show-tools", ".result")):
        assert tab.run(seen.format(selector)) > 0
        tab.press(key)
        assert tab.run(f"document.getElementById('{box}').checked") is False
        assert tab.run(seen.format(selector)) == 0
    tab.press("j", "j", "j", "j", "j", "j")
    assert tab.run("document.activeElement.matches('.result')") is False, "the keys pass over hidden entries"
    result = next(entry["id"] for entry in script.entries if entry.get("message", {}).get("role") == "toolResult")
    tab.run(f"location.hash = '#entry-{result}'")
    tab.settle()
    assert tab.run("document.getElementById('show-tools').checked") is True
    tab.press("/")
    tab.type("daylight saving*")
    tab.run("document.getElementById('query').select()")
    tab.type("An hour since Sunday")
    tab.press("Enter")
    assert tab.run("document.getElementById('show-thinking').checked") is True


def test_the_outline_is_filtered_also_without_the_script(tab: Browser, tmp_path: Path) -> None:
    path = page(tmp_path, pleasant())
    listed = "[...document.querySelectorAll('#outline li')].filter(e => e.checkVisibility()).map(e => e.className)"
    for has_script in (True, False):
        if not has_script:
            path.write_bytes(path.read_bytes().replace(b"script-src 'sha256-", b"script-src 'sha256-other", 1))
        tab.open(path)
        assert tab.run("'ready' in document.documentElement.dataset") is has_script
        assert all("k-user" in each for each in tab.run(listed))
        for kind in ("answers", "tools", "errors"):
            tab.click(f"label[for=outline-{kind}]")
            rows = tab.run(listed)
            assert rows and all(f"k-{kind}" in each for each in rows)
        tab.click("label[for=show-tools]")
        assert tab.run("document.querySelector('.result').checkVisibility()") is False
        assert tab.run("document.getElementById('query').checkVisibility()") is has_script


def test_times_are_those_of_the_reader(tab: Browser, tmp_path: Path) -> None:
    tab.send("Emulation.setTimezoneOverride", timezoneId="America/New_York")
    tab.open(page(tmp_path, pleasant()))
    assert tab.run("document.querySelector('.heading time').textContent") == "2026-11-15 01:20"
    assert tab.run("document.querySelector('.when time').textContent") == "01:00"
    assert tab.run("document.querySelector('.when time').title") == "2026-11-15 06:00 UTC"
    assert "America/New_York" in tab.run("document.querySelector('footer').textContent")
    tab.send("Emulation.setTimezoneOverride", timezoneId="")


def test_the_session_is_downloaded_as_it_was(tab: Browser, tmp_path: Path) -> None:
    source = b'{"type":"session","id":"x"}\n' + b'{"text":"\xc3\xa9"}\n' * 1000
    path = tmp_path / "page.html"
    path.write_bytes(render(HEADER, pleasant().entries, None, source=source))
    folder = tmp_path / "downloads"
    folder.mkdir()
    tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    for selector in ('a[href="#download"]', "#download"):
        tab.open(path)
        tab.click(selector)
        tab.wait_for("Page.downloadProgress", lambda progress: progress["state"] == "completed")
        (file,) = folder.iterdir()
        assert file.name == "session-01a1dddd.jsonl" and file.read_bytes() == source
        file.unlink()
    assert tab.complaints() == []


def test_the_usage_page_is_drawn_without_complaints(tab: Browser, tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    session.write_text("\n".join(map(json.dumps, (HEADER, *pleasant().entries))) + "\n")
    path = tmp_path / "usage.html"
    path.write_bytes(render_usage(usage_report([session]), date(2026, 11, 16)))
    for width in (1280, 390):
        tab.size(width, 900)
        tab.open(path)
        assert tab.requests() == [] and tab.complaints() == []
        assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.run("document.querySelector('section g rect').getBoundingClientRect().height > 20")
