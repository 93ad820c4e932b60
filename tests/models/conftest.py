"""A home, and a certificate authority for servers on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead.config.home import Home

if TYPE_CHECKING:
    import trustme


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    import trustme

    return trustme.CA()


@pytest.fixture
def authority_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")
