"""Every event, every result and everything that extensions can call is shown by an example, and the index says by which."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.behaviour.examples import EXAMPLES

from fairlead.core.runtime import Ui
from fairlead.extend.extensions.context import CommandContext, Context, SessionView, ToolRunContext
from fairlead.extend.extensions.extension_api import Fairlead
from fairlead.extend.extensions.extension_events import EVENTS, RESULTS, Note
from fairlead.extend.extensions.registrations import EventBus

FILES = sorted(EXAMPLES.glob("*.py"))
#: How the variables are called in all examples, and what they are.
ROOTS = {"fl": "fl", "context": "context", "ui": "context.ui", "session": "context.session"}


def public(kind: type, *more: str) -> set[str]:
    return {name for name in (*dir(kind), *more) if not name.startswith("_")}


def to_be_shown() -> set[str]:
    """Everything there is, as it is written in an extension."""
    context = public(Context) | public(CommandContext) - {"is_ending"} | public(ToolRunContext, "call_id")  # for the engine
    parts = {
        "fl": public(Fairlead),
        "fl.events": public(EventBus) - {"close"},  # for the engine
        "context": context,
        "context.ui": public(Ui) - {"available", "canvas"},  # has_ui is the same; components written for pi draw on the canvas
        "context.session": public(SessionView),
    }
    names = {f"{owner}.{name}" for owner, members in parts.items() for name in members}
    return names | set(EVENTS) | {kind.__name__ for kinds in (*RESULTS.values(), (Note,)) for kind in kinds}


@cache
def shown_by(path: Path) -> frozenset[str]:
    """What an example listens to, returns and calls."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(ast.Attribute(ast.Name("fl"), "on"), [ast.Constant(str(event)), *_]):
                found.add(event)
            case ast.Call(ast.Name(result)):
                found.add(result)
            case ast.Attribute():
                found.add(_written(node))
            case _:
                continue
    return frozenset(found)


def _written(node: ast.expr) -> str:
    match node:
        case ast.Attribute(owner, name):
            return f"{_written(owner)}.{name}"
        case ast.Name(name):
            return ROOTS.get(name, "?")
        case _:
            return "?"


def index() -> dict[str, set[str]]:
    """The files that the index lists, and what it says that each of them shows."""
    rows = re.findall(r"^\| \[(\w+\.py)\]\(\1\) \| .+? \| (.+?) \|$", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    return {file: set(re.findall(r"`([\w.]+)`", names)) for file, names in rows}


def test_there_is_an_example_for_everything() -> None:
    missing = to_be_shown() - frozenset().union(*map(shown_by, FILES))
    assert missing == set(), "write an example, or show it in one that there is"


def test_the_index_lists_all_examples_and_finds_everything() -> None:
    listed = index()
    assert set(listed) == {path.name for path in FILES}
    assert to_be_shown() - set().union(*listed.values()) == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_short_explained_and_shows_what_the_index_says(path: Path) -> None:
    assert index()[path.name] <= shown_by(path)
    assert ast.get_docstring(ast.parse(path.read_text()))
    assert len(path.read_text().splitlines()) <= 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_run_by_a_test(path: Path) -> None:
    here = Path(__file__).parent
    files = [*here.glob("test_extension_examples_*.py"), here.parent / "extend" / "test_cache_warming.py"]
    assert any(f'"{path.stem}"' in each.read_text() for each in files)
