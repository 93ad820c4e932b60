"""Extensions written for pi that attack what they run in: the agent, its connection to their process, and other extensions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.extend.extended import calling, extended

from fairlead import Agent
from fairlead.errors import ExtensionNotLoaded, ProviderError
from fairlead.testing import Turn

RUN = [calling("bash", command="true"), Turn(text="done")]
EVIL = 'const evil = new Error("x"); for (const name of ["stack", "message"])' + (
    'Object.defineProperty(evil, name, { get() { throw new Error("getter"); } });'
)
SHOWN = "Something was thrown that cannot be shown."


def factory(body: str) -> str:
    return f"export default function (pi) {{ {body} }}"


async def test_an_extension_may_throw_any_value(tmp_path: Path) -> None:
    source = factory(
        EVIL + 'pi.on("agent_start", () => { throw evil; });'
        'pi.on("turn_start", () => { throw undefined; });'
        'pi.on("tool_call", () => { throw { toString() { throw evil; } }; });'
        'pi.on("agent_end", () => { setTimeout(() => { throw evil; }); Promise.reject(Object.create(null)); });'
    )
    alive = factory('pi.on("agent_start", () => { pi.appendEntry("alive"); });')
    async with extended(tmp_path, source, alive, turns=[*RUN, Turn(text="again")], suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results == [(SHOWN, True)]
        assert str(await it.agent.ask("hi")) == "again"
        assert len(it.notes("alive")) == 2
        assert it.errors.count(("one.mjs", "agent_start", SHOWN)) == 2
        assert it.errors.count(("one.mjs", "turn_start", "undefined")) == 3
        assert it.errors.count(("extension", "uncaught", SHOWN)) >= 2


async def test_a_tool_that_blocks_its_process_ends_with_an_error(tmp_path: Path) -> None:
    source = factory(
        'pi.registerTool({ name: "stuck", description: "d", parameters: { type: "object", properties: {} },'
        "execute() { for (;;) {} } });"
    )
    settings = json.dumps({"extensionTimeoutSeconds": 1})
    turns = [calling("stuck"), Turn(text="done")]
    async with extended(tmp_path, source, turns=turns, settings=settings, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        text, is_error = it.results[0]
        assert is_error and "an extension blocked it" in text


@pytest.mark.parametrize(
    "attack",
    [
        'for (const line of ["garbage", "{}", "[]", "5", "null", \'{"method":5}\', \'{"method":"cancel"}\','
        '\'{"id":{},"result":1}\', \'{"method":"nothing"}\', \'{"method":"nothing","id":7}\', "\\xff"])'
        ' fs.writeSync(+process.argv[3], line + "\\n");',
        'JSON.stringify = () => "garbage"; JSON.parse = () => ({});',
        "Buffer.from = Buffer.concat = () => { throw new Error('gone'); };",
        "fs.writeSync = fs.readSync = () => { throw new Error('gone'); };",
        "globalThis.Promise = globalThis.Map = globalThis.setTimeout = undefined;",
    ],
)
async def test_the_connection_survives_what_extensions_do_to_it(tmp_path: Path, attack: str) -> None:
    source = f'import fs from "node:fs"; export default function (pi) {{ pi.on("turn_start", () => {{ {attack} }});' + (
        'pi.on("tool_call", () => ({ block: true, reason: `tools: ${pi.getActiveTools().includes("bash")}` })); }'
    )
    async with extended(tmp_path, source, turns=RUN, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results == [("tools: true", True)]


async def test_results_of_handlers_that_cannot_be_used_are_reported(tmp_path: Path) -> None:
    source = factory(
        'pi.on("turn_end", () => ({ entries: [null] }));'
        'pi.on("message_end", () => ({ message: 5 }));'
        'pi.on("turn_start", () => { const loop = {}; loop.loop = loop; return loop; });'
        'pi.on("message_start", () => ({ a: 1n }));'
    )
    async with extended(tmp_path, source, turns=RUN, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results == [("(no output)", False)]
    errors = {event: error for _, event, error in it.errors}
    unusable = "The result of a handler of {} cannot be used."
    for event in ("message_end", "turn_end"):
        assert errors[event].startswith(unusable.format(event))
    assert "circular" in errors["turn_start"] and "BigInt" in errors["message_start"]


@pytest.mark.parametrize("value", ["5", "null", "undefined", "[]", "'text'"])
async def test_events_that_handlers_spoil_do_not_matter(tmp_path: Path, value: str) -> None:
    names = "input before_agent_start context before_provider_headers turn_start message_start message_end tool_call tool_result"
    spoil = f"(event) => {{ for (const key of Object.keys(event)) event[key] = {value}; }}"
    source = factory("".join(f"pi.on({json.dumps(name)}, {spoil});" for name in names.split()))
    async with extended(tmp_path, source, turns=RUN, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results == [("(no output)", False)] and it.errors == []


async def test_a_gate_whose_answer_cannot_be_sent_refuses_the_call(tmp_path: Path) -> None:
    source = factory('pi.on("tool_call", (event) => { event.input.self = event.input; });')
    async with extended(tmp_path, source, turns=RUN, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results[0][1] and "circular" in it.results[0][0]


async def test_schemas_of_typebox_are_checked_and_others_refused(tmp_path: Path) -> None:
    source = """
import { Type } from "typebox";
import { StringEnum } from "@mariozechner/pi-ai";
export default function (pi) {
  const parameters = Type.Object({
    pair: Type.Tuple([Type.String(), Type.Number()]), kind: StringEnum(["a", "b"]), rest: Type.Optional(Type.Record(Type.String(), Type.Any())),
  });
  const execute = async (id, args) => ({ content: [{ type: "text", text: JSON.stringify(args) }] });
  pi.registerTool({ name: "t", label: "T", description: "d", parameters, execute });
  const refused = [undefined, {}, { name: "x", parameters: 5 }, { name: "x", parameters: { type: "wat" } },
    { name: "x", parameters: { type: "object", properties: { a: { $ref: "http://127.0.0.1:1/" } } } }].map((tool) => {
    try { pi.registerTool(tool); } catch (error) { return "refused"; }
  });
  pi.on("session_start", () => { pi.appendEntry("refused", refused); });
}
"""  # noqa: E501
    good, bad = {"pair": ["x", 1], "kind": "a"}, {"pair": [1, "x"], "kind": "a"}
    turns = [calling("t", **good), calling("t", **bad), Turn(text="done")]
    async with extended(tmp_path, source, turns=turns, suffix="ts") as it:
        assert str(await it.agent.ask("hi")) == "done"
        (first, failed), (second, refused) = it.results
        assert (json.loads(first), failed, refused) == (good, False, True) and "Validation failed" in second
        assert it.notes("refused") == [["refused"] * 5]


@pytest.mark.parametrize(
    "script",
    ["echo v18.20.0", "exit 1", '[ "$1" = --version ] && echo v16.0.0 || exec /bin/sh -c "exit 3"'],
    ids=["old", "broken", "dies"],
)
async def test_a_node_that_is_too_old_or_broken_is_not_used(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "node").write_text(f"#!/bin/sh\n{script}\n")
    (bin / "node").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin))
    source = factory('pi.on("tool_call", () => ({ block: true, reason: "no" }));')
    monkeypatch.setattr("fairlead.extend.node.program._find_bundled_node", lambda: None)
    async with extended(tmp_path, source, turns=RUN, suffix="mjs") as it:
        with pytest.raises(ExtensionNotLoaded, match="needs Node 20 or newer"):
            await it.agent.ask("hi")


async def test_a_model_of_an_extension_that_returns_nonsense_ends_the_answer_with_an_error(tmp_path: Path) -> None:
    source = """
const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const answers = [undefined, 5, (async function* () { yield 5; })(),
  { async *[Symbol.asyncIterator]() {}, result: async () => 5 },
  { async *[Symbol.asyncIterator]() { yield { type: "toolcall_end", toolCall: 7 }; }, result: async () => ({}) }];
export default function (pi) {
  pi.registerProvider("own", { baseUrl: "http://own", apiKey: "x", api: "own", streamSimple: () => answers.shift(),
    models: [{ id: "m", name: "M", reasoning: false, input: ["text"], cost, contextWindow: 1000, maxTokens: 100 }] });
}
"""
    path = tmp_path / "own.mjs"
    path.write_text(source)
    env = {**os.environ, "FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    async with Agent(cwd=tmp_path, env=env, extensions=[path], model="own/m") as agent:
        errors: list[str] = []
        for _ in range(5):
            with pytest.raises(ProviderError) as raised:
                await agent.ask("hi")
            errors.append(str(raised.value))
        assert errors[3] == "The extension's model returned something that is not a message."
        assert not any("object has no attribute" in error for error in errors)


async def test_the_instance_of_an_earlier_session_neither_receives_nor_sends(tmp_path: Path) -> None:
    source = factory(
        "let heard = 0; globalThis.instances = [...(globalThis.instances ?? []), pi];"
        'pi.events.on("ping", () => { heard += 1; });'
        'pi.on("session_start", () => { for (const each of globalThis.instances) each.events.emit("ping"); });'
        'pi.on("agent_start", () => { pi.appendEntry("heard", heard); });'
    )
    async with extended(tmp_path, source, suffix="mjs") as it:
        for _ in range(3):
            await it.agent.ask("hi")
            assert it.notes("heard") == [1]
            await it.agent.session.history.new()
