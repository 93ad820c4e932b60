"""The messages on the page for troubleshooting are those that the program prints."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"


def messages() -> list[str]:
    """Return the messages of several words in the first columns of the tables."""
    cells = re.findall(r"^\| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell) if message.count(" ") > 2]


def texts() -> str:
    """Return all texts in the source. What an f-string inserts is a gap."""
    found: list[str] = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("\0".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


@pytest.fixture(scope="module")
def printed() -> str:
    return texts()


@pytest.mark.parametrize("message", messages())
def test_a_message_on_the_page_is_one_that_the_program_prints(message: str, printed: str) -> None:
    parts = [part.strip() for part in message.removeprefix("Error: ").split("...")]
    assert [part for part in parts if part not in printed] == []
