"""Two servers with one Postgres database: the same as `tests/jobs/test_front_ends.py`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.jobs import test_front_ends
from tests.support.fleet import Fleet, fleet_in
from tests.support.front_end import FrontEnd
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.system

SCENES = [scene for name, scene in vars(test_front_ends).items() if name.startswith("test_")]


@pytest.fixture
def fleet(postgres: PostgresServer, tmp_path: Path) -> Generator[Fleet]:
    name = f"fleet_{os.urandom(4).hex()}"
    postgres.create_database(name)
    with fleet_in(tmp_path, postgres.url.rpartition("/")[0] + f"/{name}") as fleet:
        yield fleet


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.removeprefix("test_"))
def test_on_postgres(fleet: Fleet, scene: Callable[..., None]) -> None:
    if "servers" not in inspect.signature(scene).parameters:
        scene(fleet)
        return
    with FrontEnd(fleet) as first, FrontEnd(fleet) as second:
        servers: Any = first, second
        scene(fleet, servers)
