"""Every store does what the conformance suite asks for. Postgres is checked by the system tests."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from fairlead.errors import ConfigError, SessionNotFound
from fairlead.stores import FileStore, MemoryData, MemoryStore, PostgresStore, SqliteStore
from fairlead.testing import STORE_CHECKS, check_store
from fairlead.testing.store_writes import Check


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["memory", "sqlite", "files"])
def test_the_store_conforms(kind: str, check: Check, tmp_path: Path) -> None:
    makers = {
        "memory": partial(MemoryStore, MemoryData()),
        "sqlite": lambda: SqliteStore(tmp_path / "sessions.db"),
        "files": lambda: FileStore(tmp_path / "sessions"),
    }
    check_store(makers[kind], check)


def test_an_error_names_the_check_that_the_store_failed() -> None:
    with pytest.raises(SessionNotFound) as raised:
        check_store(MemoryStore)  # its stores do not share their sessions
    assert "failed the check 'deletes_sessions_that_are_not_in_use'" in raised.value.__notes__[0]


def test_postgres_without_its_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"need psycopg .* This installs it: .*pip install "):
        asyncio.run(PostgresStore("postgresql://nobody@127.0.0.1:1/none").list())
