"""The prose linter finds what it should in Markdown and Python, and leaves code and good English alone."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lint(*paths: Path) -> tuple[int, list[str]]:
    """Run the linter and return its exit code and the findings without the folder."""
    command = [sys.executable, str(ROOT / "scripts" / "prose.py"), *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, [line.rpartition("/")[2] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("Nobody can log in.", "'Nobody'"),
        ("A command of the host's own is refused.", "'of the host's'"),
        ("The path is no folder.", "'is no folder'"),
        ("The session goes\non with the next turn.", "'goes on'"),
        ("The call hangs for ever.", "'for ever'"),
        ("It stops at the the end.", "'the the'"),
    ],
)
def test_a_phrase_that_we_do_not_use_is_found_in_markdown(sentence: str, phrase: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{sentence}\n")
    code, findings = lint(page)
    assert code == 1
    assert len(findings) == 1
    assert findings[0].startswith("page.md:3: ")
    assert phrase in findings[0]


def test_plain_sentences_and_code_pass(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code = "`nobody`, and `whoever\nis anew`"
    page.write_text(f"No provider supports login. There is no limit.\n\n```python\nnobody = 1\n```\n\nWrite {code} as code.\n")
    assert lint(page) == (0, [])


def test_docstrings_comments_and_messages_are_read_at_their_lines(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Say hello.\n\n    nobody = "an indented example"\n\nWhoever asks gets an answer.\n"""\n'
        "nobody = 1  # somebody\n"
        'raise ValueError(f"{nobody} is no folder")\n'
    )
    code, findings = lint(module)
    assert code == 1
    assert [finding.partition(" ->")[0] for finding in findings] == [
        "module.py:5: 'Whoever'",
        "module.py:7: 'somebody'",
        "module.py:8: 'is no folder'",
    ]


def test_all_lines_of_an_indented_docstring_are_read_except_its_examples(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "def answer(name):\n"
        '    """Answer.\n\n    Whoever asks gets an answer.\n\n'
        '        nobody = "an example"\n\n        somebody = "its end"\n\n'
        '    Args:\n        name: that of somebody.\n    """\n'
    )
    code, findings = lint(module)
    assert code == 1
    assert [finding.partition(" ->")[0] for finding in findings] == ["module.py:4: 'Whoever'", "module.py:11: 'somebody'"]


def test_a_list_of_words_is_not_a_sentence(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('WORDS = "somebody nobody nobody".split()\n')
    assert lint(module) == (0, [])


def test_text_that_a_protocol_prescribes_can_stay(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('ANSWER = "This path is no folder."  # prose: verbatim\n')
    assert lint(module) == (0, [])


def test_functions_are_named_by_what_they_do(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    names = ("_shown", "told", "say", "say_to", "skip_what_stays", "leave_nothing_behind", "_standing_in")
    module.write_text(
        "".join(f"def {name}(): ...\n" for name in names) + "@property\ndef shown(self): ...\ndef format_x(): ...\n"
    )
    code, findings = lint(module)
    assert code == 1
    assert [finding.split("'")[1] for finding in findings] == [name.strip("_") for name in names]


def test_tests_are_named_by_the_behaviour(tmp_path: Path) -> None:
    module = tmp_path / "test_module.py"
    names = ("test_what_is_no_session_is_reported", "test_a_page_is_no_session", "test_nobody_is_asked", "test_a_host_is_told")
    module.write_text("".join(f"def {name}(): ...\n" for name in (*names, "test_a_page_is_no_longer_read")))
    code, findings = lint(module)
    assert code == 1
    assert {finding.split("'")[1] for finding in findings} == {*names}


def test_lines_of_markdown_wrap_at_100(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = "One line holds these words and no more than these words, which are many, so it is too wide for a page of ours."
    page.write_text(f"{words}\n\n| {words} |\n\nSee [the page](https://example.org/{'x' * 100}) about it.\n\n```\n{words}\n```\n")
    code, findings = lint(page)
    assert code == 1
    assert [finding.partition(":")[2].partition(":")[0] for finding in findings] == ["1"]


def test_folders_are_searched_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "page.md").write_text("Nobody knows.\n")
    assert lint(tmp_path)[0] == 1
    assert lint(tmp_path / "absent") == (2, [])


def test_everything_that_is_checked_exists() -> None:
    lists = runpy.run_path(str(ROOT / "scripts" / "prose.py"))
    assert [name for name in (*lists["EVERYTHING"], *lists["NAMES_ONLY"]) if not (ROOT / name).exists()] == []
