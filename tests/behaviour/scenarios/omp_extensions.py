"""What hosts of omp and of xcsh see of an extension: its commands, questions, tools and failures, and how it ends the process."""

from __future__ import annotations

from typing import Any, cast

from tests.behaviour.play import Repertoire
from tests.support.stage import Stage, bash, calls, says

OMP_EXTENSIONS = Repertoire(reasoning="fake-2")
scenario = OMP_EXTENSIONS.scenario

#: The extension that the transcripts were made with, in the language of omp and xcsh.
EXTENSION = r"""
export default function (pi) {
  pi.registerCommand("ui", { description: "ui", handler: async (args, ctx) => {
    const ui = ctx.ui;
    ui.notify("note", "info"); ui.setStatus("k", "st"); ui.setStatus("k", undefined); ui.setWidget("w", ["l1","l2"]); ui.setTitle("ttl"); ui.setEditorText("edtext");
    const a = await ui.select("Pick", ["a","b"]);
    const b = await ui.confirm("Sure", "really?", { timeout: 400 });
    const c = await ui.input("Name", "ph");
    const d = await ui.editor("Edit", "pre");
    const e = await ui.input("Name2", "ph2", { timeout: 300 });
    const f = await ui.select("Pick2", ["x","y"]);
    ui.notify(JSON.stringify({a,b,c:c??null,d:d??null,e:e??null,f:f??null}), "warning");
  }});
  pi.registerCommand("boom", { description: "boom", handler: async () => { throw new Error("boom error"); }});
  pi.registerCommand("ask", { description: "ask", handler: async (args, ctx) => { pi.sendUserMessage("from ext " + args); }});
  pi.registerCommand("bye", { description: "bye", handler: async (args, ctx) => { ctx.shutdown(); }});
  pi.on("turn_start", async () => { throw new Error("handler failed"); });
  pi.on("tool_call", async (ev) => { if (ev.toolName === "bash" && String(ev.input.command).includes("blockme")) return { block: true, reason: "blocked by ext" }; });
  pi.registerTool({ name: "exttool", label: "Ext", description: "ext tool", parameters: { type: "object", properties: { q: { type: "string" } } }, async execute(id, params, a, b, c) { return { content: [{ type: "text", text: "ext " + params.q }], details: { z: 1 } }; } });
}
"""  # noqa: E501

ALONG: dict[str, Any] = {"flags": ["-e", "ext.ts"], "files": {"ext.ts": EXTENSION}}


def answer(host: Stage, since: int, method: str, **said: Any) -> int:
    """Wait for the next question of a kind, and answer it and one that was never asked, or let its time run out."""
    question = host.until("extension_ui_request", since=since, method=method)
    if said:
        host.send({"type": "extension_ui_response", "id": "bogus-id", "value": "zzz"})
        host.send({"type": "extension_ui_response", "id": question["id"], **said})
    return host.frames.index(question) + 1


def end_of_command(host: Stage, id: str) -> None:
    """Wait until a command has ended, where hosts are told: the next prompt is answered at once, so before or after that."""
    if "xcsh" not in cast("list[str]", host.process.args):
        host.until("prompt_result", id=id)


@scenario(calls(bash("echo blockme"), ("exttool", {"q": "hi"})), says("ok"), says("ok2"), env={"PI_RPC_EMIT_TITLE": "1"}, **ALONG)
def extension_ui(host: Stage) -> None:
    host.request("get_state", id="s")
    host.send({"id": "p1", "type": "prompt", "message": "/ui"})
    place = answer(host, 0, "select", value="b")
    place = answer(host, place, "confirm")
    place = answer(host, place, "input", value="typed")
    place = answer(host, place, "editor", cancelled=True)
    place = answer(host, place, "input")
    place = answer(host, place, "select", cancelled=True)
    host.until("extension_ui_request", since=place, method="notify")
    end_of_command(host, "p1")
    host.request("prompt", id="p2", message="/boom")
    host.until("extension_error")
    end_of_command(host, "p2")
    host.prompt("/ask hello", id="p3")
    host.request("get_messages", id="m")
    host.request("prompt", id="p4", message="/bye")
    host.exit_code()


@scenario(says("ok"), **ALONG)
def title_default(host: Stage) -> None:
    """The host leaves while it is asked something."""
    host.send({"id": "p1", "type": "prompt", "message": "/ui"})
    host.until("extension_ui_request", method="select")
