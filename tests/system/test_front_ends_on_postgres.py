"""Two servers with one Postgres database: the same as the tests of front ends in `tests/jobs`, which use SQLite."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.jobs import test_front_end_hosts, test_front_end_pieces, test_front_ends
from tests.support.fleet import MODEL, Fleet, commands_turn, fleet_in
from tests.support.front_end import FrontEnd
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.system

MODULES = (test_front_ends, test_front_end_hosts, test_front_end_pieces)
SCENES = [scene for module in MODULES for name, scene in vars(module).items() if name.startswith("test_")]
connect = test_front_end_hosts.connect  # a fixture
FleetOn: TypeAlias = Callable[[Callable[[Any], Any]], AbstractContextManager[Fleet]]


@pytest.fixture
def fleet_on(postgres: PostgresServer, tmp_path: Path) -> FleetOn:
    """Make a fleet with a database of its own, whose model answers as a function says."""
    name = f"fleet_{os.urandom(4).hex()}"
    postgres.create_database(name)
    return lambda turns: fleet_in(tmp_path, postgres.url.rpartition("/")[0] + f"/{name}", turns)


@pytest.fixture
def fleet(fleet_on: FleetOn) -> Generator[Fleet]:
    with fleet_on(commands_turn) as fleet:
        yield fleet


@pytest.fixture
def slow(fleet_on: FleetOn) -> Generator[Fleet]:
    with fleet_on(test_front_end_pieces.slow_turn) as fleet:
        yield fleet


@pytest.fixture
def servers(fleet: Fleet) -> Generator[tuple[FrontEnd, FrontEnd]]:
    with FrontEnd(fleet, "--model", MODEL) as first, FrontEnd(fleet, "--model", MODEL) as second:
        yield first, second


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.removeprefix("test_"))
def test_on_postgres(scene: Callable[..., None], request: pytest.FixtureRequest) -> None:
    scene(*(request.getfixturevalue(name) for name in inspect.signature(scene).parameters))
