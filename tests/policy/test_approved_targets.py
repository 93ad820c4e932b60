"""What was approved is what a tool acts on, whatever its path leads to by the time that it runs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.races import file_or_link, folder_or_link, link, link_between, repeating

from fairlead import Agent
from fairlead.agent.tool_sets.opal import opal_tools
from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest
from fairlead.core.messages import ToolCall, ToolResultMessage
from fairlead.core.runtime import CancelToken, NoUi
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.tools.opal.anchors import line_hash

SECRET = "a secret text"
Call = tuple[str, Mapping[str, Any]]


class Place:
    """A working directory, and a folder beside it that nothing was approved for."""

    def __init__(self, root: Path) -> None:
        self.cwd, self.outside, self.home = root / "work", root / "outside", root / "home"
        for folder in (self.cwd, self.outside, self.home):
            folder.mkdir()
        (self.outside / "file").write_text(SECRET)
        self.before = self.outside_now()

    def outside_now(self) -> dict[str, str]:
        return {str(path.relative_to(self.outside)): path.read_text() for path in self.outside.rglob("*") if path.is_file()}

    def put(self, name: str, text: str) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *turns: list[Call], ask: Callable[[], None] | None = None, opal: bool = False, **options: Any) -> list[str]:
        """What the calls of some turns say. `ask` happens while somebody thinks about an approval, which is then given."""
        person = Thinking(ask, options.pop("answer", Allow()))
        (self.home / "settings.json").write_text(json.dumps(options.pop("settings", {})))
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "FAIRLEAD_HOME": str(self.home)}

        if opal:
            options |= {"tools": opal_tools()}

        async def main() -> list[str]:
            played = [
                Turn(tool_calls=[ToolCall(f"t{at}c{n}", name, dict(arguments)) for n, (name, arguments) in enumerate(turn)])
                for at, turn in enumerate(turns)
            ]
            async with Agent(
                model=SCRIPTED_MODEL, stream=Scripted([*played, Turn(text="done")]), cwd=self.cwd, env=env, **options
            ) as agent:
                agent.session.host.make_ui = lambda: person
                await agent.ask("go")
                messages = agent.session.messages
                results = [each for each in messages if isinstance(each, ToolResultMessage)]
                return ["".join(getattr(block, "text", "") for block in each.content) for each in results]

        return asyncio.run(main())


class Thinking(NoUi):
    available = True

    def __init__(self, meanwhile: Callable[[], None] | None, answer: ApprovalAnswer) -> None:
        self._meanwhile = meanwhile
        self._answer: ApprovalAnswer = answer

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        if self._meanwhile is not None:
            self._meanwhile()
        return self._answer


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def calls_of(opal: bool, path: str) -> list[Call]:
    """A write and an edit of a file that holds `old`."""
    if opal:
        return [
            ("write_file", {"path": path, "content": "new"}),
            ("edit_file", {"path": path, "start": f"1:{line_hash('old')}", "new_string": "new"}),
        ]
    return [
        ("write", {"path": path, "content": "new"}),
        ("edit", {"path": path, "edits": [{"oldText": "old", "newText": "new"}]}),
    ]


kinds = pytest.mark.parametrize("opal", [False, True], ids=["pi", "opal"])
write_or_edit = pytest.mark.parametrize("which", [0, 1], ids=["write", "edit"])


@kinds
@write_or_edit
def test_the_file_that_was_approved_is_changed_although_the_link_leads_elsewhere_by_then(
    place: Place, opal: bool, which: int
) -> None:
    real = place.put("real", "old")
    (place.cwd / "link").symlink_to(real)
    call = calls_of(opal, "link")[which]
    place.run([call], ask=lambda: link(place.cwd / "link", place.outside / "file"), approval="ask", opal=opal)
    assert real.read_text() == "new"
    assert place.outside_now() == place.before


@kinds
@write_or_edit
def test_a_file_that_becomes_a_link_while_the_user_thinks_is_left_alone(place: Place, opal: bool, which: int) -> None:
    (place.outside / "file").write_text("old")
    path = place.put("file", "old")
    (said,) = place.run(
        [calls_of(opal, "file")[which]], ask=lambda: link(path, place.outside / "file"), approval="ask", opal=opal
    )
    assert "became a link after the call was checked" in said
    assert place.outside_now() == {"file": "old"}


@kinds
@write_or_edit
def test_a_hard_link_that_takes_the_place_of_a_file_while_the_user_thinks_is_left_alone(
    place: Place, opal: bool, which: int
) -> None:
    (place.outside / "file").write_text("old")
    path = place.put("file", "old")

    def swap() -> None:
        path.unlink()
        path.hardlink_to(place.outside / "file")

    (said,) = place.run([calls_of(opal, "file")[which]], ask=swap, approval="ask", opal=opal)
    assert "a file that has further names (hard links) took its place" in said
    assert place.outside_now() == {"file": "old"}


@kinds
def test_a_hard_link_where_no_file_was_is_left_alone(place: Place, opal: bool) -> None:
    def appear() -> None:
        (place.cwd / "new").hardlink_to(place.outside / "file")

    (said,) = place.run([calls_of(opal, "new")[0]], ask=appear, approval="ask", opal=opal)
    assert "a file that has further names (hard links) took its place" in said
    assert place.outside_now() == place.before


@kinds
@write_or_edit
def test_a_file_with_further_names_can_be_approved(place: Place, opal: bool, which: int) -> None:
    path = place.put("file", "old")
    (place.cwd / "other").hardlink_to(path)
    place.run([calls_of(opal, "file")[which]], approval="ask", opal=opal)
    assert path.read_text() == (place.cwd / "other").read_text() == "new"


def test_approval_for_the_session_is_asked_again_for_a_hard_link(place: Place) -> None:
    path = place.put("file", "old")
    asked: list[str] = []

    def ask() -> None:
        asked.append(path.read_text())

    call = ("write", {"path": "file", "content": "new"})
    relink = ("bash", {"command": f"rm file; ln {place.outside}/file file"})
    settings = {"approvals": {"rules": [{"tool": "bash", "action": "allow"}]}}
    place.run([call], [call], [relink], [call], ask=ask, answer=Allow(for_session=True), approval="ask", settings=settings)
    assert asked == ["old", SECRET]


@kinds
@write_or_edit
@pytest.mark.parametrize("moved", [False, True], ids=["deleted", "renamed"])
def test_a_folder_that_becomes_a_link_while_the_user_thinks_is_not_entered(
    place: Place, opal: bool, which: int, moved: bool
) -> None:
    (place.outside / "file").write_text("old")
    place.put("a/b/file", "old")

    def swap() -> None:
        (place.cwd / "a").rename(place.cwd / "elsewhere" if moved else place.outside.parent / "gone")
        (place.cwd / "a").mkdir()
        (place.cwd / "a" / "b").symlink_to(place.outside)

    (said,) = place.run([calls_of(opal, "a/b/file")[which]], ask=swap, approval="ask", opal=opal)
    assert "became a link after the call was checked" in said
    assert place.outside_now() == {"file": "old"}


@kinds
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_an_approved_new_file_is_not_created_through_a_link(place: Place, opal: bool, depth: int) -> None:
    path = "/".join([*["new", "newer"][:depth], "fresh"])
    first = place.cwd / path.split("/")[0]

    def swap() -> None:
        first.symlink_to(place.outside if depth else place.outside / "fresh")

    (said,) = place.run([calls_of(opal, path)[0]], ask=swap, approval="ask", opal=opal)
    assert "became a link after the call was checked" in said
    assert place.outside_now() == place.before and not list(place.outside.glob("new*"))


@pytest.mark.parametrize("call", [("read", {"path": "link"}), ("grep", {"path": "link", "pattern": "text"})])
def test_a_read_that_was_approved_reads_what_was_approved(place: Place, call: Call) -> None:
    place.put("real", "approved text")
    (place.cwd / "link").symlink_to(place.cwd / "real")
    rules = {"approvals": {"rules": [{"tool": name, "action": "ask"} for name in ("read", "grep")]}}
    swap = link_between(place.cwd / "link", place.outside / "file")
    (said,) = place.run([call], ask=swap, settings=rules, tools=["read", "grep"])
    assert "approved text" in said and SECRET not in said


@pytest.mark.parametrize("tool", ["ls", "find"])
def test_a_folder_that_was_approved_is_the_one_listed(place: Place, tool: str) -> None:
    place.put("real/inside", "")
    (place.cwd / "link").symlink_to(place.cwd / "real")
    rules = {"approvals": {"rules": [{"tool": tool, "action": "ask"}]}}
    (said,) = place.run(
        [(tool, {"path": "link", **({"pattern": "*"} if tool == "find" else {})})],
        ask=lambda: link(place.cwd / "link", place.outside),
        settings=rules,
        tools=[tool],
    )
    assert said == "inside"


# Races: nothing asks a person, and the path changes all the time

ONLY_INSIDE = {
    "approvals": {
        "mode": "deny",
        "rules": [
            {"tool": tool, "pattern": "inside/**", "action": "allow"} for tool in ("write", "edit", "write_file", "edit_file")
        ]
        + [{"tool": tool, "pattern": "/**/outside/**", "action": "deny"} for tool in ("read", "grep", "read_file")],
    }
}


@kinds
@pytest.mark.parametrize("how", ["link", "folder", "file"])
def test_rules_for_paths_hold_however_often_a_link_is_exchanged(place: Place, opal: bool, how: str) -> None:
    inside = place.put("inside/sub/file", "old").parent
    (place.outside / "file").write_text(SECRET)
    if how == "link":
        path, change = "way/file", link_between(place.cwd / "way", place.outside, inside)
    elif how == "folder":
        path, change = "inside/sub/file", folder_or_link(inside, place.outside)
    else:
        path, change = "inside/sub/file", file_or_link(inside / "file", place.outside / "file")
    read, grep = ("read_file", "grep") if opal else ("read", "grep")
    folder = path.rpartition("/")[0]
    turn: list[Call] = []
    for number in range(10):
        turn += [*calls_of(opal, path), calls_of(opal, f"{folder}/made{number}")[0]]
        turn += [calls_of(opal, f"{folder}/made{number}/deep")[0]]
        turn += [(read, {"path": path}), (grep, {"path": path, "pattern": "."})]
    with repeating(change):
        said = place.run(
            *[turn] * 5,
            opal=opal,
            settings=ONLY_INSIDE,
            tools=["read", "write", "edit", "grep"],
        )
    assert len(said) == 300
    assert place.outside_now() == place.before
    assert sorted(path.name for path in place.outside.iterdir()) == ["file"]
    assert not [text for text in said if SECRET in text]
