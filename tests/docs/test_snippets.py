"""The fenced blocks of the documentation. The words after the fence say what a test does with a block:

python run     a program that must end well
console run    commands after `$ `, and lines that their output must contain, in that order; `...` stands for any text
json, jsonl    must parse
transcript     a conversation, `>` from the host and `<` from the agent; an agent's line may leave fields out
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import published
from tests.support.json_values import is_array, is_object

from fairlead.testing import ProviderServer

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60
FENCE = re.compile(r"^```([^\n`]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    where: str
    info: str
    text: str


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]


def snippets(*infos: str) -> Iterator[Snippet]:
    """All blocks whose info string is one of `infos`."""
    for page in pages():
        text = page.read_text()
        for match in FENCE.finditer(text):
            if match[1].strip() in infos:
                line = text.count("\n", 0, match.start()) + 1
                yield Snippet(f"{page.relative_to(ROOT)}:{line}", match[1].strip(), match[2])


def each(*infos: str) -> pytest.MarkDecorator:
    found = list(snippets(*infos))
    return pytest.mark.parametrize("snippet", found, ids=[snippet.where for snippet in found])


@each("python run")
def test_python_snippets_run(snippet: Snippet, environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", snippet.text]
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert result.returncode == 0, result.stderr


def test_first_example_of_readme_prints_what_its_comment_says(environment: dict[str, str], tmp_path: Path) -> None:
    text = next(snippet.text for snippet in snippets("python") if snippet.where.startswith("README.md:"))
    (shown,) = re.findall(r"print\(.*\)  # (.+)", text)
    turns: list[dict[str, Any]] = [
        {"toolCalls": [{"name": "in_stock", "arguments": {"item": "apples"}}]},
        {"text": '{"item": "apples", "count": 2}'},
    ]
    with ProviderServer(turns) as provider:
        env = {**environment, "ANTHROPIC_BASE_URL": provider.url}
        command = [sys.executable, "-W", "error", "-c", text]
        result = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (result.returncode, result.stdout) == (0, f"{shown}\n"), result.stderr
    assert provider.requests[1].body["messages"][-1]["content"][0]["content"] in ("3", [{"type": "text", "text": "3"}])


@each("console run")
def test_console_snippets_print_what_they_show(snippet: Snippet, environment: dict[str, str], tmp_path: Path) -> None:
    for command, expected in commands(snippet.text):
        result = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        rest = iter(result.stdout.splitlines())
        for line in expected:
            wanted = re.compile(".*".join(map(re.escape, line.split("..."))))
            assert any(wanted.fullmatch(printed) for printed in rest), f"{command!r} did not print {line!r}:\n{result.stdout}"


@each("json", "jsonl")
def test_json_snippets_parse(snippet: Snippet) -> None:
    for part in snippet.text.splitlines() if snippet.info == "jsonl" else [snippet.text]:
        json.loads(part)


@each("transcript")
def test_transcripts_happen(snippet: Snippet, environment: dict[str, str], tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("fairlead")), "--mode", "rpc", "--dialect", "pi", "--updates", "delta"]
    lines = snippet.text.splitlines()
    commands_sent = "".join(line[2:] + "\n" for line in lines if line.startswith("> "))
    expected = [json.loads(line[2:]) for line in lines if line.startswith("< ")]
    result = subprocess.run(
        [*command, "--on-eof", "finish"],
        input=commands_sent,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    published.check("pi", commands_sent.encode(), result.stdout.encode().splitlines())
    frames = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(frames) == len(expected), ([frame["type"] for frame in frames], result.stderr)
    for frame, shown in zip(frames, expected, strict=True):
        assert covers(frame, shown), f"{shown} is not {frame}"


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages()
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_links_to_headings_lead_to_one() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {path}#{anchor}"
        for page in pages()
        for path, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
        if anchor not in anchors(page.parent / path if path else page)
    ]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_named_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in pages() for name in re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text())}
    assert named <= targets
    assert {"run", "test"} <= named


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(
        r"`((?:agent|core|protocol|wire|models|tools|policy|config|session|extend|bench)/[\w/.]*|errors\.py)`", text
    )
    missing = [path for path in named if not (ROOT / "src" / "fairlead" / path).exists() and not (ROOT / path).exists()]
    assert named and missing == []


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Commands after `$ `, each with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def covers(whole: Any, part: Any) -> bool:
    """Whether `part` is `whole` with fields of objects left out."""
    if is_object(whole) and is_object(part):
        return all(key in whole and covers(whole[key], value) for key, value in part.items())
    if is_array(whole) and is_array(part):
        return len(whole) == len(part) and all(map(covers, whole, part))
    return whole == part
