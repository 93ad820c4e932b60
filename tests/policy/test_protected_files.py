"""Files that the file tools leave alone, by whatever path one gets to them."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from tests.policy.protected_place import REFUSED, SECRET, Place

from fairlead.config.home import Home
from fairlead.errors import ToolError
from fairlead.policy.protected import Protected, key_files
from fairlead.tools.search import contents


def ways(place: Place) -> list[str]:
    """Paths that lead to the keys."""
    (place.cwd / "soft").symlink_to(place.auth)
    (place.cwd / "folder").symlink_to(place.auth.parent)
    (place.cwd / "again").symlink_to("soft")
    (place.cwd / "hard").hardlink_to(place.auth)
    return [
        str(place.auth),
        "~/.fairlead/auth.json",
        "@~/.fairlead/auth.json",
        f"file://{place.auth}",
        f"@{place.auth}",
        "../home/.fairlead/auth.json",
        "x/../../home/.fairlead/auth.json",
        f"//{place.auth}",
        f"{place.auth.parent}/./auth.json",
        f"/proc/self/root{place.auth}",
        f"/proc/{os.getpid()}/root{place.auth}",
        "soft",
        "again",
        "hard",
        "folder/auth.json",
    ]


def test_no_way_leads_to_reading_or_writing_the_keys(place: Place) -> None:
    for path in ways(place):
        assert REFUSED in place.call("read", path=path), path
        assert REFUSED in place.call("write", path=path, content="{}"), path
        assert REFUSED in place.call("edit", path=path, edits=[{"oldText": "sk", "newText": "no"}]), path
        said = place.call("grep", path=path, pattern="secret")
        assert REFUSED in said and SECRET not in said, path
        assert place.auth.read_text() == SECRET


def test_the_refusal_names_the_setting(place: Place) -> None:
    assert place.call("read", path="~/.fairlead/auth.json") == (
        f"{place.auth} is a protected file. Tools cannot read it. Continue without it. "
        f'(To allow it, the user can add "!{place.auth}" to protectedPaths in the settings.)'
    )


@pytest.mark.parametrize("engine", ["ripgrep", "ripgrep walks", "python"])
def test_searching_a_folder_passes_over_them(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    has_ripgrep = engine != "python"
    if engine == "ripgrep walks":
        monkeypatch.setattr(contents, "WALKED_FIRST", 0)
    if not has_ripgrep:  # neither on the path nor beside the interpreter
        (tmp_path / "python").symlink_to(sys.executable)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    place = Place(tmp_path, path=None if has_ripgrep else "/nowhere")
    ways(place)
    (place.home / "notes").write_text("not so secret")
    assert place.call("grep", path=str(place.home), pattern="secret") == "notes:1: not so secret"
    assert place.call("grep", path=str(place.home / ".fairlead"), pattern="secret") == "No matches found"
    assert place.call("grep", pattern="secret") == "No matches found"  # the hard link


def test_names_may_be_seen(place: Place) -> None:
    assert place.call("ls", path="~/.fairlead") == "auth.json"
    assert place.call("find", path="~", pattern="auth.json") == ".fairlead/auth.json"


@pytest.mark.parametrize(
    "name",
    [
        "~/.pi/agent/auth.json",
        "~/.pi/agent/trust.json",
        "~/.omp/agent/agent.db-wal",
        "~/.xcsh/agent/agent.db-wal",
        "~/.fairlead/trust.json",
        "~/other/agent/auth.json",
        "~/.claude/.credentials.json",
        "~/claude/.credentials.json",
    ],
)
def test_keys_of_pi_and_what_is_trusted_are_protected_also_before_they_exist(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path)
    env = {"HOME": str(place.home), "PI_CODING_AGENT_DIR": "~/other/agent", "CLAUDE_CONFIG_DIR": "~/claude"}
    keys = key_files(Home.find(env), env)
    place.workspace.guard = Protected(keys, [], cwd=lambda: place.cwd, home=place.home)
    assert REFUSED in place.call("write", path=name, content="{}")
    assert not (place.home / name[2:]).exists() and not (place.home / name[2:]).parent.joinpath("x").exists()
    path = place.home / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SECRET)
    assert REFUSED in place.call("read", path=name)


def test_a_home_of_another_name_is_protected_and_the_usual_one_too(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "FAIRLEAD_HOME": str(tmp_path / "mine")}
    found = {str(path.relative_to(tmp_path)) for path in key_files(Home.find(env, isolated=True), env)}
    assert {"mine/auth.json", "mine/mcp-sign-ins.json", "mine/trust.json", ".fairlead/auth.json", ".pi/agent/auth.json"} <= found


def test_users_list_more_by_name_by_path_and_by_pattern(tmp_path: Path) -> None:
    place = Place(tmp_path, ".env", "secrets/", "~/.ssh/**", "*.pem", "plain/key")
    for name in ("a/.env", "secrets/in/deep", "x.pem", "plain/key", "fine"):
        path = place.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    (place.cwd / "hard").hardlink_to(place.cwd / "plain/key")
    (place.home / ".ssh").mkdir()
    (place.home / ".ssh" / "id").write_text(SECRET)
    for name in ("a/.env", "a/.ENV", "secrets/in/deep", "secrets/new", "x.pem", "plain/key", "hard", "~/.ssh/id"):
        assert REFUSED in place.call("write", path=name, content=""), name
    assert place.call("read", path="fine") == SECRET
    assert place.call("grep", pattern="secret") == f"fine:1: {SECRET}"


def test_protection_can_be_lifted(tmp_path: Path) -> None:
    place = Place(tmp_path, "!~/.fairlead/auth.json")
    assert place.call("read", path="~/.fairlead/auth.json") == SECRET
    assert REFUSED in place.call("write", path="~/.pi/agent/auth.json", content="")


def test_a_link_that_changes_all_the_time_never_leads_there(place: Place) -> None:
    """A race: the path is harmless when it is looked at, and leads to the keys when it is opened."""
    innocent = place.cwd / "innocent"
    innocent.write_text("fine")
    swapped = place.cwd / "swapped"
    swapped.symlink_to(innocent)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (place.auth, innocent):
                temporary = place.cwd / ".next"
                temporary.symlink_to(target)
                temporary.replace(swapped)

    racing = threading.Thread(target=swap)
    racing.start()
    try:
        for _ in range(150):
            assert SECRET not in place.call("read", path="swapped")
            place.call("write", path="swapped", content="fine")
    finally:
        over.set()
        racing.join()
    assert place.auth.read_text() == SECRET


def test_a_folder_that_changes_all_the_time_never_lets_a_write_out(tmp_path: Path) -> None:
    place = Place(tmp_path, confined=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = place.cwd / "inside"
    inside.mkdir()
    swapped = place.cwd / "swapped"
    swapped.symlink_to(inside)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (outside, inside):
                temporary = place.cwd / ".next"
                temporary.symlink_to(target)
                temporary.replace(swapped)

    racing = threading.Thread(target=swap)
    racing.start()
    try:
        for number in range(150):
            place.call("write", path=f"swapped/f{number}", content="x")
            place.call("write", path=f"swapped/d{number}/f", content="x")
    finally:
        over.set()
        racing.join()
    assert list(outside.iterdir()) == []


def test_the_target_of_a_key_file_link_is_protected_too(tmp_path: Path) -> None:
    target, key = tmp_path / "elsewhere", tmp_path / "key"
    target.write_text("secret")
    key.symlink_to(target)
    guard = Protected([key], [], cwd=lambda: tmp_path, home=tmp_path)
    for check in (guard.check_reading, guard.check_writing):
        with pytest.raises(ToolError):
            check(target, target.stat())
    target.unlink()
    with pytest.raises(ToolError):
        guard.check_writing(target, None)
