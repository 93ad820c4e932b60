"""What the page of a session holds."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.export.sessions import ANSWER, HEADER, Script, call, hostile, hostile_header, image, picture, pleasant, text, thinking

from fairlead.export import render


def page(script: Script, **options: Any) -> str:
    return render(HEADER, script.entries, None, **options).decode()


def article(html: str, entry_id: str) -> str:
    return re.search(rf'<article [^>]*id="entry-{re.escape(entry_id)}".*?</article>', html, re.DOTALL)[0]  # type: ignore[index]


def said(words: str) -> str:
    script = Script()
    entry = script.assistant(text(words))
    return article(page(script), entry).split('<div class="content">')[1]


class Elements(HTMLParser):
    """Every element and attribute of a page, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_markdown_is_rendered_with_tables_lists_and_highlighted_code() -> None:
    html = said(ANSWER)
    for part in (
        "<strong>twice</strong>",
        "<h4>What I would change</h4>",
        "<ol>",
        '<td class="right">41 ms</td>',
        '<span class="tk">def ',
        '<span class="tc"># read once',
        "<blockquote>",
        '<a href="https://example.com/tides" rel="noopener noreferrer" target="_blank">the notes</a>',
        '<a href="https://example.com/zones" rel="noopener noreferrer" target="_blank">https://example.com/zones</a>.',
    ):
        assert part in html


def test_without_the_extra_texts_stay_readable() -> None:
    script = """
import sys
sys.modules["markdown_it"] = sys.modules["pygments"] = sys.modules["pygments.lexer"] = None
from fairlead.export.markup import Markup
print(Markup().markdown("One *line*\\nand <b>another</b>.\\n\\n```python\\nx = 1\\n```\\nhttps://example.com"))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert result.stdout.split("\n")[:4] == [
        "<p>One *line*<br>",
        "and &lt;b&gt;another&lt;/b&gt;.</p>",
        "<pre><code>x = 1</code></pre>",
        '<p><a href="https://example.com" rel="noopener noreferrer" target="_blank">https://example.com</a></p>',
    ]


def test_thinking_is_folded_and_tool_calls_show_their_arguments() -> None:
    script = Script()
    entry = script.assistant(
        thinking("Hmm."), call("c", "bash", command="ls -l", timeout=5), call("d", "edit", path="a.py", oldText="x", newText="y")
    )
    html = article(page(script), entry)
    assert '<details class="thinking"><summary>Thinking</summary>' in html
    assert '<span class="tool">bash</span> <code>ls -l</code>' in html
    assert '<span class="name">timeout</span> <code>5</code>' in html
    assert '<span class="del">-x\n</span><span class="add">+y\n</span>' in html


def test_results_show_output_diffs_and_failure() -> None:
    script = Script()
    script.assistant(call("c", "edit", path="a.py"))
    ok = script.result("c", "edit", "Done.", details={"diff": " 1 a\n-2 b\n+2 c"})
    bad = script.result("c", "edit", "\x1b[31mNo such file.\x1b[0m", error=True)
    html = page(script)
    assert '<span class="del">-2 b\n</span><span class="add">+2 c\n</span>' in article(html, ok)
    assert '<span class="c1">No such file.</span>' in article(html, bad) and "<small>failed</small>" in article(html, bad)


def test_long_output_is_complete_with_its_rest_folded() -> None:
    script = Script()
    entry = script.result("c", "bash", "\n".join(f"line {number}" for number in range(100)))
    html = article(page(script), entry)
    assert "<summary>88 more lines</summary>" in html
    assert re.findall(r"line (\d+)\b", html) == [str(number) for number in range(100)]


@pytest.mark.parametrize(
    ("stop", "words"), [("error", "Error: too busy"), ("aborted", "Aborted: too busy"), ("length", "Cut off")]
)
def test_an_answer_that_did_not_end_well_says_so(stop: str, words: str) -> None:
    script = Script()
    script.assistant(text("So"), stop=stop, errorMessage="too busy")
    assert words in page(script)


def test_images_of_known_kinds_are_in_the_page_and_others_are_reported() -> None:
    script = Script()
    script.user("", image(), image(kind="image/svg+xml"), image("<b>"))
    html = page(script)
    assert f'<img src="data:image/png;base64,{picture()}"' in html
    assert "An image of type image/svg+xml is not shown." in html and "An image that cannot be read is not shown." in html


def test_every_entry_is_in_the_page_and_those_of_the_branch_are_shown() -> None:
    script = pleasant()
    elements = Elements(page(script)).found
    articles = {attrs["id"]: "hidden" in attrs for tag, attrs in elements if tag == "article"}
    parents = {entry["id"]: entry["parentId"] for entry in script.entries}
    path = {script.leaf}
    while parents[entry := next(e for e in path if parents[e] not in path)]:
        path.add(parents[entry])
    assert articles == {f"entry-{entry_id}": entry_id not in path for entry_id in parents}


def test_the_leaf_decides_which_branch_is_shown() -> None:
    script = Script()
    root = script.user("root")
    first = script.user("first")
    second = script.at(root).user("second")
    html = render(HEADER, script.entries, first).decode()
    assert "hidden" in article(html, second).split(">")[0] and "hidden" not in article(html, first).split(">")[0]
    assert f'href="#entry-{second}" aria-label="Next branch"' in article(html, first)


def test_the_outline_names_prompts_labels_and_branches() -> None:
    outline = page(pleasant()).split('<nav id="outline"')[1].split("</nav>")[0]
    rows = [re.sub(r"<[^>]+>", "", row).strip() for row in re.findall(r"<li [^>]*k-user.*?</li>", outline)]
    assert rows[1].startswith("the cause The tide table is read twice")
    assert "Branch 1 of 2: Good. Fix it." in rows and "Branch 2 of 2: Summary of another branch" in rows
    assert rows[-1] == "Now commit."


def test_notes_about_an_entry_are_not_branches() -> None:
    script = Script()
    script.user("go")
    answer = script.assistant(text("a"))
    for kind in ("fairlead.calls", "fairlead.run", "fairlead.approval", "fairlead.request"):
        script.at(answer).add("custom", customType=kind, data={"op": "started"})
    script.at(answer).message("toolResult", [text("done")], toolCallId="1", toolName="bash")
    html = page(script)
    assert "Branch 1 of" not in html and "branches<" not in html
    notes = [entry["id"] for entry in script.entries if entry["type"] == "custom"]
    assert not [each for each in notes if each in html.split("<script")[0]]


def test_totals_count_every_branch() -> None:
    script = Script()
    root = script.user("x")
    script.assistant(text("a"))
    script.at(root).assistant(text("b"))
    assert "<dt>Session</dt><dd>2.4k in · 600 out · 800 cached · $0.0164</dd>" in page(script)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{}],
        [{"type": "message"}, {"type": "message", "message": []}, {"type": "message", "message": {"role": "user", "content": 5}}],
        [{"type": "custom", "id": "a", "parentId": "a"}, {"type": "custom", "id": "a", "parentId": "b"}, {"type": 1, "id": "b"}],
        [
            {
                "type": "message",
                "id": "x",
                "message": {"role": "assistant", "content": [5, {"type": "toolCall", "arguments": "no"}]},
            }
        ],
        [{"type": "message", "message": {"role": "assistant", "usage": {"input": "x", "cost": 1}, "content": None}}],
    ],
)
def test_odd_entries_still_make_a_page(entries: list[dict[str, Any]]) -> None:
    html = render({}, entries, "nowhere").decode()
    ids = [attrs["id"] for tag, attrs in Elements(html).found if tag == "article"]
    assert len(ids) == len(set(ids)) == len(entries)


def test_a_conversation_reads_on_where_an_entry_is_missing() -> None:
    script = Script()
    script.user("one")
    script.user("lost")
    script.user("three")
    del script.entries[1]
    assert "hidden>" not in page(script).split("<main")[1].split("<script")[0]


def test_hostile_content_adds_no_element_attribute_or_address() -> None:
    html = render(hostile_header(), hostile().entries, None).decode()
    found = Elements(html).found
    assert {tag for tag, _ in found}.isdisjoint({"iframe", "svg", "link", "base", "object", "embed", "form", "b", "animate"})
    assert [tag for tag, _ in found].count("script") == 2 and [tag for tag, _ in found].count("style") == 1
    for tag, attrs in found:
        assert not any(name.startswith("on") or name in ("style", "srcdoc", "srcset", "action") for name in attrs), (tag, attrs)
        if tag == "a" and attrs["href"] and not attrs["href"].startswith("#"):
            assert re.match(r"(https?://|mailto:)", attrs["href"]) and attrs["rel"] == "noopener noreferrer"
        if tag == "img":
            assert attrs["src"] and attrs["src"].startswith("data:image/png;base64,")
        if tag == "article":
            assert re.fullmatch(r"entry-[\w.-]+", attrs["id"] or "")


def test_the_policy_allows_the_page_its_own_script_and_style_alone() -> None:
    html = page(pleasant())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))

    def digest(source: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "script-src": digest(html.rpartition("<script>")[2].partition("</script>")[0]),
        "style-src": digest(html.partition("<style>")[2].partition("</style>")[0]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }


def test_the_title_is_the_name_or_the_first_prompt() -> None:
    script = Script()
    script.user("First  prompt\nhere")
    assert "<title>First prompt here</title>" in page(script)
    script.add("session_info", name="A <b>")
    assert "<title>A &lt;b&gt;</title>" in page(script)
    assert "<h1>A &lt;b&gt;</h1>" in page(script)


def test_pages_grow_with_their_sessions() -> None:
    def size(turns: int) -> int:
        script = Script()
        for turn in range(turns):
            script.user(f"Prompt {turn:06}")
        return len(page(script))

    empty, some, many = size(0), size(100), size(1000)
    assert (many - empty) < 10.5 * (some - empty)


def test_the_data_for_the_script_is_numbers_alone() -> None:
    html = render(HEADER, hostile().entries, None).decode()
    data = json.loads(html.partition('id="session">')[2].partition("</script>")[0])
    assert len(data["parents"]) == len(hostile().entries)
    assert all(isinstance(parent, int) for parent in data["parents"])


def test_a_call_and_its_result_are_one_card() -> None:
    script = Script()
    asked = script.assistant(text("Two at once."), call("c", "bash", command="ls", timeout=5), call("d", "read", path="a.py"))
    ran = script.result("c", "bash", "a.py")
    script.result("d", "read", "x = 1")
    silent = script.assistant(call("c", "bash", command="pwd"))  # the id is used again
    again = script.result("c", "bash", "/work")
    left = script.assistant(call("e", "bash", command="sleep 9"), stop="aborted")
    html = page(script)
    assert "timeout" not in article(html, asked) and "Two at once." in article(html, asked)
    card = article(html, ran)
    assert "<code>ls</code>" in card and '<span class="name">timeout</span>' in card and "a.py" in card
    assert "<code>pwd</code>" in article(html, again) and "<code>ls</code>" not in article(html, again)
    assert f'Calls <a href="#entry-{again}">bash</a>' in article(html, silent) and "calls-only" in article(html, silent)
    assert "sleep 9" in article(html, left), "it has no result"


def test_an_edit_is_shown_once() -> None:
    script = Script()
    script.assistant(call("c", "edit", path="a.py", oldText="old line", newText="new line"))
    done = script.result("c", "edit", "Done.", details={"diff": "-1 old line\n+1 new line"})
    script.assistant(call("d", "edit", path="a.py", oldText="old line", newText="new line"))
    failed = script.result("d", "edit", "Not found.", error=True)
    html = page(script)
    assert article(html, done).count("old line") == article(html, failed).count("old line") == 1
    assert html.count("old line") == 2


def test_the_outline_can_list_each_kind() -> None:
    script = Script()
    script.user("Prompt.")
    script.assistant(text("Answer."), call("c", "bash", command="false"))
    script.result("c", "bash", "no", error=True)
    script.assistant(stop="error", errorMessage="busy")
    outline = page(script).split('<nav id="outline"')[1].split("</nav>")[0]
    kinds = {re.sub(r"<[^>]+>", "", row): row.split('"')[1].split()[1:] for row in re.findall(r"<li .*?</li>", outline)}
    assert kinds["Prompt."] == ["k-user"] and kinds["Answer."] == ["k-answers"]
    assert kinds["bash false"] == ["k-tools", "k-errors"] and kinds["Error: busy"] == ["k-errors"]
    assert "Errors <small>2</small>" in outline and "All <small>4</small>" in outline


def test_task_lists_have_check_boxes() -> None:
    html = said("- [ ] *one*\n- [x] two\n\n1. [X] three\n- plain [x]\n")
    assert html.count('<input type="checkbox" disabled aria-label="to do">') == 1
    assert html.count('<input type="checkbox" disabled checked aria-label="done">') == 2
    assert html.count('<li class="task">') == 3 and "plain [x]" in html


def test_the_session_file_can_be_downloaded() -> None:
    source = b'{"type":"session"}\n\xff\n'
    html = page(pleasant(), source=source)
    (link,) = [attrs for _, attrs in Elements(html).found if attrs.get("id") == "download"]
    assert link["download"] == "session-01a1dddd.jsonl.gz"
    assert gzip.decompress(base64.b64decode(str(link["href"]).removeprefix("data:application/gzip;base64,"))) == source
    hostile_page = render({**HEADER, "id": '"><script>'}, [], None, source=source).decode()
    assert 'download="session.jsonl.gz"' in hostile_page and 'id="download"' not in page(pleasant())
