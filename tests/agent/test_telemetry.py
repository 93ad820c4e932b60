"""OpenTelemetry: spans and metrics by the conventions for generative AI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from fairlead import Agent, Telemetry
from fairlead.agent.telemetry import Recorder
from fairlead.errors import ProviderError
from fairlead.messages import AssistantMessage, ToolCall, Usage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


class Recording:
    """The spans and the metrics of a test."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._meters = MeterProvider([self._reader])

    def options(self, *, content: bool = False) -> Telemetry:
        return Telemetry(content=content, tracer_provider=self.traces, meter_provider=self._meters)

    def spans(self) -> list[ReadableSpan]:
        """All spans, in the order in which they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def tree(self) -> list[tuple[str, str | None]]:
        """The name of each span, and that of its parent."""
        names = {id_of(span): span.name for span in self.spans()}
        return [(span.name, None if span.parent is None else names[span.parent.span_id]) for span in self.spans()]

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans() if span.name == name]
        return found

    def points(self, metric: str) -> list[tuple[dict[str, Any], Any]]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return [
            (dict(point.attributes or {}), point)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]

    def close(self) -> None:
        self.traces.shutdown()
        self._meters.shutdown()


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


@pytest.fixture
def recording() -> Iterator[Recording]:
    made = Recording()
    yield made
    made.close()


def double(n: int) -> int:
    """Double a number."""
    if n < 0:
        raise ValueError("negative")
    return 2 * n


def calling(name: str, **arguments: Any) -> Turn:
    return Turn(tool_calls=[ToolCall("c1", name, arguments)])


def an_agent(turns: list[Turn], cwd: Path, **options: Any) -> Agent:
    return Agent(model=SCRIPTED_MODEL, stream=Scripted(turns), cwd=cwd, isolated=True, **options)


MODEL = SCRIPTED_MODEL.id
USAGE = Usage(input=10, output=5, cache_read=3, cache_write=2)


async def test_a_run_its_model_calls_and_its_tool_calls_are_spans(tmp_path: Path, recording: Recording) -> None:
    turns = [calling("double", n=2), Turn(text="Four.", usage=USAGE)]
    async with an_agent(turns, tmp_path, tools=[double], telemetry=recording.options()) as agent:
        with recording.traces.get_tracer("program").start_as_current_span("request"):
            answered = await agent.ask("Double 2.")
        assert not trace.get_current_span().get_span_context().is_valid
        conversation = agent.session.history.conversation.id
    run = "invoke_agent fairlead"
    assert recording.tree() == [
        ("request", None),
        (run, "request"),
        (f"chat {MODEL}", run),
        ("execute_tool double", run),
        (f"chat {MODEL}", run),
    ]
    _, invoked, _, called, chat = recording.spans()
    assert (invoked.kind, called.kind, chat.kind) == (SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.CLIENT)
    assert invoked.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "fairlead",
        "gen_ai.conversation.id": conversation,
        "gen_ai.provider.name": SCRIPTED_MODEL.provider,
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 115,
        "gen_ai.usage.output_tokens": 55,
        "gen_ai.response.finish_reasons": ("stop",),
        "fairlead.cost": pytest.approx(answered.cost),
    }
    assert called.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "double",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
    }
    attributes, last = attributes_of(chat), answered.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert attributes.pop("gen_ai.response.time_to_first_chunk") > 0
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": SCRIPTED_MODEL.provider,
        "gen_ai.request.model": MODEL,
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": conversation,
        "gen_ai.response.id": last.response_id,
        "gen_ai.response.model": MODEL,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 15,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_creation.input_tokens": 2,
        "fairlead.cost": pytest.approx(last.usage.cost.total),
    }


async def test_every_name_is_one_of_the_conventions(tmp_path: Path, recording: Recording) -> None:
    turns = [calling("double", n=2), Turn(text="Four.", usage=USAGE)]
    async with an_agent(turns, tmp_path, tools=[double], telemetry=recording.options(content=True)) as agent:
        await agent.ask("Double 2.")
    conventions = import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for name, value in vars(conventions).items() if name.startswith("GEN_AI_")}
    used = {name for span in recording.spans() for name in span.attributes or {} if name.startswith("gen_ai.")}
    assert used and used <= known
    metrics = vars(import_module("opentelemetry.semconv._incubating.metrics.gen_ai_metrics"))
    assert recording.points(metrics["GEN_AI_CLIENT_TOKEN_USAGE"])
    assert recording.points(metrics["GEN_AI_CLIENT_OPERATION_DURATION"])


async def test_tokens_and_durations_are_metrics(tmp_path: Path, recording: Recording) -> None:
    async with an_agent([Turn(text="Hi.", usage=USAGE)], tmp_path, telemetry=recording.options()) as agent:
        await agent.ask("hi")
    tokens = {attributes["gen_ai.token.type"]: point for attributes, point in recording.points("gen_ai.client.token.usage")}
    assert {kind: point.sum for kind, point in tokens.items()} == {"input": 15, "output": 5}
    assert tokens["input"].explicit_bounds[:3] == (1, 4, 16)
    ((attributes, point),) = recording.points("gen_ai.client.operation.duration")
    assert point.count == 1 and attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": SCRIPTED_MODEL.provider,
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": MODEL,
    }


async def test_errors_are_marked(tmp_path: Path, recording: Recording) -> None:
    turns = [calling("double", n=-1), calling("missing"), Turn(error="overloaded", status=400)]
    async with an_agent(turns, tmp_path, tools=[double], telemetry=recording.options()) as agent:
        with pytest.raises(ProviderError):
            await agent.ask("go")
    failed = {
        span.name: (span.attributes or {}).get("error.type")
        for span in recording.spans()
        if span.status.status_code is StatusCode.ERROR
    }
    assert failed == {
        "invoke_agent fairlead": "error",
        "execute_tool double": "tool_error",
        "execute_tool missing": "not_run",
        f"chat {MODEL}": "400",
    }
    assert recording.spans()[-1].status.description == "overloaded"
    errors = [attributes.get("error.type") for attributes, _ in recording.points("gen_ai.client.operation.duration")]
    assert sorted(errors, key=str) == ["400", None]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_spans_of_a_tool_are_below_its_call(tmp_path: Path, recording: Recording, kind: str) -> None:
    tracer = recording.traces.get_tracer("program")

    def plain(n: int) -> None:
        """Do it."""
        with tracer.start_as_current_span(f"work {n}"):
            pass

    async def act(n: int) -> None:
        """Do it."""
        plain(n)

    plain.__name__ = "act"
    calls = [ToolCall(f"c{n}", "act", {"n": n}) for n in range(2)]
    tools = [plain if kind == "plain" else act]
    async with an_agent([Turn(tool_calls=calls), Turn(text="ok")], tmp_path, tools=tools, telemetry=recording.options()) as agent:
        await agent.ask("go")
    by_id = {id_of(span): span for span in recording.spans()}
    for n in range(2):
        work = recording.one(f"work {n}")
        assert work.parent is not None
        assert attributes_of(by_id[work.parent.span_id])["gen_ai.tool.call.id"] == f"c{n}"


async def test_the_run_of_a_sub_agent_is_below_the_call_that_started_it(tmp_path: Path, recording: Recording) -> None:
    task = {"agent": "task", "tasks": [{"id": "one", "description": "d", "assignment": "Double 2."}]}
    turns = [calling("task", **task), calling("double", n=2), Turn(text="Four."), Turn(text="Done.")]
    async with an_agent(turns, tmp_path, tools=["task", double], telemetry=recording.options()) as agent:
        await agent.ask("go")
    assert recording.tree() == [
        ("invoke_agent fairlead", None),
        (f"chat {MODEL}", "invoke_agent fairlead"),
        ("execute_tool task", "invoke_agent fairlead"),
        ("invoke_agent task", "execute_tool task"),
        (f"chat {MODEL}", "invoke_agent task"),
        ("execute_tool double", "invoke_agent task"),
        (f"chat {MODEL}", "invoke_agent task"),
        (f"chat {MODEL}", "invoke_agent fairlead"),
    ]
    assert attributes_of(recording.one("invoke_agent task"))["gen_ai.agent.id"] == "one"


async def test_content_is_recorded_only_on_request(tmp_path: Path, recording: Recording) -> None:
    turns = [calling("double", n=210_021_021), Turn(text="The answer.")]
    async with an_agent(turns, tmp_path, tools=[double], telemetry=recording.options()) as agent:
        await agent.ask("A question?")
    everything = " ".join(span.to_json() for span in recording.spans())
    assert "question" not in everything and "answer" not in everything and "420042042" not in everything

    loud = Recording()
    async with an_agent(turns, tmp_path, tools=[double], telemetry=loud.options(content=True)) as agent:
        await agent.ask("A question?")
    question = {"role": "user", "parts": [{"type": "text", "content": "A question?"}]}
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "The answer."}], "finish_reason": "stop"}
    run, _, call, chat = (attributes_of(span) for span in loud.spans())
    assert json.loads(run["gen_ai.input.messages"]) == [question] and json.loads(run["gen_ai.output.messages"]) == [answer]
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"n": 210_021_021}
    assert json.loads(call["gen_ai.tool.call.result"]) == [{"type": "text", "content": "420042042"}]
    assert [each["role"] for each in json.loads(chat["gen_ai.input.messages"])] == ["user", "assistant", "tool"]
    loud.close()


async def test_recorded_content_and_errors_contain_no_key(tmp_path: Path, recording: Recording) -> None:
    given, inherited = "key-of-the-program-1", "key-of-the-environment-2"
    turns = [Turn(text=f"They are {given} and {inherited}."), Turn(error=f"bad key {inherited}")]
    options = {"api_key": given, "env": {"SOME_API_KEY": inherited}, "telemetry": recording.options(content=True)}
    async with an_agent(turns, tmp_path, **options) as agent:
        await agent.ask("Which keys do you know?")
        with pytest.raises(ProviderError):
            await agent.ask("And now?")
    everything = " ".join(span.to_json() for span in recording.spans())
    assert "They are [redacted] and [redacted]." in everything
    assert given not in everything and inherited not in everything


async def test_nothing_is_recorded_if_it_is_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with an_agent([Turn(text="ok")], tmp_path, telemetry=False) as agent:
        monkeypatch.setattr(Recorder, "_on_event", None)
        await agent.ask("go")


def run_program(text: str, cwd: Path) -> str:
    """Run a program and return what it prints."""
    command = [sys.executable, "-c", text]
    return subprocess.run(command, cwd=cwd, env=os.environ, stdout=subprocess.PIPE, text=True, check=True).stdout


WITHOUT = """
import asyncio, sys
from fairlead import Agent, Telemetry
from fairlead.errors import ConfigError
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

async def main():
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="ok")]), isolated=True) as agent:
        await agent.ask("go")
    assert not [name for name in sys.modules if name.startswith("opentelemetry")]
    sys.modules["opentelemetry"] = None  # as if it were not installed
    try:
        Agent(isolated=True, telemetry=Telemetry())
    except ConfigError as error:
        print(error)

asyncio.run(main())
"""


def test_without_it_nothing_is_imported_and_a_wish_for_it_is_an_error(tmp_path: Path) -> None:
    printed = run_program(WITHOUT, tmp_path)
    assert printed.startswith("telemetry: OpenTelemetry cannot be loaded") and "Install opentelemetry-api." in printed


GLOBAL = """
import asyncio
from opentelemetry import trace
from fairlead import Agent
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

async def main():
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="ok")] * 2), isolated=True) as agent:
        await agent.ask("before a provider is set")
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        await agent.ask("go")
        print(*(span.name for span in exporter.get_finished_spans()), sep=",")

asyncio.run(main())
"""


def test_a_program_that_has_imported_it_gets_spans_without_an_option(tmp_path: Path) -> None:
    printed = run_program(GLOBAL, tmp_path)
    assert printed == f"chat {MODEL},invoke_agent fairlead\n"
