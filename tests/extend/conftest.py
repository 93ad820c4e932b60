from __future__ import annotations

from pathlib import Path

import pytest
from tests.extend.around import Around


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return Around(tmp_path)
