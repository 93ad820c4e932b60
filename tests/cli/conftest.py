from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command, Scripted
from tests.support.surroundings import surroundings

from fairlead.testing import ProviderServer


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Scripted]:
    """Makes the command for a model that plays the given turns."""
    with ExitStack() as servers:

        def make(*turns: Mapping[str, Any]) -> Command:
            server = servers.enter_context(ProviderServer(turns))
            return Command(server, surroundings(tmp_path, server.url))

        yield make


@pytest.fixture
def fairlead(scripted: Scripted) -> Command:
    """The command for a model that always says hello."""
    return scripted({"text": "Hello!"})
