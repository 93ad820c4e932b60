"""What an ACP client sees of the work: tool calls, live output, notices, and nothing outside a turn."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.acp import acp
from tests.support.host import Frame
from tests.support.stage import BEGAN, WAIT, bash, calls, says

#: Bytes of messages that the output of a command may cause, however long it is.
MOST_BYTES = 150_000


def call_ids(updates: list[Frame]) -> list[str]:
    return [update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call"]


def test_a_tool_call_has_a_kind_a_title_locations_and_its_input_and_output(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(("read", {"path": "a.txt"})), says("ok")], files={"a.txt": "one\ntwo\n"}) as client:
        session = client.new()
        client.prompt(session)
        (ident,) = call_ids(client.updates(session))
        assert client.statuses(ident) == ["pending", "in_progress", "completed"]
        call = client.tool_call(ident)
        assert (call["kind"], call["name"], call["title"]) == ("read", "read", "Read a.txt")
        assert call["locations"] == [{"path": f"{client.cwd}/a.txt"}]
        assert call["rawInput"] == {"path": "a.txt"} and "one" in call["rawOutput"]["output"]
        assert "two" in call["content"][0]["content"]["text"]


def test_a_failed_call_says_so(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(("read", {"path": "missing"}), ("nope", {"x": 1})), says("ok")]) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        for ident in call_ids(client.updates(session)):
            assert client.statuses(ident)[-1] == "failed"


def test_a_changed_file_is_shown_as_a_diff(tmp_path: Path) -> None:
    edit = ("edit", {"path": "a.txt", "edits": [{"oldText": "one", "newText": "1"}]})
    with acp(
        tmp_path, [calls(edit, ("write", {"path": "b.txt", "content": "new"})), says("ok")], files={"a.txt": "one\n"}
    ) as client:
        session = client.new()
        client.prompt(session)
        first, second = (client.tool_call(ident) for ident in call_ids(client.updates(session)))
        assert first["kind"] == "edit"
        assert first["content"] == [{"type": "diff", "path": f"{client.cwd}/a.txt", "oldText": "one\n", "newText": "1\n"}]
        assert second["content"] == [{"type": "diff", "path": f"{client.cwd}/b.txt", "newText": "new"}]


def test_output_is_shown_while_a_command_runs(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash(f"echo early; {BEGAN}; {WAIT}; echo late")), says("ok")]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        client.host.wait_for(
            lambda frame: "early" in json.dumps(frame.get("params", {}).get("update", {}).get("content")), "output"
        )
        assert "result" not in client.host.frames[-1]
        client.host.go.open()
        client.answer_to(prompt)
        assert "late" in client.tool_call(call_ids(client.updates(session))[0])["content"][0]["content"]["text"]


def test_much_output_makes_few_messages(tmp_path: Path) -> None:
    command = 'for i in $(seq 35000); do echo "line $i of the output of a command"; done'
    with acp(tmp_path, [calls(bash(command)), says("ok")]) as client:
        session = client.new()
        client.prompt(session)
        size = sum(len(json.dumps(update)) for update in client.updates(session, "tool_call", "tool_call_update"))
        assert size < MOST_BYTES
        call = client.tool_call(call_ids(client.updates(session))[0])
        assert "line 35000 of" in call["content"][0]["content"]["text"]
        # The details say what was cut off, without the output itself.
        truncation = call["rawOutput"]["details"]["truncation"]
        assert truncation["totalLines"] == 35_000 and "content" not in truncation


def test_retries_are_notices(tmp_path: Path) -> None:
    turns = [{"status": 503, "error": "busy"}, says("fine")]
    settings = {"retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 1}}
    with acp(tmp_path, turns, settings=settings) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        (notice,) = client.updates(session, "notice")
        assert notice["severity"] == "info" and "busy" in notice["description"]
        assert client.said(session) == "fine"


def test_a_client_without_notices_gets_a_thought(tmp_path: Path) -> None:
    turns = [{"status": 503, "error": "busy"}, says("fine")]
    settings = {"retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 1}}
    with acp(tmp_path, turns, settings=settings, able={}) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        assert client.updates(session, "notice", "compaction_update") == []
        assert "Retrying" in client.said(session, "agent_thought_chunk")
        assert client.said(session) == "fine"


def test_slash_commands_are_announced_at_the_start(tmp_path: Path) -> None:
    with acp(
        tmp_path, [says("ok")], files={".fairlead/prompts/fix.md": "---\ndescription: Fix it\n---\nFix $1"}, flags=["-a"]
    ) as client:
        session = client.new()
        found = client.until("available_commands_update")["availableCommands"]
        assert {"name": "fix", "description": "Fix it", "input": {"hint": "arguments"}} in found
        assert client.prompt(session, "/fix this") == "end_turn"
        assert "Fix this" in str(client.host.provider.requests[-1].body["messages"])


EXTENSION = """
def setup(api):
    @api.command("later", description="Send a message later")
    async def later(arguments, context):
        import asyncio

        async def send():
            await api.send_user_message("do this by yourself")

        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(send()))
"""


def test_the_model_of_a_session_is_shown_and_can_be_changed(tmp_path: Path) -> None:
    with acp(tmp_path, [says("ok")] * 3) as client:
        result = client.call("session/new", cwd=client.cwd, mcpServers=[])
        session = result["sessionId"]
        options = {option["id"]: option for option in result["configOptions"]}
        assert options["model"]["currentValue"] == "fake/fake-1" and options["model"]["category"] == "model"
        assert options["thinking"]["category"] == "thought_level"
        since = client.host.mark()
        changed = client.call("session/set_config_option", sessionId=session, configId="thinking", value="high")
        assert {option["id"]: option["currentValue"] for option in changed["configOptions"]}["thinking"] == "high"
        assert client.updates(session, "config_option_update", since=since) == []
        client.call("session/set_config_option", sessionId=session, configId="model", value="fake/fake-2")
        client.prompt(session)
        assert client.host.provider.requests[-1].body["model"] == "fake-2"
        for wrong in (
            {"configId": "nope", "value": "x"},
            {"configId": "model", "value": "nope/nope"},
            {"configId": "thinking", "value": "loud"},
        ):
            assert client.refusal("session/set_config_option", sessionId=session, **wrong)["code"] == -32602


def test_a_call_that_the_model_did_not_finish_ends(tmp_path: Path) -> None:
    long = {"name": "write", "arguments": {"path": "a", "content": "x" * 400}}
    settings = {"retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 1}}
    with acp(tmp_path, [{"toolCalls": [long], "dropAfter": 3}, says("fine")], settings=settings) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        (ident,) = call_ids(client.updates(session))
        assert client.statuses(ident) == ["pending", "failed"]
        assert not Path(client.cwd, "a").exists()


def test_calls_with_the_same_id_are_distinguished(tmp_path: Path) -> None:
    same = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo one"}, "id": "call_0"}]}
    other = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo two"}, "id": "call_0"}]}
    with acp(tmp_path, [same, other, says("ok")]) as client:
        session = client.new()
        client.prompt(session)
        idents = call_ids(client.updates(session))
        assert len(set(idents)) == 2
        for ident, word in zip(idents, ("one", "two"), strict=True):
            assert client.statuses(ident) == ["pending", "in_progress", "completed"]
            assert word in client.tool_call(ident)["rawOutput"]["output"]
        client.call("session/close", sessionId=session)
        since = client.host.mark()
        client.call("session/load", sessionId=session, cwd=client.cwd, mcpServers=[])
        shown = client.updates(session, "tool_call", since=since)
        assert [each["rawOutput"]["output"].strip() for each in shown] == ["one", "two"]
        assert len({each["toolCallId"] for each in shown}) == 2
