"""Places with protected files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.protected_place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
