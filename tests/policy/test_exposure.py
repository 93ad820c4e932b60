"""The watch over a command in the sandbox: what it looks at again when something changes."""

from __future__ import annotations

import errno
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.policy.exposure import Exposure, Watched

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has the sandbox")

FOLDERS = 200


class Watching:
    """A watch over a folder with many folders, in which `.env` is protected."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        #: How often a name was compared.
        self.compared = 0
        #: Whether the system refuses to watch more.
        self.fails = False
        #: What comparing waits for.
        self.go = threading.Event()
        self.go.set()
        for number in range(FOLDERS):
            (cwd / "many" / str(number)).mkdir(parents=True)
        self.exposure = Exposure(cwd, [], Watched(trees=[(cwd, self._fits)]))
        self.compared = 0

    def _fits(self, folder: str, name: str) -> bool:
        if self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.compared += 1
        self.go.wait()
        return name == ".env"


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    made = Watching(tmp_path)
    yield made
    made.exposure.close()


def test_deleting_or_renaming_many_folders_costs_as_much_as_there_are_changes(watching: Watching) -> None:
    for folder in (watching.cwd / "many").iterdir():
        folder.rename(folder.with_name(f"{folder.name}-renamed"))
    assert not watching.exposure.check()
    shutil.rmtree(watching.cwd / "many")
    assert not watching.exposure.check()
    assert watching.compared < FOLDERS * 20


@pytest.mark.parametrize("name", ["many-renamed", "many-renamed/inner/.."])
def test_a_file_in_a_folder_that_was_renamed_or_made_again_is_noticed(watching: Watching, name: str) -> None:
    (watching.cwd / "many").rename(watching.cwd / "many-renamed")
    assert not watching.exposure.check()
    shutil.rmtree(watching.cwd / "many-renamed" / "7")
    (watching.cwd / "many-renamed" / "7").mkdir()
    (watching.cwd / "many-renamed" / "inner").mkdir()
    assert not watching.exposure.check()
    (watching.cwd / name / "7" / ".env").touch()
    assert watching.exposure.check()
    assert watching.exposure.exposed == watching.cwd / "many-renamed" / "7" / ".env"


def test_a_file_is_noticed_at_once_behind_many_other_changes(watching: Watching) -> None:
    watching.go.clear()
    for number in range(8000):
        (watching.cwd / f"{number}").touch()
    (watching.cwd / ".env").touch()
    watching.go.set()
    assert watching.exposure.check()


def test_a_command_that_cannot_be_watched_ends_and_says_why(watching: Watching) -> None:
    ended: list[bool] = []
    watching.exposure.arm(lambda: ended.append(True))
    watching.fails = True
    (watching.cwd / "new").mkdir()
    assert watching.exposure.check()
    assert (ended, watching.exposure.exposed, watching.exposure.failure) == ([True], watching.cwd, "No space left on device")
