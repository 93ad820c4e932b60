#!/usr/bin/env python3
# pyright: reportMissingTypeStubs=false
"""Check the English of the documentation and of the source.

    prose.py                        check everything that `make check` checks
    prose.py src/fairlead/models    check these files and folders only

In Markdown it reads the text outside code. In Python it reads docstrings, comments, and strings that look like sentences, such
as error messages. It runs selected checks of proselint, looks for the phrases in prose_words.toml, and measures the lines of
Markdown. It also reads the names of functions and tests. Each finding is one line: `file:line: what is wrong -> what to write`.
The exit code is 1 if there are any.

A line that has to stay as it is, for example because a peer's protocol prescribes it, carries `prose: verbatim` in a comment.
"""

from __future__ import annotations

import ast
import io
import sys
import textwrap
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import regex
from proselint.checks import __register__ as PROSELINT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).resolve().parent.parent
WORDS = Path(__file__).with_name("prose_words.toml")
#: Of these it checks the names of tests only.
NAMES_ONLY = ("tests",)
EVERYTHING = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs", "examples", "scripts", "bench", "src")

# proselint's checks for typography, dates and quotations are off: they are about books, not about code.
CHECKS = {
    "archaism": True,
    "cliches": True,
    "hedging": True,
    "industrial_language": True,
    "lexical_illusions": True,
    "malapropisms": True,
    "misc": True,
    "mixed_metaphors": True,
    "mondegreens": True,
    "needless_variants": True,
    "nonwords": True,
    "oxymorons": True,
    "redundancy": True,
    "spelling.consistency": False,
    "spelling": True,
    "uncomparables": True,
}

WIDTH = 100
MARKER = "prose: verbatim"
FENCE = regex.compile(r"^ *(```+|~~~+).*?^ *\1 *$", regex.MULTILINE | regex.DOTALL)
# Code in a docstring: indented lines after an empty one. Those under a heading such as `Args:` are text.
INDENTED = regex.compile(r"(?<=\n[^\S\n]*\n)(?: {4,}(?=[^\s*\d-]).*(?:\n|$)|[^\S\n]*\n(?= {4,}))+", regex.MULTILINE)
CODE = regex.compile(r"(`+)[^`](?:[^`]|\n(?!\n))*?\1")
TARGET = regex.compile(r"(?<=\])\([^)\s]*\)")
COMMENT = regex.compile(r"<!--.*?-->", regex.DOTALL)
# What separates two texts: a phrase does not reach across it.
APART = regex.compile(r"\n\s*\n|\|")
WORD = regex.compile(r"[A-Za-z]{2,}")
WORDS_OF_A_SENTENCE = 3
NUMBERS = count()
# Decorators of functions that are read or entered instead of called.
VALUE = regex.compile(r"property|contextmanager|fixture|setter")


@dataclass(frozen=True, order=True)
class Finding:
    file: Path
    line: int
    message: str

    def __str__(self) -> str:
        name = self.file.relative_to(ROOT) if self.file.is_relative_to(ROOT) else self.file
        return f"{name}:{self.line}: {self.message}"


class Prose:
    """The prose of a file: its lines without code, each with its number in the file."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._numbers: list[int] = []

    def add(self, text: str, first: int, last: int | None = None) -> None:
        """Add a paragraph that covers the lines `first` to `last` of the file, or as many as it has."""
        for number, line in enumerate(without_code(text).split("\n"), first):
            self._lines.append(line)
            self._numbers.append(number if last is None else min(number, last))
        self._lines.append("")
        self._numbers.append(last or first)

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def number(self, position: int) -> int:
        """The line of the file that a position in `text` comes from."""
        return self._numbers[self.text.count("\n", 0, position)]


class Linter:
    def __init__(self) -> None:
        if not CheckRegistry().checks:
            CheckRegistry().register_many(PROSELINT)
        tables: dict[str, dict[str, str]] = tomllib.loads(WORDS.read_text(encoding="utf-8"))
        words = tables["words"]
        self._names = [(regex.compile(pattern), advice) for pattern, advice in tables["names"].items()]
        self._test_names = [(regex.compile(pattern), advice) for pattern, advice in tables["test_names"].items()]
        space = r"(?:[^\S\n]+|[^\S\n]*\n[^\S\n]*)"
        self._words = [
            (regex.compile(rf"\b(?:{pattern.replace(' ', space)})\b", regex.IGNORECASE | regex.MULTILINE), advice)
            for pattern, advice in words.items()
        ]

    def check(self, file: Path, *, names_only: bool = False) -> list[Finding]:
        """Check one Markdown or Python file."""
        source = file.read_text(encoding="utf-8")
        lines = source.splitlines()
        found: set[tuple[int, str]] = set()
        if file.suffix == ".py":
            found.update(self._read_names(source, tests_only=names_only))
            prose = Prose() if names_only else python_prose(source)
        else:
            found.update(() if names_only else long_lines(source))
            prose = Prose() if names_only else markdown_prose(source)
        found.update(self._read(prose))
        return [Finding(file, line, message) for line, message in sorted(found) if MARKER not in lines[line - 1]]

    def _read_names(self, source: str, *, tests_only: bool) -> Iterator[tuple[int, str]]:
        for node, name in function_names(ast.parse(source)):
            is_test = name.startswith("test_")
            patterns = self._test_names if is_test else () if tests_only else self._names
            advice = next((advice for pattern, advice in patterns if pattern.search(name)), None)
            if advice is not None:
                yield node.lineno, f"function '{name}' -> {advice}"

    def _read(self, prose: Prose) -> Iterator[tuple[int, str]]:
        text = prose.text
        for pattern, advice in self._words:
            for match in pattern.finditer(text):
                yield prose.number(match.start()), f"'{one_line(match[0])}' -> {advice}"
        if not text:  # proselint would take "prose" for a path
            return
        for result in LintFile("prose", text).lint({"max_errors": 10_000, "checks": CHECKS}):
            found = result.check_result
            # proselint puts a line break before the text.
            start, end = max(found.span[0] - 1, 0), found.span[1] - 1
            if not APART.search(text[start:end]):
                yield prose.number(start), f"{one_line(found.message)} ({found.check_path})"


def markdown_prose(source: str) -> Prose:
    """The text of a page."""
    prose = Prose()
    prose.add(TARGET.sub("", COMMENT.sub(blank, FENCE.sub(blank, source))), 1)
    return prose


def python_prose(source: str) -> Prose:
    """Docstrings, comments, and other strings of at least three words."""
    prose = Prose()
    lines = source.splitlines()
    for node, text, documents in strings(ast.parse(source)):
        last = node.end_lineno or node.lineno
        verbatim = any(MARKER in line for line in lines[node.lineno - 1 : last])
        if not verbatim and (documents or len(WORD.findall(text)) >= WORDS_OF_A_SENTENCE):
            prose.add(INDENTED.sub(blank, dedent(text)) if documents else text, node.lineno, last)
    for number, block in comments(source):
        prose.add(block, number)
    return prose


def dedent(text: str) -> str:
    """A docstring without the indentation that its lines after the first one share."""
    first, *others = text.split("\n")
    return "\n".join([first, *textwrap.dedent("\n".join(others)).split("\n")])


def strings(tree: ast.AST) -> Iterator[tuple[ast.expr, str, bool]]:
    """Every string, its text, and whether it documents something. A value inside an f-string reads as a word."""
    documents: set[ast.expr] = set()
    pieces: set[ast.expr] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documents.add(node.value)
        elif isinstance(node, ast.Attribute) and node.attr == "split":
            pieces.add(node.value)  # a list of words, not a sentence
        elif isinstance(node, ast.JoinedStr):
            pieces.update(node.values)
            parts = (str(part.value) if isinstance(part, ast.Constant) else stand_in() for part in node.values)
            yield node, "".join(parts), False
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in pieces:
            yield node, node.value, node in documents


def function_names(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every function, and every class that is named like one. What reads as a value may be a noun or a participle: properties,
    context managers and fixtures."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not any(VALUE.search(ast.unparse(each)) for each in node.decorator_list):
                    yield node, node.name.strip("_")
            case ast.ClassDef() if node.name.strip("_")[:1].islower():
                yield node, node.name.strip("_")
            case _:
                pass


def comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments, each with the number of its first line. Comments on neighbouring lines are one text."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield last - len(block) + 1, "\n".join(block)
            block = []
        last = token.start[0]
        block.append(token.string.lstrip("#"))
    if block:
        yield last - len(block) + 1, "\n".join(block)


def long_lines(source: str) -> Iterator[tuple[int, str]]:
    """Lines of Markdown over the limit. Tables, headings, code and the targets of links may be longer."""
    text = TARGET.sub("", COMMENT.sub(blank, FENCE.sub(blank, source)))
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > WIDTH and not line.lstrip().startswith(("|", "#")) and " " in line.strip():
            yield number, f"the line has {len(line)} characters -> wrap it at {WIDTH}"


def without_code(text: str) -> str:
    return CODE.sub(blank, text)


def blank(match: regex.Match[str]) -> str:
    """What to read instead of code: as many lines, each with a word that no check knows."""
    return "\n".join(stand_in() if line else "" for line in match[0].split("\n"))


def stand_in() -> str:
    """A new word each time, whose ends differ, so that two in a row do not look like a repeated word."""
    return f"X{next(NUMBERS)}z"


def one_line(text: str) -> str:
    return " ".join(text.split())


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The Markdown and Python files in `paths`."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in {".md", ".py"}:
                yield file


def main(arguments: list[str]) -> int:
    paths = [Path(argument).resolve() for argument in arguments]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"prose.py: not found: {', '.join(missing)}", file=sys.stderr)
        return 2
    linter = Linter()
    if paths:
        findings = [finding for file in files(paths) for finding in linter.check(file)]
    else:
        findings = [finding for file in files(ROOT / name for name in EVERYTHING) for finding in linter.check(file)]
        named = files(ROOT / name for name in NAMES_ONLY)
        findings += [finding for file in named for finding in linter.check(file, names_only=True)]
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} findings; CONTRIBUTING.md says how we write.", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
