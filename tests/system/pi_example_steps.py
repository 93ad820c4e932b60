"""What a host does with each of pi's example extensions. Examples that are not listed get a prompt and a tool call."""

from __future__ import annotations

import json
from typing import Any

from tests.system.pi_examples import Example, Frame, bash, says, tool

NEW: Frame = {"type": "new_session"}
FORKS: Frame = {"type": "get_fork_messages"}
PRESET = {"provider": "scripted", "model": "two", "thinkingLevel": "high", "tools": ["read"], "instructions": "Plan."}
MANY = [says(f"answer {number}") for number in range(8)]


def after(*turns: Any) -> list[Any]:
    """These turns, and enough plain answers for everything that follows."""
    return [*turns, says("done"), *MANY]


STEPS: dict[str, Example] = {
    "auto-commit-on-exit": Example(git=True),
    "bash-spawn-hook": Example(turns=after(bash("echo $PI_SPAWN_HOOK; pwd >/dev/null"))),
    "bookmark": Example(["/bookmark", "hello", "/bookmark here", "/unbookmark", "/unbookmark"], MANY),
    "border-status-editor": Example(["hello"], after(bash("true"))),
    "built-in-tool-renderer": Example(
        turns=after(
            tool("write", path="a.txt", content="one\ntwo\n"),
            tool("read", path="a.txt"),
            tool("edit", path="a.txt", edits=[{"oldText": "one", "newText": "three"}]),
            bash("cat a.txt"),
        )
    ),
    "claude-rules": Example(files={".claude/rules/style.md": "# Style", ".claude/rules/deep/tests.md": "# Tests"}),
    "commands": Example(["/commands", "/commands extension", "/commands nonsense"], MANY),
    "confirm-destructive": Example(["hello", NEW, NEW], MANY, [{"confirmed": False}, {"confirmed": True}]),
    "custom-compaction": Example(["one", "two", {"type": "compact"}], MANY),
    "custom-footer": Example(["/footer", "hello", "/footer"], MANY),
    "custom-header": Example(["/builtin-header", "hello"], MANY),
    "debug-provider": Example(["/debug-provider nonsense", "/debug-provider on", "hello", "/debug-provider"], MANY),
    "dirty-repo-guard": Example(["hello", NEW, NEW], MANY, [{"value": "No, let me commit first"}], git=True),
    "doom-overlay": Example(["/doom-overlay"], MANY),
    "dynamic-resources": Example(["/dynamic", "/skill:dynamic-resources now"], MANY),
    "dynamic-tools": Example(
        ["hello", "/add-echo-tool", "/add-echo-tool echo_two", "again"],
        [tool("echo_session", message="hi"), says("ok"), tool("echo_two", message="ho"), says("ok"), *MANY],
    ),
    "entry-renderer": Example(["/status-card", "/status-card Deployed"], MANY),
    "event-bus": Example(["/emit", "/emit hello there"], MANY),
    "git-checkpoint": Example(["hello", FORKS], after(bash("echo changed > committed.txt")), git=True),
    "git-merge-and-resolve": Example(git=True),
    "handoff": Example(["/handoff", "hello", "/handoff go on"], MANY),
    "hello": Example(turns=after(tool("hello", name="you"), tool("hello"))),
    "hidden-thinking-label": Example(["/thinking-label", "/thinking-label Pondering"], MANY),
    "inline-bash": Example(["what is !{echo one; echo two}?", "!{exit 3} and !{echo three}", "none"], MANY),
    "input-transform": Example(["?quick what", "ping", "time", "plain"], MANY),
    "input-transform-streaming": Example(["plain", "?deep what", "look at this"], MANY),
    "interactive-shell": Example([{"type": "bash", "command": "echo one"}, {"type": "bash", "command": "echo two"}], MANY),
    "jev-router": Example(["hello", {"type": "set_model", "provider": "jev", "modelId": "auto"}], MANY),
    "message-renderer": Example(["/status", "/status all good", "hello"], MANY),
    "minimal-mode": Example(
        turns=after(
            tool("write", path="a.txt", content="one\n"), tool("read", path="a.txt"), tool("ls", path="."), bash("cat a.txt")
        )
    ),
    "model-status": Example(
        ["hello", {"type": "set_model", "provider": "scripted", "modelId": "two"}, {"type": "cycle_model"}], MANY
    ),
    "overlay-qa-tests": Example(["/overlay-anchors", "/overlay-toggle", "/overlay-streaming"], MANY),
    "overlay-test": Example(["/overlay-test"], MANY),
    "permission-gate": Example(
        ["one", "two"],
        [bash("rm -rf nothing"), says("a"), bash("sudo true; echo no"), says("b"), *MANY],
        [{"value": "Yes"}, {"value": "No"}],
    ),
    "pirate": Example(["/pirate", "hello", "/pirate"], MANY),
    "plan-mode": Example(
        ["/plan", "make a plan", "/todos", "go on", "/plan"],
        [
            bash("rm x"),
            bash("ls"),
            says("Plan:\n1. Read the first file carefully\n2. Change the second file\n"),
            says("[DONE:1] did it"),
            says("[DONE:2] did it"),
            *MANY,
        ],
        [{"value": "Execute the plan (track progress)"}, {"value": "Stay in plan mode"}],
    ),
    "preset": Example(
        ["/preset", "/preset none", "/preset plan", "hello", "/preset"],
        MANY,
        files={".pi/presets.json": json.dumps({"plan": PRESET})},
    ),
    "project-trust": Example(["hello"], MANY, files={".pi/settings.json": "{}"}),
    "protected-paths": Example(
        turns=after(
            tool("write", path=".env", content="x"),
            tool("write", path="ok.txt", content="x"),
            tool("edit", path="node_modules/a.js", edits=[{"oldText": "a", "newText": "b"}]),
        )
    ),
    "provider-payload": Example(files={".pi/keep": ""}),
    "qna": Example(["/qna", "hello", "/qna"], MANY),
    "question": Example(
        turns=after(
            tool("question", question="Which?", options=[{"label": "a"}, {"label": "b", "description": "second"}]),
            tool("question", question="Which?", options=[]),
        )
    ),
    "questionnaire": Example(
        turns=after(tool("questionnaire", questions=[{"id": "q", "prompt": "Which?", "options": [{"value": "a", "label": "A"}]}]))
    ),
    "reload-runtime": Example(["/reload-runtime", "hello", "again"], [tool("reload_runtime"), *MANY]),
    "rpc-demo": Example(
        ["/rpc-input", "/rpc-editor", "/rpc-prefill", "hello", NEW],
        after(bash("rm -rf nothing"), bash("echo sudo")),
    ),
    "send-user-message": Example(["/ask", "/ask what?", "/steer now", "/followup then", "/askwith", "/askwith this"], MANY),
    "session-name": Example(["/session-name", "/session-name my name", "/session-name"], MANY),
    "shutdown-command": Example(["hello", "/quit"], [tool("deploy_and_exit", environment="dev"), *MANY]),
    "snake": Example(["/snake"], MANY),
    "space-invaders": Example(["/invaders"], MANY),
    "ssh": Example(
        ["hello", {"type": "bash", "command": "echo two"}],
        after(tool("write", path="a.txt", content="one\n"), tool("read", path="a.txt"), bash("cat a.txt")),
    ),
    "status-line": Example(["hello", "again"], after(bash("true"))),
    "structured-output": Example(
        turns=[tool("structured_output", headline="h", summary="s", actionItems=["a"]), *MANY], steps=["hello", "again"]
    ),
    "subagent": Example(
        ["hello", "again"],
        [
            *(tool("subagent"), tool("subagent", agent="none", task="x"), says("none")),
            *(tool("subagent", agent="helper", task="look"), bash("echo of the agent"), says("Found it.")),
            says("done"),
        ],
        files={
            "../.pi/agent/agents/helper.md": "---\nname: helper\ndescription: Helps\ntools: bash\n---\nHelp with everything.\n"
        },
    ),
    "summarize": Example(["/summarize", "hello", "/summarize"], MANY),
    "tic-tac-toe": Example(
        ["/tic-tac-toe", "play"],
        after(tool("tic_tac_toe_see_board"), tool("tic_tac_toe", action="move_up"), tool("tic_tac_toe", action="play")),
    ),
    "timed-confirm": Example(["/timed", "/timed-select", "/timed-signal"], MANY, [None, None, None]),
    "titlebar-spinner": Example(["hello"], after(bash("sleep 0.3"))),
    "todo": Example(
        ["/todos", "hello", "/todos", NEW, "fresh"],
        [
            tool("todo", action="add", text="one"),
            tool("todo", action="add", text="two"),
            tool("todo", action="toggle", id=1),
            tool("todo", action="toggle", id=9),
            tool("todo", action="list"),
            says("ok"),
            tool("todo", action="list"),
            *MANY,
        ],
    ),
    "tool-override": Example(
        ["hello", "/read-log"],
        after(tool("read", path="a.txt"), tool("read", path=".env"), tool("read", path="none.txt")),
        files={"a.txt": "one\ntwo\n", ".env": "secret"},
    ),
    "tools": Example(["/tools", "hello"], MANY),
    "trigger-compact": Example(["one", "two", "/trigger-compact", "/trigger-compact briefly"], MANY, any_order=True),
    "truncated-tool": Example(
        turns=after(tool("rg", pattern="one"), tool("rg", pattern="nothing-like-it"), tool("rg", pattern="[")),
        files={"a.txt": "one\ntwo\n", "b.txt": "one more\n"},
    ),
    "widget-placement": Example(["hello"], MANY),
    "with-deps": Example(turns=after(tool("parse_duration", duration="2 days"), tool("parse_duration", duration="nonsense"))),
    "working-indicator": Example(["/working-indicator", "/working-indicator pulse", "/working-indicator nonsense"], MANY),
}
