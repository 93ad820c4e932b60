"""Protected files that a program outside makes or replaces while a command in the sandbox runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.support.stage import Stage, stage
from tests.system.test_sandbox_escapes import SECRET, bubblewrap, folder

__all__ = ["bubblewrap"]
pytestmark = pytest.mark.system

NUMBERS = count()
PROTECTED = [".env", "*.pem", "~/.ssh", "~/.netrc", "deep/**/token", "secrets/list", "!allowed/.env"]


@pytest.fixture(scope="module")
def host() -> Iterator[Stage]:
    with folder() as root:
        user = root / "user"
        (user / ".ssh").mkdir(parents=True)
        (user / ".ssh" / "id").write_text("hidden")
        files = {".env": "hidden", "a/b/.env": "hidden", "deep/x/y": "", "secrets/other": "", "allowed/x": ""}
        flags = ["--sandbox", "workspace"]
        env = {"HOME": str(user)}
        with stage(root, "pi", flags=flags, files=files, settings={"protectedPaths": PROTECTED}, env=env) as made:
            os.mkfifo(made.around.cwd / "began")
            os.mkfifo(made.around.cwd / "go")
            yield made


def put(path: Path, text: str = SECRET) -> None:
    """Write a file as most programs do: beside it, and then in its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name("beside")
    beside.write_text(text)
    beside.replace(path)


def replace_folder(path: Path) -> None:
    new = path.with_name("new-folder")
    new.mkdir()
    (new / "id").write_text(SECRET)
    path.rename(path.with_name("old-folder"))
    new.rename(path)


def delete_first(path: Path) -> None:
    path.unlink()
    path.write_text(SECRET)


#: What a program outside does, and the file that the command tries to read.
CHANGES: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "replaced": (lambda cwd, user: put(cwd / ".env"), ".env"),
    "replaced below": (lambda cwd, user: put(cwd / "a" / "b" / ".env"), "a/b/.env"),
    "deleted and made again": (lambda cwd, user: delete_first(cwd / ".env"), ".env"),
    "made": (lambda cwd, user: put(cwd / "new.pem"), "new.pem"),
    "made in a new folder": (lambda cwd, user: put(cwd / "n1" / "n2" / "n3" / ".env"), "n1/n2/n3/.env"),
    "moved with a folder": (lambda cwd, user: move_in(cwd), "moved/in/.env"),
    "in a folder that was renamed": (lambda cwd, user: rename_and_put(cwd), "allowed2/.env"),
    "a pattern with a path": (lambda cwd, user: put(cwd / "deep" / "x" / "z" / "token"), "deep/x/z/token"),
    "a path": (lambda cwd, user: put(cwd / "secrets" / "list"), "secrets/list"),
    "elsewhere": (lambda cwd, user: put(user / ".netrc"), "$HOME/.netrc"),
    "a folder elsewhere": (lambda cwd, user: replace_folder(user / ".ssh"), "$HOME/.ssh/id"),
    "keys of another program": (lambda cwd, user: put(user / ".pi" / "agent" / "auth.json"), "$HOME/.pi/agent/auth.json"),
}


def move_in(cwd: Path) -> None:
    made = cwd.parent / "outside" / "in"
    made.mkdir(parents=True)
    (made / ".env").write_text(SECRET)
    made.parent.rename(cwd / "moved")


def rename_and_put(cwd: Path) -> None:
    (cwd / "secrets2").mkdir()
    (cwd / "secrets2").rename(cwd / "allowed2")
    put(cwd / "allowed2" / ".env")


@pytest.fixture(autouse=True)
def tidy(host: Stage) -> Iterator[None]:
    cwd = host.around.cwd
    user = cwd.parent / "user"
    yield
    for made in ("new.pem", ".netrc", "secrets/list"):
        (cwd / made).unlink(missing_ok=True)
        (user / made).unlink(missing_ok=True)
    for made in ("n1", "moved", "allowed2", "deep/x/z", "../outside"):
        shutil.rmtree(cwd / made, ignore_errors=True)
    shutil.rmtree(user / ".pi", ignore_errors=True)
    shutil.rmtree(user / "old-folder", ignore_errors=True)
    (cwd / ".env").write_text("hidden")


def run_meanwhile(host: Stage, command: str, change: Callable[[], None]) -> tuple[int, str]:
    """Run a command, and make a change when it has begun."""
    id = f"slow-{next(NUMBERS)}"
    host.send({"id": id, "type": "bash", "command": f"echo > began; {command}"})
    (host.around.cwd / "began").read_text()
    change()
    done = host.response(id)["data"]
    return done["exitCode"], done["output"]


@pytest.mark.parametrize("name", CHANGES)
def test_a_command_ends_when_a_protected_file_appears(host: Stage, name: str) -> None:
    change, path = CHANGES[name]
    cwd = host.around.cwd
    # It would not end by itself.
    command = f'while :; do cat "{path}" >/dev/null 2>&1; done'
    code, said = run_meanwhile(host, command, lambda: change(cwd, cwd.parent / "user"))
    assert code == 137
    assert SECRET not in said
    assert "is protected, and was made or replaced while the command ran" in said
    assert path.replace("$HOME", "user").removesuffix("/id") in said
    # The next command finds it hidden.
    done = host.request("bash", command=f'cat "{path}"; ls {path}')["data"]
    assert SECRET not in done["output"] and "is protected" not in done["output"]


def test_changes_of_other_files_end_no_command(host: Stage) -> None:
    cwd = host.around.cwd

    def change() -> None:
        put(cwd / "allowed" / ".env", "allowed")
        put(cwd / "other", "text")
        put(cwd.parent / "user" / "other", "text")
        put(cwd / "new" / "other", "text")
        (cwd / ".env").write_text(SECRET)  # the same file is still hidden
        (cwd / "go").write_text("\n")

    command = "read _ < go; cat allowed/.env other new/other; ! cat .env 2>/dev/null"
    assert run_meanwhile(host, command, change) == (0, "allowedtexttext")


def test_keys_that_fairlead_saves_end_no_command(host: Stage) -> None:
    def change() -> None:
        put(host.around.home / "auth.json")
        put(host.around.home / "trust.json", "{}")
        (host.around.cwd / "go").write_text("\n")

    command = "read _ < go; cat $FAIRLEAD_HOME/auth.json; echo done"
    code, said = run_meanwhile(host, command, change)
    assert code == 0 and SECRET not in said and said.endswith("done\n")


def test_a_command_that_makes_many_files_is_not_held_up(host: Stage) -> None:
    command = "mkdir many && cd many && for i in $(seq 3000); do echo $i > f$i; done; mkdir -p a/b/c; ls | wc -l; rm -r ../many"
    done = host.request("bash", command=command)["data"]
    assert (done["exitCode"], done["output"]) == (0, "3001\n")


def test_a_command_that_makes_a_protected_file_ends(host: Stage) -> None:
    done = host.request("bash", command="echo x > own.pem; sleep 60; echo not reached")["data"]
    assert done["exitCode"] == 137 and "own.pem is protected" in done["output"]
    (host.around.cwd / "own.pem").unlink()


def test_protected_files_replaced_between_commands_are_hidden(host: Stage) -> None:
    put(host.around.cwd / ".env")
    done = host.request("bash", command="cat .env")["data"]
    assert done["exitCode"] == 1 and SECRET not in done["output"]
