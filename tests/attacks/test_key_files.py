"""Files of the home that hold keys, under all the names that they have while they are written and after."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.policy.protected_place import REFUSED, SECRET, Place

from fairlead.config.json_files import update_object
from fairlead.policy.protected import Protected

HOMES = (".fairlead", ".pi/agent", ".omp/agent", ".xcsh/agent", ".omp/profiles/work/agent")
NAMES = ("auth.json", "models.json", "mcp.json", "mcp-sign-ins.json")
OF_PEERS = ("models.yml", "models.yaml", "agent.db", "agent.db-wal", "agent.db-shm", "agent.db-journal")
CASES = [(home, name) for home in HOMES for name in NAMES + (OF_PEERS if home != ".fairlead" else ())]
COPIES = ("{}", "{}~", "{}.bak", "{}.orig", ".{}.swp", "#{}#", ".#{}", ".{}.a1b2c3", ".{}.lock", "{}.2026-01-01", "{}.tmp", "_{}")


def place(tmp_path: Path) -> Place:
    (tmp_path / "home/.omp/profiles/work").mkdir(parents=True)
    return Place(tmp_path)


@pytest.mark.parametrize(("home", "name"), CASES)
def test_files_with_keys_are_neither_read_nor_written(tmp_path: Path, home: str, name: str) -> None:
    here = place(tmp_path)
    file = here.home / home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SECRET)
    for path in (str(file), f"~/{home}/{name}", os.path.relpath(file, here.cwd)):
        assert REFUSED in here.call("read", path=path)
        assert REFUSED in here.call("write", path=path, content="x")
        assert SECRET not in here.call("edit", path=path, edits=[{"oldText": "sk", "newText": "x"}])
    assert SECRET not in here.call("grep", pattern="sk-", path=str(here.home))
    assert file.read_text() == SECRET


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("name", NAMES)
def test_backups_and_temporary_files_of_them_are_protected(tmp_path: Path, name: str, copy: str) -> None:
    here = place(tmp_path)
    file = here.home / ".fairlead" / copy.format(name)
    file.write_text(SECRET)
    assert REFUSED in here.call("read", path=str(file))
    assert SECRET not in here.call("grep", pattern="sk-", path=str(here.home))


def test_the_temporary_file_of_a_change_is_protected(tmp_path: Path) -> None:
    here = place(tmp_path)
    seen: list[str] = []

    def change(content: dict[str, object]) -> None:
        content["key"] = SECRET
        seen.extend(here.call("read", path=str(path)) for path in here.auth.parent.iterdir())

    here.auth.unlink()
    update_object(here.auth, change)
    assert seen and all(REFUSED in text for text in seen)


def test_a_home_that_is_a_link_is_protected_at_both_names(tmp_path: Path) -> None:
    here = place(tmp_path)
    (tmp_path / "dotfiles").mkdir()
    here.auth.unlink()
    here.auth.parent.rmdir()
    here.auth.parent.symlink_to(tmp_path / "dotfiles")
    (tmp_path / "dotfiles/models.json.bak").write_text(SECRET)
    here.workspace.guard = Protected([here.home / ".fairlead/models.json"], [], cwd=lambda: here.cwd, home=here.home)
    assert REFUSED in here.call("read", path=str(tmp_path / "dotfiles/models.json.bak"))
    assert REFUSED in here.call("read", path="~/.fairlead/models.json.bak")


def test_other_files_of_the_home_can_be_read(tmp_path: Path) -> None:
    here = place(tmp_path)
    for name in ("settings.json", "AGENTS.md", "models-store.json", "my-auth.json"):
        (here.home / ".fairlead" / name).write_text("plain")
        assert here.call("read", path=f"~/.fairlead/{name}") == "plain"
    (here.cwd / "mcp.json").write_text("plain")
    assert here.call("read", path="mcp.json") == "plain"
