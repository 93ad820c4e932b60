"""A hook of MkDocs that turns docs/ into a site, without a second list of pages and with links that also work on GitHub.

The navigation is that of docs/README.md: each of its numbered lists is a section under the heading above it, and so is each row
of its table. A page that several of them list is in the first. A page that none lists is a warning, which `mkdocs build --strict`
turns into an error.

Pages link to files outside docs/, such as examples and the source. The site gets a page for each of them, and for every file
that those link to.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
log = logging.getLogger("mkdocs.hooks.docs_site")

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^( *)```(\w+)[ ]run$", re.MULTILINE)
_CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {
    ".py": "python",
    ".ts": "ts",
    ".mjs": "js",
    ".js": "js",
    ".json": "json",
    ".toml": "toml",
    ".sh": "sh",
    ".yml": "yaml",
}
#: Folders whose pages need not be listed, because an index in the folder lists them.
_INDEXED = ("decisions/", "python/")
#: Files that are in the site for the pages that link to them: the path in the repository, and the page.
_pages: dict[str, str] = {}


def on_config(config: Any) -> Any:
    """Set the navigation."""
    config.nav = navigation((ROOT / "docs" / "README.md").read_text("utf-8"))
    return config


def navigation(index: str) -> list[Any]:
    """Return the navigation that the text of docs/README.md describes, in the form of mkdocs.yml."""
    sections: dict[str, list[str]] = {}
    listed: set[str] = set()
    heading = ""
    for line in index.splitlines():
        cells = line.strip().strip("|").split("|")
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if re.match(r"\d+\. ", line):
            name, text = heading, line
        elif line.startswith("|") and len(cells) == 2:
            name, text = cells[0].strip(), cells[1]
        else:
            continue
        pages = [page_of(normpath(f"docs/{target.partition('#')[0]}")) for _, target in _LINK.findall(text)]
        sections.setdefault(name[:1].upper() + name[1:], []).extend(page for page in dict.fromkeys(pages) if page not in listed)
        listed.update(pages)
    return ["README.md", *({name: pages} for name, pages in sections.items() if pages)]


def on_files(files: Any, config: Any) -> Any:
    """Add a page for every linked file outside docs/, and for the files that those pages link to."""
    from mkdocs.structure.files import File

    todo = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    done: set[str] = set()
    while todo:
        source = todo.pop()
        if source in done or not source.endswith(".md"):
            continue
        done.add(source)
        for target in linked_files(source):
            if target.startswith("docs/") or target in _pages:
                continue
            _pages[target] = page_of(target)
            files.append(File.generated(config, _pages[target], content=page_text(target)))
            todo.append(target)
    _check_listed(files, config.nav)
    return files


def _check_listed(files: Any, nav: list[Any]) -> None:
    listed = {page for item in nav for page in ([item] if isinstance(item, str) else next(iter(item.values())))}
    generated = set(_pages.values())
    for file in files.documentation_pages():
        if file.src_uri not in listed | generated and not file.src_uri.startswith(_INDEXED):
            log.warning("docs/%s is not in the index: add it to docs/README.md.", file.src_uri)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files outside docs/ at their pages, and leave out the marks of code that the tests run."""
    uri = page.file.src_uri
    source = next((path for path, each in _pages.items() if each == uri), f"docs/{uri}")
    return _FENCE.sub(r"\1```\2", rewritten(markdown, source, uri, _pages))


def rewritten(markdown: str, source: str, uri: str, pages: Mapping[str, str]) -> str:
    """Return the text of the file `source` with links that fit the page `uri` of the site.

    `pages` are the pages of files outside docs/.
    """

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        path, mark, anchor = target.partition("#")
        found = resolve_link(path, source)
        if found is None or (source.startswith("docs/") and found.startswith("docs/")):
            return match[0]
        place = found.removeprefix("docs/") if found.startswith("docs/") else pages.get(found)
        return match[0] if place is None else f"[{words}]({relpath(place, dirname(uri) or '.')}{mark}{anchor})"

    parts: list[str] = []
    at = 0
    for code in _CODE.finditer(markdown):
        parts += (_LINK.sub(link, markdown[at : code.start()]), code[0])
        at = code.end()
    return "".join((*parts, _LINK.sub(link, markdown[at:])))


def linked_files(source: str) -> Iterator[str]:
    """Yield the files and folders of the repository that a Markdown file links to."""
    text = _CODE.sub("", (ROOT / source).read_text("utf-8"))
    for _, target in _LINK.findall(text):
        found = resolve_link(target.partition("#")[0], source)
        if found is not None:
            yield found


def resolve_link(target: str, source: str) -> str | None:
    """Return the path in the repository that a link in the file `source` leads to; None for addresses and missing files."""
    if not target or "://" in target or target.startswith(("mailto:", "/")):
        return None
    path = normpath(f"{dirname(source) or '.'}/{target}")
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def page_of(path: str) -> str:
    """Return the page of the site for a path in the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.endswith(".md"):
        return f"project/{path.removesuffix('.md').lower().replace('/', '-')}.md"
    return f"source/{path.rstrip('/')}.md"


def page_text(path: str) -> str:
    """Return the Markdown of the page for a file or a folder outside docs/."""
    full = ROOT / path
    if full.is_dir():
        names = sorted(file.name for file in full.iterdir() if not file.name.startswith(("_", ".")))
        return f"# {path}\n\n" + "\n".join(f"- `{name}`" for name in names) + "\n"
    text = full.read_text("utf-8")
    if path.endswith(".md"):
        return text
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"# {path}\n\n{fence}{_LANGUAGES.get(full.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
