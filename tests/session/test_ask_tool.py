"""The `ask` tool: what the user is asked, and what the model and the host learn of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken, NoUi
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.session_tools import OTHER, ask_tool

#: A user who walks away instead of answering, and one who has the run aborted.
LEAVES, ABORTS = object(), object()


class User(NoUi):
    """Gives the answers that it was told to give, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.available = True
        self.asked: list[tuple[str, list[str] | None]] = []
        self.timeouts: set[float | None] = set()
        self._answers = list(answers)

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return self._answer(title, list(options), timeout, cancel)

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return self._answer(title, None, timeout, cancel)

    def _answer(self, title: str, options: list[str] | None, timeout: float | None, cancel: CancelToken | None) -> str | None:
        self.asked.append((title, options))
        self.timeouts.add(timeout)
        answer = self._answers.pop(0)
        if answer is LEAVES:
            self.available = False
        if answer is ABORTS:
            assert cancel is not None
            cancel.fire()
        return answer if isinstance(answer, str) else None


def ask(user: NoUi, *questions: dict[str, Any], timeout: float | None = None) -> ToolResult:
    return call(user, {"questions": list(questions)}, timeout)


def call(user: NoUi, arguments: dict[str, Any], timeout: float | None = None) -> ToolResult:
    async def main() -> ToolResult:
        tool = ask_tool(lambda: user, timeout)
        return await tool.run(tool.check_arguments(arguments), ToolContext("call", CancelToken(), lambda partial: None))

    return asyncio.run(main())


def text(result: ToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


COLOUR = {"id": "colour", "question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}
NAME = {"id": "name", "question": "What is it called?"}


def test_options_are_chosen_from() -> None:
    user = User("Blue")
    result = ask(user, COLOUR)
    assert user.asked == [("Which colour?", ["Red", "Blue", OTHER])]
    assert text(result) == "The user answered: Blue"
    assert result.details == {"results": [{"id": "colour", "question": "Which colour?", "selectedOptions": ["Blue"]}]}


def test_without_options_the_user_types() -> None:
    user = User("Fido")
    result = ask(user, NAME)
    assert user.asked == [("What is it called?", None)]
    assert text(result) == "The user answered: Fido"
    assert result.details == {
        "results": [{"id": "name", "question": "What is it called?", "selectedOptions": [], "customInput": "Fido"}]
    }


def test_an_empty_answer_is_an_answer() -> None:
    assert text(ask(User(""), NAME)) == "The user answered: (nothing)"


def test_the_user_may_answer_something_else() -> None:
    user = User(OTHER, "Green")
    result = ask(user, COLOUR)
    assert user.asked == [("Which colour?", ["Red", "Blue", OTHER]), ("Which colour?", None)]
    assert text(result) == "The user answered: Green"
    assert result.details is not None
    assert result.details["results"][0]["customInput"] == "Green"


def test_a_host_may_send_what_the_user_typed_right_away() -> None:
    user = User("Green")
    result = ask(user, COLOUR)
    assert len(user.asked) == 1
    assert text(result) == "The user answered: Green"
    assert result.details is not None
    assert result.details["results"][0] == {
        "id": "colour",
        "question": "Which colour?",
        "selectedOptions": [],
        "customInput": "Green",
    }


def test_descriptions_and_the_recommendation_are_shown_and_not_part_of_the_answer() -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}, {"label": "Grey"}]
    user = User("Blue (Recommended) - cold")
    result = ask(user, {"question": "Which?", "options": options, "recommended": 1})
    assert user.asked == [("Which?", ["Red - warm", "Blue (Recommended) - cold", "Grey", OTHER])]
    assert text(result) == "The user answered: Blue"


def test_several_may_be_chosen_and_unchosen() -> None:
    user = User("[ ] Red", "[ ] Blue", "[x] Red", "Done selecting")
    result = ask(user, {**COLOUR, "multi": True})
    assert [options for _, options in user.asked] == [
        ["[ ] Red", "[ ] Blue", "Done selecting", OTHER],
        ["[x] Red", "[ ] Blue", "Done selecting", OTHER],
        ["[x] Red", "[x] Blue", "Done selecting", OTHER],
        ["[ ] Red", "[x] Blue", "Done selecting", OTHER],
    ]
    assert text(result) == "The user answered: Blue"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["Done selecting"], "(nothing)"),
        (["[ ] Blue", "[ ] Red", "Done selecting"], "Red, Blue"),
        (["[ ] Red", OTHER, "Green"], "Red, Green"),
        (["[ ] Red", "Green"], "Red, Green"),
    ],
    ids=["none", "in the order of the list", "with another", "with another typed right away"],
)
def test_the_chosen_option_reaches_the_model(answers: list[str], said: str) -> None:
    assert text(ask(User(*answers), {**COLOUR, "multi": True})) == f"The user answered: {said}"


def test_questions_are_asked_in_order_and_answered_by_id() -> None:
    user = User("Red", "Fido", "Bone")
    result = ask(user, COLOUR, NAME, {"question": "What does it eat?"})
    assert [title for title, _ in user.asked] == ["Which colour?", "What is it called?", "What does it eat?"]
    assert text(result) == "The user answered:\ncolour: Red\nname: Fido\nq3: Bone"
    assert result.details is not None
    assert [reply["id"] for reply in result.details["results"]] == ["colour", "name", "q3"]


def test_a_list_that_brings_its_own_other_has_one() -> None:
    user = User("Red")
    ask(user, {**COLOUR, "options": [{"label": "Red"}, {"label": OTHER}]})
    assert user.asked == [("Which colour?", ["Red", OTHER])]


# No answer

ADVICE = "Do not ask the same again. Go on with what does not depend on the answer, or end and say what you need to know."


@pytest.mark.parametrize(
    ("question", "answers"),
    [(COLOUR, [None]), (NAME, [None]), (COLOUR, [OTHER, None]), ({**COLOUR, "multi": True}, ["[ ] Red", None])],
    ids=["select", "input", "another", "several"],
)
def test_a_dismissed_question_is_reported_as_dismissed(question: dict[str, Any], answers: list[str | None]) -> None:
    result = ask(User(*answers), question)
    assert text(result) == f"No answer to the question: {question['question']} (the user dismissed it)\n{ADVICE}"
    assert result.details == {"results": []}


def test_a_question_without_an_answer_in_time_is_reported() -> None:
    user = User(None)
    result = ask(user, NAME, timeout=90)
    assert user.timeouts == {90}
    assert text(result).startswith(
        "No answer to the question: What is it called? (the user dismissed it, or did not answer within 90 seconds)\n"
    )


def test_an_unanswered_question_ends_the_series_and_earlier_answers_are_kept() -> None:
    user = User("Red", None)
    result = ask(user, COLOUR, NAME, {"question": "Why?"})
    assert len(user.asked) == 2
    assert text(result).splitlines() == [
        "The user answered:",
        "colour: Red",
        "No answer to the question: What is it called? (the user dismissed it)",
        "Not asked any more: Why?",
        ADVICE,
    ]
    assert result.details is not None
    assert len(result.details["results"]) == 1


def test_a_user_who_leaves_is_reported_to_the_model() -> None:
    assert "What is it called? (the user has left)" in text(ask(User(LEAVES), NAME))


def test_without_a_user_the_model_learns_that_questions_cannot_be_answered() -> None:
    with pytest.raises(ToolError, match="Nobody can be asked: there is no user behind this session"):  # prose: verbatim
        ask(NoUi(), COLOUR)


def test_an_abort_ends_the_call() -> None:
    user = User(ABORTS, "never")
    with pytest.raises(ToolError, match="Operation aborted"):
        ask(user, NAME, COLOUR)
    assert len(user.asked) == 1


# Arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": "Which colour?", "options": ["Red", "Blue"]},
        {"questions": [{"question": "Which colour?", "options": ["Red", {"label": "Blue"}]}]},
    ],
    ids=["a lone question", "mere texts"],
)
def test_common_malformed_question_arguments_are_accepted(arguments: dict[str, Any]) -> None:
    user = User("Red")
    assert text(call(user, arguments)) == "The user answered: Red"
    assert user.asked == [("Which colour?", ["Red", "Blue", OTHER])]


PROBLEMS: list[tuple[Any, str]] = [
    ({}, "questions: missing"),
    ({"questions": []}, "questions: [] has less than 1 item"),
    ({"questions": "Why?"}, "questions.0: "),
    ({"questions": ["Why?"]}, "questions.0: "),
    ({"questions": [{"options": ["a"]}]}, "questions.0.question: missing"),
    ({"questions": [{"question": "Why?", "options": [{}]}]}, "questions.0.options.0.label: missing"),
    ({"question": {"why": 5}}, "questions.0.question: "),
]


@pytest.mark.parametrize(("arguments", "problem"), PROBLEMS)
def test_a_malformed_ask_call_is_refused_without_a_question(arguments: dict[str, Any], problem: str) -> None:
    user = User()
    with pytest.raises(ToolError) as refused:
        call(user, arguments)
    assert f"\n  - {problem}" in str(refused.value)
    assert user.asked == []


def test_a_recommendation_may_be_any_number() -> None:
    for number in (-1, 7, 1.0):
        user = User("Red")
        assert text(ask(user, {**COLOUR, "recommended": number})) == "The user answered: Red"
