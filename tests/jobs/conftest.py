from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, fleet_in


@pytest.fixture
def fleet(tmp_path: Path) -> Generator[Fleet]:
    """A fleet on a SQLite file, without workers."""
    with fleet_in(tmp_path) as fleet:
        yield fleet
