"""Nothing that a question shows is invisible.

A change of any size is shown: its beginning, its end, and how much is between.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from tests.support.stage import bash, calls, says, stage

from fairlead.chat.view.proposals import Proposal
from fairlead.chat.view.text import without_styles
from fairlead.chat.view.theme import PLAIN
from fairlead.core.approval import ApprovalRequest, FileChange
from fairlead.core.questions import bounded_diff, reveal

HIDDEN = list(
    "\u3164\u2800\u034f\u115f\u1160\uffa0\u00ad\u00a0\u2003\u3000\u1680\u202f\u205f\u200b\u200c\u200d\u2060\ufeff"
    "\u180b\u180e\u180f\ufe00\ufe0f\U000e0100\U000e01ef\U000e0001\U000e0041\U000e007f\U000e0fff\u202a\u202e\u2066\u2069"
    "\u200e\u200f\u061c\u17b4\u17b5\u2065\ufff0\U0001bca0\U0001d173\U0001d159\ufffc\u2028\u2029\x1b\r\x08\x7f\x9b"
    "\ue000\U0010fffd\U000f0000\ufdd0\U00013430"
)
SHOWN = ["é", "e\u0301", "ệ", "日本語", "한국어", "العربية", "हिन्दी", "ไทย", "😀", "→", "x\ty", "a\nb", "\\u{200b}", "👍🏽"]


@pytest.mark.parametrize("character", HIDDEN, ids=lambda each: f"{ord(each):x}")
def test_what_hides_or_moves_text_is_shown_as_an_escape(character: str) -> None:
    text = f"rm a{character}b"
    escape = f"\\u{{{ord(character):x}}}"
    assert reveal(text) == f"rm a{escape}b"
    change = FileChange(f"/p/{character}", f"old{character}x\n", f"new{character}x\n")
    for request in (
        ApprovalRequest("bash", "1", {"command": text}, "Allow bash?", reveal(text), text, "execute"),
        ApprovalRequest("write", "1", {}, "Allow write?", "/p", "/p", "edit", (change,)),
    ):
        drawn = without_styles("\n".join(Proposal(request, PLAIN, Path("/p")).finished(200, is_long=True)))
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


def test_a_path_stays_in_its_line() -> None:
    change = FileChange("/p/a\n@@ -1 +1 @@\n+harmless", None, "x\n")
    assert bounded_diff([*change.parts()]).splitlines()[1].startswith("+++ /p/a\\u{a}@@")


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
