"""Texts made to keep the export busy. The bounds are generous: without the limits each of these takes minutes or more."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fairlead.export import render
from fairlead.export.markup import Markup

#: Seconds of CPU. What is linear takes about one for a megabyte.
SOON = 30.0

MEGABYTE = 1_000_000


def message(**fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": "a", "parentId": None, "message": fields}


def page(*entries: dict[str, Any]) -> str:
    began = time.thread_time()
    made = render({"timestamp": "2026-01-01T00:00:00Z"}, entries, None).decode()
    assert time.thread_time() - began < SOON
    return made


@pytest.mark.parametrize("unit", ["\n", " \n", "\n ", "\r\n", "\t\n", " ", "1", "```\n", "```a", "[", "<", "|", "> ", "\x1b[31m"])
@pytest.mark.parametrize("size", [150_000, MEGABYTE])
def test_repetition_in_an_answer_is_rendered_in_linear_time(unit: str, size: int) -> None:
    page(message(role="assistant", content=[{"type": "text", "text": unit * (size // len(unit)) + "x"}]))


def test_an_endless_fence_line_is_parsed_in_linear_time() -> None:
    page(message(role="assistant", content=[{"type": "text", "text": "```" + "a" * MEGABYTE + "`"}]))


def test_terminal_sequences_of_any_length_are_read_in_linear_time() -> None:
    made = page(message(role="toolResult", toolCallId="c", toolName="bash", content="\x1b[" + "1;" * MEGABYTE + "mbold"))
    assert "bold" in made


def test_code_that_a_lexer_takes_long_for_stays_plain() -> None:
    markup = Markup()
    began = time.thread_time()
    assert "<span" in markup.code("int main() { return 0; }", "c")
    for _ in range(20):
        markup.code("\n" * 29_000, "c")
        markup.code(" " * 29_000, "autoit")
    assert time.thread_time() - began < SOON
    assert "<span" not in markup.code("int main() { return 0; }", "c")
    assert "<span" in markup.code("def main(): return 0", "python")


def test_many_branches_from_one_entry_cost_no_more_than_their_number() -> None:
    branches = [
        {"type": "message", "id": f"e{n}", "parentId": None, "message": {"role": "user", "content": "x"}} for n in range(4_000)
    ]
    made = page(*branches)
    assert "Branch 4000 of 4000" in made


def test_indents_do_not_multiply_a_deep_value() -> None:
    deep: Any = list(range(20_000))
    for _ in range(300):
        deep = [deep]
    made = page(message(role="assistant", content=[{"type": "toolCall", "id": "c", "name": "x", "arguments": {"deep": deep}}]))
    assert len(made) < 20 * len(json.dumps(deep))


@pytest.mark.parametrize("number", [10**400, -(10**400), float("inf"), float("nan"), 1e308])
def test_numbers_of_any_size_are_shown_or_left_out(number: float) -> None:
    usage = {"input": number, "output": number, "cost": {"total": number}}
    used = message(role="assistant", content="x", usage=usage)
    made = page(used, {**used, "id": "b", "parentId": "a"}, {"type": "compaction", "id": "c", "tokensBefore": number})
    data = made.split('id="session">')[1].split("</script>")[0]
    json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
