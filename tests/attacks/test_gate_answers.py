"""Handlers that protect something, and answers that only JavaScript can read or that cannot be read at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.extend.extended import calling, extended

from fairlead.core.messages import UserMessage, user_text
from fairlead.errors import FairleadError
from fairlead.testing import Turn

RUN = [calling("bash", command="echo secret"), Turn(text="done")]


def factory(body: str) -> str:
    return f"export default function (pi) {{ {body} }}"


BLOCKS = {
    "a prototype": 'Object.create({ block: true, reason: "no" })',
    "a prototype of a prototype": 'Object.create(Object.create({ block: true, reason: "no" }))',
    "a getter of a class": 'new (class { get block() { return true; } get reason() { return "no"; } })()',
    "a class that inherits": 'new (class extends class { get block() { return 1; } } { reason = "no"; })()',
    "hidden fields": 'Object.defineProperties({}, { block: { value: true }, reason: { value: "no" } })',
    "an own toJSON": '({ block: true, reason: "no", toJSON: () => ({}) })',
    "an inherited toJSON": 'Object.assign(Object.create({ toJSON: () => undefined }), { block: true, reason: "no" })',
    "a proxy": 'new Proxy({}, { get: (_, key) => ({ block: true, reason: "no" })[key] })',
    "a map with fields": 'Object.assign(new Map(), { block: true, reason: "no" })',
    "a function with fields": 'Object.assign(() => {}, { block: true, reason: "no" })',
    "an array with fields": 'Object.assign([], { block: true, reason: "no" })',
    "a symbol": '({ block: Symbol(), reason: "no" })',
    "a function": '({ block() {}, reason: "no" })',
    "a BigInt": '({ block: 1n, reason: "no" })',
    "an empty array": '({ block: [], reason: "no" })',
    "an empty object": '({ block: {}, reason: "no" })',
    "a boxed false": '({ block: new Boolean(false), reason: "no" })',
    "a text": '({ block: "false", reason: "no" })',
    "infinity": '({ block: Infinity, reason: "no" })',
    "a loop": '(() => { const loop = { block: true, reason: "no" }; loop.block = loop; return loop; })()',
    "a loop beside it": '(() => { const loop = { block: true, reason: "no" }; loop.rest = loop; return loop; })()',
    "a boxed reason": '({ block: true, reason: new String("no") })',
}


@pytest.mark.parametrize("answer", BLOCKS.values(), ids=BLOCKS)
async def test_a_block_counts_however_javascript_holds_it(tmp_path: Path, answer: str) -> None:
    async with extended(tmp_path, factory(f'pi.on("tool_call", () => {answer});'), turns=RUN, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results == [("no", True)]


@pytest.mark.parametrize("value", ["undefined", "null", "0", "-0", "NaN", '""', "0n", "false"])
async def test_falsy_javascript_answers_do_not_block(tmp_path: Path, value: str) -> None:
    source = factory(f'pi.on("tool_call", () => ({{ block: {value}, reason: "no" }}));')
    async with extended(tmp_path, source, turns=RUN, suffix="mjs") as it:
        await it.agent.ask("hi")
        assert it.results == [("secret\n", False)]


UNREADABLE = {
    "a getter that throws": '({ get NAME() { throw new Error("torn"); } })',
    "a getter that throws nothing": "({ get NAME() { throw undefined; } })",
    "a proxy that throws": '(new Proxy({}, { get(_, key) { if (key !== "then") throw new Error("torn"); } }))',
    "an error that throws": "({ get NAME() { throw { get message() { throw 1; } }; } })",
}


@pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_gate_whose_answer_cannot_be_read_refuses_the_call(tmp_path: Path, answer: str) -> None:
    source = factory(f'pi.on("tool_call", () => {answer.replace("NAME", "block")});')
    async with extended(tmp_path, source, turns=RUN, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        [(text, is_error)] = it.results
        assert is_error and text.startswith("The result of a handler of tool_call cannot be used.")


@pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_session_is_not_left_if_the_answer_cannot_be_read(tmp_path: Path, answer: str) -> None:
    source = factory(f'pi.on("session_before_switch", () => {answer.replace("NAME", "cancel")});')
    async with extended(tmp_path, source, suffix="mjs") as it:
        await it.agent.ask("hi")
        with pytest.raises(FairleadError, match="session_before_switch cannot be used"):
            await it.agent.session.history.new()
        assert len(it.agent.session.messages) == 2
    assert [event for _, event, _ in it.errors] == ["session_before_switch"]


async def test_a_cancellation_from_a_prototype_keeps_the_session(tmp_path: Path) -> None:
    source = factory('pi.on("session_before_switch", () => new (class { get cancel() { return "yes"; } })());')
    async with extended(tmp_path, source, suffix="mjs") as it:
        await it.agent.ask("hi")
        with pytest.raises(FairleadError):
            await it.agent.session.history.new()
        assert it.errors == []


REDACTIONS = {
    "a class": 'new (class { get content() { return [{ type: "text", text: "gone" }]; } })()',
    "a block of a class": '({ content: [new (class { get type() { return "text"; } get text() { return "gone"; } })()] })',
    "a block with toJSON": '({ content: [{ type: "text", text: "gone", toJSON: () => ({ type: "text", text: "secret" }) }] })',
    "a block behind a proxy": '({ content: [new Proxy({}, { get: (_, key) => ({ type: "text", text: "gone" })[key] })] })',
    "a list behind a proxy": '({ content: new Proxy([{ type: "text", text: "gone" }], {}) })',
    "a boxed text": '({ content: [{ type: "text", text: new String("gone") }] })',
    "the block itself": '(Object.defineProperty(event.content[0], "text", { get: () => "gone", enumerable: true }), undefined)',
}


@pytest.mark.parametrize("answer", REDACTIONS.values(), ids=REDACTIONS)
async def test_a_changed_result_counts_however_javascript_holds_it(tmp_path: Path, answer: str) -> None:
    async with extended(tmp_path, factory(f'pi.on("tool_result", (event) => {answer});'), turns=RUN, suffix="mjs") as it:
        await it.agent.ask("hi")
        assert it.results == [("gone", False)]


UNUSABLE = ["({ content: 5 })", "({ content: [1n] })", "({ content: [{ type: 'text' }] })", "({ get content() { throw 1; } })"]


@pytest.mark.parametrize("answer", UNUSABLE)
async def test_a_result_is_withheld_if_what_replaces_it_cannot_be_used(tmp_path: Path, answer: str) -> None:
    async with extended(tmp_path, factory(f'pi.on("tool_result", () => {answer});'), turns=RUN, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        [(text, is_error)] = it.results
        assert is_error and "secret" not in text and "The result of a handler of tool_result cannot be used." in text


async def test_a_context_that_cannot_be_used_is_not_sent(tmp_path: Path) -> None:
    source = factory('pi.on("context", (event) => ({ get messages() { throw new Error("torn"); } }));')
    async with extended(tmp_path, source, suffix="mjs") as it:
        with pytest.raises(FairleadError, match=r"The result of a handler of context cannot be used\. torn"):
            await it.agent.ask("hi")
        assert it.model.requests == []


async def test_a_context_of_proxies_is_sent_as_javascript_reads_it(tmp_path: Path) -> None:
    source = factory(
        'const seen = (it) => new Proxy(it, { get: (own, key) => key === "content" ? "gone" : own[key] });'
        'pi.on("context", (event) => ({ messages: event.messages.map(seen) }));'
    )
    async with extended(tmp_path, source, suffix="mjs") as it:
        await it.agent.ask("secret")
        [request] = it.model.requests
        assert [user_text(each) for each in request.messages if isinstance(each, UserMessage)] == ["gone"]


async def test_a_prompt_is_not_sent_if_the_answer_about_it_cannot_be_read(tmp_path: Path) -> None:
    source = factory('pi.on("input", () => ({ get action() { throw new Error("torn"); } }));')
    async with extended(tmp_path, source, suffix="mjs") as it:
        with pytest.raises(FairleadError, match=r"The result of a handler of input cannot be used\. torn"):
            await it.agent.ask("hi")
        assert it.model.requests == []


async def test_a_run_does_not_begin_if_the_answer_about_its_prompt_cannot_be_read(tmp_path: Path) -> None:
    source = factory('pi.on("before_agent_start", () => ({ get systemPrompt() { throw new Error("torn"); } }));')
    async with extended(tmp_path, source, suffix="mjs") as it:
        with pytest.raises(FairleadError, match=r"The result of a handler of before_agent_start cannot be used\. torn"):
            await it.agent.ask("hi")
        assert it.model.requests == []


async def test_arguments_are_run_as_javascript_reads_them(tmp_path: Path) -> None:
    changes = [
        'event.input.toJSON = () => ({ command: "echo secret" }); event.input.command = "echo safe";',
        'Object.defineProperty(event.input, "command", { value: "echo safe", enumerable: false });',
        'delete event.input.command; Object.setPrototypeOf(event.input, { command: "echo safe" });',
    ]
    for number, change in enumerate(changes):
        root = tmp_path / str(number)
        root.mkdir()
        async with extended(root, factory(f'pi.on("tool_call", (event) => {{ {change} }});'), turns=RUN, suffix="mjs") as it:
            await it.agent.ask("hi")
            assert it.results == [("safe\n", False)]


async def test_an_outcome_of_a_shell_command_is_read_as_javascript_reads_it(tmp_path: Path) -> None:
    source = factory(
        'class Outcome { get output() { return "there"; } get exitCode() { return 3; }'
        " get cancelled() { return false; } get truncated() { return false; } }"
        'pi.on("user_bash", () => ({ result: new Outcome() }));'
    )
    async with extended(tmp_path, source, suffix="mjs") as it:
        done = await it.agent.session.host.bash("echo here")
        assert (done.message.output, done.message.exit_code) == ("there", 3)


PYTHON = ["True", "{'cancel': True}", "type('A', (), {'cancel': True})()", "type('Mine', (dict,), {})(cancel='yes')"]


@pytest.mark.parametrize("answer", PYTHON)
async def test_answers_of_python_handlers_in_another_form_stop_what_they_are_about(tmp_path: Path, answer: str) -> None:
    source = f"def setup(fl):\n    @fl.on('session_before_switch')\n    def gate(event):\n        return {answer}\n"
    async with extended(tmp_path, source) as it:
        await it.agent.ask("hi")
        with pytest.raises(FairleadError, match="must return Cancel or None"):
            await it.agent.session.history.new()
        assert it.agent.session.messages


@pytest.mark.parametrize("answer", ["{'content': 'gone'}", "'gone'", "type('A', (), {'content': 'gone'})()"])
async def test_results_are_withheld_if_a_python_handler_answers_in_another_form(tmp_path: Path, answer: str) -> None:
    source = f"def setup(fl):\n    @fl.on('tool_result')\n    def redact(event):\n        return {answer}\n"
    async with extended(tmp_path, source, turns=RUN) as it:
        await it.agent.ask("hi")
        [(text, is_error)] = it.results
        assert is_error and "secret" not in text


async def test_a_project_is_not_trusted_if_the_answer_about_it_cannot_be_read(tmp_path: Path) -> None:
    gate = factory('pi.on("project_trust", () => ({ get trusted() { throw new Error("torn"); } }));')
    project = tmp_path / "project" / ".fairlead"
    (project / "extensions").mkdir(parents=True)
    (project / "extensions" / "theirs.py").write_text(
        "def setup(fl):\n    fl.register_command('theirs', lambda text, ctx: None)\n"
    )
    async with extended(tmp_path, gate, suffix="mjs") as it:
        await it.agent.ask("hi")
        assert it.agent.extensions.names() == ["one"]
