"""The published types, compiled by TypeScript: every example is of its type, and a line of another shape is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import peers

from fairlead.cli.subcommands.schema import types_text
from fairlead.protocol.opal.opal_events import EVENTS, SERVER_REQUESTS
from fairlead.protocol.opal.opal_examples import EVENT_EXAMPLES, METHOD_EXAMPLES, SERVER_REQUEST_EXAMPLES
from fairlead.protocol.opal.opal_methods import METHODS
from fairlead.protocol.schema.json_rpc import event_name, params_name, result_name
from fairlead.wire.dialects import DIALECTS, dialect_named

pytestmark = pytest.mark.system

VERSION = "5.9.3"
LIMIT = 100

#: By dialect: a use of the types that is right in every line but those that say so.
USES = {
    "pi": """
        function show(event: types.Event): string {
          switch (event.type) {
            case "message_update":
              return event.assistantMessageEvent.type === "text_delta" ? event.assistantMessageEvent.delta : "";
            case "tool_execution_start":
              return event.toolName;
            default:
              return event.type;
          }
        }
        declare function ask<N extends keyof types.Commands>(
          command: types.Commands[N]["command"] & { type: N },
        ): Promise<types.Commands[N]["response"]>;
        const model: types.Model | null = (await ask({ type: "get_state" })).data.model;
        // @ts-expect-error: a prompt has a message
        const nothing: types.Command = { type: "prompt" };
        // @ts-expect-error: there is no such level
        const level: types.SetThinkingLevelCommand = { type: "set_thinking_level", level: "deep" };
    """,
    "opal": """
        function show(event: types.Event): string {
          switch (event.type) {
            case "message_delta":
              return event.delta;
            case "sub_agent_event":
              return event.inner.type === "sub_agent_start" ? event.inner.label : event.inner.type;
            default:
              return event.session_id;
          }
        }
        declare function ask<M extends keyof types.Methods>(
          method: M,
          params: types.Methods[M]["params"],
        ): Promise<types.Methods[M]["result"]>;
        const status: string = (await ask("session/start", { session: true })).auth.status;
        // @ts-expect-error: a prompt has a text
        await ask("agent/prompt", { session_id: "a" });
        type Name = (typeof types.Methods)[keyof typeof types.Methods];
        const named: Name = "agent/prompt" satisfies (typeof types.Methods)["AGENT_PROMPT"];
        const asked: types.MethodTypes["client/confirm"]["params"]["title"] = "Sure?";
        const event: types.AgentEvent = { type: "agent_start", session_id: "a" };
        // @ts-expect-error: there is no such request
        const unnamed: Name = "agent/steer";
    """,
}


def examples(dialect: str) -> Iterator[tuple[str, Any]]:
    """The name of a type, and something that is of that type."""
    if dialect != "opal":
        for name, defined in dialect_named(dialect).load().schema(dialect)["$defs"].items():
            yield from ((name, example) for example in defined.get("examples", ()))
        return
    for declared, shown in ((METHODS, METHOD_EXAMPLES), (SERVER_REQUESTS, SERVER_REQUEST_EXAMPLES)):
        for name, method in declared.items():
            yield params_name(method), shown[name]["params"]
            yield result_name(method), shown[name]["result"]
    yield from ((event_name(event), EVENT_EXAMPLES[name]) for name, event in EVENTS.items())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_examples_are_of_their_types(dialect: str, tmp_path: Path) -> None:
    installed = peers.install(f"typescript-{VERSION}", "typescript", VERSION)
    compiler = installed / "node_modules" / "typescript" / "bin" / "tsc"
    (tmp_path / "types.ts").write_text(types_text(dialect_named(dialect)))
    typed = [
        f"const example{number}: types.{name} = {json.dumps(value)};" for number, (name, value) in enumerate(examples(dialect))
    ]
    uses = ['import type * as types from "./types";', *typed, USES.get(dialect, ""), "export {};"]
    (tmp_path / "uses.ts").write_text("\n".join(uses))
    options = ["--strict", "--noEmit", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"]
    command = [str(peers.node()), str(compiler), *options, str(tmp_path / "uses.ts")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout
