"""Functions that extensions import from pi's packages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.extend.extended import calling, extended, notes, scripted

from fairlead.testing import Turn

IMPORT = 'const pi_agent = await import("@earendil-works/pi-coding-agent");'

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "hello", "timestamp": 1},
    {"role": "bashExecution", "command": "ls", "output": "one", "exitCode": 1, "timestamp": 2},
    {"role": "bashExecution", "command": "true", "output": "", "exitCode": 0, "timestamp": 2},
    {"role": "bashExecution", "command": "secret", "output": "", "excludeFromContext": True, "timestamp": 2},
    {"role": "compactionSummary", "summary": "before", "timestamp": 3},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "done"},
            {"type": "toolCall", "id": "1", "name": "bash", "arguments": {"command": "ls"}},
        ],
    },
    {
        "role": "toolResult",
        "content": [{"type": "text", "text": "x" * 2010}, {"type": "image", "data": "", "mimeType": "image/png"}],
    },
]


async def test_conversations_become_text_as_in_pi(tmp_path: Path) -> None:
    body = f"""
  {IMPORT}
  pi.registerCommand("look", {{ handler: async () => {{
    const messages = {json.dumps(MESSAGES)};
    const told = pi_agent.convertToLlm(messages);
    note(told.slice(1, 4).map((each) => each.content[0].text));
    note(pi_agent.serializeConversation(told).split("\\n\\n").slice(-5));
    note(messages.map((each) => pi_agent.estimateTokens(each)));
    note(["a.ts", "b.py", "c.xyz", "Dockerfile", "d.json"].map((name) => pi_agent.getLanguageFromPath(name) ?? null));
  }} }});
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/look")
        assert it.errors == []
    told, text, sizes, languages = notes(tmp_path)
    summary = (
        "The conversation history before this point was compacted into the following summary:\n\n<summary>\nbefore\n</summary>"
    )
    assert told == ["Ran `ls`\n```\none\n```\n\nCommand exited with code 1", "Ran `true`\n(no output)", summary]
    result = f"[Tool result]: {'x' * 2000}"
    calls = '[Assistant tool calls]: bash(command="ls")'
    assert text == ["<summary>\nbefore\n</summary>", "[Assistant]: done", calls, result, "[... 10 more characters truncated]"]
    assert sizes == [2, 2, 1, 2, 2, 7, 1703]
    assert languages == ["typescript", "python", None, "dockerfile", "json"]


PAIRS = [
    ("one\ntwo\nthree\n", "one\n2\nthree\n"),
    ("", "new\n"),
    ("old\n", ""),
    ("a\nb", "a\nc"),
    ("a\n", "a"),
    ("".join(f"line {n}\n" for n in range(40)), "".join(f"line {n}\n" for n in range(40) if n not in (3, 30)) + "end\n"),
    ("x\ny\nx\ny\n", "y\nx\ny\nx\n"),
]


def apply(patch: str, folder: Path) -> None:
    subprocess.run(["patch", "-s", "f"], input=patch, text=True, cwd=folder, check=True)


async def test_changes_are_shown_and_can_be_applied(tmp_path: Path) -> None:
    body = f"""
  {IMPORT}
  pi.registerCommand("diff", {{ handler: async () => {{
    for (const [before, after] of {json.dumps(PAIRS)}) {{
      note([pi_agent.generateUnifiedPatch("f", before, after), pi_agent.generateDiffString(before, after)]);
    }}
  }} }});
"""
    async with scripted(tmp_path, body) as it:
        await it.command("/diff")
        assert it.errors == []
    made = notes(tmp_path)
    assert made[0][1] == {"diff": " 1 one\n-2 two\n+2 2\n 3 three", "firstChangedLine": 2}
    file = tmp_path / "f"
    for (before, after), (patch, _) in zip(PAIRS, made, strict=True):
        file.write_text(before)
        apply(patch, tmp_path)
        assert (file.read_text() if file.exists() else "") == after


async def test_a_wrapped_command_that_fails_has_a_result(tmp_path: Path) -> None:
    body = f"""
  {IMPORT}
  const bash = pi_agent.createBashTool(process.cwd());
  pi.registerTool({{ ...bash, async execute(id, args, signal, onUpdate) {{
    const result = await bash.execute(id, args, signal, onUpdate);
    note([result.isError ?? false, result.structuredContent.exit_code, result.structuredContent.output]);
    return result;
  }} }});
  const run = (exitCode) => ({{ exec: async (command, cwd, {{ onData }}) => {{
    onData(Buffer.from("out"));
    return {{ exitCode }};
  }} }});
  pi.registerCommand("there", {{ handler: async (args) => {{
    note(args);
    for (const code of [0, 2]) {{
      const result = await pi_agent.createBashTool("/", {{ operations: run(code) }}).execute("1", {{ command: "x" }});
      note([result.content[0].text, result.isError ?? false, result.structuredContent.exit_code]);
    }}
    const read = {{ readFile: async () => Buffer.from("a\\nb"), access: async () => {{}} }};
    note((await pi_agent.createReadTool("/", {{ operations: read }}).execute("1", {{ path: "f" }})).structuredContent);
  }} }});
"""
    async with scripted(tmp_path, body, turns=[calling("bash", command="echo one; exit 3"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("one\n\n\nCommand exited with code 3", True)]
        await it.command("/there   two  words ")
        assert it.errors == []
    assert notes(tmp_path) == [
        [True, 3, "one\n"],
        "  two  words ",
        ["out", False, 0],
        ["out\n\nCommand exited with code 2", True, 2],
        "a\nb",
    ]


async def test_constants_of_pi_are_those_of_the_agent(tmp_path: Path) -> None:
    source = """
import * as sdk from "@mariozechner/pi-coding-agent";
import { CONFIG_DIR_NAME, VERSION } from "@earendil-works/pi-coding-agent";

export default function (pi: any) {
  const { VERSION: version, CONFIG_DIR_NAME: name } = sdk;
  pi.registerCommand("tell", { handler: async () => { pi.appendEntry("said", [VERSION, CONFIG_DIR_NAME, version, name]); } });
}
"""
    async with extended(tmp_path, source, suffix="ts") as it:
        await it.command("/tell")
        assert it.notes("said") == [["1.5.0", ".fairlead", "1.5.0", ".fairlead"]]
