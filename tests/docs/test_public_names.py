"""Docs and examples use public names only, and what is public exists."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    "fairlead",
    "fairlead.client",
    "fairlead.client.events",
    "fairlead.client.opal",
    "fairlead.client.server_events",
    "fairlead.errors",
    "fairlead.events",
    "fairlead.extension",
    "fairlead.jobs",
    "fairlead.messages",
    "fairlead.stores",
    "fairlead.testing",
}
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> Iterator[tuple[str, str]]:
    """Every Python program that users read: where it is, and its text."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        text = page.read_text()
        for match in FENCE.finditer(text):
            yield f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}", match[1]
    for example in ROOT.glob("examples/**/*.py"):
        yield str(example.relative_to(ROOT)), example.read_text()


def imports(text: str) -> Iterator[tuple[str, str]]:
    """The modules of fairlead that a program imports, each with a name it takes from there, or none."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        else:
            continue
        yield from (pair for pair in found if pair[0].partition(".")[0] == "fairlead")


def is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC:
        return True
    return module in PUBLIC and (not name or name in importlib.import_module(module).__all__)


FOUND = sorted(programs())


@pytest.mark.parametrize("text", [text for _, text in FOUND], ids=[where for where, _ in FOUND])
def test_a_program_that_users_read_imports_public_names_only(text: str) -> None:
    assert [f"{module}.{name}" for module, name in imports(text) if not is_public(module, name)] == []


def test_prose_names_no_private_module() -> None:
    private = {path.stem for path in (ROOT / "src" / "fairlead").iterdir()} - {name.partition(".")[2] for name in PUBLIC}
    named = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]
        for name in re.findall(r"\bfairlead\.([a-z]+)", page.read_text())
        if name in private
    ]
    assert named == []


def test_public_names_match_the_allowed_list() -> None:
    assert fairlead.__doc__
    assert set(re.findall(r"^    (fairlead[.\w]*) ", fairlead.__doc__, re.MULTILINE)) == PUBLIC


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_name_exists(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_dir_lists_every_public_name_before_it_is_loaded(module: str) -> None:
    code = f"import {module}; assert set({module}.__all__) <= set(dir({module})), dir({module})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_private_packages_say_that_they_are_private() -> None:
    packages = [f"fairlead.{path.parent.name}" for path in (ROOT / "src" / "fairlead").glob("*/__init__.py")]
    silent = [name for name in packages if name not in PUBLIC and "Private:" not in (importlib.import_module(name).__doc__ or "")]
    assert silent == []


@pytest.mark.parametrize("module", sorted(PUBLIC - {"fairlead.messages"}))  # which has nothing to warn of
def test_warnings_of_a_public_module_do_not_appear_on_stderr(module: str) -> None:
    program = f"""
import importlib, logging
module = importlib.import_module({module!r})
for name in module.__all__:
    getattr(module, name)
logging.getLogger("fairlead.session").warning("heard")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert not done.stderr
