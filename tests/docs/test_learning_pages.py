"""The pages to learn from show programs that are files in examples/, whole and unchanged, and the index leads to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: A program after a link to its file: the path, the language, the text.
PROGRAM = re.compile(r"\]\(\.\./(examples/[^)]+)\)[^`]*\n\n```(python|ts)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(?:python|ts|js)\b[^\n]*\n", re.MULTILINE)
#: The pages whose programs are files, and the number of programs on them.
PAGES = {
    "first-chat.md": 0,
    "first-host.md": 4,
    "first-tool.md": 1,
    "first-host-tool.md": 2,
    "first-extension.md": 1,
    "security-for-embedders.md": 0,
    "coming-from.md": 0,
}
MOST_LINES = 30


def shown(page: str) -> list[tuple[Path, str]]:
    return [(ROOT / path, text) for path, _, text in PROGRAM.findall((DOCS / page).read_text())]


def program(file: Path) -> str:
    """The text of an example, without the description at its top."""
    return re.sub(r'\A(#![^\n]*\n)?("""(?:.|\n)*?"""\n+|(//[^\n]*\n)+)', "", file.read_text())


@pytest.mark.parametrize(("page", "count"), PAGES.items())
def test_every_program_on_a_page_is_the_example_that_it_links_to(page: str, count: int) -> None:
    programs = shown(page)
    assert len(programs) == count == len(FENCE.findall((DOCS / page).read_text()))
    for file, text in programs:
        assert text == program(file), f"{page} does not show {file.name} as it is"


def test_a_first_host_takes_thirty_lines() -> None:
    for file, text in shown("first-host.md"):
        assert len(text.splitlines()) <= MOST_LINES, file


def test_the_index_leads_to_every_page_and_the_readme_to_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    missing = [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"]({page.name})" not in index]
    assert missing == []
    readme = (ROOT / "README.md").read_text()
    assert "](docs/README.md)" in readme
    assert [page for page in PAGES if f"](docs/{page})" not in readme] == []
