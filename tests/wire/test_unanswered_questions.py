"""Questions to the person behind the host that end without an answer: by time, by an abort, or because the host leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.wire.desk import Desk
from tests.wire.dialogs import DIALOGS, GREETING, Ask, every_dialect, every_dialog, outcome, play, requests, shown

from fairlead.core.approval import ApprovalRequest
from fairlead.core.events import UiPromptEnd, UiPromptStart
from fairlead.core.runtime import CancelToken, Ui

# Time


@every_dialect
@pytest.mark.parametrize("dialog", ["select", "confirm", "input", "approve"])
def test_a_question_without_an_answer_in_time_changes_nothing_silently(tmp_path: Path, dialog: str, dialect: str) -> None:
    asks: dict[str, Ask] = {
        "select": lambda ui: ui.select("Pick", ["a"], timeout=0.02),
        "confirm": lambda ui: ui.confirm("Sure?", timeout=0.02),
        "input": lambda ui: ui.input("Name", timeout=0.02),
        "approve": lambda ui: ui.approve(ApprovalRequest("bash", "c1", {}, "Run?", ""), timeout=0.02),
    }
    _, frame, answer, _, default = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(asks[dialog](host.ui))
        asked = await host.asked(frame["method"])
        assert asked["timeout"] == 20
        assert await outcome(asking) is default
        host.answer(asked, **answer)
        since = len(host.frames)
        await host.response()
        assert len(host.frames) == since + 1

    play(tmp_path, scene, dialect)


@pytest.mark.parametrize("timeout", [float("inf"), float("nan"), 2**31 / 1000, 1e300])
def test_infinite_and_overlong_timeouts_are_omitted(tmp_path: Path, timeout: float) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.input("Name", timeout=timeout))
        asked = await host.asked("input")
        assert "timeout" not in asked
        host.answer(asked, value="x")
        assert await outcome(asking) == "x"

    play(tmp_path, scene)


# Aborts


ABORTABLE: dict[str, Callable[[Ui, CancelToken], Awaitable[Any]]] = {
    "select": lambda ui, cancel: ui.select("Pick", ["a"], cancel=cancel),
    "confirm": lambda ui, cancel: ui.confirm("Sure?", cancel=cancel),
    "input": lambda ui, cancel: ui.input("Name", cancel=cancel),
    "editor": lambda ui, cancel: ui.editor("Edit", cancel=cancel),
    "approve": lambda ui, cancel: ui.approve(ApprovalRequest("bash", "c1", {}, "Run?", ""), cancel=cancel),
}


@every_dialect
@pytest.mark.parametrize("dialog", ABORTABLE)
def test_an_abort_ends_every_question_and_takes_it_back_where_hosts_know_how(tmp_path: Path, dialog: str, dialect: str) -> None:
    _, frame, answer, _, default = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        cancel = CancelToken()
        asking = asyncio.ensure_future(ABORTABLE[dialog](host.ui, cancel))
        asked = await host.asked(frame["method"])
        cancel.fire()
        assert await outcome(asking) is default
        host.answer(asked, **answer)
        await host.response()
        withdrawn = [shown(each) for each in requests(host, "cancel")]
        assert withdrawn == ([] if dialect == "pi" else [{"method": "cancel", "targetId": asked["id"]}])

    play(tmp_path, scene, dialect)


def test_a_task_that_no_longer_waits_takes_its_question_back(tmp_path: Path) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.input("Name"))
        asked = await host.asked("input")
        asking.cancel()
        assert (await host.asked("cancel"))["targetId"] == asked["id"]
        await asyncio.wait([asking])
        assert asking.cancelled()

    play(tmp_path, scene)


def test_an_aborted_question_is_not_sent(tmp_path: Path) -> None:
    async def scene(host: Desk) -> None:
        cancel = CancelToken()
        cancel.fire()
        assert await outcome(host.ui.confirm("Sure?", cancel=cancel)) is False
        await host.response()
        assert requests(host, "confirm") == []
        assert host.events == []

    play(tmp_path, scene)


# A host that leaves


@every_dialog
def test_a_host_that_leaves_has_answered_everything_with_nothing(tmp_path: Path, dialog: str) -> None:
    ask, frame, _, _, default = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        assert host.ui.available
        asking = asyncio.ensure_future(ask(host.ui))
        await host.asked(frame["method"])
        host.leave()
        assert await outcome(asking) is default
        assert not host.ui.available
        assert await outcome(ask(host.ui)) is default, "and what comes later is not asked"

    play(tmp_path, scene)


@every_dialog
def test_a_host_without_a_user_interface_is_asked_nothing(tmp_path: Path, dialog: str) -> None:
    ask, _, _, _, default = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        assert not host.ui.available
        assert await outcome(ask(host.ui)) is default
        host.ui.notify("hello")
        host.ui.set_title("mine")
        host.send({"type": "prompt", "message": "hi"})
        await host.read(lambda frame: frame["type"] == "agent_end")
        assert not any(frame["type"] == "extension_ui_request" for frame in host.frames)

    play(tmp_path, scene, "pi-2025")


# What others hear of it


@every_dialog
def test_listeners_receive_the_start_and_end_of_a_question(tmp_path: Path, dialog: str) -> None:
    ask, frame, answer, _, _ = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(ask(host.ui))
        asked = await host.asked(frame["method"])
        begun = UiPromptStart(frame["method"], frame["title"])
        assert host.events == [begun]
        host.answer(asked, **answer)
        await outcome(asking)
        assert host.events == [begun, UiPromptEnd(frame["method"], frame["title"])]
        await host.response()
        assert {each["type"] for each in host.frames} <= GREETING | {"extension_ui_request", "response"}, "hosts are not told"

    play(tmp_path, scene)


def test_a_question_whose_asker_fails_is_over_too(tmp_path: Path) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.input("Name"))
        await host.asked("input")
        asking.cancel()
        await asyncio.wait([asking])
        assert host.events == [UiPromptStart("input", "Name"), UiPromptEnd("input", "Name")]

    play(tmp_path, scene)
