"""An isolated agent reads nothing from the user's home."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fairlead.testing import ProviderServer

#: Records every file and directory that Python opens or lists, then asks an agent that uses a tool.
PROGRAM = """
import os, sys
home = os.environ["HOME"]
touched = []
def watch(event, args):
    if event in ("open", "os.listdir", "os.scandir", "sqlite3.connect") and args and isinstance(args[0], (str, bytes)):
        path = os.path.abspath(os.fsdecode(args[0]))
        if path.startswith(home + os.sep):
            touched.append(path[len(home) + 1:])
sys.addaudithook(watch)

from fairlead import Agent
with Agent(isolated="isolated" in sys.argv, cwd=sys.argv[1]) as agent:
    if "isolated" in sys.argv:
        result = agent.ask_sync("/greet Say hello.")
        assert result.text == "Hello!", result
print(sorted(set(touched)))
print(agent.session.thinking, agent.warnings)
"""


def a_home(home: Path) -> None:
    """Make a home with every kind of file that an agent would use."""
    files = {
        ".fairlead/settings.json": json.dumps({"defaultThinkingLevel": "high"}),
        ".fairlead/models.json": json.dumps({"providers": {"anthropic": {"baseUrl": "http://127.0.0.1:9/"}}}),
        ".fairlead/AGENTS.md": "You are a pirate.",
        ".fairlead/mcp.json": json.dumps({"mcpServers": {"none": {"command": "false"}}}),
        ".fairlead/prompts/greet.md": "Greet like a pirate: $ARGUMENTS",
        ".fairlead/skills/sail/SKILL.md": "---\nname: sail\ndescription: Sail.\n---\nSail.",
        ".fairlead/extensions/first.py": "raise SystemExit('loaded')",
        ".fairlead/rules/one.md": "---\ncondition: Hello\n---\nNever say hello.",
        ".fairlead/agents/mate.md": "---\nname: mate\ndescription: Mate.\n---\nHelp.",
        ".agents/skills/row/SKILL.md": "---\nname: row\ndescription: Row.\n---\nRow.",
        ".claude/CLAUDE.md": "You are a parrot.",
        ".pi/agent/settings.json": "{}",
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run(tmp_path: Path, *arguments: str) -> tuple[list[str], str, ProviderServer]:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir(exist_ok=True)
    a_home(home)
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}]}
    with ProviderServer([call, {"text": "Hello!"}]) as server:
        env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": server.url}
        command = [sys.executable, "-W", "error", "-c", PROGRAM, str(project), *arguments]
        done = subprocess.run(command, env=env, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    touched, _, rest = done.stdout.partition("\n")
    return eval(touched), rest, server


def test_an_isolated_agent_reads_nothing_from_the_home(tmp_path: Path) -> None:
    touched, rest, server = run(tmp_path, "isolated")
    assert touched == []
    assert rest == "medium []\n"
    sent = json.dumps(server.requests[0].body)
    assert "pirate" not in sent and "parrot" not in sent and "/greet Say hello." in sent


def test_another_agent_would_notice_the_home(tmp_path: Path) -> None:
    touched, rest, _ = run(tmp_path)
    assert {".fairlead/settings.json", ".fairlead/models.json"} <= set(touched)
    assert rest.startswith("high ")
