"""Tools of extensions return whatever JavaScript has. Hosts and session files get all of it that JSON can hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.extend.extended import calling, scripted

from fairlead import Agent
from fairlead.core import events as e
from fairlead.core.messages import ToolResultMessage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

DEEP = "[nested too deeply to be kept]"
#: What a tool returns, in JavaScript; the text that the model gets, and the details.
RESULTS: list[tuple[str, str, Any]] = [
    ("{ content: text, details: [1, 2] }", "kept", [1, 2]),
    ('{ content: text, details: "words" }', "kept", "words"),
    ("{ content: text, details: 5 }", "kept", 5),
    ("{ content: text, details: 0 }", "kept", 0),
    ("{ content: text, details: false }", "kept", False),
    ("{ content: text, details: 10n }", "kept", "10"),
    (
        "{ content: text, details: { a: [10n, () => 1, loop] } }",
        "kept",
        {"a": ["10", None, {"self": DEEP}]},
    ),
    ('{ content: text, details: { get a() { throw new Error("no"); }, b: 1 } }', "kept", {"a": "[cannot be read]", "b": 1}),
    ("{ content: text, details: new Map([[1, 2]]), usage: 7 }", "kept", {}),
    ('{ content: "only text", details: {} }', "only text", {}),
    ('{ content: [{ type: "text", text: "one" }, 5, { type: "video" }], details: {} }', 'one5{"type":"video"}', {}),
    ("{ details: { a: 1 } }", "", {"a": 1}),
    ('"just words"', "just words", None),
    ("[1, 2]", "12", None),
    ("{ content: text, structuredContent: loop }", "kept", None),
]

BODY = """
  const loop: any = {};
  loop.self = loop;
  const text = [{ type: "text" as const, text: "kept" }];
  const results: (() => any)[] = [RESULTS];
  pi.registerTool({
    name: "odd", label: "Odd", description: "Odd", parameters: Type.Object({ at: Type.Number() }),
    async execute(id: string, { at }: any, signal: any, onUpdate: any) {
      onUpdate(results[at]());
      return results[at]();
    },
  } as any);
""".replace("RESULTS", ", ".join(f"() => ({source})" for source, _, _ in RESULTS))


async def test_no_result_is_lost_and_none_ends_the_run(tmp_path: Path) -> None:
    turns = [*[calling("odd", at=at) for at in range(len(RESULTS))], Turn(text="done")]
    async with scripted(tmp_path, BODY, turns=turns, keep=True) as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.errors == []
        ends = [event for event in it.told if isinstance(event, e.ToolEnd)]
        assert it.results == [(text, False) for _, text, _ in RESULTS]
        assert [end.result.details for end in ends] == [details for _, _, details in RESULTS]
        assert len([event for event in it.told if isinstance(event, e.ToolUpdate)]) == len(RESULTS)
        path = it.agent.session.history.path
    kept = [json.loads(line) for line in Path(str(path)).read_text().splitlines()]
    messages = [entry["message"] for entry in kept if entry.get("message", {}).get("role") == "toolResult"]
    assert [message.get("details") for message in messages] == [details for _, _, details in RESULTS]
    async with Agent(
        model=SCRIPTED_MODEL, stream=Scripted([Turn(text="unused")]), cwd=tmp_path, isolated=True, session=path
    ) as again:
        reopened = [message for message in again.session.messages if isinstance(message, ToolResultMessage)]
        assert [message.details for message in reopened if message.details] == [details for *_, details in RESULTS if details]


@pytest.mark.parametrize("source", ["undefined", "null"])
async def test_no_result_at_all_is_an_error_that_says_so(tmp_path: Path, source: str) -> None:
    body = BODY.replace("() => ({ content: text, details: [1, 2] })", f"() => {source}")
    async with scripted(tmp_path, body, turns=[calling("odd", at=0), Turn(text="done")]) as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results == [("The tool returned no result. Return { content, details } from execute().", True)]
