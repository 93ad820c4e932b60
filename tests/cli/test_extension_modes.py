"""Extensions in print and JSON mode, and `fairlead trust`."""

from __future__ import annotations

import json

from tests.cli.command import Command, Scripted

NOISY = """
import os
print("at import")
def setup(fl):
    mode = fl.register_flag("shout")
    @fl.on("turn_start")
    def loud(event, context):
        print("in a handler")
        os.system("echo from a child")
    @fl.on("input")
    def hear(event, context):
        from fairlead.extension import Transform
        return Transform(event.text.upper()) if mode else None
    @fl.register_command("say")
    async def say(arguments, context):
        fl.send_user_message(f"{context.mode}: {arguments}")
"""


def test_the_answer_alone_is_on_standard_output(scripted: Scripted) -> None:
    fairlead = scripted({"text": "the answer"})
    (fairlead.around.cwd / "ext.py").write_text(NOISY)
    done = fairlead("-p", "-e", "ext.py", "hi")
    assert (done.returncode, done.stdout) == (0, "the answer\n")
    for line in ("at import", "in a handler", "from a child"):
        assert line in done.stderr


def test_every_line_of_json_mode_is_json(scripted: Scripted) -> None:
    fairlead = scripted({"text": "the answer"})
    (fairlead.around.cwd / "ext.py").write_text(NOISY)
    done = fairlead("--mode", "json", "-e", "ext.py", "/say hello")
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and frames[-1]["type"] == "agent_settled"
    assert fairlead.asked["messages"][-1]["content"][0]["text"] == "json: hello"


def test_a_command_is_run_to_the_end_of_what_it_starts(scripted: Scripted) -> None:
    fairlead = scripted({"text": "the answer"})
    (fairlead.around.cwd / "ext.py").write_text(NOISY)
    done = fairlead("-p", "-e", "ext.py", "/say hello")
    assert (done.returncode, done.stdout) == (0, "the answer\n")


def test_a_switch_of_an_extension_does_not_swallow_the_prompt(scripted: Scripted) -> None:
    fairlead = scripted({"text": "the answer"})
    (fairlead.around.cwd / "ext.py").write_text(NOISY)
    done = fairlead("-p", "-e", "ext.py", "--shout", "hi there")
    assert (done.returncode, done.stdout) == (0, "the answer\n")
    assert fairlead.asked["messages"][-1]["content"][0]["text"] == "HI THERE"
    refused = fairlead("-p", "-e", "ext.py", "--shot", "hi there")
    assert refused.returncode == 2 and "Unknown flag --shot. Did you mean --shout?" in refused.stderr


def test_models_of_extensions_are_listed(fairlead: Command) -> None:
    source = "def setup(fl):\n    fl.register_provider('mine', {'models': [{'id': 'echo'}]}, stream=print)\n"
    (fairlead.around.cwd / "ext.py").write_text(source)
    assert "mine" in fairlead("-e", "ext.py", "--list-models", "echo").stdout


def test_projects_are_trusted_and_forgotten(fairlead: Command) -> None:
    folder = fairlead.around.cwd / ".fairlead" / "extensions"
    folder.mkdir(parents=True)
    (folder / "theirs.py").write_text(
        "def setup(fl):\n    fl.register_provider('theirs', {'models': [{'id': 'e'}]}, stream=print)\n"
    )
    assert "theirs" not in fairlead("--list-models").stdout
    assert "are trusted" in fairlead("trust").stdout
    assert "theirs" in fairlead("--list-models").stdout
    assert fairlead("trust", "list").stdout == f"trusted  {fairlead.around.cwd.resolve()}\n"
    assert fairlead("trust", "remove").returncode == 0
    assert "theirs" not in fairlead("--list-models").stdout
    assert "never trusted" in fairlead("trust", "--never", ".").stdout
    missing = fairlead("trust", "nowhere")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert fairlead("trust", "--all").returncode == 2
