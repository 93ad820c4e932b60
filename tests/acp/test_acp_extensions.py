"""Extensions in ACP sessions: their commands, and what they start by themselves, which is shown with the next turn."""

from __future__ import annotations

from pathlib import Path

from tests.support.acp import acp
from tests.support.stage import says

EXTENSION = """
import asyncio

def setup(fl):
    @fl.register_command("hello", description="Say hello")
    async def hello(arguments, context):
        name = await context.ui.select("Who?", ["Ann", "Bob"])
        context.ui.notify(f"hello {name}")

    @fl.register_command("later", description="Send a prompt after this command")
    async def later(arguments, context):
        tasks.append(asyncio.get_running_loop().call_later(0.2, lambda: tasks.append(asyncio.ensure_future(send()))))

    async def send():
        await fl.send_user_message("by itself")

tasks = []
"""


def test_a_command_of_an_extension_is_announced_and_can_ask(tmp_path: Path) -> None:
    with acp(tmp_path, files={"ext.py": EXTENSION}, flags=["-e", "ext.py"]) as client:
        session = client.new()
        found = client.until("available_commands_update")["availableCommands"]
        assert "hello" in [command["name"] for command in found]
        prompt = client.begin(session, "/hello")
        client.answer(client.asked("elicitation/create"), action="accept", content={"answer": "Bob"})
        assert client.answer_to(prompt)["result"] == {"stopReason": "end_turn"}
        assert client.until("notice")["title"] == "hello Bob"
        assert client.host.provider.requests == []


def test_a_command_that_asks_can_be_cancelled(tmp_path: Path) -> None:
    with acp(tmp_path, [says("ok")], files={"ext.py": EXTENSION}, flags=["-e", "ext.py"]) as client:
        session = client.new()
        prompt = client.begin(session, "/hello")
        client.asked("elicitation/create")
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        assert client.prompt(session) == "end_turn"


def test_a_run_without_a_prompt_shows_nothing_until_the_next_turn(tmp_path: Path) -> None:
    with acp(tmp_path, [says("alone"), says("together")], files={"ext.py": EXTENSION}, flags=["-e", "ext.py"]) as client:
        session = client.new()
        assert client.prompt(session, "/later") == "end_turn"
        client.host.until_asked(1)
        client.until("usage_update")
        assert client.updates(session, "agent_message_chunk", "user_message_chunk") == []
        assert client.prompt(session, "next") == "end_turn"
        assert client.said(session, "user_message_chunk") == "by itself"
        assert client.said(session) == "alonetogether"
