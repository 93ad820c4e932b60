"""What the person behind the host is asked and shown: the frames, and what is made of each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.wire.desk import Desk, Frame
from tests.wire.dialogs import DIALOGS, GREETING, every_dialect, every_dialog, outcome, play, requests, shown

from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny, FileChange
from fairlead.core.runtime import Ui

# Asking


@every_dialect
@every_dialog
def test_a_question_is_a_frame_and_its_answer_is_returned(tmp_path: Path, dialog: str, dialect: str) -> None:
    ask, frame, answer, said, _ = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(ask(host.ui))
        asked = await host.asked(frame["method"])
        assert shown(asked) == frame
        host.answer(asked, **answer)
        assert await outcome(asking) == said

    play(tmp_path, scene, dialect)


@every_dialog
@pytest.mark.parametrize(
    "dismissal", [{"cancelled": True}, {"cancelled": True, "timedOut": True}, {"cancelled": True, "value": "x"}]
)
def test_a_dismissal_changes_nothing(tmp_path: Path, dialog: str, dismissal: Frame) -> None:
    ask, frame, _, _, default = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(ask(host.ui))
        host.answer(await host.asked(frame["method"]), **dismissal)
        assert await outcome(asking) is default
        await host.response()
        told = [each["type"] for each in host.frames if each["type"] not in GREETING]
        assert told == ["extension_ui_request", "response"], "no answer is answered"

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("said", "approval"),
    [("Approve", Allow()), ("Deny", Deny()), ("approve", Deny()), ("Approve ", Deny()), ("yes", Deny()), ("", Deny())],
)
def test_only_the_words_that_were_offered_are_consent(tmp_path: Path, said: str, approval: ApprovalAnswer) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.approve(ApprovalRequest("bash", "c1", {}, "Run?", "")))
        asked = await host.asked("select")
        assert asked["title"] == "Run?"
        host.answer(asked, value=said)
        assert await outcome(asking) == approval

    play(tmp_path, scene)


def test_an_approval_has_the_diff_and_the_sub_agent_where_there_are_some(tmp_path: Path) -> None:
    request = ApprovalRequest(
        "edit", "c1", {"path": "a"}, "Allow edit?", "/a", "/a", "edit", (FileChange("/a", "x\n", "y\n"),), "Find.Callers"
    )

    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.approve(request))
        asked = await host.asked("select")
        assert asked["diff"] == "--- /a\n+++ /a\n@@ -1,1 +1,1 @@\n-x\n+y\n"
        assert asked["subagentId"] == "Find.Callers"
        host.answer(asked, value="Deny")
        await outcome(asking)

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({"value": "Deny", "reason": "use make"}, Deny("use make")),
        ({"value": "Deny", "forSession": True}, Deny(for_session=True)),
        ({"value": "nonsense", "reason": "use make", "arguments": {}}, Deny("use make")),
        ({"value": "Approve", "arguments": {"command": "ls"}}, Allow(arguments={"command": "ls"})),
        ({"value": "Approve", "forSession": True, "reason": "fine"}, Allow(for_session=True)),
        ({"value": "Approve for session", "arguments": {}}, Allow(for_session=True, arguments={})),
        # What is malformed is no answer, and so no consent.
        ({"value": "Approve", "arguments": "ls"}, None),
        ({"value": "Approve", "forSession": "yes"}, None),
        ({"arguments": {}}, None),
    ],
)
def test_an_answer_to_an_approval_can_say_more_than_yes_or_no(tmp_path: Path, said: Frame, answer: ApprovalAnswer | None) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.approve(ApprovalRequest("bash", "c1", {}, "Run?")))
        host.answer(await host.asked("select"), **said)
        assert await outcome(asking) == answer

    play(tmp_path, scene)


def test_a_choice_that_was_not_offered_is_passed_on(tmp_path: Path) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.select("Pick", ["a", "b"]))
        host.answer(await host.asked("select"), value="neither")
        assert await outcome(asking) == "neither"

    play(tmp_path, scene)


MALFORMED: list[tuple[str, Frame, str]] = [
    ("select", {"value": 5}, "value: expected a string, got a number"),
    ("select", {"value": ["a"]}, "value: expected a string, got a list"),
    ("select", {}, "value: required, unless the question is cancelled; it counts as cancelled now"),
    ("select", {"value": None}, "value: required, unless the question is cancelled; it counts as cancelled now"),
    ("select", {"confirmed": True}, "value: required, unless the question is cancelled; it counts as cancelled now"),
    ("select", {"cancelled": False}, "value: required, unless the question is cancelled; it counts as cancelled now"),
    ("input", {"value": True}, "value: expected a string, got true or false"),
    ("editor", {"text": "x"}, "value: required, unless the question is cancelled; it counts as cancelled now"),
    ("confirm", {"confirmed": "yes"}, "confirmed: expected true or false, got a string"),
    ("confirm", {"value": "yes"}, "confirmed: required, unless the question is cancelled; it counts as cancelled now"),
    ("confirm", {"cancelled": "no"}, "cancelled: expected true or false, got a string"),
    ("approve", {"value": True}, "value: expected a string, got true or false"),
]


@pytest.mark.parametrize(("dialog", "answer", "problem"), MALFORMED)
def test_a_malformed_answer_counts_as_none_and_is_reported(tmp_path: Path, dialog: str, answer: Frame, problem: str) -> None:
    ask, frame, good, _, default = DIALOGS[dialog]

    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(ask(host.ui))
        asked = await host.asked(frame["method"])
        host.answer(asked, **answer)
        told = await host.read()
        assert told == {
            "type": "response",
            "id": asked["id"],
            "command": "extension_ui_response",
            "success": False,
            "error": problem,
        }
        assert await outcome(asking) is default
        host.answer(asked, **good)
        await host.response()

    play(tmp_path, scene)


def test_an_answer_that_does_not_say_to_what_leaves_the_question_open(tmp_path: Path) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.input("Name"))
        asked = await host.asked("input")
        host.send({"type": "extension_ui_response", "value": "x"})
        told = await host.read()
        assert (told["command"], told["error"]) == (
            "extension_ui_response",
            "id: expected that of the frame which asked, as a string",
        )
        host.answer(asked, value="y")
        assert await outcome(asking) == "y"

    play(tmp_path, scene)


@every_dialect
def test_answers_to_nothing_and_second_answers_are_ignored(tmp_path: Path, dialect: str) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.select("Pick", ["a", "b"]))
        asked = await host.asked("select")
        answer = {"type": "extension_ui_response", "id": asked["id"]}
        host.send(
            {**answer, "id": "who", "value": "b"},
            {**answer, "id": "who", "value": 5},
            {"type": "host_uri_result", "id": asked["id"], "content": "an answer of another kind"},
            {**answer, "value": "a"},
            {**answer, "value": "b"},
            {**answer, "cancelled": True},
            {**answer, "value": 5},
        )
        assert await outcome(asking) == "a"
        since = len(host.frames)
        await host.response()
        assert len(host.frames) == since + 1

    play(tmp_path, scene, dialect)


def test_a_thousand_open_questions_are_answered_in_any_order(tmp_path: Path) -> None:
    async def scene(host: Desk) -> None:
        asking = [asyncio.ensure_future(host.ui.input(f"Number {number}")) for number in range(1000)]
        asked = [await host.asked("input") for _ in asking]
        assert len({frame["id"] for frame in asked}) == 1000
        for frame in reversed(asked):
            host.answer(frame, value=frame["title"].removeprefix("Number "))
        assert await outcome(asyncio.gather(*asking)) == [str(number) for number in range(1000)]

    play(tmp_path, scene)


def test_text_that_is_not_unicode_is_mended_on_both_ways(tmp_path: Path) -> None:
    async def scene(host: Desk) -> None:
        asking = asyncio.ensure_future(host.ui.select("Pick \ud800", ["a\udfff"]))
        asked = await host.asked("select")
        assert (asked["title"], asked["options"]) == ("Pick \ufffd", ["a\ufffd"])
        host.answer(asked, value="b\ud800")
        assert await outcome(asking) == "b\ufffd"

    play(tmp_path, scene)


@every_dialect
def test_requests_come_although_the_host_wants_no_events(tmp_path: Path, dialect: str) -> None:
    async def scene(host: Desk) -> None:
        await host.response(type="set_event_filter", events=[])
        asking = asyncio.ensure_future(host.ui.confirm("Sure?"))
        host.answer(await host.asked("confirm"), confirmed=True)
        assert await outcome(asking) is True
        host.ui.notify("done")
        await host.asked("notify")

    play(tmp_path, scene, dialect)


# Showing


SHOWN: list[tuple[Callable[[Ui], None], Frame]] = [
    (lambda ui: ui.notify("note"), {"method": "notify", "message": "note"}),
    (lambda ui: ui.notify("note", "warning"), {"method": "notify", "message": "note", "notifyType": "warning"}),
    (lambda ui: ui.set_status("k", "busy"), {"method": "setStatus", "statusKey": "k", "statusText": "busy"}),
    (lambda ui: ui.set_status("k", None), {"method": "setStatus", "statusKey": "k"}),
    (lambda ui: ui.set_widget("w", ("1", "2")), {"method": "setWidget", "widgetKey": "w", "widgetLines": ["1", "2"]}),
    (
        lambda ui: ui.set_widget("w", ["1"], "belowEditor"),
        {"method": "setWidget", "widgetKey": "w", "widgetLines": ["1"], "widgetPlacement": "belowEditor"},
    ),
    (lambda ui: ui.set_widget("w", None), {"method": "setWidget", "widgetKey": "w"}),
    (lambda ui: ui.set_editor_text("text"), {"method": "set_editor_text", "text": "text"}),
    (lambda ui: ui.open_url("https://example.org"), {"method": "open_url", "url": "https://example.org"}),
    (
        lambda ui: ui.open_url("https://example.org", "Log in"),
        {"method": "open_url", "url": "https://example.org", "instructions": "Log in"},
    ),
]


@every_dialect
def test_notifications_are_frames_without_an_answer(tmp_path: Path, dialect: str) -> None:
    async def scene(host: Desk) -> None:
        for show, _ in SHOWN:
            show(host.ui)
        await host.response()
        told = [shown(frame) for frame in host.frames if frame["type"] == "extension_ui_request"]
        assert told == [frame for _, frame in SHOWN]

    play(tmp_path, scene, dialect)


@pytest.mark.parametrize(
    ("dialect", "switch", "sent"),
    [
        ("pi", None, True),
        ("pi", "0", True),
        ("omp", None, True),
        ("omp", "0", True),
        ("xcsh", None, False),
        *(("xcsh", value, True) for value in ("1", "true", "yes", "on", " Yes ", "ON")),
        *(("xcsh", value, False) for value in ("", "0", "no", "off", "2")),
    ],
)
def test_titles_are_sent_where_hosts_have_a_place_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, switch: str | None, sent: bool
) -> None:
    monkeypatch.delenv("PI_RPC_EMIT_TITLE", raising=False)
    if switch is not None:
        monkeypatch.setenv("PI_RPC_EMIT_TITLE", switch)

    async def scene(host: Desk) -> None:
        host.ui.set_title("mine")
        await host.response()
        assert [shown(frame) for frame in requests(host, "setTitle")] == (
            [{"method": "setTitle", "title": "mine"}] if sent else []
        )

    play(tmp_path, scene, dialect)
