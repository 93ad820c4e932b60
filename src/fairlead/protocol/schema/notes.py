"""The documentation in the declarations: docstrings, and the `#:` comments above fields."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache


def prose(declared: type) -> str:
    """The docstring of a class, with one line per paragraph."""
    # A struct without a docstring would inherit the one of its base.
    text = inspect.cleandoc(declared.__dict__.get("__doc__") or "")
    return _of_json(re.sub(r"(?<!\n)\n(?!\n)", " ", text))


def field_notes(declared: type) -> dict[str, str]:
    """The comments above the fields of a class and its bases, by the names of the fields in Python."""
    notes: dict[str, str] = {}
    for base in reversed(declared.__mro__):
        if base.__module__.startswith("fairlead."):
            for comment, name in re.findall(r"((?: *#: .*\n)+) *(\w+):", _sources(base.__module__)[base.__name__]):
                notes[name] = _of_json(" ".join(line.strip().removeprefix("#: ") for line in comment.splitlines()))
    return notes


@cache
def _sources(module: str) -> dict[str, str]:
    """The source of each class of a module. `inspect` would read the whole module again for each class."""
    text = inspect.getsource(sys.modules[module])
    lines = text.splitlines(keepends=True)
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return {node.name: "".join(lines[node.lineno - 1 : node.end_lineno]) for node in classes}


def _of_json(text: str) -> str:
    """Replace names of Python values with those of JSON."""
    return re.sub(r"\bNone\b", "null", text)
