"""The documentation site: its navigation, and links to files outside docs/."""

from __future__ import annotations

from pathlib import Path

from scripts import docs_site

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_index_is_the_navigation_and_lists_every_page_once() -> None:
    index, terminal, program, *sections = docs_site.navigation((DOCS / "README.md").read_text())
    assert index == "README.md"
    assert terminal["In your terminal"][0] == "first-chat.md"
    assert {"chat.md", "settings.md", "approvals.md", "skills.md"} <= set(terminal["In your terminal"])
    assert program["In your program"][0] == "first-tool.md"
    every = [page for section in (terminal, program, *sections) for pages in section.values() for page in pages]
    listed = set(every)
    assert len(every) == len(listed)
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}
    assert {page for page in pages if not page.startswith(("decisions/", "python/"))} <= listed
    assert {page for page in listed if not page.startswith("project/")} <= pages


def test_links_out_of_the_documentation_lead_to_pages_of_the_site() -> None:
    pages = {"SECURITY.md": docs_site.page_of("SECURITY.md"), "examples/chat.py": docs_site.page_of("examples/chat.py")}
    assert set(pages) <= {target for path in DOCS.glob("*.md") for target in docs_site.linked_files(f"docs/{path.name}")}
    text = "[a](../SECURITY.md#scope) [b](usage.md) [c](https://example.com) [d](../nowhere.md)\n```\n[e](../SECURITY.md)\n```\n"
    changed = docs_site.rewritten(text, "docs/cli.md", "cli.md", pages)
    assert changed == text.replace("../SECURITY.md#scope", "project/security.md#scope")
    assert docs_site.rewritten("[a](docs/usage.md)", "SECURITY.md", "project/security.md", pages) == "[a](../usage.md)"
    assert docs_site.page_text("examples/chat.py").startswith("# examples/chat.py\n\n```python\n")
