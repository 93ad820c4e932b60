"""Every way to ask the person behind the host, and a host that answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.session.scene import PATIENCE
from tests.wire.desk import Desk, Frame, desk

from fairlead.core.approval import Allow, ApprovalRequest
from fairlead.core.runtime import Ui

DIALECTS = ["pi", "omp", "xcsh"]
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

Ask = Callable[[Ui], Awaitable[Any]]

#: The frames that omp sends unasked.
GREETING = {"ready", "available_commands_update"}

#: Every way to ask, the frame that it makes, an answer, what is made of it, and what holds without one.
DIALOGS: dict[str, tuple[Ask, Frame, Frame, Any, Any]] = {
    "select": (
        lambda ui: ui.select("Pick", ("a", "b")),
        {"method": "select", "title": "Pick", "options": ["a", "b"]},
        {"value": "b"},
        "b",
        None,
    ),
    "select in time": (
        lambda ui: ui.select("Pick", ["a"], timeout=1800),
        {"method": "select", "title": "Pick", "options": ["a"], "timeout": 1_800_000},
        {"value": "a"},
        "a",
        None,
    ),
    "confirm": (
        lambda ui: ui.confirm("Sure?", "Really?", timeout=1800.0004),
        {"method": "confirm", "title": "Sure?", "message": "Really?", "timeout": 1_800_000},
        {"confirmed": True},
        True,
        False,
    ),
    "confirm without a message": (
        lambda ui: ui.confirm("Sure?"),
        {"method": "confirm", "title": "Sure?", "message": ""},
        {"confirmed": False},
        False,
        False,
    ),
    "input": (
        lambda ui: ui.input("Name", "yours", timeout=1800),
        {"method": "input", "title": "Name", "placeholder": "yours", "timeout": 1_800_000},
        {"value": ""},
        "",
        None,
    ),
    "plain input": (lambda ui: ui.input("Name"), {"method": "input", "title": "Name"}, {"value": "x"}, "x", None),
    "editor": (
        lambda ui: ui.editor("Edit", "one\ntwo"),
        {"method": "editor", "title": "Edit", "prefill": "one\ntwo"},
        {"value": "two"},
        "two",
        None,
    ),
    "approve": (
        lambda ui: ui.approve(ApprovalRequest("bash", "c1", {"command": "rm -rf build"}, "Run bash?", "rm -rf build")),
        {
            "method": "select",
            "title": "Run bash?\n\nrm -rf build",
            "options": ["Approve", "Approve for session", "Deny"],
            "approval": True,
            "toolName": "bash",
            "toolCallId": "c1",
            "arguments": {"command": "rm -rf build"},
        },
        {"value": "Approve for session"},
        Allow(for_session=True),
        None,
    ),
}
every_dialog = pytest.mark.parametrize("dialog", DIALOGS)

Scene = Callable[[Desk], Awaitable[None]]


def play(tmp_path: Path, scene: Scene, dialect: str = "omp", **changes: Any) -> None:
    async def main() -> None:
        async with desk(tmp_path, dialect, **changes) as host:
            await scene(host)

    asyncio.run(main())


async def outcome(asking: Awaitable[Any]) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await asking


def shown(frame: Frame) -> Frame:
    """A request without what differs each time."""
    assert frame["type"] == "extension_ui_request"
    assert UUID4.fullmatch(frame["id"])
    return {key: value for key, value in frame.items() if key not in ("type", "id")}


def requests(host: Desk, method: str) -> list[Frame]:
    return [frame for frame in host.frames if frame.get("method") == method]
