"""What hosts of pi see of an extension: its commands, questions, messages and failures, and how it ends the process."""

from __future__ import annotations

from typing import Any

from tests.behaviour.play import Repertoire
from tests.support.stage import Stage, says

PI_EXTENSIONS = Repertoire(reasoning="fake-1")
scenario = PI_EXTENSIONS.scenario

#: The extension that the transcripts were made with, in pi's language.
EXTENSION = r"""
export default function (pi) {
  pi.registerCommand("ui", { description: "Exercise the UI", handler: async (args, ctx) => {
    ctx.ui.notify("plain"); ctx.ui.notify("warned", "warning"); ctx.ui.notify("bad", "error");
    ctx.ui.setStatus("k", "busy"); ctx.ui.setStatus("k", undefined);
    ctx.ui.setWidget("w", ["line 1", "line 2"]); ctx.ui.setWidget("w", ["below"], { placement: "belowEditor" }); ctx.ui.setWidget("w", undefined);
    ctx.ui.setTitle("the title"); ctx.ui.setEditorText("prefilled"); ctx.ui.pasteToEditor("pasted");
    const r = {};
    r.select = await ctx.ui.select("Pick", ["a", "b"]);
    r.confirm = await ctx.ui.confirm("Sure?", "Really sure?");
    r.input = await ctx.ui.input("Name", "placeholder");
    r.editor = await ctx.ui.editor("Edit", "line 1\nline 2");
    r.selectCancelled = await ctx.ui.select("Pick2", ["a", "b"]);
    r.confirmCancelled = await ctx.ui.confirm("Sure2?", "m");
    r.selectTimeout = await ctx.ui.select("Pick3", ["a"], { timeout: 300 });
    r.confirmTimeout = await ctx.ui.confirm("Sure3?", "m", { timeout: 300 });
    r.inputTimeout = await ctx.ui.input("In3", undefined, { timeout: 300 });
    r.custom = await ctx.ui.custom(() => ({}));
    r.editorText = ctx.ui.getEditorText(); r.setTheme = ctx.ui.setTheme("dark"); r.hasUI = ctx.hasUI;
    ctx.ui.notify(JSON.stringify(r, (k, v) => v === undefined ? "__undefined__" : v));
  }});
  pi.registerCommand("boom", { description: "Throws", handler: async () => { throw new Error("boom from command"); } });
  pi.registerCommand("say", { description: "sendUserMessage", handler: async (args, ctx) => { pi.sendUserMessage("from ext: " + args); } });
  pi.registerCommand("msg", { description: "sendMessage", handler: async (args, ctx) => { pi.sendMessage({ customType: "note", content: "custom content", display: true, details: { a: 1 } }, { triggerTurn: false }); pi.appendEntry("mystate", { n: 1 }); } });
  pi.registerCommand("log", { description: "console.log", handler: async () => { console.log("stray stdout"); } });
  pi.registerCommand("bye", { description: "shutdown", handler: async (args, ctx) => { ctx.shutdown(); } });
  pi.registerTool({ name: "exttool", label: "Ext", description: "An extension tool", parameters: { type: "object", properties: { x: { type: "string" } }, required: ["x"] },
    execute: async (id, params, signal, onUpdate, ctx) => { onUpdate?.({ content: [{ type: "text", text: "half" }], details: { pct: 50 } }); const ok = await ctx.ui.confirm("Allow ext?", params.x); if (!ok) throw new Error("denied by user"); return { content: [{ type: "text", text: "ext ok " + params.x }], details: { done: true } }; } });
  pi.on("tool_call", async (ev, ctx) => { if (ev.toolName === "bash" && ev.input.command.includes("forbidden")) return { block: true, reason: "Blocked by ext" }; if (ev.toolName === "bash" && ev.input.command.includes("throwing")) throw new Error("tool_call handler exploded"); });
  pi.on("turn_start", async () => { if (globalThis.__boom) throw new Error("turn_start exploded"); });
  pi.registerCommand("armboom", { handler: async () => { globalThis.__boom = true; } });
}
"""  # noqa: E501

ALONG: dict[str, Any] = {"flags": ["-e", "ext.ts"], "files": {"ext.ts": EXTENSION}}

#: What the host answers to one question after another; None lets its time run out.
ANSWERS: list[dict[str, Any] | None] = [
    {"value": "b"},
    {"confirmed": True},
    {"value": "typed"},
    {"value": "edited\ntext"},
    {"cancelled": True},
    {"cancelled": True},
    None,
    None,
    None,
]
QUESTIONS = ("select", "confirm", "input", "editor")


@scenario(says("x"), **ALONG)
def ext_ui(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_commands")
    host.send({"id": "r2", "type": "prompt", "message": "/ui"})
    for number, answer in enumerate(ANSWERS, 1):
        question = host.wait_for(lambda frame: frame.get("method") in QUESTIONS, f"question {number}", nth=number)
        if answer is not None:
            host.send({"type": "extension_ui_response", "id": question["id"], **answer})
    host.response("r2")


@scenario(says("x"), says("y"), says("z"), **ALONG)
def ext_errors_and_messages(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("prompt", message="/boom")
    host.prompt("/say hello", id="r2")
    host.request("prompt", message="/msg")
    host.request("prompt", message="/log")
    host.request("get_messages")
    host.prompt("/unknowncmd foo", id="r6")
    host.request("steer", message="/say x")
    host.request("prompt", message="/armboom")
    host.prompt("boom turn")


@scenario(says("x"), **ALONG)
def ext_shutdown(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("prompt", message="/bye")
    host.exit_code()


@scenario(
    says("x"),
    flags=["-e", "ext.ts"],
    files={"ext.ts": "export default function (pi) { throw new Error('load failure'); }"},
    exit_code=1,
)
def ext_load_error(host: Stage) -> None:
    host.exit_code()
