"""The session is a facade: what it offers stays small, and nothing behind it depends on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.session.scene import a_session

from fairlead.testing import Scripted, Turn

ROOT = Path(__file__).parents[2]
#: What `Session` offers. A new member is a decision: most belong to one of its parts.
MOST_MEMBERS = 24


@pytest.fixture(scope="module")
def shape() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shape", ROOT / "scripts/shape.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_session_offers_few_members(shape: ModuleType) -> None:
    members = shape.session_members(shape.modules(ROOT / "src"))
    assert {"prompt", "steer", "follow_up", "abort", "compact", "fork", "navigate", "usage", "close"} <= set(members)
    assert len(members) <= MOST_MEMBERS, members


def test_no_part_of_a_session_takes_the_session(shape: ModuleType) -> None:
    taking = shape.takes_session(shape.modules(ROOT / "src"))
    assert [name for name in taking if name.startswith("fairlead.session.")] == []


def test_an_attribute_that_a_session_does_not_have_cannot_be_set(tmp_path: Path) -> None:
    session: Any = a_session(Scripted([Turn(text="hi")]), tmp_path)
    with pytest.raises(AttributeError):
        session.make_ui = object
