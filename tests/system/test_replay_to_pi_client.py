"""pi's own RpcClient, of three versions, gets from a replay what it got from the agent that was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.contestants import Turn
from bench.peers import Peer
from tests.system.pi_clients import Drive, clients, kinds

pytestmark = pytest.mark.system

BASH: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo from the shell"}}]}
SLOW: Turn = {"text": "word " * 2000, "delayMs": 5}
SCRIPT = """
const before = await client.getState();
const events = await client.promptAndWait("Use the shell.");
const text = await client.getLastAssistantText();
await client.setSessionName("a name");
await client.prompt("Talk.");
await until((event) => event.assistantMessageEvent?.type === "text_delta" && event.assistantMessageEvent.delta.includes("word"));
await client.abort();
const wrong = await refusal(client.setModel("nowhere", "nothing"));
const after = await client.promptAndWait("Still there?");
return { before, events, text, wrong, after, messages: await client.getMessages() };
"""


@clients
def test_a_client_of_pi_sees_the_same_again(client: Peer, drive: Drive, tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    turns: list[Turn] = [BASH, {"text": "Done."}, SLOW, {"text": "Yes."}]
    first = drive(client, SCRIPT, *turns, env={"FAIRLEAD_RECORD": str(recording)})
    again = drive(client, SCRIPT, env={"FAIRLEAD_REPLAY": str(recording), "FAIRLEAD_REPLAY_SPEED": "20"})
    assert first["text"] == "Done."
    for result in (first, again):
        for name in ("events", "after"):
            result[name] = kinds(result[name])
    assert again == first


@clients
def test_a_client_of_pi_that_departs_is_refused(client: Peer, drive: Drive, tmp_path: Path) -> None:
    recording = tmp_path / "session.jsonl"
    drive(client, 'await client.promptAndWait("Hello."); return null;', {"text": "Hi."}, env={"FAIRLEAD_RECORD": str(recording)})
    again = drive(client, 'return await refusal(client.bash("ls"));', env={"FAIRLEAD_REPLAY": str(recording)})
    assert 'bash: expected prompt {"message": "Hello."}, got bash {"command": "ls"}' in again
