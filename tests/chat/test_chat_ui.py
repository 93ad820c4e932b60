"""How the engine and extensions reach the user of the chat."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypeVar

from fairlead import Allow, ApprovalRequest, CancelToken
from fairlead.chat.chat_ui import ChatUi
from fairlead.chat.dialogs import Dialog
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.theme import PLAIN
from fairlead.events import Event, UiPromptEnd, UiPromptStart

T = TypeVar("T")


class Stage:
    """Shows dialogs to a person who presses the given keys."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self.notes: list[tuple[str, str]] = []
        self.titles: list[str] = []
        self.proposed: list[ApprovalRequest] = []
        self.text = ""

    async def ask(self, dialog: Dialog[T]) -> T | None:
        dialog.appear()
        for key in self.keys:
            dialog.key(key, key if len(key) == 1 else "")
        return await dialog.answer

    def note(self, text: str, role: str = "dim") -> None:
        self.notes.append((text, role))

    def propose(self, request: ApprovalRequest, *, is_whole: bool = False) -> Proposal:
        self.proposed.append(request)
        return Proposal(request, PLAIN, Path("/"), is_whole=is_whole)

    def set_editor_text(self, text: str) -> None:
        self.text = text

    def set_title(self, title: str) -> None:
        self.titles.append(title)

    def touch(self) -> None: ...

    def stop(self) -> None: ...


def a_ui(*keys: str) -> tuple[ChatUi, Stage, list[Event]]:
    stage, events = Stage(*keys), list[Event]()
    return ChatUi(stage, events.append), stage, events


async def test_questions_are_answered_and_announced() -> None:
    ui, _, events = a_ui("down", "c-m")
    assert await ui.select("Which?", ["one", "two"]) == "two"
    assert [type(event) for event in events] == [UiPromptStart, UiPromptEnd]
    assert await a_ui("y")[0].confirm("Sure?")
    assert await a_ui("h", "i", "c-m")[0].input("Name?") == "hi"
    request = ApprovalRequest("bash", "1", {}, "Allow bash?")
    ui, stage, _ = a_ui("y")
    assert await ui.approve(request) == Allow() and stage.proposed == [request]


async def test_a_question_ends_with_its_run_and_with_its_time() -> None:
    ui, _, _ = a_ui()
    cancel = CancelToken()
    waiting = asyncio.create_task(ui.select("Which?", ["one"], cancel=cancel))
    await asyncio.sleep(0)
    cancel.fire()
    assert await waiting is None
    assert await ui.confirm("Sure?", timeout=0.001) is False
    assert await ui.input("Name?", cancel=cancel) is None


def test_remarks_and_decorations() -> None:
    ui, stage, _ = a_ui()
    ui.notify("careful", "warning")
    ui.open_url("https://example.org", "Open")
    assert stage.notes == [("careful", "warning"), ("Open https://example.org", "accent")]
    ui.set_status("a", "ok")
    ui.set_status("b", "x")
    ui.set_status("b", None)
    assert ui.statuses == {"a": "ok"}
    ui.set_widget("w", ["line"], "belowEditor")
    ui.set_widget("w", ["line"])
    assert (ui.above, ui.below) == ({"w": ["line"]}, {})
    ui.set_widget("w", None)
    assert ui.above == {}
    ui.set_title("t")
    ui.set_editor_text("text")
    assert stage.titles == ["t"] and stage.text == "text"
